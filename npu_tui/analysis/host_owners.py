"""The owners of the time of host threads: work that launches nothing, launching, waiting for the device.

Work belongs to the innermost frame of the program around it, time between two launches to the function that launches,
a wait to the operation that waits.

``CallPaths`` is a tree of the calls that the host was in, each with its line of code.

A thread has frames of Python, operations and calls of CANN in one another. A thread without frames, such as that of
the backward pass or of the task queue, has the frames of the user that the operation's call stack names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.calls import BLOCKING_OPERATIONS, SIZED_OPERATIONS, profiler_work
from npu_tui.analysis.code_lines import CodeLine, lines_of_stacks, stack_of, user_line, user_lines
from npu_tui.analysis.launches import Around, dequeue_slices, enqueue_of, launch_delays
from npu_tui.analysis.limits import HALF, LITTLE
from npu_tui.analysis.path import HOST, Owner, Path
from npu_tui.analysis.replay import Change, HostCut, Replay
from npu_tui.analysis.replay_host import (
    DEQUEUE,
    ENQUEUE,
    LAUNCH,
    MARK,
    WAIT_BEGIN,
    WAIT_END,
    sized_before,
    thread_numbers,
)
from npu_tui.native.spans import OWN, ROOT, Stretches, count_until, innermost
from npu_tui.trace.arrays import I32, I64, Bools, distinct, numbers_in, once_each
from npu_tui.trace.classes import FRAME, is_of_program, names_step
from npu_tui.trace.intervals import inside, union
from npu_tui.trace.model import FORWARD_BACKWARD, Trace
from npu_tui.trace.once import of_trace

WORK_NS = 500_000
"""A longer pause between two launches of a thread is work: launching one kernel takes 5 to 200 us of real profiles."""
# Calls around an owner that say what it is: stacks of real profiles have up to 150, a hostile one any number.
_MOST_CALLS = 200
_WAITING = BLOCKING_OPERATIONS | SIZED_OPERATIONS


class _Points(Struct, frozen=True):
    """Where threads launch, wait or wake, by thread and time: between two of them a thread works or is away; (n,)."""

    time: I64
    thread: I64
    kind: I64
    item: I64

    def since(self, thread: I64, time: I64) -> I64:
        """The last point of each ``thread`` at or before ``time``, -1 without one; (m,)."""
        at = np.full(len(time), -1, np.int64)
        for one in numbers_in(thread):
            first, last = np.searchsorted(self.thread, (one, one + 1)).tolist()
            mine = thread == one
            found = first + np.searchsorted(self.time[first:last], time[mine], "right") - 1
            at[mine] = np.where(found >= first, found, -1)
        return at

    def until_next(self, at: I64) -> I64:
        """From each point to the next one of its thread, a far future after the last; (m,) ns."""
        time, thread = np.append(self.time, 0), np.append(self.thread, -1)
        same = (at >= 0) & (thread[at + 1] == thread[at])
        return np.where(same, time[np.minimum(at + 1, len(time) - 1)] - time[at], 2**61)


def _points(replay: Replay) -> _Points:
    host = replay.model.host
    real = np.flatnonzero(host.kind != MARK)
    time, thread = replay.model.time[host.node[real]], host.thread[real].astype(np.int64)
    order = np.argsort(thread.astype(np.uint16), kind="stable")  # a radix sort: points of the host come by time
    return _Points(time[order], thread[order], host.kind[real][order].astype(np.int64), host.item[real][order])


Spans = tuple[I64, I64, I64]
"""Stretches of host threads: thread, start and end, ns; (n,) each."""


class HostOwners:
    """What host threads did: on the path, and in all long pauses between launches, which may hold the same work."""

    def __init__(self, replay: Replay, path: Path) -> None:
        self._replay, self._trace, self._path = replay, replay.model.trace, path
        self._chosen = np.flatnonzero((path.kind == HOST) & (path.thread >= 0))
        points = self._points = _points(replay)
        on_path = self._on_path()
        pauses = self._pauses()
        waits = np.flatnonzero(points.kind == WAIT_BEGIN)
        waiting = points.thread[waits], points.time[waits], points.time[waits] + 1
        launches = self._launches_at(pauses)
        pieces = _elementary(on_path, pauses, waiting, launches)
        self.calls = calls = call_paths(self._trace, *pieces)
        self.thread = pieces[0][calls.stretch] if len(calls.stretch) else calls.stretch
        self.stretch = self._stretch_of(on_path)
        self.point = points.since(self.thread, calls.low)
        kind = np.append(points.kind, -1)[self.point]
        length = points.until_next(self.point)
        for one in numbers_in(self.thread[self.point < 0]):  # what comes before the first point of its thread
            mine, first = self.thread == one, points.time[points.thread == one].min(initial=2**61)
            length[mine & (self.point < 0)] = first - calls.low[mine].min()
        # Of the queue's thread only what is on the path counts: it is idle for the rest.
        queue = kind == DEQUEUE
        taken = np.bincount(self.point[self.stretch >= 0] + 1, calls.length[self.stretch >= 0], len(points.time) + 1)
        length = np.where(queue, taken[self.point + 1], length)
        self.waits = kind == WAIT_BEGIN
        at_launch = _lies_in(launches, self.thread, calls.low)
        self.serves = queue
        self.works = (length > WORK_NS) & ~self.waits & ((self.stretch >= 0) | ~queue)
        handed = self._hand_over()
        self.works[handed] = False
        launching = np.concatenate((calls.node[at_launch], calls.node[handed]))
        self.nodes = _Nodes(calls, self.works & (self.stretch >= 0), launching, calls.node[self.waits])

    def _hand_over(self) -> I64:
        """The parts in a call that waits while another thread launches, such as that of the backward pass: (m,)."""
        points, slices = self._points, self._trace.slices
        parts = np.flatnonzero(self.works & ~self.serves & (self.point >= 0))
        item, point = self.calls.item[parts], self.point[parts]
        in_call = self.calls.node[parts] != ROOT  # a step is no frame
        low = np.where(in_call, np.maximum(slices.start[item], points.time[point]), self.calls.low[parts])
        until = np.minimum(slices.end[item], points.time[point] + points.until_next(point))
        high = np.where(in_call, until, self.calls.high[parts])
        launches = np.isin(points.kind, (ENQUEUE, LAUNCH))
        handed = np.zeros(len(parts), np.bool_)
        for one in numbers_in(self.thread[parts]):
            mine = self.thread[parts] == one
            others = np.sort(points.time[launches & (points.thread != one)])
            handed[mine] = np.searchsorted(others, high[mine]) > np.searchsorted(others, low[mine], "right")
        return parts[handed]

    def _on_path(self) -> Spans:
        path, chosen = self._path, self._chosen
        return path.thread[chosen], path.low[chosen], path.low[chosen] + (path.end - path.start)[chosen]

    def _pauses(self) -> Spans:
        """Long pauses between points of threads that do not serve the queue."""
        points = self._points
        since = np.arange(len(points.time))
        length = points.until_next(since)
        pause = (length > WORK_NS) & (length < 2**61) & (points.kind != WAIT_BEGIN) & (points.kind != DEQUEUE)
        at = since[pause]
        return points.thread[at], points.time[at], points.time[at] + length[at]

    def _launches_at(self, pauses: Spans) -> Spans:
        """The launches at both ends of ``pauses``, an ns each: what is open then launches."""
        points = self._points
        thread, low, high = (np.concatenate(columns) for columns in zip(pauses, self._on_path(), strict=True))
        near = np.zeros(len(points.time), np.bool_)
        for one in numbers_in(thread):
            first, last = np.searchsorted(points.thread, (one, one + 1)).tolist()
            mine, times = thread == one, points.time[first:last]
            same = np.cumsum(np.diff(times, prepend=times[:1]) != 0)  # points at one time
            edges = np.concatenate((low[mine], high[mine]))
            at = count_until(times, edges) - 1
            edges, at = edges[at >= 0], at[at >= 0]
            reached = np.zeros(len(times), np.bool_)
            reached[same[at[times[at] == edges]]] = True
            near[first:last] = reached[same]
        at = np.flatnonzero(near & np.isin(points.kind, (ENQUEUE, LAUNCH, DEQUEUE)))
        return points.thread[at], points.time[at] - 1, points.time[at]

    def _stretch_of(self, on_path: Spans) -> I64:
        """The stretch of the path that each part lies in, -1 without one; (parts,)."""
        found = np.full(len(self.calls.low), -1, np.int64)
        thread, low, high = on_path
        for one in numbers_in(thread):
            mine = np.flatnonzero(thread == one)
            mine = mine[np.argsort(low[mine], kind="stable")]
            parts = np.flatnonzero(self.thread == one)
            at = np.searchsorted(low[mine], self.calls.low[parts], "right") - 1
            inner = (at >= 0) & (self.calls.low[parts] < high[mine[np.maximum(at, 0)]])
            found[parts[inner]] = self._chosen[mine[at[inner]]]
        return found

    def rows(self) -> tuple[I64, list[Owner]]:
        """The owner of every part of the host's time (-1: none), and the owners."""
        calls, length = self.calls, self.calls.length
        keys: dict[tuple[object, ...], int] = {}
        of_part = np.full(len(calls.low), -1, np.int64)
        found: list[Owner] = []

        def number(key: tuple[object, ...]) -> int:
            return keys.setdefault(key, len(keys))

        # Work that launches nothing, by the calls it is in; an operation knows the line that calls it.
        line, self.lines = lines_of_stacks(self._trace, calls.stack)
        site = self._sites(line)
        lost = np.flatnonzero(self.works & (line < 0))
        nowhere = np.array([where is None for where in self.nodes.where], np.bool_)
        lost = lost[nowhere[calls.node[lost]]]
        before, lines = lines_of_stacks(self._trace, self._stack_around(lost))
        line[lost] = np.where(before >= 0, before + len(self.lines), -1)
        self.lines += lines
        nodes, within = self.nodes, dict[int, tuple[int, int]]()
        one_place = _OnePlace()
        slow = (launch_delays(self._trace).of(calls.item) >= 0) | np.isin(calls.item, profiler_work(self._trace))
        for parts, (node, told, late) in _groups_of_equal(
            np.flatnonzero(self.works), calls.node, line, slow.astype(np.int64)
        ):
            named = node if late else nodes.named(node)
            name, where = (nodes.text[node], nodes.where[node]) if late else nodes.work_of(named)
            of_part[parts] = at = number(("work", name, one_place(where if told < 0 else self.lines[told])))
            within[at] = max(within.get(at, (0, ROOT)), (int(length[parts].sum()), named))
        # Waits, by the operation that waits and its line.
        parts = np.flatnonzero(self.waits & (self.stretch >= 0))
        of_wait = {item: number(("wait", name, one_place(where))) for item, (name, where) in site.items()}
        of_part[parts] = [of_wait[item] for item in self._points.item[self.point[parts]].tolist()]
        # Launching, by thread and function; short calls of what is work elsewhere belong there.
        launching = np.flatnonzero((self.stretch >= 0) & ~self.works & ~self.waits)
        phases: dict[tuple[int, str, str], list[tuple[I64, CodeLine | None]]] = {}
        for parts, (node, told, thread) in _groups_of_equal(launching, calls.node, line, self.thread):
            where = one_place(nodes.where[node] if told < 0 else self.lines[told])
            name = _ADDRESS.sub("", nodes.text[node])
            known = keys.get(("work", name, where), -1) if name else -1
            if known >= 0:
                of_part[parts] = known
                continue
            function = (thread, "", "") if where is None else (thread, _BASE.sub("", where.file), where.function)
            phases.setdefault(function, []).append((parts, where))
        rest: dict[int, int] = {}
        for (thread, *_), rows in phases.items():
            time: dict[CodeLine | None, int] = {}
            for parts, where in rows:
                time[where] = time.get(where, 0) + int(length[parts].sum())
            large = sum(time.values()) >= LITTLE * self._path.length
            where = max(time, key=lambda line: time[line]) if large else None
            at = number(("launch", "", where, thread)) if large else rest.setdefault(thread, -1)
            if at < 0:
                rest[thread] = at = number(("launch", "", None, thread))
            for parts, _ in rows:
                of_part[parts] = at
        order = np.argsort(of_part, kind="stable")
        bounds = np.searchsorted(of_part[order], range(len(keys) + 1))
        for key, at in keys.items():
            parts = order[bounds[at] : bounds[at + 1]]
            found.append(replace(self._owner(key, parts), calls=nodes.calls_of(within.get(at, (0, ROOT))[1])))
        waits: dict[int, list[int]] = {}
        for item, at in of_wait.items():
            waits.setdefault(at, []).append(item)
        for at, items in waits.items():
            found[at] = replace(found[at], items=np.array(items, np.int64), change=Change(waits=frozenset(items)))
        self.wait_owner = of_wait
        return of_part, found

    def _stack_around(self, parts: I64) -> I64:
        """The call stack of the operation around each of ``parts``, else of what it works after, -1 without; (m,)."""
        slices, item = self._trace.slices, self.calls.item[parts]
        lane = np.where(item >= 0, slices.lane[item], -1)
        around = Around(self._trace, slices.stack >= 0).find(lane, slices.start[item], slices.end[item])
        return np.where(around >= 0, slices.stack[around], self._stack_before(parts))

    def _stack_before(self, parts: I64) -> I64:
        """The call stack of the launch or wait after which each of ``parts`` works, -1 without one; (m,)."""
        points, calls = self._points, self.calls
        point = self.point[parts]
        begun = np.where(np.append(points.kind, -1)[point] == WAIT_END, point - 1, point)
        time = np.append(points.time, -1)[begun] - (begun == point)
        stack = np.full(len(parts), -1, np.int64)
        for one in numbers_in(self.thread[parts]):
            mine, own = np.flatnonzero(self.thread[parts] == one), np.flatnonzero(self.thread == one)
            at = own[np.maximum(np.searchsorted(calls.low[own], time[mine], "right") - 1, 0)]
            there = (calls.low[at] <= time[mine]) & (time[mine] < calls.high[at])
            stack[mine[there]] = calls.stack[at[there]]
        return stack

    def _owner(self, key: tuple[object, ...], parts: I64) -> Owner:
        doing, name, where, *_ = key
        items = self.calls.item[parts]
        items = items if doing == "launch" else once_each(items)  # one call launches once
        thread = numbers_in(self.thread[parts])
        change = None
        if doing != "wait":
            cuts = []
            for one in thread:
                mine = parts[self.thread[parts] == one]
                span = union(self.calls.low[mine], self.calls.high[mine])
                cuts.append(HostCut(int(self._replay.model.tids[one]), span))
            change = Change(host=tuple(cuts))
        return Owner(
            "latency" if doing == "wait" else "host", doing, name, where,  # type: ignore[arg-type]
            int(self._replay.model.tids[thread[0]]) if len(thread) == 1 else -1, -2, 0, 0, items[items >= 0], change,
        )  # fmt: skip

    def _sites(self, line: I64) -> dict[int, tuple[str, CodeLine | None]]:
        """The operation that waits and its line, by the slice of each wait; ``line`` is that of each part."""
        points = self._points
        waiting = np.flatnonzero(self.waits)
        point, first = np.unique(self.point[waiting], return_index=True)
        part_of = dict(zip(point.tolist(), waiting[first].tolist(), strict=True))
        sites: dict[int, tuple[str, CodeLine | None]] = {}
        for point in np.flatnonzero(points.kind == WAIT_BEGIN).tolist():
            part = part_of.get(point, -1)
            name, where = self.nodes.site_of(int(self.calls.node[part]) if part >= 0 else ROOT)
            told = int(line[part]) if part >= 0 else -1
            sites[int(points.item[point])] = name, where if told < 0 else self.lines[told]
        calls = np.array([item for item, (name, _) in sites.items() if name not in _WAITING], np.int64)
        before = sized_before(self._trace, calls)
        calls, before = calls[before >= 0], before[before >= 0]
        code, lines = lines_of_stacks(self._trace, stack_of(self._trace, before))
        for item, operation, at in zip(calls.tolist(), before.tolist(), code.tolist(), strict=True):
            sites[item] = self._trace.name_of(operation), sites[item][1] if at < 0 else lines[at]
        return sites


