"""What the rules read: everything known of one device and of its host, each thing computed once."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.code_lines import LineLoss, losing_launches
from npu_tui.analysis.collectives import Collectives
from npu_tui.analysis.device import EVERYTHING, named_in
from npu_tui.analysis.drains import NO_DRAINS, DispatchRange, Drains, dispatch_ranges, drains
from npu_tui.analysis.kernels import KernelTable, peak_of
from npu_tui.analysis.launches import Dispatch
from npu_tui.analysis.limits import Threshold
from npu_tui.analysis.operators import kernel_types
from npu_tui.analysis.overlap import Overlap, dequeue_idle_ratio
from npu_tui.analysis.questions import host_without
from npu_tui.analysis.ranges import phases
from npu_tui.analysis.replay import ANY_THREAD, NO_CHANGE, Change, HostCut, Replay
from npu_tui.analysis.replay_device import DeviceTasks
from npu_tui.analysis.replay_host import thread_numbers
from npu_tui.rules.inputs import NOTHING, Input, Span, inside, length_of, together, without
from npu_tui.rules.judged import JudgedTime, window_of
from npu_tui.trace.arrays import F64, I64, Bools, distinct, most_first
from npu_tui.trace.intervals import clipped, covered_before, covered_within, union
from npu_tui.trace.model import CORE_CLOCK, LayerKind
from npu_tui.trace.once import of_trace, once
from npu_tui.trace.recorder import Recorder, launched_before, recorder_of

PEAK_TFLOPS = Threshold("peak_tflops", 0.0)
CUBE = re.compile(r"matmul|gemm|^conv|attention|^mm$|^bmm$", re.IGNORECASE)
"""Types of kernels that multiply matrices."""
MOVES = re.compile(r"concat|pack|slice|split|tensormove|transdata|viewcopy|asstrided", re.IGNORECASE)
"""Types of kernels that only move, join, split or convert tensors."""

once_per_device = of_trace
"""Decorates a function of ``Facts`` that several rules call: it runs once for each device."""


class Facts(JudgedTime):
    """One device of a trace within a window, ns, and what else the profile has of it."""

    @once
    def is_of_torch(self) -> bool:
        """Whether the program is one of PyTorch, as far as the trace shows: in Python, and not of MindSpore."""
        python = any(layer.kind == "python" and layer.lanes for layer in self.trace.layers)
        return python and not self.inputs.is_of_mindspore

    # What the profile has.

    def has(self, needed: Input) -> bool:
        """Whether the profile has the input ``needed``; may raise ``InputError`` for ``planes``."""
        return self.known.value(needed, lambda: _HAS[needed](self))

    def has_layer(self, kind: LayerKind) -> bool:
        """Whether the trace has events on a layer of ``kind``."""
        return any(layer.kind == kind and layer.lanes for layer in self.trace.layers)

    # Lengths.

    @once
    def sums(self) -> Overlap:
        """Computing, communication and free time of the window, without a trace those of step_trace_time.csv."""
        if self.part.lanes is None:
            return self.inputs.table_sums()[1]
        sums = self.part.lanes.sums(self.window)
        return replace(sums, free=sums.free - length_of(self.unasked)) if len(self.unasked[0]) else sums

    @property
    def total(self) -> int:
        """Time of the device in the window, which shares refer to, ns."""
        return self.sums.total

    @property
    def recorder(self) -> Recorder:
        """Who wrote the trace, and for which device."""
        return recorder_of(self.trace)

    @property
    def chip(self) -> str:
        """What the device is, in a word."""
        return self.recorder.chip

    @once
    def step_ns(self) -> float:
        """Mean length of the steps: on the host, or on the device where that takes longer; for a range its length.

        A host that runs ahead ends its steps long before the device does.
        """
        if not self.whole_steps:
            return float(min(self.window.end, self.trace.end) - max(self.window.start, 0))
        if not self.steps:
            if self.rhythm is None:
                return float(self.total)
            length = self.total if self.replay is None else self.replay.recorded - length_of(self.unasked)
            return length / self.rhythm.count
        if self.replay is not None and self.inputs.step is None and not self.warm_up and self.entered is None:
            unasked = length_of(self.unasked) if self.has_engine_steps else 0
            return (self.replay.recorded - unasked) / self.count
        if self.has_engine_steps:
            length = sum(window_of(step).end - window_of(step).start for step in self.steps)
            return (length - length_of(self.unasked)) / self.count
        items = [step.item for step in self.steps]
        on_host = float(np.mean(self.trace.slices.end[items] - self.trace.slices.start[items]))
        return max(on_host, self.total / self.count)

    def share(self, length: float) -> float:
        """``length`` (ns) of the device's time, 0 to 1 (or more)."""
        return length / self.total if self.total else 0.0

    # Spans of the device's time, each disjoint and ascending.

    @once
    def free(self) -> Span:
        """Free time by the Overlap Analysis."""
        return self._asked(self.cut(self.part.lanes.free)) if self.part.lanes is not None else NOTHING

    @once
    def exposed(self) -> Span:
        """Communication that no computing hides."""
        return self.cut(self.part.lanes.not_overlapped) if self.part.lanes is not None else NOTHING

    @once
    def computing(self) -> Span:
        """When the device computes, by the Overlap Analysis."""
        return self.cut(self.part.lanes.computing) if self.part.lanes is not None else NOTHING

    @once
    def working(self) -> Span:
        """Compute or a collective, in the whole trace."""
        device = self.part.slices
        return NOTHING if device is None else self.span_of(np.flatnonzero(device.compute | device.collective))

    @once
    def earlier(self) -> Span:
        """When the device does what was launched before the trace began, where that is left out or not recorded.

        While the first kernel waits on a device that does nothing recorded, it waits for such work. A copy may wait for
        the host.
        """
        early, every, device = self.span_of(launched_before(self.trace)[0]), self.part.launches, self.part.slices
        if every is None or device is None:
            return early
        target = self.trace.links.target_slice[every.link]
        kernel = np.flatnonzero((device.compute | device.collective)[target])[:1]
        made = self.trace.links.source_time[every.link[kernel]] + self.floor
        first = self.trace.slices.start[target[:1]]
        waits = every.queued[kernel] & (made < first)
        return together(early, (made[waits], first[waits]))

    @once
    def host_late(self) -> Span:
        """Free without copies in which the launch that ended it had not been made yet."""
        split = self.part.split
        if split is None:
            return NOTHING
        late = split.late_until > split.start
        return self._asked(self.cut((split.start[late], split.late_until[late].astype(np.int64))))

    @once
    def device_side(self) -> Span:
        """Free without copies in which the launch that ended it had already been made."""
        split = self.part.split
        if split is None:
            return NOTHING
        side = split.linked & ~split.copying & (split.late_until < split.end)
        return self.cut((split.late_until[side].astype(np.int64), split.end[side]))

    def lost_span(self, chosen: Bools | None = None) -> Span:
        """When the idle device waited for launches of the window: all of them, or the ``chosen`` ones (a mask)."""
        launches = self.launches
        if launches is None:
            return NOTHING
        losing = launches.lost > 0 if chosen is None else (launches.lost > 0) & chosen
        lost = union(launches.ready[losing], (launches.ready[losing] + launches.lost[losing]).astype(np.int64))
        return self._asked(lost)

    @once
    def lost(self) -> Span:
        """When the idle device waited for any launch of the window."""
        return self.lost_span()

    # Launches.

    @once
    def target(self) -> I64:
        """The first busy slice of every launch of the window."""
        assert self.launches is not None
        return self.trace.links.target_slice[self.launches.link].astype(np.int64)

    @once
    def ranges(self) -> list[DispatchRange]:
        """Clusters of near-vertical launches."""
        if self.asked is None or self.part.slices is None:
            return []
        return dispatch_ranges(self.trace, self.part.slices, self.asked)

    @once
    def losing(self) -> list[tuple[LineLoss, I64]]:
        """Lost time by line of code, with the positions in ``launches`` of the launches that lost it."""
        return [] if self.asked is None else losing_launches(self.trace, self.asked)

    @once
    def asked(self) -> Dispatch | None:
        """``launches`` whose lost time leaves out what the host waited for requests."""
        launches = self.launches
        return None if launches is None else replace(launches, lost=launches.lost - self.lost_unasked)

    @once
    def lost_unasked(self) -> F64:
        """How much of the lost time of each launch the host waited for a request, ns; (launches,)."""
        launches = self.launches
        if launches is None or not len(self.unasked[0]):
            return np.zeros(0 if launches is None else len(launches.lost))
        ready = launches.ready.astype(np.float64)
        waited = covered_before(*self.unasked, ready + launches.lost) - covered_before(*self.unasked, ready)
        return np.where(launches.lost > 0, waited, 0.0)

    @property
    def lines(self) -> list[LineLoss]:
        """Lost time by line of code."""
        return [loss for loss, _ in self.losing]

    @once
    def drains(self) -> Drains:
        """Times without any launch in flight that begin in the window."""
        if self.part.slices is None or self.part.pairs is None:
            return NO_DRAINS
        every = drains(self.trace, self.part.slices, self.part.pairs)
        if self.inputs.step is not None:
            return every.taken((every.end > self.since) & (every.end <= self.window.end))
        every = every.taken((every.start >= self.window.start) & (every.start < self.window.end))
        # Where there is no request for most of the time, the host is not late.
        start, end = every.start.astype(np.int64), every.end.astype(np.int64)
        nobody = together(self._without_requests, self.profiling)
        return every.taken(2 * covered_within(*nobody, start, end) <= end - start)

    @once
    def dequeue_idle(self) -> float | None:
        """Share of the host-late time in which the dequeue thread had nothing to do."""
        if self.part.split is None or self.part.launches is None:
            return None
        return dequeue_idle_ratio(self.trace, self.part.split, self.part.launches, self.window)

    # The run again.

    @property
    def replay(self) -> Replay | None:
        """The model of the whole run, None where there is none or where it misses the recording by more than 2 %."""
        replay = self.inputs.replay_of(self.part)
        return replay if replay is not None and replay.trusted else None

    @property
    def tasks(self) -> DeviceTasks | None:
        """The tasks of the device in the order of its streams; None where no launch leads to it."""
        replay = self.inputs.replay_of(self.part)
        return None if replay is None else replay.model.tasks

    def freed(self, change: Change, after: Change = NO_CHANGE) -> int | None:
        """What ``change`` shortens the run by once no peer is late and ``after`` is done, ns; None without a replay."""
        if self.replay is None:
            return None
        return self.replay.gain(change, Change(in_time=self.replay.late) | after)

    def without_calls(self, items: I64, keep: float = 0.0) -> Change:
        """The change by which slices ``items`` of the host, and all within them, take ``keep`` of their time."""
        tid = np.array([lane.tid for lane in self.trace.lanes])[self.trace.slices.lane[items]]
        threads = np.unique(tid).tolist()
        return Change(host=tuple(HostCut(thread, self.span_of(items[tid == thread]), keep) for thread in threads))

    def without_operations(self, items: I64, keep: float = 0.0) -> Change:
        """The change by which operations ``items``, and their work in the task queue, take ``keep`` of their time."""
        slices, lane = self.trace.slices, self.trace.slices.lane[items]
        threads = thread_numbers(self.trace)[1][lane]
        return host_without(self.trace, threads, slices.start[items], slices.end[items], keep)

    def without_work(self, span: Span) -> Change:
        """The change without work of the host in ``span`` of the device's time: what makes launches late is gone."""
        if not len(span[0]):
            return NO_CHANGE
        return Change(host=(HostCut(ANY_THREAD, (span[0] - self.floor, span[1] - self.floor)),))

    def judged(self, change: Change) -> Change:
        """``change`` without what it does in warm-up steps, outside of a range and in waits for requests."""
        unasked = [(low, high) for low, high, _ in self.waits_for_requests]
        if self.window == EVERYTHING and not unasked:
            return change
        start, end = self.trace.slices.start, self.trace.slices.end
        first = min((int(start[step.item]) for step in self.steps), default=EVERYTHING.end)
        first = min(first, self.window.start - self.floor)
        last = EVERYTHING.end if self.whole_steps else self.window.end - self.floor
        idle = union(*np.array(unasked, np.int64).reshape(-1, 2).T)

        def asked(span: Span) -> Span:
            low, high = clipped(*span, first, last)
            return without((low[high > low], high[high > low]), idle)

        # A wait before the first judged step, or into a time without requests, stays as it was recorded.
        dropped = [item for item in change.waits if start[item] < first or self._is_before(idle, int(end[item]))]
        met = self.collectives.item.tolist()
        return replace(
            change,
            host=tuple(replace(cut, span=asked(cut.span)) for cut in change.host),
            tasks=tuple(replace(cut, items=cut.items[self.window.holds(start[cut.items])]) for cut in change.tasks),
            waits=change.waits.difference(dropped),
            in_time=change.in_time if met else frozenset(),
            at=(change.at & frozenset(met) if change.at else frozenset(met)) if change.in_time else change.at,
        )

    def _is_before(self, idle: Span, time: int) -> bool:
        """Whether nothing is launched between ``time`` and the next wait for a request: that ends no earlier then."""
        at = int(np.searchsorted(idle[0], time, "right"))
        if at == len(idle[0]) or self.launches is None:
            return False
        made = self.trace.links.source_time[self.launches.link]
        return not bool(((made > time) & (made < idle[0][at])).any())

    # Kernels.

    @once
    def kernel_types(self) -> tuple[list[str], I64]:
        """The distinct types of ``kernels`` and which one each has, by their rows, else by their names."""
        types = self.kernel_table.type if len(self.kernel_table) == len(self.kernels) else None
        if types is None:
            return kernel_types(self.trace, self.kernels)
        used, code = distinct(types.code)
        return [types.values[kind] for kind in used.tolist()], code

    @once
    def kernel_table(self) -> KernelTable:
        """``kernels`` with their rows of kernel_details.csv; the rows alone where the trace has no kernels."""
        table = self.inputs.all_kernels()
        return table.of_slices(self.kernels) if (table.item >= 0).any() else table

    @property
    def peak_tflops(self) -> float:
        """The most the device reaches in matrix products: the user's figure, else that of its chip, 0 if unknown."""
        return self.limits[PEAK_TFLOPS] or peak_of(self.inputs.setup.chip)

    @once
    def collectives(self) -> Collectives:
        """The collectives of this device that start in the window; for a range of time those that lie in it in part."""
        collectives = self.inputs.collectives()
        if self.part.slices is None:
            return collectives.taken(np.zeros(0, np.int64))
        item = collectives.item
        start, end = self.trace.slices.start[item], self.trace.slices.end[item]
        there = self.window.holds(start) if self.whole_steps else (start < self.window.end) & (end > self.window.start)
        return collectives.taken(self.part.slices.collective[item] & there)

    @once
    def time_by_type(self) -> dict[str, int]:
        """Time of ``kernels`` by type, ns, most first."""
        types, code = self.kernel_types
        sums = np.bincount(code, self.length(self.kernels), len(types))
        return {types[k]: int(sums[k]) for k in most_first(sums, types)}

    @once
    def kernel_phases(self) -> I64:
        """The phase of each of ``kernels``, an index of ``PHASES``; (kernels,)."""
        return phases(self.trace, self.kernels)

    # Slices.

    def named(self, kinds: tuple[LayerKind, ...], rule: Callable[[str], bool]) -> I64:
        """The slices on layers of ``kinds`` that start in the window with a name that fulfils ``rule``, by start."""
        slices = self.trace.slices
        lanes = [lane for lane in self.trace.lanes if self.trace.layers[lane.layer].kind in kinds]
        items = named_in(self.trace, (lane for lane in lanes if lane.tid not in self.foreign), rule)
        items = self.begun(items)
        return items[np.argsort(slices.start[items], kind="stable")]

    def begun(self, items: I64) -> I64:
        """Those of ``items`` of the host that start in the window, or in one of its steps on the host."""
        start = self.trace.slices.start[items]
        steps = self.steps if self.whole_steps and self.window != EVERYTHING else []
        in_step = inside(self.span_of(np.array([step.item for step in steps], np.int64)), start)
        return items[self.window.holds(start + self.floor) | in_step]


