"""Spans ``[start, end)`` and places among ascending times: the loops of ``spans.c``, each with its slower twin.

Also the loop of the replay, ``replay.c``. Edges and rows are int32, times int64.

``stacks.c`` finds what threads were in during stretches of their time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.native.library import library

I64 = npt.NDArray[np.int64]

_FEW = 16  # a list this many times as long as the other is searched, not gone through


def count_until(known: I64, time: I64 | npt.NDArray[np.float64]) -> I64:
    """How many of the ascending ``known`` lie at or before each ``time``; (n,). Quick where ``time`` nearly ascends."""
    compiled = library()
    if compiled is None or known.dtype != np.int64 or time.dtype != np.int64:
        return np.searchsorted(known, time, "right")
    found = np.empty(len(time), np.int64)
    compiled.count_until(np.ascontiguousarray(known), len(known), np.ascontiguousarray(time), len(time), found)
    return found


def united(start: I64, end: I64) -> tuple[I64, I64]:
    """The union of spans as disjoint ones in ascending order; those that touch become one."""
    compiled = library()
    if compiled is None:
        return slow_united(start, end)
    start, end = np.ascontiguousarray(start, np.int64), np.ascontiguousarray(end, np.int64)
    low, high = np.empty((2, len(start)), np.int64)
    made = compiled.united(start, end, len(start), low, high)
    if made < 0:
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        made = compiled.united(start, end, len(start), low, high)
    return (start, end) if made == len(start) else (low[:made].copy(), high[:made].copy())


def slow_united(start: I64, end: I64) -> tuple[I64, I64]:
    """``united`` without the library."""
    lasting = end > start
    if not lasting.all():
        start, end = start[lasting], end[lasting]
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.ones(len(start), np.bool_)
    # A span opens where an interval starts after everything before it has ended; touching ones (==) merge.
    opens[1:] = start[1:] > reach[:-1]
    firsts = np.flatnonzero(opens)
    return start[firsts], reach[np.append(firsts[1:] - 1, len(start) - 1)]


def shared(start: I64, end: I64, other_start: I64, other_end: I64) -> tuple[I64, I64]:
    """What two lists of spans, each disjoint and ascending, share: one span for each pair that overlaps."""
    compiled = library()
    if len(start) > len(other_start):
        start, end, other_start, other_end = other_start, other_end, start, end
    if compiled is None or len(start) * _FEW < len(other_start):
        return slow_shared(start, end, other_start, other_end)
    lists = [np.ascontiguousarray(times, np.int64) for times in (start, end, other_start, other_end)]
    low, high = np.empty((2, len(start) + len(other_start)), np.int64)
    made = compiled.shared(*lists[:2], len(start), *lists[2:], len(other_start), low, high)
    return low[:made].copy(), high[:made].copy()


def slow_shared(start: I64, end: I64, other_start: I64, other_end: I64) -> tuple[I64, I64]:
    """``shared`` without the library."""
    first = np.searchsorted(other_end, start, "right")
    count = np.searchsorted(other_start, end, "left") - first
    other = np.repeat(first - (np.cumsum(count) - count), count)
    other += np.arange(len(other))
    low, high = other_start[other], other_end[other]
    return np.maximum(np.repeat(start, count), low, out=low), np.minimum(np.repeat(end, count), high, out=high)


def covered(start: I64, end: I64, low: I64, high: I64) -> tuple[I64, I64]:
    """Which of ``[low, high)`` the spans, disjoint and ascending, cover in part, and how much of each; (m,) each."""
    compiled = library()
    if compiled is None:
        return slow_covered(start, end, low, high)
    start, end, low, high = (np.ascontiguousarray(column, np.int64) for column in (start, end, low, high))
    sums = np.cumsum(end - start) - (end - start)
    place, length = np.empty(len(low), np.int64), np.empty(len(low), np.int64)
    count = compiled.covered(start, end, sums, len(start), low, high, len(low), place, length)
    return place[:count].copy(), length[:count].copy()


def slow_covered(start: I64, end: I64, low: I64, high: I64) -> tuple[I64, I64]:
    """``covered`` without the library."""
    before = np.append(0, np.cumsum(end - start))
    first, last = np.append(start, 0), np.append(end, 0)  # nothing lies before the first span

    def covered_before(time: I64) -> I64:
        at = np.searchsorted(start, time, "right") - 1
        return np.where(at < 0, 0, before[at] + np.minimum(time, last[at]) - first[at])

    length = covered_before(high) - covered_before(low)
    some = np.flatnonzero(length)
    return some, length[some]


I32 = npt.NDArray[np.int32]


def passing(source: I32, edge: I32, other_source: I32, other_edge: I32, lag: I64) -> I64:
    """When each row of a model is passed: once both its edges allow it, each a ``lag`` after the row it comes from.

    Sources and edges are (n,), sources earlier rows; ``lag`` is (edges,). The first row is the origin.
    """
    compiled = library()
    if compiled is None:
        return slow_passing(source, edge, other_source, other_edge, lag)
    time = np.empty(len(source), np.int64)
    columns = [np.ascontiguousarray(column, np.int32) for column in (source, edge, other_source, other_edge)]
    lag = np.ascontiguousarray(lag, np.int64)
    compiled.passing(*columns, len(source), lag, len(lag), time)
    return time


def slow_passing(source: I32, edge: I32, other_source: I32, other_edge: I32, lag: I64) -> I64:
    """``passing`` without the library."""
    time: list[int] = []
    passed = time.append
    rows = zip(source.tolist(), lag[edge].tolist(), other_source.tolist(), lag[other_edge].tolist(), strict=True)
    next(rows)
    passed(0)
    for row, first, other, second in rows:
        one, two = time[row] + first, time[other] + second
        passed(one if one > two else two)
    return np.array(time, np.int64)


def walking(
    source: I32, edge: I32, other_source: I32, other_edge: I32, lag: I64, time: I64, last: int, until: int
) -> tuple[I32, I32]:
    """What let row ``last`` pass, back to the first row passed at ``until`` (ns) or before: rows and edges, (n,) each.

    ``time`` is when each row is passed. If two edges let a row pass at once, the first counts.
    """
    compiled = library()
    if compiled is None:
        return slow_walking(source, edge, other_source, other_edge, lag, time, last, until)
    rows, edges = np.empty((2, len(source)), np.int32)
    columns = [np.ascontiguousarray(column, np.int32) for column in (source, edge, other_source, other_edge)]
    lag = np.ascontiguousarray(lag, np.int64)
    count = compiled.walking(*columns, len(source), lag, len(lag), time, last, until, rows, edges)
    return rows[:count].copy(), edges[:count].copy()


def slow_walking(
    source: I32, edge: I32, other_source: I32, other_edge: I32, lag: I64, time: I64, last: int, until: int
) -> tuple[I32, I32]:
    """``walking`` without the library."""
    rows: list[int] = []
    edges: list[int] = []
    row = last
    while row > 0 and time[row] > until:
        first = time[source[row]] + lag[edge[row]] >= time[other_source[row]] + lag[other_edge[row]]
        passed_by = int(edge[row] if first else other_edge[row])
        if passed_by != len(lag) - 1:
            rows.append(row)
            edges.append(passed_by)
        row = int(source[row] if first else other_source[row])
    return np.array(rows, np.int32), np.array(edges, np.int32)


U8 = npt.NDArray[np.uint8]

OWN = -2
"""The call stack of a slice that is a frame: the stack of no operation around it is its own."""
ROOT = 0
"""The node of what is in no call."""
_FULL = -1
_NODES = 1 << 12
"""Nodes that there is room for at first."""


class Stretches(Struct, frozen=True):
    """Stretches of one thread: ``bounds`` are their starts and ends, ascending and disjoint, ns; (m, 2).

    ``lanes`` are the first slice and the one after the last of each of its lanes; (lanes, 2). The first of its slices
    with a call stack begins below the frames of that where the thread has no frames of its own (``chained``).
    """

    bounds: I64
    lanes: I64
    chained: bool


class StackParts(Struct, frozen=True):
    """Stretches cut where the innermost slice changes; (n,) each.

    ``item`` is that slice (-1: none), ``node`` its place in the tree of calls, ``stack`` its call stack (-1: none),
    ``thread`` and ``stretch`` say which stretch a part belongs to. ``above`` and ``name`` are those of each node; the
    first node is the root; (nodes,).
    """

    low: I64
    high: I64
    item: I64
    node: I64
    stretch: I64
    stack: I64
    thread: I64
    above: I64
    name: I64


def innermost(
    threads: Sequence[Stretches], start: I64, end: I64, name: I32, stack: I32, clear: U8, chains: I32, stack_node: I32
) -> StackParts:
    """The parts of all stretches of ``threads``; ``start``, ``end`` (ns) and ``name`` are those of all slices.

    ``stack`` is the call stack of each: -1 where it is that of the slice around it, OWN where it is a frame. ``clear``
    marks the names that are no node of the tree; (names + 1,). ``chains`` are nodes to begin with, each the one above
    it and a name; ``stack_node`` is the node in which the slices with a call stack begin, -1 for none.
    """
    compiled = library()
    if compiled is None:
        return slow_innermost(threads, start, end, name, stack, clear, chains, stack_node)
    nodes = max(_NODES, 2 * len(chains))
    while True:
        tree = np.full((nodes, 2), -1, np.int32)
        tree[1 : 1 + len(chains)] = chains
        used = np.array([1 + len(chains)])
        # Nodes of the chains are not looked up: no name of a slice is one of theirs.
        slots = np.zeros(2 * nodes, np.int32)
        found: list[I64] = []
        for thread in threads:
            lanes = np.ascontiguousarray(thread.lanes.copy())
            slices = int((lanes[:, 1] - lanes[:, 0]).sum())
            room = len(thread.bounds) + 2 * slices
            parts, opened = np.empty((room, 6), np.int64), np.empty((slices, 3), np.int64)
            count = compiled.innermost(
                lanes, len(lanes), start, end, name, stack, len(start), clear, len(clear), stack_node,
                len(stack_node), np.ascontiguousarray(thread.bounds), len(thread.bounds), tree, nodes, slots,
                len(slots), used, opened, slices, parts, room, thread.chained,
            )  # fmt: skip
            if count == _FULL:
                break
            found.append(parts[:count])
        else:
            return _thread_parts(found, tree[: used[0]])
        nodes *= 4


def _thread_parts(found: list[I64], tree: I32) -> StackParts:
    """The parts of each thread, (m, 6), as columns."""
    none = np.zeros((0, 6), np.int64)
    columns = [np.concatenate([none[:, at], *(rows[:, at] for rows in found)]) for at in range(6)]
    columns.append(np.repeat(np.arange(len(found)), [len(rows) for rows in found]))
    return StackParts(*columns, *tree.T.astype(np.int64))


def slow_innermost(
    threads: Sequence[Stretches], start: I64, end: I64, name: I32, stack: I32, clear: U8, chains: I32, stack_node: I32
) -> StackParts:
    """``innermost`` without the library."""
    tree: list[tuple[int, int]] = [(-1, -1), *map(tuple, chains.tolist())]
    nodes: dict[tuple[int, int], int] = {}
    found: list[I64] = []
    for thread in threads:
        rows: list[tuple[int, ...]] = []
        items = np.concatenate([np.arange(*lane) for lane in thread.lanes.tolist()] or [np.zeros(0, np.int64)])
        order = items[np.lexsort((-end[items], start[items]))].tolist()
        opened: list[tuple[int, int, int]] = []
        at = 0
        for piece, (now, until) in enumerate(thread.bounds.tolist()):
            while now < until:
                begin = int(start[order[at]]) if at < len(order) else None
                since = now if begin is None else min(begin, now)
                while opened and end[opened[-1][0]] <= since:
                    opened.pop()
                _, node, known = opened[-1] if opened else (-1, 0, -1)
                if begin is not None and begin <= now:
                    item, at = order[at], at + 1
                    if end[item] <= now:
                        continue
                    text = int(stack[item])
                    if thread.chained and known < 0 <= text and stack_node[text] >= 0:
                        node = int(stack_node[text])
                    known = text if text >= 0 else -1 if text == OWN else known
                    code = int(name[item]) if name[item] >= 0 else len(clear) - 1
                    if not clear[code]:
                        below = nodes.setdefault((node, code), len(tree))
                        if below == len(tree):
                            tree.append((node, code))
                        node = below
                    opened.append((item, node, known))
                    continue
                item = opened[-1][0] if opened else -1
                stop = min(filter(None, (until, begin, int(end[item]) if item >= 0 else None)))
                rows.append((now, stop, item, node, piece, known))
                now = stop
        found.append(np.array(rows, np.int64).reshape(-1, 6))
    return _thread_parts(found, np.array(tree, np.int32))