_BASE = re.compile(r".*[/\\]")  # the paths of frames are shortened, those of call stacks are not
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>$)")


class _OnePlace:
    """Gives a line of code one path: frames leave out folders of it that call stacks have."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str], CodeLine] = {}

    def __call__(self, line: CodeLine | None) -> CodeLine | None:
        """``line``, or one seen before that is the same with more or fewer folders."""
        if line is None:
            return None
        known = self._known.setdefault((_BASE.sub("", line.file), line.line, line.function), line)
        return known if known.file.endswith(line.file) or line.file.endswith(known.file) else line


def _groups_of_equal(parts: I64, *columns: I64) -> Iterable[tuple[I64, list[int]]]:
    """``parts`` in groups of equal ``columns`` (of all parts), each with its values."""
    if not len(parts):
        return
    key = np.zeros(len(parts), np.int64)
    for column in columns:  # of one number each: NumPy sorts rows many times as slowly
        values, place = distinct(column[parts])
        key = distinct(key * len(values) + place)[1]
    order = np.argsort(key, kind="stable")
    groups = np.split(parts[order], np.cumsum(np.bincount(key))[:-1])
    yield from ((group, [int(column[group[0]]) for column in columns]) for group in groups)


def _elementary(*spans: Spans) -> Spans:
    """The union of ``spans``, cut wherever one of them begins or ends."""
    thread, low, high = (np.concatenate(columns) for columns in zip(*spans, strict=True))
    parts: list[Spans] = [(thread[:0], low[:0], high[:0])]
    for one in numbers_in(thread):
        mine = thread == one
        begin, end = union(low[mine], high[mine])
        bounds = once_each(np.concatenate((low[mine], high[mine])))
        start, stop = bounds[:-1], bounds[1:]
        covered = inside(begin, end, start)
        parts.append((np.full(int(covered.sum()), one), start[covered], stop[covered]))
    thread, low, high = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return thread, low, high


def _lies_in(spans: Spans, thread: I64, time: I64) -> Bools:
    """Whether each ``time`` of a ``thread`` lies in one of ``spans``; (n,)."""
    lies = np.zeros(len(time), np.bool_)
    for one in numbers_in(spans[0]):
        mine, queries = spans[0] == one, thread == one
        lies[queries] = inside(*union(spans[1][mine], spans[2][mine]), time[queries])
    return lies


class _Nodes:
    """The tree of calls with what is done in it: which frame or call names the work of each node."""

    def __init__(self, calls: CallPaths, works: Bools, launching: I64, waiting: I64) -> None:
        """``works`` are the parts that work on the path, ``launching`` and ``waiting`` nodes that launch and wait."""
        self.text, self.above = calls.text, calls.above.tolist()
        count = len(self.text)
        own = np.bincount(calls.node[works], calls.length[works], count).tolist()
        self.lines = [user_line(text) if text else None for text in self.text]
        self.where: list[CodeLine | None] = [None] * count
        total = own[:]
        launches, waits = (np.isin(np.arange(count), nodes).tolist() for nodes in (launching, waiting))
        framed, largest = [False] * count, [-1] * count
        for node in range(count - 1, 0, -1):
            above = self.above[node]
            total[above] += total[node]
            launches[above] |= launches[node]
            waits[above] |= waits[node]
            framed[above] |= framed[node] or self._is_program(node)
            if largest[above] < 0 or total[node] > total[largest[above]]:
                largest[above] = node
        self._unit = list(range(count))
        launches[0] = True
        for node in range(1, count):
            above = self.above[node]
            line, around = self.lines[node], self.where[above]
            own = line is not None and (around is None or is_of_program(line.file) or not is_of_program(around.file))
            self.where[node] = line if own else around
            unit = self._unit[above]
            # What prepares a launch is launching, but a call of CANN below it stands for itself.
            apart = unit == above and self._divided(above, largest, total, framed)
            if self._prepares(unit, node) if launches[unit] else not apart:
                self._unit[node] = unit
        self._launches, self._largest, self._total = launches, largest, total
        # A built-in that waits for what it launches, such as ``tolist``, works on what it has read.
        self._reads = [wait and text.startswith("<built-in") for wait, text in zip(waits, self.text, strict=True)]

    def _prepares(self, above: int, node: int) -> bool:
        """Whether ``node`` is an operation in one that launches, and so prepares that: no call of CANN and no frame."""
        texts = self.text[above], self.text[node]
        return above > 0 and not any(text.startswith("<") or "@" in text or FRAME.fullmatch(text) for text in texts)

    def _divided(self, node: int, largest: list[int], total: list[float], framed: list[bool]) -> bool:
        """Whether most of what ``node`` does is done in a frame of the user below it."""
        child = largest[node]
        most = child >= 0 and total[child] > HALF * total[node]
        return most and (framed[child] or self._is_program(child))

    def _is_program(self, node: int) -> bool:
        """Whether ``node`` is a frame of the program's own code."""
        line = self.lines[node]
        return line is not None and is_of_program(line.file)

    def named(self, node: int) -> int:
        """The node that names the work of ``node``: the call that does most of its unit's."""
        named = self._unit[node]
        if self._launches[named]:
            # Most of what it works may be an operation below it that launches nothing: that computes on the host.
            own = self.text[node].startswith("aten::") and not self._launches[node]
            return node if own and self._total[node] > HALF * self._total[named] else named
        while (child := self._largest[named]) >= 0 and self._total[child] > HALF * self._total[named]:
            named = child
        return named

    def work_of(self, named: int) -> tuple[str, CodeLine | None]:
        """The call of a node that names work, and the line of the user around it: no call in what launches."""
        nameless = self._launches[named] and not self._reads[named]
        return "" if nameless else _ADDRESS.sub("", self.text[named]), self.where[named]

    def calls_of(self, node: int) -> tuple[str, ...]:
        """``node`` and the calls around it, innermost first, at most ``_MOST_CALLS``."""
        calls: list[str] = []
        while node != ROOT and len(calls) < _MOST_CALLS:
            calls.append(self.text[node])
            node = self.above[node]
        return tuple(calls)

    def site_of(self, node: int) -> tuple[str, CodeLine | None]:
        """The outermost operation that waits, else the call, and the line of the user around it."""
        name, at = self.text[node], node
        while at > 0:
            if self.text[at] in _WAITING:
                name = self.text[at]
            at = self.above[at]
        return name, self.where[node]


