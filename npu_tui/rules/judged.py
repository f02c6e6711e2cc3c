"""Which time of a device is judged: a window of its trace and its steps, without time that no request asked for.

A server has nothing to do where the thread that launches waits for a request, or its engine is not called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from npu_tui.analysis.calls import profiler_work
from npu_tui.analysis.device import EVERYTHING, Window, named_in
from npu_tui.analysis.drains import launches_in
from npu_tui.analysis.engine_steps import PREFILL
from npu_tui.analysis.launches import Dispatch, operation_of
from npu_tui.analysis.limits import ANOTHER_KIND, COPY_NS, LONG_NS
from npu_tui.analysis.overlap import DevicePart
from npu_tui.analysis.rhythm import Rhythm, rhythm
from npu_tui.analysis.steps import Step, begins_within, called_steps, warm_up_steps
from npu_tui.rules.inputs import NOTHING, Inputs, Span, TraceSlices, common, length_of, together, without
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.intervals import clipped, covered_within, union
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.once import ValueCache, once
from npu_tui.trace.recorder import bound_launch_links

# Frames of Python that wait for input: a socket, a queue, a pipe, an event loop with nothing to do.
_WAITS = re.compile(
    r"<(?:method|built-in (?:method|function)) '?(?:poll|select|select\.select|epoll|kqueue|control|accept|recv\w*)\b"
    r"|<method 'get' of '_queue\.SimpleQueue'"
    r"|selectors\.py\(\d+\): select|socket\.py\(\d+\): (?:accept|readinto)|queues?\.py\(\d+\): _?get\b"
    r"|connection\.py\(\d+\): (?:wait|_?poll|_?recv\w*)|zmq/\S+\(\d+\): (?:poll|recv\w*)"
    r"|shm_broadcast\.py\(\d+\): (?:acquire_read|dequeue)"
)
_OF_DATA = re.compile(r"dataloader|torch/utils/data", re.IGNORECASE)  # frames below which such waits are for a batch


def _request_waits(trace: Trace, threads: Iterable[int], least: float) -> list[tuple[int, int, int]]:
    """Waits for a request on ``threads``, ``least`` ns or longer: start, end (the clock of the host) and slice."""
    wanted = set(threads)
    lanes = [lane for lane in trace.lanes if lane.tid in wanted]
    slices = trace.slices
    items = named_in(trace, lanes, lambda name: _WAITS.search(name) is not None)
    items = items[slices.end[items] - slices.start[items] >= least]
    if not len(items):
        return []
    data = named_in(trace, lanes, lambda name: _OF_DATA.search(name) is not None)
    below = union(slices.start[data], slices.end[data])
    # The innermost frame says what is waited for; those around it are as long.
    items = items[np.lexsort((slices.end[items], -slices.start[items]))]
    waits: list[tuple[int, int, int]] = []
    for item in items.tolist():
        start, end = int(slices.start[item]), int(slices.end[item])
        if waits and end > waits[-1][0]:
            continue
        at = int(np.searchsorted(below[0], start, "right")) - 1
        if at < 0 or below[1][at] < end:
            waits.append((start, end, item))
    return waits[::-1]


def _request_pauses(start: I64, end: I64, begins: Bools, least: float) -> list[tuple[int, int]]:
    """Pauses between steps of an engine, by ``start`` and ``end``, in which it may have no request; the times of each.

    They are far longer than usual and ``least`` ns at least, and the step after them ``begins`` with a new request.
    """
    if len(start) < 2:
        return []
    gaps = start[1:] - np.maximum.accumulate(end)[:-1]
    long = np.flatnonzero(begins[1:] & (gaps >= max(least, ANOTHER_KIND * float(np.median(gaps)))))
    return [(int(start[k + 1] - gaps[k]), int(start[k + 1])) for k in long.tolist()]


def _begin_anew(kinds: Sequence[str | None]) -> Bools:
    """Which steps of these ``kinds`` begin with a new request; (n,).

    A prefill follows on other work: a request that is being served would go on; beside a dummy batch there is none.
    """
    pairs = pairwise((None, *kinds))
    return np.array(
        [None not in pair and ("dummy" in pair or (pair[1] == "prefill" and pair[0] != "prefill")) for pair in pairs],
        np.bool_,
    )


class JudgedTime(TraceSlices):
    """What is judged of one device of a trace: a window, ns, and what happens in it.

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
                self.window = Window(window_of(self.warm_up[-1]).end, EVERYTHING.end, whole=True)
            elif begins_within(self.length(np.array([step.item for step in steps], np.int64)), self.kernels_in(steps)):
                self.entered = steps[0]
                self.window = Window(window_of(self.entered).end, EVERYTHING.end, whole=True)
        self.first_meeting = self._first_meeting() if self.is_whole and not self._are_numbered else -1
        if self.first_meeting >= 0:
            self.window = Window(int(inputs.trace.slices.end[self.first_meeting]), EVERYTHING.end, whole=True)

    def kernels_in(self, steps: list[Step]) -> I64:
        """How many kernels the device begins in each of ``steps``; (n,)."""
        device = self.part.slices
        starts = np.sort(self.trace.slices.start[device.compute]) if device is not None else np.zeros(0, np.int64)
        edges = np.array([(window.start, window.end) for window in map(window_of, steps)], np.int64).reshape(-1, 2)
        return np.diff(np.searchsorted(starts, edges))[:, 0].astype(np.int64)

    def _first_meeting(self) -> int:
        device, slices = self.part.slices, self.trace.slices
        busy = np.flatnonzero(device.busy) if device is not None else np.zeros(0, np.int64)
        if device is None or not len(busy):
            return -1
        first = int(busy[np.argmin(slices.start[busy])])
        met, rest = int(slices.end[first] - slices.start[first]), int(slices.end[busy].max() - slices.end[first])
        return first if device.collective[first] and met > rest > 0 else -1

    @property
    def is_whole(self) -> bool:
        """Whether all of the trace is judged, except for a warm-up."""
        return self.inputs.window == EVERYTHING and self.inputs.step is None

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
        return bool(called_steps(self.inputs.steps))

    @once
    def steps(self) -> list[Step]:
        """The steps that have a number and touch the window on the device."""
        chosen, low, high = self.inputs.step, self.window.start, self.window.end
        return [
            step
            for step in self._steps_on_device
            if chosen in (None, step.number) and window_of(step).end > low and window_of(step).start < high
        ]

    @once
    def since(self) -> int:
        """The end of the step before the chosen one, ns; before all without one."""
        ends = [step.window.end for step in self.inputs.steps if step.window is not None]
        return max((end for end in ends if end <= self.window.start), default=EVERYTHING.start)

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
        return np.array([window_of(step).start for step in self.steps], np.int64)

    @property
    def count(self) -> int:
        """The number of steps, or of what repeats, that a time is divided by to speak of one."""
        if self.rhythm is not None:
            return self.rhythm.count
        return max(len(self.steps), 1) if self.whole_steps else 1

    def per_unit(self, time: float) -> Message:
        """``time`` of all steps (ns) as that of one of them, in words."""
        return message(f"finding.each.{self.unit_name}", time=time / self.count)

    # What happens in the window, on the clock of the device.

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
    def busy(self) -> Span:
        """When the device computes, communicates or copies, in the whole trace."""
        device = self.part.slices
        return NOTHING if device is None else self.span_of(np.flatnonzero(device.busy))

    @once
    def kernels(self) -> I64:
        """The compute slices of the window in order of time."""
        if self.part.slices is None:
            return np.zeros(0, np.int64)
        items = np.flatnonzero(self.part.slices.compute)
        items = items[self.window.holds(self.trace.slices.start[items])]
        return items[np.argsort(self.trace.slices.start[items], kind="stable")]

    @once
    def launches(self) -> Dispatch | None:
        """The launches with a target that starts in the window."""
        every = self.part.launches
        return None if every is None else launches_in(self.trace, every, self.window)

    @once
    def floor(self) -> int:
        """Device clock minus host clock as far as it is known, ns: added to a time of the host it is on the device."""
        # No launch arrives before it was made, so the smallest latency seen bounds the offset of the clocks.
        return self.inputs.floor_of(self.part)

    @property
    def clocks_apart(self) -> int:
        """``floor`` where it is longer than any launch takes, so that the clocks must differ, else 0, ns."""
        return self.floor if abs(self.floor) > COPY_NS else 0

    def on_device(self, span: Span) -> Span:
        """A span of the host on the clock of the device."""
        return span[0] + self.floor, span[1] + self.floor

    # What no request asks for.

    @once
    def waits_for_requests(self) -> list[tuple[int, int, int]]:
        """Waits of the launching threads for a request, but between training steps: start, end (host clock) and slice.

        They last as long as a token, or what else repeats. Those that no frame shows, between steps of an engine, have
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
        waits = _request_waits(self.trace, threads, least)
        if waits or not self.is_serving:
            return waits
        pauses = _request_pauses(*self._passes(), least)
        return [(*pause, -1) for pause in pauses if not self._calls_within(*pause)]

    def _passes(self) -> tuple[I64, I64, Bools]:
        """Start and end of every step of the engine, on the host's clock, and whether a new request begins with it."""
        if self.rhythm is None or self.has_engine_steps:
            called = [step for step in called_steps(self.inputs.steps) if step.item >= 0]
            items = np.array([step.item for step in called], np.int64)
            told = [step.engine.kind if step.engine else None for step in called]
            return self.trace.slices.start[items], self.trace.slices.end[items], _begin_anew(told)
        # In a step known only by its kernels, much more work than usual is a prefill.
        start, busy = self.rhythm.starts, self.busy
        until = np.append(start[1:], busy[1][-1])
        end = busy[1][np.searchsorted(busy[0], until) - 1]
        work = covered_within(*busy, start, until)
        kinds = np.where(work >= PREFILL * np.median(work), "prefill", "decode").tolist()
        # Where frames are recorded none of them waits. Without them a request may come with its keys and values, from
        # another server that did its prefill.
        begins = _begin_anew(kinds) if self._has_frames else np.ones(len(start), np.bool_)
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
        """Idle time of the device in which the host waits for a request, or the profiler works: no one is late then."""
        if self.part.lanes is None:
            return NOTHING
        return common(self.cut(self.part.lanes.free), together(self._without_requests, self.profiling))

    @once
    def profiling(self) -> Span:
        """When the profiler stops the host for work of its own that it records, on the clock of the device."""
        return self.on_device(self.span_of(profiler_work(self.trace)))

    def _asked(self, span: Span) -> Span:
        """``span`` without the time in which the service has no request."""
        return without(span, self.unasked) if len(self.unasked[0]) else span


def window_of(step: Step) -> Window:
    """The window of a step that launched anything."""
    assert step.window is not None
    return step.window
