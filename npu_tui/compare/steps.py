"""The steps of a profile as samples: which are compared, which are left out and why."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.steps import Step
from npu_tui.compare.kineto import step_ends
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

LeftOut = Literal["first", "outlier"]

_OUTLIER = 5.0
_SEVERAL = 2
_LEAST_SPREAD = 0.01
"""Share of the median that counts as spread where the steps agree better than that."""


class StepWindow(Struct, frozen=True):
    """The wall time of one step, ns: from its start on the host, or the end of the step before, to its end.

    A step ends when both its slice and its work on the device have ended, so that the windows of steps never share a
    nanosecond. ``name`` is None for a trace without steps.
    """

    name: str | None
    number: int | None
    start: int
    end: int
    host_start: int

    @property
    def wall(self) -> int:
        """Its length, ns."""
        return self.end - self.start


class Sample(Struct, frozen=True):
    """The windows that are compared, and those that are not."""

    compared: list[StepWindow]
    left_out: list[tuple[StepWindow, LeftOut]]

    @property
    def medoid(self) -> StepWindow:
        """The step that is nearest to the median: the one to draw."""
        walls = np.array([each.wall for each in self.compared])
        return self.compared[int(np.argmin(np.abs(walls - np.median(walls))))]


def step_windows(trace: Trace, steps: list[Step]) -> list[StepWindow]:
    """The wall time of every step of ``steps``; without steps that of the whole trace."""
    found: list[StepWindow] = []
    reached = -(2**62)
    own = sorted((each for each in steps if each.item >= 0), key=lambda each: trace.slices.start[each.item])
    foreign = all(each.window is None for each in own)
    ends = (
        step_ends(trace, [each.item for each in own]) if foreign else [int(trace.slices.end[each.item]) for each in own]
    )
    for step, end in zip(own, ends, strict=True):
        begin = int(trace.slices.start[step.item])
        if step.window is not None:
            end = max(end, step.window.end)
        found.append(StepWindow(step.name, step.number, max(begin, reached), max(end, begin, reached), begin))
        reached = found[-1].end
    return found or [StepWindow(None, None, 0, trace.end, 0)]


def sample(windows: list[StepWindow], everything: bool = False, outliers: bool = False) -> Sample:
    """The steps that stand for the profile: not the first, and none far above the median but with ``outliers``.

    With ``everything`` none is left out, as where the user named the steps.
    """
    if everything or len(windows) == 1:
        return Sample(windows, [])
    kept = windows[1:]
    walls = np.array([each.wall for each in kept])
    left: list[tuple[StepWindow, LeftOut]] = [(windows[0], "first")]
    if outliers:
        return Sample(kept, left)
    centre = float(np.median(walls))
    spread = max(float(np.median(np.abs(walls - centre))), _LEAST_SPREAD * centre)
    left += [(each, "outlier") for each in kept if each.wall > centre + _OUTLIER * spread]
    return Sample([each for each in kept if each.wall <= centre + _OUTLIER * spread], left)


def one_in_several(base: Sample, new: Sample, tolerance: float) -> bool:
    """Whether long steps that come again and again are what differs: leaving them out would hide it.

    One side has several more of them, and with them its steps take longer by more than ``tolerance`` of the base.
    """
    counts, excess = zip(*(_long_steps(each) for each in (base, new)), strict=True)
    usual = float(np.mean([each.wall for each in base.compared]))
    return bool(abs(counts[1] - counts[0]) >= _SEVERAL and abs(excess[1] - excess[0]) > tolerance * usual)


def _long_steps(own: Sample) -> tuple[int, float]:
    """How many steps are left out as too long, and what they add to the mean step, ns."""
    walls = [each.wall for each, why in own.left_out if why == "outlier"]
    usual = float(np.mean([each.wall for each in own.compared]))
    return len(walls), sum(wall - usual for wall in walls) / (len(walls) + len(own.compared))


def within(time: I64, begins: I64, ends: I64) -> npt.NDArray[np.bool_]:
    """Which times lie in one of the windows ``[begin, end)``, both ascending; (n,)."""
    at = np.searchsorted(begins, time, "right") - 1
    found: npt.NDArray[np.bool_] = (at >= 0) & (time < ends[np.maximum(at, 0)])
    return found
