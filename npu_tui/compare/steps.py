"""The steps of a profile as samples: which are compared, and every nanosecond of one in one class.

In the order of claim: computing; communication that computing does not hide, cut where its longest wait for a peer
ends; before the first and after the last of these; what is left is Free, late host, device side or without a link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from msgspec import Struct

from npu_tui.analysis.engine_steps import EngineStep
from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.overlap import FreeSplit, Intervals, OverlapLanes
from npu_tui.analysis.statistics import SEVERAL, longest_usual
from npu_tui.analysis.steps import Step
from npu_tui.trace.arrays import F64, I64
from npu_tui.trace.intervals import covered_within, difference, intersection, union
from npu_tui.trace.model import Trace
from npu_tui.trace.text import decimal_number

Part = Literal[
    "prep", "computing", "wait", "transfer", "exposed", "host_late", "device_side", "unlinked", "tail"
]  # fmt: skip
PARTS: tuple[Part, ...] = get_args(Part)
"""In the order of a step's work; ``exposed`` stands for ``wait`` and ``transfer`` where no wait is recorded."""


class Claims(Struct, frozen=True):
    """Disjoint intervals of one device for each part but ``prep`` and ``tail``, over the whole trace, ascending."""

    computing: Intervals
    wait: Intervals | None
    exposed: Intervals
    host_late: Intervals
    device_side: Intervals


def claims(lanes: OverlapLanes, split: FreeSplit | None, waits: Intervals | None) -> Claims:
    """``waits`` is from the start of each collective to the end of its longest wait, None where none is recorded."""
    computing = union(*lanes.computing)
    exposed = difference(*lanes.communication, *computing)
    wait = None if waits is None else intersection(*exposed, *waits)
    none = np.zeros(0, np.int64)
    late, side = (none, none), (none, none)
    if split is not None:
        late = split.start[split.linked], np.rint(split.late_until[split.linked]).astype(np.int64)
        side = split.start[split.linked], split.end[split.linked]
    busy = union(np.concatenate((computing[0], exposed[0])), np.concatenate((computing[1], exposed[1])))
    late = difference(*late, *busy)
    return Claims(computing, wait, exposed, late, difference(*difference(*side, *busy), *late))


def partitions(claims: Claims, low: I64, high: I64) -> dict[Part, I64]:
    """How long each part lasts within each window ``[low, high)``, ns, (n,); they sum to ``high - low`` exactly.

    ``exposed`` is left out where the waits are known, ``wait`` and ``transfer`` where they are not. A window in which
    nothing ran on the device is all ``prep``.
    """
    first, last = _reach((claims.computing, claims.exposed), low, high)
    exposed = covered_within(*claims.exposed, low, high)
    parts: dict[Part, I64] = {"prep": first - low, "computing": covered_within(*claims.computing, low, high)}
    if claims.wait is None:
        parts["exposed"] = exposed
    else:
        parts["wait"] = covered_within(*claims.wait, low, high)
        parts["transfer"] = exposed - parts["wait"]
    # Free may begin before the first or go on after the last work of the window.
    parts["host_late"] = covered_within(*claims.host_late, first, last)
    parts["device_side"] = covered_within(*claims.device_side, first, last)
    parts["tail"] = high - last
    parts["unlinked"] = (high - low) - sum(parts.values())
    return {name: parts[name] for name in PARTS if name in parts}


def _reach(kinds: tuple[Intervals, ...], low: I64, high: I64) -> tuple[I64, I64]:
    """Start of the first and end of the last interval within each window; its end twice without any."""
    first, last = high.copy(), low.copy()
    for start, end in kinds:
        begin, stop = np.searchsorted(end, low, "right"), np.searchsorted(start, high, "left")
        some = np.flatnonzero(begin < stop)
        first[some] = np.minimum(first[some], np.maximum(low[some], start[begin[some]]))
        last[some] = np.maximum(last[some], np.minimum(high[some], end[stop[some] - 1]))
    none = first >= last
    first[none] = last[none] = high[none]
    return first, last


Work = tuple[str, int | None]
Works = Counter[Work]
"""How many steps there are of each kind and bucket of tokens."""

LeftOut = Literal["first", "outlier", "unlike"]


class StepWindow(Struct, frozen=True):
    """The wall time of one step, ns: from its start on the host, or the end of the step before, to its end.

    A step ends when both its slice and its work on the device have ended, so that the windows of steps never share a
    nanosecond. ``name`` is None for a trace without steps. Engine steps with the same ``work``, kind and bucket of
    tokens, do alike: a prefill is no slow decode.
    """

    name: str | None
    number: int | None
    start: int
    end: int
    host_start: int
    work: Work | None = None

    @property
    def wall(self) -> int:
        """The length of the window, ns."""
        return self.end - self.start


class Sample(Struct, frozen=True):
    """The windows that are compared, and those that are not."""

    compared: list[StepWindow]
    left_out: list[tuple[StepWindow, LeftOut]]

    @property
    def medoid(self) -> StepWindow:
        """The step that is nearest to the median: the one to draw."""
        walls = np.array([window.wall for window in self.compared])
        return self.compared[int(np.argmin(np.abs(walls - np.median(walls))))]


