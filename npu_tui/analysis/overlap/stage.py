"""Which stage of the host is slow where the device waits for it: Python, or the CANN calls of the dequeue thread."""

from __future__ import annotations

from typing import Literal

import numpy as np

from npu_tui.analysis.launches.dispatch import Dispatch
from npu_tui.analysis.launches.origin import dequeue_slices
from npu_tui.analysis.overlap.free import FreeSplit
from npu_tui.analysis.window import Window
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.model import Trace

_IDLE_SHARE = 0.5

SlowStage = Literal["python", "cann"]


def dequeue_idle_ratio(trace: Trace, split: FreeSplit, launches: Dispatch, window: Window) -> float | None:
    """Share of the host-late time, moved to the host's clock, in which no Dequeue slice runs.

    None without Dequeue slices, without host-late time, or where several clock floors leave the move open.
    """
    dequeues = dequeue_slices(trace)
    floors = {floor.floor for floor in launches.floors}
    if not len(dequeues) or len(floors) != 1:
        return None
    low = np.where(window.holds(split.start), split.start, split.late_until)
    high = split.late_until
    if not window.whole:
        low = np.clip(split.start, window.start, window.end).astype(np.float64)
        high = np.maximum(np.clip(split.late_until, window.start, window.end), low)
    late = float((high - low).sum())
    if late <= 0:
        return None
    (floor,) = floors
    start, end = trace.slices.start[dequeues], trace.slices.end[dequeues]
    busy = covered_before(start, end, high - floor) - covered_before(start, end, low - floor)
    return 1.0 - float(busy.sum()) / late


def slow_stage(idle_ratio: float | None) -> SlowStage | None:
    """Python where the dequeue thread has nothing to do for half of the host-late time or more, else CANN."""
    if idle_ratio is None:
        return None
    return "python" if idle_ratio >= _IDLE_SHARE else "cann"
