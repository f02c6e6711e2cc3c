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
from npu_tui.analysis.graph import NEVER, Graph
from npu_tui.analysis.lateness import UNKNOWN
from npu_tui.analysis.replay_device import COLLECTIVE, KERNEL
from npu_tui.analysis.replay_model import Model
from npu_tui.native.spans import covered
from npu_tui.trace.arrays import I32, I64, Bools, BySlice, among
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
    """Scales the length of the device slices ``items`` by ``keep``; of a collective only its transfer."""

    items: I64
    keep: float = 0.0


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
        tasks = tuple((cut.keep, cut.items.tobytes()) for cut in self.tasks)
        # Of several cuts of a task the smallest factor counts, so repeated ones change nothing; factors above 1
        # multiply, so repeated ones do.
        return (
            host,
            frozenset(tasks) if all(keep <= 1 for keep, _ in tasks) else tasks,
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
_LINKED = 0.5
"""Share of the busy tasks whose launch must be known."""


class Run(Struct, frozen=True):
    """A run of the model: ``time`` of every node (ns, as ``Model.time``), ``length`` of every task."""

    model: Model
    time: I64
    length: I64

    @property
    def starts(self) -> I64:
        """Starts of the device's tasks on the device's clock; of event records and event waits the ends; (n,)."""
        return self.time[self.model.start_node] + self.model.floor

    @property
    def ends(self) -> I64:
        """Ends of the device's tasks on the device's clock; (n,)."""
        kernel = self.model.tasks.kind == KERNEL
        return self.time[self.model.end_node] + np.where(kernel, self.length, 0) + self.model.floor


class Walk(Struct, frozen=True):
    """The chain of edges that let the end of a run pass, from the last to the first.

    ``nodes`` are those it leads through, one more than ``edges``; (n + 1,). The run begins at ``start`` and ends
    ``length_of_last`` after the last node, which may be the start of a kernel. ``time`` is when each node of the model
    is passed, ns. What each edge is made of: ``work`` of the host, the wait for a late rank and the ``task``, ns, and
    who comes last; ``task_of`` is the task that it is of, -1 for none; (n,) each.
    """

    nodes: I32
    edges: I64
    start: int
    length_of_last: int
    time: I64
    work: I64
    task: I64
    waits: tuple[I64, I64]
    task_of: I64


class Replay:
    """A model prepared for many runs; results are cached by change."""

    def __init__(self, model: Model) -> None:
        """Prepare ``model`` and run it unchanged."""
        self.model = model
        edges = model.edges
        lag = edges.fixed.copy()
        lag[edges.work.edge] += edges.work.high - edges.work.low
        lag[edges.task.edge] += model.length[edges.task.number]
        self.graph = Graph.of(edges.source, edges.target, lag, len(model))
        kind = model.tasks.kind
        self._kernels = np.flatnonzero(kind == KERNEL)
        self._kernel_length = model.length[self._kernels]
        busy = np.concatenate((self._kernels, np.flatnonzero(kind == COLLECTIVE)))
        self._marks = _Marks(model.end_node[busy], model.start_node[busy], model.steps)
        self._marked_rows = _Marks(*(self.graph.node[nodes].astype(np.int64) for nodes in self._marks))
        self._is_collective = kind == COLLECTIVE
        self._meeting_of = np.full(len(kind), -1, np.int64)
        self._meeting_of[model.meetings.task] = np.arange(len(model.meetings))
        self._meeting_fixed = self._arrival(NO_CHANGE)
        self._lengths_known: dict[tuple[object, ...], int] = {}
        self._number_of = {tid: number for number, tid in enumerate(model.tids.tolist())}
        self.recorded = self._span(model.time, self._marks, model.length)
        self.base = self.run(NO_CHANGE)
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
        return self.error <= CLOSE_ENOUGH and self.model.linked >= _LINKED

    def run(self, change: Change) -> Run:
        """The run with ``change``."""
        length = self._lengths(change)
        return Run(self.model, self._passed(change, length)[self.graph.node], length)

    def walk(
        self, change: Change = NO_CHANGE, node: int | None = None, since: int = NEVER, stops: Bools | None = None
    ) -> Walk:
        """What held up the end of the run with ``change``, or that of a ``node`` of it, edge by edge.

        The walk ends early at the first node passed at ``since`` (ns) or before, and after the first edge of a task
        that ``stops`` it; (tasks,).
        """
        graph, edges = self.graph, self.model.edges
        ready = self._unchanged if change.is_empty else self._walkable(change)
        lag, time = ready.lag, ready.time
        start, end, last = ready.bounds
        if node is not None:
            last = int(graph.node[node])
            end = int(time[last])
        walked, passed_by = graph.walk(lag, time, last, max(start, since))
        if stops is not None and len(passed_by):
            stopping = np.flatnonzero(np.append(stops, False)[ready.task_of[passed_by]])
            kept = int(stopping[0]) + 1 if len(stopping) else len(passed_by)
            walked, passed_by = walked[:kept], passed_by[:kept]
        # A node with several edges has several rows, the last of which is its own.
        nodes = np.searchsorted(graph.node, np.append(walked, 0)).astype(np.int32)
        number = passed_by.astype(np.int64)
        if len(number):
            nodes[-1] = edges.source[number[-1]]
        else:
            nodes[-1] = np.searchsorted(graph.node, last)
        return Walk(
            nodes,
            number,
            start,
            end - int(time[last]),
            ready.passed,
            ready.work[number],
            ready.task[number],
            (ready.waits[0][number], ready.waits[1][number]),
            ready.task_of[number],
        )

    @once
    def _unchanged(self) -> _Walkable:
        return self._walkable(NO_CHANGE)

    def _walkable(self, change: Change) -> _Walkable:
        """The run with ``change``, ready to be walked back from any of its nodes."""
        graph, edges, length = self.graph, self.model.edges, self._lengths(change)
        lag = self._lags(change, length)
        time = graph.passed(lag)
        work = np.zeros(len(edges), np.int64)
        work[edges.work.edge] = edges.work.high - edges.work.low
        for edge, cut in self._cuts(change):
            work[edge] -= cut
        task, task_of = np.zeros(len(edges), np.int64), np.full(len(edges), -1, np.int64)
        task[edges.task.edge], task_of[edges.task.edge] = length[edges.task.number], edges.task.number
        waited, peer = self._waits_of(change)
        meetings = self.model.meetings
        waits = np.zeros(len(edges), np.int64), np.full(len(edges), UNKNOWN, np.int64)
        of_task = edges.task.edge[self._is_collective[edges.task.number]]
        met = self._meeting_of[edges.task.number[self._is_collective[edges.task.number]]]
        # On the edge of the rank itself a collective lasts as long as the last of the others makes it.
        waits[0][of_task], waits[1][of_task] = meetings.others[met], meetings.other[met]
        of_meeting, number_of = edges.meeting.edge, edges.meeting.number
        waits[0][of_meeting], waits[1][of_meeting] = waited[number_of], peer[number_of]
        task[of_task] -= np.minimum(meetings.others[met], task[of_task])
        return _Walkable(lag, time, time[graph.node], self._bounds(time, length), work, task, task_of, waits)

    @property
    def steps(self) -> int:
        """How many steps the run has, 1 without any."""
        return max(len(self.model.steps) // 2, 1)

    def gain(self, change: Change, after: Change = NO_CHANGE) -> int:
        """By how much ``change`` shortens a run that already has the change ``after``, ns."""
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
            tasks = tasks[tasks >= 0]
            keep[tasks] = np.minimum(keep[tasks], cut.keep) if cut.keep <= 1 else keep[tasks] * cut.keep
        return np.rint(model.length * keep).astype(np.int64)

    @once
    def task_of(self) -> BySlice:
        """The task of each slice."""
        return BySlice(self.model.tasks.item, np.arange(len(self.model.tasks)))

    def _lags(self, change: Change, length: I64) -> I64:
        """The lags of all edges with ``change``, ns, followed by the two extra edges of ``Graph``."""
        edges = self.model.edges
        # Start from the lags of the unchanged run; a change touches few edges.
        lag = self.graph.lag.copy()
        for edge, less in self._cuts(change):
            lag[edge] -= less
        if change.tasks:
            more = (length - self.model.length)[edges.task.number]
            changed = np.flatnonzero(more)
            lag[edges.task.edge[changed]] += more[changed]
        if len(edges.meeting.edge):
            met, number = edges.meeting.edge, edges.meeting.number
            fixed = self._arrival(change) if change.in_time else self._meeting_fixed
            arrival = fixed[number]
            lag[met] = np.where(arrival <= NEVER, NEVER, lag[met] + arrival - self.model.meetings.others[number])
        if change.waits:
            dropped = np.array([*change.waits])
            called = edges.call.edge[among(edges.call.number, dropped)]
            lag[called] -= edges.fixed[called]
            lag[edges.wait.edge[among(edges.wait.number, dropped)]] = NEVER
        return lag

    def _cuts(self, change: Change) -> list[tuple[I64, I64]]:
        """Edges whose work becomes less, and by how much, ns; (m,) each. Several cuts of an edge add up."""
        work = self.model.edges.work
        parts: list[tuple[I64, float, I64]] = []
        taken: dict[int, Span] = {}
        for thread, keep, span in spans_by_cut(change.host):
            # Spans come with the smallest factor first, so a later cut only gets time that no earlier one has taken.
            before = taken.get(ANY_THREAD)
            if before is not None:
                span = difference(*span, *before)
            if thread != ANY_THREAD and thread in taken:
                span = difference(*span, *taken[thread])
            if thread == ANY_THREAD or thread in self._number_of:
                number = None if thread == ANY_THREAD else self._number_of[thread]
                hit, within = covered(*span, work.low, work.high, work.thread, number)
                parts.append((hit, keep, within))
            earlier = taken.get(thread)
            taken[thread] = (
                span
                if earlier is None
                else union(np.concatenate((earlier[0], span[0])), np.concatenate((earlier[1], span[1])))
            )
        if not any(keep for _, keep, _ in parts):  # the usual case: all work of the spans goes
            return [(work.edge[hit], within) for hit, _, within in parts]
        cut_of_edge = np.zeros(len(work.edge))
        for edges, keep, within in parts:
            cut_of_edge[edges] += (1.0 - keep) * within
        hit = np.flatnonzero(cut_of_edge)
        cut = np.rint(cut_of_edge[hit]).astype(np.int64)
        return [(work.edge[hit], np.minimum(cut, work.high[hit] - work.low[hit]))]

    def _behind(self, change: Change) -> Arrivals:
        """The arrivals of the late ranks with ``change``."""
        met = self.model.meetings
        if not change.in_time:
            return met.late
        in_time = met.late.of(change.in_time)
        if change.at:
            in_time &= among(self.model.tasks.item[met.task], np.array([*change.at]))[met.late.owner]
        return met.late.taken(~in_time)

    def _arrival(self, change: Change) -> I64:
        """When the last peer arrives at each meeting, ns after its source (see ``meeting_edges``); NEVER without."""
        model, met = self.model, self.model.meetings
        wait = self._behind(change).latest()
        start = model.time[model.start_node[met.task]]
        origin = np.where(met.previous >= 0, model.time[model.end_node[met.task[met.previous]]], 0)
        arrives = (wait > met.others) & (wait > 0)
        arrival: I64 = np.where(arrives, start + wait - np.where(met.following, start, origin), NEVER)
        return arrival

    def _waits_of(self, change: Change) -> tuple[I64, I64]:
        """How long after its source each meeting waits for its last rank with ``change``, ns, and for which."""
        peer = np.full(len(self.model.meetings), UNKNOWN, np.int64)
        last = self._behind(change).longest()
        peer[last.owner] = last.rank
        arrival = self._arrival(change) if change.in_time else self._meeting_fixed
        return np.maximum(arrival, 0), peer

    def _passed(self, change: Change, length: I64) -> I64:
        """When each row is passed with ``change``, ns."""
        return self.graph.passed(self._lags(change, length))


class _Walkable(NamedTuple):
    """A run to walk back through: ``time`` of its rows, ``passed`` of its nodes, ``bounds``, and ``Walk``'s columns.

    The columns are of all edges.
    """

    lag: I64
    time: I64
    passed: I64
    bounds: tuple[int, int, int]
    work: I64
    task: I64
    task_of: I64
    waits: tuple[I64, I64]


class _Marks(NamedTuple):
    """The nodes of the ends and starts of kernels, then of collectives, and of the steps' bounds."""

    ends: I64
    starts: I64
    steps: I64
