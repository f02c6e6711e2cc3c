"""Running the model: when each point is passed, with and without a change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.replay.change import ANY_THREAD, NO_CHANGE, Change, Span, spans_by_cut
from npu_tui.analysis.replay.device import COLLECTIVE, KERNEL
from npu_tui.analysis.replay.edges import NEVER
from npu_tui.analysis.replay.model import Model
from npu_tui.trace.intervals import covered_before, difference, union

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

CLOSE_ENOUGH = 0.02
"""A model that misses the recorded length by more is not used."""
_LINKED = 0.5
_SLOTS = 3


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the model: ``time`` of every node (ns, as ``Model.time``), ``length`` of every task."""

    model: Model
    time: I64
    length: I64

    @property
    def starts(self) -> I64:
        """Starts of the device's tasks on the device's clock, of records and waits for events their ends; (n,)."""
        return self.time[self.model.start_node] + self.model.floor

    @property
    def ends(self) -> I64:
        """Ends of the device's tasks on the device's clock; (n,)."""
        kernel = self.model.tasks.kind == KERNEL
        return self.time[self.model.end_node] + np.where(kernel, self.length, 0) + self.model.floor


class Replay:
    """A model ready to run again and again."""

    def __init__(self, model: Model) -> None:
        """Prepare ``model`` and run it unchanged."""
        self.model = model
        edges, count = model.edges, len(model)
        first = np.searchsorted(edges.target, np.arange(count + 1), "left")
        most = int(np.diff(first).max()) if len(edges) else 0
        slots = max(most, _SLOTS)
        at = first[:-1, None] + np.arange(slots)[None, :]
        self._slot = np.where(at < first[1:, None], at, len(edges))
        source = np.append(edges.source, 0)[self._slot]
        self._sources = [source[:, k].tolist() for k in range(slots)]
        thread_of = np.append(model.points.tids, -1)
        self._tid = thread_of[edges.thread]
        busy = np.isin(model.tasks.kind, (KERNEL, COLLECTIVE))
        self._busy = np.flatnonzero(busy)
        self._others = np.array([each.others for each in model.meetings], np.int64)
        self._meeting_fixed = self._arrival(frozenset())
        self.recorded = self._span(model.time, model.length)
        self.base = self.run(NO_CHANGE)
        self.replayed = self._span(self.base.time, self.base.length)

    @property
    def error(self) -> float:
        """By how much of the recorded length the unchanged run misses it."""
        return abs(self.replayed - self.recorded) / self.recorded if self.recorded else 1.0

    @property
    def late(self) -> frozenset[int]:
        """The late ranks of all meetings."""
        return frozenset(rank for each in self.model.meetings for rank, _ in each.late)

    @property
    def trusted(self) -> bool:
        """Whether the model reproduces the recording well enough to be believed."""
        return self.error <= CLOSE_ENOUGH and self.model.linked >= _LINKED

    def run(self, change: Change) -> Run:
        """The run with ``change``."""
        length = self._lengths(change)
        lag = np.append(self._lags(change, length), NEVER)
        return Run(self.model, self._times(lag), length)

    @property
    def steps(self) -> int:
        """How many steps the run has, 1 without any."""
        return max(len(self.model.steps) // 2, 1)

    def gain(self, change: Change, after: Change = NO_CHANGE) -> int:
        """By how much ``change`` shortens the run once ``after`` is done, ns."""
        return self.length(after) - self.length(after | change)

    def length(self, change: Change) -> int:
        """How long the run takes with ``change``, ns."""
        if change.is_empty:
            return self.replayed
        run = self.run(change)
        return self._span(run.time, run.length)

    def _span(self, time: I64, length: I64) -> int:
        """From the first step (without steps: the first task) to the end of the last step and task."""
        model, own = self.model, self._busy
        kernel = model.tasks.kind[own] == KERNEL
        ends = time[model.end_node[own]] + np.where(kernel, length[own], 0)
        last = int(ends.max()) if len(own) else 0
        if len(model.steps):
            marks = time[model.steps]
            return max(last, int(marks.max())) - int(marks.min())
        return last - int(time[model.start_node[own]].min()) if len(own) else 0

    def _lengths(self, change: Change) -> I64:
        model = self.model
        if not change.tasks:
            return model.length
        keep = np.ones(len(model.trace.slices))
        for cut in change.tasks:
            keep[cut.items] = np.minimum(keep[cut.items], cut.keep) if cut.keep <= 1 else keep[cut.items] * cut.keep
        return np.rint(model.length * keep[model.tasks.item]).astype(np.int64)

    def _lags(self, change: Change, length: I64) -> I64:
        edges = self.model.edges
        work = edges.high - edges.low
        if change.host:
            work = np.maximum(work - self._cut(change), 0)
        lag = edges.fixed + work + np.where(edges.task >= 0, length[np.maximum(edges.task, 0)], 0)
        met = np.flatnonzero(edges.meeting >= 0)
        if len(met):
            fixed = self._arrival(change.in_time, change.at) if change.in_time else self._meeting_fixed
            arrival = fixed[edges.meeting[met]]
            lag[met] = np.where(arrival <= NEVER, NEVER, lag[met] + arrival - self._others[edges.meeting[met]])
        if change.waits:
            dropped = list(change.waits)
            lag -= np.where(np.isin(edges.call, dropped), edges.fixed, 0)
            lag[np.isin(edges.wait, dropped)] = NEVER
        return lag

    def _cut(self, change: Change) -> I64:
        """How much of each edge's work is cut away, ns."""
        edges = self.model.edges
        cut = np.zeros(len(edges))
        taken: dict[int, Span] = {}
        for thread, keep, span in spans_by_cut(change.host):
            before = taken.get(ANY_THREAD)
            if before is not None:
                span = difference(*span, *before)
            if thread != ANY_THREAD and thread in taken:
                span = difference(*span, *taken[thread])
            own = np.flatnonzero((edges.high > edges.low) & ((self._tid == thread) | (thread == ANY_THREAD)))
            inside = covered_before(*span, edges.high[own].astype(np.float64)) - covered_before(
                *span, edges.low[own].astype(np.float64)
            )
            cut[own] += (1.0 - keep) * inside
            held = taken.get(thread)
            taken[thread] = (
                span if held is None else union(np.concatenate((held[0], span[0])), np.concatenate((held[1], span[1])))
            )
        return np.rint(cut).astype(np.int64)

    def _arrival(self, in_time: frozenset[int], at: frozenset[int] = frozenset()) -> I64:
        """Last arrival of a peer at each meeting, behind the end of the meeting before or the origin, NEVER without."""
        model = self.model
        found = np.full(len(model.meetings), NEVER)
        for number, each in enumerate(model.meetings):
            wait = each.wait(in_time if not at or each.item in at else frozenset())
            if wait > 0:
                origin = (
                    int(model.time[model.end_node[model.meetings[each.previous].task]]) if each.previous >= 0 else 0
                )
                found[number] = int(model.time[model.start_node[each.task]]) + wait - origin
        return found

    def _times(self, lag: I64) -> I64:
        slots = [lag[self._slot[:, k]].tolist() for k in range(len(self._sources))]
        time = [0] * len(self.model)
        if len(slots) == _SLOTS:
            rows = zip(*(column for pair in zip(self._sources, slots, strict=True) for column in pair), strict=True)
            for at, (a, x, b, y, c, z) in enumerate(rows):
                if at:
                    latest = time[a] + x
                    other = time[b] + y
                    if other > latest:
                        latest = other
                    other = time[c] + z
                    time[at] = other if other > latest else latest
        else:
            for at in range(1, len(time)):
                time[at] = max(time[own[at]] + lags[at] for own, lags in zip(self._sources, slots, strict=True))
        return np.array(time, np.int64)
