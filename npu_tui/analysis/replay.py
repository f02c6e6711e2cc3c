"""Replays a run with something changed, to say how long it would take.

``replay_model.build`` makes the model, a graph of what must precede what; ``Replay`` runs it in the order of its nodes:
a node is passed when every edge to it allows it. The unchanged run is compared with the recording to judge the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from npu_tui.analysis.collectives import Arrivals
from npu_tui.analysis.communication import UNKNOWN
from npu_tui.analysis.graph import NEVER, Graph
from npu_tui.analysis.limits import HALF
from npu_tui.analysis.replay_device import COLLECTIVE, KERNEL
from npu_tui.analysis.replay_model import Model
from npu_tui.native.spans import covered
from npu_tui.trace.arrays import I32, I64, Bools, BySlice, among, in_groups, looked_up, once_each
from npu_tui.trace.intervals import difference, union
from npu_tui.trace.once import once

Span = tuple[I64, I64]

ANY_THREAD = -1


class HostCut(Struct, frozen=True):
    """Scales the work of a host thread in ``span`` (ns on the host's clock) by ``keep``; 0 removes it.

    ``thread`` is the id of the thread, ANY_THREAD for all.
    """

    thread: int
    span: Span
    keep: float = 0.0


class TaskCut(Struct, frozen=True):
    """Scales the length of the device slices ``items`` by ``keep``; in a collective only its transfer.

    With ``gap`` the time that starting each of them takes on its stream, after the task before it, is what goes.
    """

    items: I64
    keep: float = 0.0
    gap: bool = False


class Change(Struct, frozen=True):
    """A change of a run, in any of these ways.

    ``waits`` are host slices that no longer wait for the device, or event records that fire at once. ``in_time`` are
    ranks that no longer arrive late at the collectives ``at`` (empty: at any).
    """

    host: tuple[HostCut, ...] = ()
    tasks: tuple[TaskCut, ...] = ()
    waits: frozenset[int] = frozenset()
    in_time: frozenset[int] = frozenset()
    at: frozenset[int] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is changed."""
        return not (self.host or self.tasks or self.waits or self.in_time)

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for changes with the same effect."""
        host = frozenset((cut.thread, cut.keep, cut.span[0].tobytes(), cut.span[1].tobytes()) for cut in self.host)
        tasks = tuple((cut.keep, cut.gap, cut.items.tobytes()) for cut in self.tasks)
        # Of several cuts of a task the smallest factor counts, so repeated ones change nothing; factors above 1
        # multiply, so repeated ones do.
        return (
            host,
            frozenset(tasks) if all(keep <= 1 for keep, *_ in tasks) else tasks,
            self.waits,
            self.in_time,
            self.at,
        )

    def __or__(self, other: Change) -> Change:
        """Both changes at once."""
        everywhere = any(change.in_time and not change.at for change in (self, other))
        return Change(
            self.host + other.host,
            self.tasks + other.tasks,
            self.waits | other.waits,
            self.in_time | other.in_time,
            frozenset() if everywhere else self.at | other.at,
        )


NO_CHANGE = Change()


def spans_by_cut(cuts: Iterable[HostCut]) -> list[tuple[int, float, Span]]:
    """The union of the spans per thread and factor, the smallest factor first."""
    spans_of: dict[tuple[int, float], list[Span]] = {}
    for cut in cuts:
        spans_of.setdefault((cut.thread, cut.keep), []).append(cut.span)
    return [
        (thread, keep, union(np.concatenate([span[0] for span in spans]), np.concatenate([span[1] for span in spans])))
        for (thread, keep), spans in sorted(spans_of.items(), key=lambda row: (row[0][1], row[0][0]))
    ]


CLOSE_ENOUGH = 0.02
"""A model whose unchanged run differs from the recorded length by a larger share is not used."""


class Run(Struct, frozen=True):
    """A run of the model: ``time`` of every node (ns, as ``Model.time``), ``length`` of every task."""

    model: Model
    time: I64
    length: I64

    @property
    def starts(self) -> I64:
        """Starts of the device's tasks on the device's clock; for event records and event waits the ends; (n,)."""
        return self.time[self.model.start_node] + self.model.floor

    @property
    def ends(self) -> I64:
        """Ends of the device's tasks on the device's clock; (n,)."""
        kernel = self.model.tasks.kind == KERNEL
        return self.time[self.model.end_node] + np.where(kernel, self.length, 0) + self.model.floor


class ReplayWalk(Struct, frozen=True):
    """The chain of edges that let the end of a run pass, from the last to the first.

    ``nodes`` are those it leads through, one more than ``edges``; (n + 1,). The run begins at ``start`` and ends
    ``length_of_last`` after the last node, which may be the start of a kernel. ``time`` is when each node of the model
    is passed, ns. What each edge is made of: ``work`` of the host, the wait for a late rank and the ``task``, ns, and
    who comes last; ``work_of`` is the place of the work in ``Edges.work`` and ``task_of`` the task that it is of, -1
    for none; (n,) each.
    """

    nodes: I32
    edges: I64
    start: int
    length_of_last: int
    time: I64
    work_of: I64
    work: I64
    task_of: I64
    task: I64
    waits: tuple[I64, I64]


class Replay:
    """A model prepared for many runs; results are cached by change."""

    def __init__(self, model: Model) -> None:
        """Prepare ``model`` and run it unchanged."""
        self.model = model
        edges = model.edges
        lag = edges.fixed.copy()
        lag[edges.work.edge] += edges.work.high - edges.work.low
        lag[edges.task.edge] += model.length[edges.task.number]
        lag[edges.meeting.edge] = self._lags_of_meetings(NO_CHANGE, model.length)
        self.graph = Graph.of(edges.source, edges.target, lag, len(model))
        kind = model.tasks.kind
        self._kernels = np.flatnonzero(kind == KERNEL)
        self._kernel_length = model.length[self._kernels]
        busy = np.concatenate((self._kernels, np.flatnonzero(kind == COLLECTIVE)))
        self._marks = _Marks(model.end_node[busy], model.start_node[busy], model.steps)
        self._marked_rows = _Marks(*(self.graph.node[nodes].astype(np.int64) for nodes in self._marks))
        self._lengths_known: dict[tuple[object, ...], int] = {}
        self.recorded = self._span(model.time, self._marks, model.length)
        self.base = Run(model, self._unchanged.passed, model.length)
        self.replayed = self._span(self.base.time, self._marks, self.base.length)

    @property
    def error(self) -> float:
        """The relative error of the unchanged run's length against the recorded one."""
        return abs(self.replayed - self.recorded) / self.recorded if self.recorded else 1.0

    @once
    def late(self) -> frozenset[int]:
        """The late ranks of all meetings."""
        return frozenset(np.unique(self.model.meetings.late.rank).tolist())

    @property
    def trusted(self) -> bool:
        """Whether the model reproduces the recording well enough to be used."""
        return self.error <= CLOSE_ENOUGH and self.model.linked >= HALF

    def run(self, change: Change) -> Run:
        """The run with ``change``."""
        length = self._lengths(change)
        return Run(self.model, self._passed(change, length)[self.graph.node], length)

    def walk(
        self, change: Change = NO_CHANGE, node: int | None = None, since: int = NEVER, stops: Bools | None = None
    ) -> ReplayWalk:
        """What held up the end of the run with ``change``, or that of a ``node`` of it, edge by edge.

        The walk ends early at the first node passed at ``since`` (ns) or before, and after the first edge of a task
        that ``stops`` it; (tasks,).
        """
        edges = self.model.edges
        ready = self._unchanged if change.is_empty else self._walkable(change)
        start, end, last = ready.bounds
        if node is not None:
            last = int(self.graph.node[node])
            end = int(ready.time[last])
        _, passed_by = self.graph.walk(ready.lag, ready.time, last, max(start, since))
        number = passed_by.astype(np.int64)
        task_of = self._of_edges["task"].of(number)
        if stops is not None and len(number):
            stopping = np.flatnonzero(np.append(stops, False)[task_of])
            kept = int(stopping[0]) + 1 if len(stopping) else len(number)
            number, task_of = number[:kept], task_of[:kept]
        first = edges.source[number[-1]] if len(number) else np.searchsorted(self.graph.node, last)
        work_of = self._of_edges["work"].of(number)
        work = looked_up(edges.work.high, work_of) - looked_up(edges.work.low, work_of)
        if len(ready.less):
            work -= ready.less[number]
        late, peer = self._waits_at(number, task_of, ready.waits)
        task = looked_up(ready.length, task_of)
        # Of a collective only what the other ranks do not explain is the work of this one.
        task -= np.minimum(looked_up(self.model.meetings.others, self._meeting_of.of(task_of)), task)
        return ReplayWalk(
            np.append(edges.target[number], first).astype(np.int32),
            number,
            start,
            end - int(ready.time[last]),
            ready.passed,
            work_of,
            work,
            task_of,
            task,
            (late, peer),
        )

    def _waits_at(self, number: I64, task_of: I64, waits: tuple[I64, I64]) -> tuple[I64, I64]:
        """How long the edges ``number`` of ``task_of`` wait for late ranks, ns, and for which; (n,) each.

        ``waits`` are those of meetings. On the edge of the rank itself a collective lasts as long as the last of the
        others makes it.
        """
        met = self.model.meetings
        own, meeting = self._meeting_of.of(task_of), self._of_edges["meeting"].of(number)
        late, peer = looked_up(met.others, own), looked_up(met.other, own, UNKNOWN)
        waits_for = np.flatnonzero(meeting >= 0)
        late[waits_for], peer[waits_for] = (column[meeting[waits_for]] for column in waits)
        return late, peer

    @once
    def _of_edges(self) -> dict[str, BySlice]:
        """The place in ``Edges.work``, the task and the meeting of edges."""
        edges = self.model.edges
        return {
            "work": BySlice(edges.work.edge, np.arange(len(edges.work.edge))),
            "task": BySlice(edges.task.edge, edges.task.number),
            "meeting": BySlice(edges.meeting.edge, edges.meeting.number),
        }

    @once
    def _meeting_of(self) -> BySlice:
        """The meeting of each task."""
        return BySlice(self.model.meetings.task, np.arange(len(self.model.meetings)))

    @once
    def _unchanged(self) -> _Walkable:
        return self._walkable(NO_CHANGE)

    def _walkable(self, change: Change) -> _Walkable:
        """The run with ``change``, ready to be walked back from any of its nodes."""
        length = self._lengths(change)
        lag = self._lags(change, length)
        time = self.graph.passed(lag)
        less = np.zeros(len(lag) if change.host else 0, np.int64)
        for edge, cut in self._cuts(change):
            less[edge] += cut
        bounds, waits = self._bounds(time, length), self._waits_of(change)
        return _Walkable(lag, time, time[self.graph.node], bounds, length, less, waits)

    @property
    def steps(self) -> int:
        """How many steps the run has, 1 without any."""
        return max(len(self.model.steps) // 2, 1)

    def gain(self, change: Change, after: Change = NO_CHANGE) -> int:
        """How much ``change`` shortens a run that already has the change ``after``, ns."""
        return self.length(after) - self.length(after | change)

    def length(self, change: Change) -> int:
        """How long the run takes with ``change``, ns."""
        if change.is_empty:
            return self.replayed
        key = change.key
        if key not in self._lengths_known:
            length = self._lengths(change)
            self._lengths_known[key] = self._span(self._passed(change, length), self._marked_rows, length)
        return self._lengths_known[key]

    def _span(self, time: I64, marks: _Marks, length: I64) -> int:
        """From the first step (without steps: the first task) to the end of the last step or task, ns."""
        ends = time[marks.ends]
        ends[: len(self._kernels)] += self._kernel_length if length is self.model.length else length[self._kernels]
        last = int(ends.max()) if len(ends) else 0
        if len(marks.steps):
            steps = time[marks.steps]
            return max(last, int(steps.max())) - int(steps.min())
        return last - int(time[marks.starts].min()) if len(ends) else 0

    def _bounds(self, time: I64, length: I64) -> tuple[int, int, int]:
        """Start and end of the run whose rows are passed at ``time``, ns, and the row that it ends with."""
        marks = self._marked_rows
        ends = time[marks.ends]
        ends[: len(self._kernels)] += length[self._kernels]
        # After the last step nothing counts but what was launched before.
        last, row = (int(ends.max()), int(marks.ends[ends.argmax()])) if len(ends) else (0, 0)
        if not len(marks.steps):
            return int(time[marks.starts].min()) if len(ends) else 0, last, row
        steps = time[marks.steps]
        if int(steps.max()) >= last:
            last, row = int(steps.max()), int(marks.steps[steps.argmax()])
        return int(steps.min()), last, row

    def _lengths(self, change: Change) -> I64:
        model = self.model
        if not change.tasks:
            return model.length
        keep = np.ones(len(model.tasks))
        for cut in change.tasks:
            tasks = self.task_of.of(np.asarray(cut.items, np.int64))
            tasks = tasks[(tasks >= 0) & (not cut.gap)]
            keep[tasks] = np.minimum(keep[tasks], cut.keep) if cut.keep <= 1 else keep[tasks] * cut.keep
        return np.rint(model.length * keep).astype(np.int64)

    @once
    def task_of(self) -> BySlice:
        """The task of each slice."""
        return BySlice(self.model.tasks.item, np.arange(len(self.model.tasks)))

    def _lags(self, change: Change, length: I64) -> I64:
        """The lags of all edges with ``change``, ns, followed by the two extra edges of ``Graph``."""
        edges = self.model.edges
        if change.is_empty:
            return self.graph.lag
        # Start from the lags of the unchanged run; a change touches few edges.
        lag: I64 = self.graph.lag.copy()
        for edge, less in self._cuts(change):
            lag[edge] -= less
        if change.tasks:
            more = (length - self.model.length)[edges.task.number]
            changed = np.flatnonzero(more)
            lag[edges.task.edge[changed]] += more[changed]
        if gaps := [cut.items for cut in change.tasks if cut.gap]:
            started = self._start_edges[self.task_of.of(once_each(np.concatenate(gaps)))]
            started = started[started >= 0]
            lag[started] -= np.maximum(edges.fixed[started], 0)
        if change.in_time:
            lag[edges.meeting.edge] = self._lags_of_meetings(change, length)
        if change.waits:
            dropped = np.array([*change.waits])
            called = edges.call.edge[among(edges.call.number, dropped)]
            lag[called] -= edges.fixed[called]
            lag[edges.wait.edge[among(edges.wait.number, dropped)]] = NEVER
        return lag

    @once
    def _start_edges(self) -> I64:
        """The edge from the task before it on its stream to each task, -1 without one; then -1; (tasks + 1,)."""
        model, task = self.model, self.model.edges.task
        at = BySlice(model.start_node.astype(np.int64), np.arange(len(model.tasks))).of(model.edges.target[task.edge])
        stream = np.append(model.tasks.stream, -1)
        same = (at >= 0) & (stream[at] == stream[task.number])
        edge = np.full(len(model.tasks) + 1, -1, np.int64)
        edge[at[same]] = task.edge[same]
        return edge

    def _cuts(self, change: Change) -> list[tuple[I64, I64]]:
        """Edges whose work becomes less, and by how much, ns; (m,) each. Several cuts of an edge add up."""
        parts: list[tuple[I64, float, I64]] = []
        taken: dict[int, Span] = {}
        for thread, keep, span in spans_by_cut(change.host):
            # Spans come with the smallest factor first, so a later cut only gets time that no earlier one has taken.
            before = taken.get(ANY_THREAD)
            if before is not None:
                span = difference(*span, *before)
            if thread != ANY_THREAD and thread in taken:
                span = difference(*span, *taken[thread])
            working = self._work.values() if thread == ANY_THREAD else filter(None, (self._work.get(thread),))
            for edge, low, high in working:
                hit, within = covered(*span, low, high)
                parts.append((edge[hit], keep, within))
            earlier = taken.get(thread)
            taken[thread] = (
                span
                if earlier is None
                else union(np.concatenate((earlier[0], span[0])), np.concatenate((earlier[1], span[1])))
            )
        if not any(keep for _, keep, _ in parts):  # the usual case: all work of the spans goes
            return [(edges, within) for edges, _, within in parts]
        cut_of_edge = np.zeros(len(self.model.edges))
        for edges, keep, within in parts:
            cut_of_edge[edges] += (1.0 - keep) * within
        hit = np.flatnonzero(cut_of_edge)
        work, at = self.model.edges.work, self._of_edges["work"].of(hit)
        return [(hit, np.minimum(np.rint(cut_of_edge[hit]).astype(np.int64), work.high[at] - work.low[at]))]

    @once
    def _work(self) -> dict[int, tuple[I64, I64, I64]]:
        """The edges along which each thread of the host, by its id, works, and from when until when, ns."""
        work = self.model.edges.work
        return {
            int(self.model.tids[work.thread[mine[0]]]): (work.edge[mine], work.low[mine], work.high[mine])
            for mine in in_groups(work.thread)
        }

    def _behind(self, change: Change) -> Arrivals:
        """The arrivals of the late ranks with ``change``."""
        met = self.model.meetings
        if not change.in_time:
            return met.late
        in_time = met.late.of(change.in_time)
        if change.at:
            in_time &= among(self.model.tasks.item[met.task], np.array([*change.at]))[met.late.owner]
        return met.late.taken(~in_time)

    def _lags_of_meetings(self, change: Change, length: I64) -> I64:
        """The lags of the edges on which meetings wait for their last peer, NEVER where none comes later, ns."""
        number, met = self.model.edges.meeting.number, self.model.meetings
        arrival = self._arrival(change)[number]
        lag: I64 = length[met.task[number]] + arrival - met.others[number]
        lag[arrival <= NEVER] = NEVER
        return lag

    def _arrival(self, change: Change) -> I64:
        """When the last peer arrives at each meeting, ns after its source (see ``meeting_edges``); NEVER without."""
        model, met = self.model, self.model.meetings
        wait = self._behind(change).latest()
        start = model.time[model.start_node[met.task]]
        origin = np.where(met.previous >= 0, model.time[model.end_node[met.task[met.previous]]], 0)
        arrival: I64 = start + wait - np.where(met.following, start, origin)
        arrival[(wait <= met.others) | (wait <= 0)] = NEVER
        return arrival

    def _waits_of(self, change: Change) -> tuple[I64, I64]:
        """How long after its source each meeting waits for its last rank with ``change``, ns, and for which."""
        peer = np.full(len(self.model.meetings), UNKNOWN, np.int64)
        last = self._behind(change).longest()
        peer[last.owner] = last.rank
        return np.maximum(self._arrival(change), 0), peer

    def _passed(self, change: Change, length: I64) -> I64:
        """When each row is passed with ``change``, ns."""
        return self.graph.passed(self._lags(change, length))


class _Walkable(NamedTuple):
    """A run to walk back through: ``time`` of its rows, ``passed`` of its nodes, ``bounds``, and ``length`` of tasks.

    ``less`` is what the change takes from the work of each edge, (0,) where it takes none; ``waits`` are those of
    meetings for late ranks and for which, (meetings,) each.
    """

    lag: I64
    time: I64
    passed: I64
    bounds: tuple[int, int, int]
    length: I64
    less: I64
    waits: tuple[I64, I64]


class _Marks(NamedTuple):
    """The nodes of the ends and starts of kernels, then of collectives, and of the steps' bounds."""

    ends: I64
    starts: I64
    steps: I64