class CallPaths(Struct, frozen=True):
    """Stretches of host threads, cut where their innermost call changes; (n,) each.

    ``stretch`` is the stretch that was given, ``low`` and ``high`` the recorded time (ns), ``item`` the innermost slice
    (-1: none), ``node`` its place in the tree, ``stack`` its call stack (-1: none). For each node ``above`` is the one
    around it and ``text`` its name; the first is the root. A node may be a frame of a call stack: its text is then that
    of the frame.
    """

    stretch: I64
    low: I64
    high: I64
    item: I64
    node: I64
    stack: I64
    above: I64
    text: list[str]

    @property
    def length(self) -> I64:
        """How long each part takes, ns."""
        return self.high - self.low


def call_paths(trace: Trace, thread: I64, low: I64, high: I64) -> CallPaths:
    """The calls around every moment of the stretches ``[low, high)`` of host threads (their numbers), ns; (m,) each."""
    _, number = thread_numbers(trace)
    chains, stack_node, texts = _frame_nodes(trace)
    threads: list[Stretches] = []
    members: list[I64] = []
    for one in numbers_in(thread):
        mine = np.flatnonzero(thread == one)
        mine = mine[np.argsort(low[mine], kind="stable")]
        bounds = np.stack((low[mine], high[mine]), 1)
        # What two stretches share counts once, for the first of them.
        bounds[1:, 0] = np.maximum(bounds[1:, 0], np.maximum.accumulate(bounds[:-1, 1]))
        lanes = [lane for lane in trace.lanes if number[lane.index] == one and lane.first < lane.last]
        framed = any(_has_frames(trace, lane.first, lane.last) for lane in lanes)
        ends = np.array([(lane.first, lane.last) for lane in lanes], np.int64).reshape(-1, 2)
        threads.append(Stretches(bounds, ends, not framed))
        members.append(mine)
    slices = trace.slices
    clear = np.array([*map(_is_clear, trace.names), True], np.uint8)
    parts = innermost(threads, slices.start, slices.end, slices.name, _stacks(trace), clear, chains, stack_node)
    stretch = np.zeros(len(parts.low), np.int64)
    for at, of_thread in enumerate(members):
        mine = parts.thread == at
        stretch[mine] = of_thread[parts.stretch[mine]]
    names = [*trace.names, *texts]
    texts = ["" if code < 0 else names[code] for code in parts.name.tolist()]
    return CallPaths(stretch, parts.low, parts.high, parts.item, parts.node, parts.stack, parts.above, texts)


