"""What the rules read: everything known of one device and of the host behind it, each thing computed once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.calls import profiler_work
from npu_tui.analysis.code_lines import LineLoss, losing_launches
from npu_tui.analysis.collectives import Collectives
from npu_tui.analysis.device import EVERYTHING, Window, named_in
from npu_tui.analysis.drains import NO_DRAINS, DispatchRange, Drains, dispatch_ranges, drains, launches_in
from npu_tui.analysis.kernels import KernelTable, peak_of
from npu_tui.analysis.launches import Dispatch, operation_of
from npu_tui.analysis.limits import COPY_NS, LONG_NS
from npu_tui.analysis.operators import kernel_types
from npu_tui.analysis.overlap import DevicePart, Overlap, dequeue_idle_ratio
from npu_tui.analysis.replay import ANY_THREAD, NO_CHANGE, Change, HostCut, Replay
from npu_tui.analysis.replay_device import DeviceTasks
from npu_tui.analysis.replay_host import thread_numbers
from npu_tui.analysis.requests import begin_anew, request_pauses, request_waits
from npu_tui.analysis.rhythm import Rhythm, rhythm
from npu_tui.analysis.steps import Step, begins_within, warm_up_steps
from npu_tui.analysis.thresholds import Threshold
from npu_tui.analysis.what_if import host_without
from npu_tui.rules.inputs import NOTHING, Input, Inputs, Span, TraceSlices, common, inside, length_of, together, without
from npu_tui.trace.arrays import F64, I64, Bools, distinct, most_first
from npu_tui.trace.intervals import clipped, covered_before, covered_within, union
from npu_tui.trace.kineto import bound_launch_links, is_kineto, is_of_gpu, launched_before
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import CORE_CLOCK, LayerKind
from npu_tui.trace.once import ValueCache, of_trace, once

PEAK_TFLOPS = Threshold("peak_tflops", 0.0)

_PREFILL = 2.0
"""A prefill computes so many times as long as the usual step."""

once_per_device = of_trace
"""Decorates a function of ``Facts`` that several rules call: it runs once for each device."""


class Facts(TraceSlices):
    """One device of a trace within a window, ns.

    ``whole_steps`` is True for one step or all of them, False for a range of time. First steps that take far longer
    than the others are ``warm_up``, unless ``every_step`` counts; the window of the whole trace begins after them, or
    after a first step that is ``entered`` when recording began. ``first_meeting`` is a collective
    (-1: none) that a run without steps begins with and that outlasts all the rest: ranks begin to record at different
    times, and what this one waits there says nothing of the job.
    """

    def __init__(self, part: DevicePart, inputs: Inputs, every_step: bool = False) -> None:
        super().__init__(inputs.trace, part.device)
        self.part = part
        self.inputs = inputs
        self.limits = inputs.thresholds
        self.known = ValueCache()
        self.whole_steps = inputs.step is not None or inputs.window == EVERYTHING
        self.window = inputs.window
        self.warm_up: list[Step] = []
        self.entered: Step | None = None
        # The first steps of an engine carry prefill: they are longer, but no warm-up.
        if self.is_whole and not self.has_engine_steps and not every_step:
            steps = self._steps_on_device
            self.warm_up = steps[: warm_up_steps(self.length(np.array([step.item for step in steps], np.int64)))]
            if self.warm_up:
                self.window = Window(_window_of(self.warm_up[-1]).end, EVERYTHING.end, whole=True)
            elif begins_within(self.length(np.array([step.item for step in steps], np.int64)), self.kernels_in(steps)):
                self.entered = steps[0]
                self.window = Window(_window_of(self.entered).end, EVERYTHING.end, whole=True)
        self.first_meeting = self._first_meeting() if self.is_whole and not self._are_numbered else -1
        if self.first_meeting >= 0:
            self.window = Window(int(inputs.trace.slices.end[self.first_meeting]), EVERYTHING.end, whole=True)

    def kernels_in(self, steps: list[Step]) -> I64:
        """How many kernels the device begins in each of ``steps``; (n,)."""
        device = self.part.slices
        starts = np.sort(self.trace.slices.start[device.compute]) if device is not None else np.zeros(0, np.int64)
        edges = np.array([(window.start, window.end) for window in map(_window_of, steps)], np.int64).reshape(-1, 2)
        return np.diff(np.searchsorted(starts, edges))[:, 0].astype(np.int64)

    def _first_meeting(self) -> int:
        device, slices = self.part.slices, self.trace.slices
        busy = np.flatnonzero(device.busy) if device is not None else np.zeros(0, np.int64)
        if device is None or not len(busy):
            return -1
        first = int(busy[np.argmin(slices.start[busy])])
        met, rest = int(slices.end[first] - slices.start[first]), int(slices.end[busy].max() - slices.end[first])
        return first if device.collective[first] and met > rest > 0 else -1

    @once
    def is_of_torch(self) -> bool:
        """Whether the program is one of PyTorch, as far as the trace tells: of Python, and not of MindSpore."""
        python = any(layer.kind == "python" and layer.lanes for layer in self.trace.layers)
        return python and not self.inputs.is_of_mindspore

    @property
    def is_whole(self) -> bool:
        """Whether all of the trace is judged, except for a warm-up."""
        return self.inputs.window == EVERYTHING and self.inputs.step is None

    # What the profile has.

    def has(self, needed: Input) -> bool:
        """Whether the profile has the input ``needed``; may raise ``InputError`` for ``planes``."""
        return self.known.value(needed, lambda: _HAS[needed](self))

    def has_layer(self, kind: LayerKind) -> bool:
        """Whether the trace has events on a layer of ``kind``."""
        return any(layer.kind == kind and layer.lanes for layer in self.trace.layers)

    # Steps.

    @property
    def _steps_on_device(self) -> list[Step]:
        """The steps of the trace that have a number and launched anything."""
        return [step for step in self.inputs.steps if step.number is not None and step.window is not None]

    @property
    def _are_numbered(self) -> bool:
        return any(step.number is not None for step in self.inputs.steps)

    @once
    def has_engine_steps(self) -> bool:
        """Whether the steps are calls of an inference engine, by their names."""
        return any(step.engine is not None for step in self.inputs.steps)

    @once
    def steps(self) -> list[Step]:
        """The steps that have a number and touch the window on the device."""
        chosen, low, high = self.inputs.step, self.window.start, self.window.end
        return [
            step
            for step in self._steps_on_device
            if chosen in (None, step.number) and _window_of(step).end > low and _window_of(step).start < high
        ]

    @once
    def since(self) -> int:
        """The end of the step before the chosen one, ns; before all without one."""
        ends = [step.window.end for step in self.inputs.steps if step.window is not None]
        return max((end for end in ends if end <= self.window.start), default=EVERYTHING.start)

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
        """Time of the device in the window: what shares are of, ns."""
        return self.sums.total

    @once
    def rhythm(self) -> Rhythm | None:
        """What repeats in a run without steps; None with steps, or of a part of the run."""
        if self.window != EVERYTHING or self.part.slices is None or self._are_numbered:
            return None
        # A serving process has no ProfilerStep: its kernels and their launches repeat with every token.
        links = self.trace.links
        link = bound_launch_links(self.trace)
        launch = np.full(len(self.trace.slices), -1, np.int64)
        launch[links.target_slice[link]] = link
        return rhythm(self.trace, self.kernels, launch[self.kernels])

    @property
    def on_gpu(self) -> bool:
        """Whether the device is no NPU: a GPU, or another one that PyTorch's own profiler records."""
        return is_of_gpu(self.trace)

    @property
    def chip(self) -> str:
        """What the device is, in a word."""
        return "GPU" if self.on_gpu else "NPU"

    @property
    def is_serving(self) -> bool:
        """Whether the run decodes one token after another."""
        return self.has_engine_steps or (self.rhythm is not None and self.rhythm.unit == "token")

    @property
    def unit(self) -> Message:
        """The name of what times are divided by: a step, or what repeats in a run without steps."""
        return message(f"finding.unit.{self.unit_name}")

    @property
    def unit_name(self) -> str:
        """``step``, what repeats in a run without steps, ``run`` where nothing does; ``range`` for a range of time."""
        if self.rhythm is not None:
            return self.rhythm.unit
        if not self.whole_steps:
            return "range"
        return ("engine_step" if self.has_engine_steps else "step") if self.steps else "run"

    @property
    def repetitions(self) -> I64:
        """When each step, or what repeats in a run without steps, starts on the device, ns."""
        if self.rhythm is not None:
            return self.rhythm.starts
        return np.array([_window_of(step).start for step in self.steps], np.int64)

    @property
    def count(self) -> int:
        """The number of steps, or of what repeats, that a time is divided by to speak of one."""
        if self.rhythm is not None:
            return self.rhythm.count
        return max(len(self.steps), 1) if self.whole_steps else 1

    def per_unit(self, time: float) -> Message:
        """``time`` of all steps (ns) as that of one of them, in words."""
        return message(f"finding.each.{self.unit_name}", time=time / self.count)

    @once
    def step_ns(self) -> float:
        """Mean length of the steps: on the host, or on the device where that takes longer; of a range its length.

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
            length = sum(_window_of(step).end - _window_of(step).start for step in self.steps)
            return (length - length_of(self.unasked)) / self.count
        items = [step.item for step in self.steps]
        on_host = float(np.mean(self.trace.slices.end[items] - self.trace.slices.start[items]))
        return max(on_host, self.total / self.count)

    def share(self, length: float) -> float:
        """``length`` (ns) of the device's time, 0 to 1 (or more)."""
        return length / self.total if self.total else 0.0

    # Spans of the device's time, each disjoint and ascending.

    def cut(self, span: Span) -> Span:
        """``span`` within the window.

        A step owns all time from the end of the step before it to its own end: the idle time before its first kernel
        is its fault. A window of whole steps keeps what starts in it, a range cuts at its edges.
        """
        start, end = span
        if self.inputs.step is not None:
            low, high = clipped(start, end, self.since, self.window.end)
            return low[high > low], high[high > low]
        low, high = self.window.cut(start, end)
        return low[high > low], high[high > low]

    @once
    def free(self) -> Span:
        """Free time by the Overlap Analysis."""
        return self._asked(self.cut(self.part.lanes.free)) if self.part.lanes is not None else NOTHING

    @once
    def waits_for_requests(self) -> list[tuple[int, int, int]]:
        """Waits of the launching threads for a request, but between training steps: start, end (host clock) and slice.

        They last as long as a token, or what else repeats. Those that no frame tells, between steps of an engine, have
        no slice (-1).
        """
        if self.part.slices is None or (not self.has_engine_steps and self._are_numbered):
            return []
        if self.rhythm is not None and self.rhythm.unit == "iteration":
            return []
        calls = operation_of(self.trace, self.kernels)
        if self.launches is not None:
            calls = np.append(calls, self.trace.links.source_slice[self.launches.link])
        lanes = np.unique(self.trace.slices.lane[calls[calls >= 0]]).tolist()
        known = self.rhythm is not None or self.has_engine_steps
        busy = length_of(self.cut(self.busy)) / self.count if known else 0
        threads = {self.trace.lanes[number].tid for number in lanes}
        least = max(busy, LONG_NS)
        waits = request_waits(self.trace, threads, least)
        if waits or not self.is_serving:
            return waits
        return [(*pause, -1) for pause in request_pauses(*self._passes(), least, self._calls_within)]

    def _passes(self) -> tuple[I64, I64, Bools]:
        """Start and end of every step of the engine, on the host's clock, and whether a new request begins with it."""
        if self.rhythm is None or self.has_engine_steps:
            called = [step for step in self.inputs.steps if step.engine is not None and step.item >= 0]
            items = np.array([step.item for step in called], np.int64)
            told = [None if step.engine is None else step.engine.kind for step in called]
            return self.trace.slices.start[items], self.trace.slices.end[items], begin_anew(told)
        # Of a step that only its kernels tell, much more work than usual is a prefill.
        start, busy = self.rhythm.starts, self.busy
        until = np.append(start[1:], busy[1][-1])
        end = busy[1][np.searchsorted(busy[0], until) - 1]
        work = covered_within(*busy, start, until)
        kinds = np.where(work >= _PREFILL * np.median(work), "prefill", "decode").tolist()
        # Where frames are recorded none of them waits. Without them a request may come with its keys and values, from
        # another server that did its prefill.
        begins = begin_anew(kinds) if self._has_frames else np.ones(len(start), np.bool_)
        return start - self.floor, end - self.floor, begins

    def _calls_within(self, low: int, high: int) -> bool:
        """Whether the host begins anything in the middle of ``[low, high)`` of its clock."""
        margin = (high - low) // 20
        return bool(len(self.host_calls(low + margin, high - margin, after=low)))

    @once
    def _without_requests(self) -> Span:
        """``waits_for_requests`` on the clock of the device."""
        start, end, _ = np.array(self.waits_for_requests, np.int64).reshape(-1, 3).T
        return union(*self.on_device((start, end)))

    @once
    def unasked(self) -> Span:
        """Idle time of the device in which the host waits for a request, or the profiler works: nobody is late then."""
        if self.part.lanes is None:
            return NOTHING
        return common(self.cut(self.part.lanes.free), together(self._without_requests, self.profiling))

    @once
    def profiling(self) -> Span:
        """When the profiler stops the host for work of its own that it records, on the clock of the device."""
        return self.on_device(self.span_of(profiler_work(self.trace)))

    def _asked(self, span: Span) -> Span:
        """``span`` without the time in which nobody asks for anything."""
        return without(span, self.unasked) if len(self.unasked[0]) else span

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
        """When the device does what was launched before the trace began, where that is left out."""
        return self.span_of(launched_before(self.trace)[0])

    @once
    def busy(self) -> Span:
        """When the device computes, communicates or copies, in the whole trace."""
        device = self.part.slices
        return NOTHING if device is None else self.span_of(np.flatnonzero(device.busy))

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
    def launches(self) -> Dispatch | None:
        """The launches whose target starts in the window."""
        every = self.part.launches
        return None if every is None else launches_in(self.trace, every, self.window)

    @once
    def target(self) -> I64:
        """The first busy slice of every launch of the window."""
        assert self.launches is not None
        return self.trace.links.target_slice[self.launches.link].astype(np.int64)

    @once
    def floor(self) -> int:
        """Device clock minus host clock as far as it is known, ns: added to a time of the host it is on the device."""
        # No launch arrives before it was made, so the smallest latency seen bounds the offset of the clocks.
        return self.inputs.floor_of(self.part)

    @property
    def clocks_apart(self) -> int:
        """``floor`` where it is longer than any launch takes, so that the clocks must differ, else 0, ns."""
        return self.floor if abs(self.floor) > COPY_NS else 0

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
        # Where nobody asks for anything for most of the time, nobody is late.
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

    # Kernels.

    @once
    def kernels(self) -> I64:
        """The compute slices of the window in order of time."""
        if self.part.slices is None:
            return np.zeros(0, np.int64)
        items = np.flatnonzero(self.part.slices.compute)
        items = items[self.window.holds(self.trace.slices.start[items])]
        return items[np.argsort(self.trace.slices.start[items], kind="stable")]

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
        """The collectives of this device that start in the window; of a range of time those that lie in it in part."""
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

    # Slices.

    def named(self, kinds: tuple[LayerKind, ...], rule: Callable[[str], bool]) -> I64:
        """The slices on layers of ``kinds`` whose name fulfils ``rule`` and that start in the window, by start."""
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

    def on_device(self, span: Span) -> Span:
        """A span of the host on the clock of the device."""
        return span[0] + self.floor, span[1] + self.floor


def _window_of(step: Step) -> Window:
    assert step.window is not None
    return step.window


_HAS: dict[Input, Callable[[Facts], bool]] = {
    "device": lambda facts: facts.part.slices is not None and bool(facts.part.slices.busy.any()),
    "links": lambda facts: facts.launches is not None and facts.part.split is not None,
    "overlap": lambda facts: facts.part.lanes is not None and facts.sums.total > 0,
    "cann": lambda facts: facts.has_layer("cann"),
    "runtime": lambda facts: facts.has_layer("cann") or is_kineto(facts.trace),
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
"""How to tell that an input is there; none is looked for before a rule needs it."""