def step_windows(trace: Trace, steps: list[Step], engine: Sequence[EngineStep] = ()) -> list[StepWindow]:
    """The wall time of every step of ``steps``; without steps that of the whole trace.

    Steps of an ``engine`` say what work they do; without slices of their own they are windows of the device.
    """
    replays = any(step.replayed for step in engine)

    def work_of(step: EngineStep) -> Work:
        # Beside graphs an eager step of unknown kind may be a prefill.
        return "eager" if replays and step.kind == "unknown" and not step.replayed else step.kind, step.call.bucket

    works = {step.item: work_of(step) for step in engine}
    if -1 in works:
        return [
            StepWindow(f"step {step.number}", step.number, window.start, window.end, window.start, work_of(step))
            for step in engine
            if (window := step.window) is not None
        ]
    windows: list[StepWindow] = []
    reached = -(2**62)
    recorded = sorted((step for step in steps if step.item >= 0), key=lambda step: trace.slices.start[step.item])
    for step in recorded:
        begin, end = int(trace.slices.start[step.item]), int(trace.slices.end[step.item])
        if step.window is not None:
            end = max(end, step.window.end)
        work = works.get(step.item)
        windows.append(StepWindow(step.name, step.number, max(begin, reached), max(end, begin, reached), begin, work))
        reached = windows[-1].end
    return windows or [StepWindow(None, None, 0, trace.end, 0)]


def table_windows(kernels: KernelTable) -> list[StepWindow]:
    """The steps of ``kernels`` without a trace, from first kernel to first kernel; one of all where none are known."""
    end = int((kernels.start + kernels.duration).max(initial=0)) + 1
    numbers = kernels.details.get("step")
    if numbers is None or not numbers.is_known:
        return [StepWindow(None, None, 0, end, 0)]
    known = np.flatnonzero(numbers.code >= 0)
    code, first = np.unique(numbers.code[known], return_index=True)
    begins = sorted(
        (int(kernels.start[known[at]]), numbers.values[step])
        for step, at in zip(code.tolist(), first.tolist(), strict=True)
    )
    ends = [begin for begin, _ in begins[1:]] + [end]
    return [
        StepWindow(f"ProfilerStep#{text}", decimal_number(text), begin, until, begin)
        for (begin, text), until in zip(begins, ends, strict=True)
    ]


def sample(windows: list[StepWindow], everything: bool = False, outliers: bool = False) -> Sample:
    """The steps that represent the profile: not the first, and none far above the median unless ``outliers`` count.

    The median is that of steps with the same ``work``.
    With ``everything`` none is left out, as where the user named the steps.
    """
    if everything or len(windows) == 1:
        return Sample(windows, [])
    later = windows[1:]
    left: list[tuple[StepWindow, LeftOut]] = [(windows[0], "first")]
    if outliers:
        return Sample(later, left)
    most = {
        work: longest_usual(np.array([window.wall for window in later if window.work == work], np.float64))
        for work in {window.work for window in later}
    }
    left += [(window, "outlier") for window in later if window.wall > most[window.work]]
    return Sample([window for window in later if window.wall <= most[window.work]], left)


def shared_work(base: Sample, new: Sample) -> Works | None:
    """How many steps of each ``work`` both sides have; None unless all are steps of an engine that share some."""
    sides = [[window.work for window in side.compared] for side in (base, new)]
    counts = [Counter(work for work in side if work is not None) for side in sides]
    shared = counts[0] & counts[1]
    known = all(count.total() == len(side) for count, side in zip(counts, sides, strict=True))
    return shared if known and shared else None


def alike(steps: Sample, shared: Works) -> Sample:
    """The first steps of each ``work``, as many as ``shared`` says: both sides then do the same."""
    left = shared.copy()
    compared, unlike = [], []
    for window in steps.compared:
        if window.work is not None and left[window.work] > 0:
            left[window.work] -= 1
            compared.append(window)
        else:
            unlike.append(window)
    return Sample(compared, [*steps.left_out, *((window, "unlike") for window in unlike)])


def one_in_several(base: Sample, new: Sample, tolerance: float) -> bool:
    """Whether long steps that come again and again are what differs: leaving them out would hide it.

    One side has several more of them, and with them its steps take longer by more than ``tolerance`` of the base.
    """
    counts, excess = zip(*(_long_steps(side) for side in (base, new)), strict=True)
    usual = float(np.mean([window.wall for window in base.compared]))
    return bool(abs(counts[1] - counts[0]) >= SEVERAL and abs(excess[1] - excess[0]) > tolerance * usual)


def _long_steps(steps: Sample) -> tuple[int, float]:
    """How many steps are left out as too long, and what they add to the mean step, ns."""
    walls = [window.wall for window, why in steps.left_out if why == "outlier"]
    usual = float(np.mean([window.wall for window in steps.compared]))
    return len(walls), sum(wall - usual for wall in walls) / (len(walls) + len(steps.compared))


def without_kinds(base: Sample, new: Sample, times: tuple[F64, F64]) -> tuple[F64, F64]:
    """``times`` of the compared steps of both sides, each less what its ``work`` takes above the mean of all.

    Where both sides have as many steps of each ``work``, the means stay, and what differs between kinds is no noise.
    """
    works = [window.work for side in (base, new) for window in side.compared]
    together = np.concatenate(times)
    level = np.zeros(len(together))
    for work in set(works):
        of = np.array([other == work for other in works])
        level[of] = together[of].mean()
    even = together - level + together.mean()
    return even[: len(times[0])], even[len(times[0]) :]