def _is_clear(name: str) -> bool:
    """Whether a slice of this name adds nothing to its calls: steps, modules, and the profiler around the program."""
    return names_step(name) or name.startswith(("nn.Module: ", *_OF_PROFILER))


_OF_PROFILER = ("torch_npu/profiler/", "torch/autograd/profiler.py", "<built-in method _record_function_enter")


def _has_frames(trace: Trace, first: int, last: int) -> bool:
    if "python_function" not in trace.categories:
        return False
    return bool((trace.slices.category[first:last] == trace.categories.index("python_function")).any())


def _frame_nodes(trace: Trace) -> tuple[I32, I32, list[str]]:
    """The frames of the user in each call stack as nodes below the root, the node of each stack (-1: none), and texts.

    Codes of the texts follow those of the names of the trace.
    """
    nodes: dict[tuple[int, str], int] = {}
    texts: dict[str, int] = {}
    rows: list[tuple[int, int]] = []
    of_stack = np.full(len(trace.stacks) + 1, -1, np.int32)
    for number, stack in enumerate(trace.stacks):
        node = 0
        for line in reversed(user_lines(stack)):
            text = f"{line.file}({line.line}): {line.function}"
            code = len(trace.names) + texts.setdefault(text, len(texts))
            known = nodes.setdefault((node, text), len(nodes) + 1)
            if known > len(rows):
                rows.append((node, code))
            node = known
        of_stack[number] = node or -1
    return np.array(rows, np.int32).reshape(-1, 2), of_stack, list(texts)


@of_trace
def _stacks(trace: Trace) -> I32:
    """The call stack of every slice: tasks of the queue have that of their entry, backward operations the forward's."""
    slices, links = trace.slices, trace.links
    stack: I32 = slices.stack.copy()
    if "python_function" in trace.categories:
        stack[slices.category == trace.categories.index("python_function")] = OWN
    if trace.stacks:
        dequeues, passes = dequeue_slices(trace), trace.bound_links_of(FORWARD_BACKWARD)
        for items, told in (
            (dequeues, enqueue_of(trace, dequeues)),
            (links.target_slice[passes].astype(np.int64), links.source_slice[passes].astype(np.int64)),
        ):
            stack[items] = np.where(told >= 0, stack_of(trace, told), -1)
    return stack