_HAS: dict[Input, Callable[[Facts], bool]] = {
    "device": lambda facts: facts.part.slices is not None and bool(facts.part.slices.busy.any()),
    "links": lambda facts: facts.launches is not None and facts.part.split is not None,
    "overlap": lambda facts: facts.part.lanes is not None and facts.sums.total > 0,
    "cann": lambda facts: facts.has_layer("cann"),
    "runtime": lambda facts: facts.has_layer("cann") or facts.recorder.has_runtime,
    "python": lambda facts: facts.has_layer("python"),
    "planes": lambda facts: bool(len(facts.inputs.planes().item)),
    "steps": lambda facts: bool(facts.steps),
    "frequency": lambda facts: any(series.name == CORE_CLOCK for series in facts.trace.counters.series),
    "kernel_details": lambda facts: bool(facts.kernel_table.details),
    "pmu": lambda facts: bool(np.isfinite(facts.kernel_table.ratios["mte2"]).any()),
    "metadata": lambda facts: facts.inputs.setup.environment is not None,
    "memory": lambda facts: facts.inputs.memory().curve("reserved") is not None,
    "shapes": lambda facts: bool(np.isfinite(facts.kernel_table.bytes).any()),
    "peak": lambda facts: facts.peak_tflops > 0 and facts.has("shapes"),
    "l2_cache": lambda facts: bool(np.isfinite(facts.kernel_table.hit_rate).any()),
    "transfers": lambda facts: bool(facts.inputs.transfers()),
    "ftrace": lambda facts: facts.inputs.cpu() is not None,
    "preprocess": lambda facts: bool(facts.inputs.preprocessing()),
}
"""How to see that an input is there; none is looked for before a rule needs it."""
