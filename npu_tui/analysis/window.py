"""The part of a trace that a report is about."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.intervals import clipped

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


class Window(Struct, frozen=True):
    """The time ``[start, end)`` in ns.

    A range cuts slices at its edges. A step owns slices ``whole`` by their start, as torch_npu's step_trace_time.csv
    charges them.
    """

    start: int
    end: int
    whole: bool = False

    def holds(self, time: I64) -> npt.NDArray[np.bool_]:
        """Which of ``time`` lie in the window; (n,)."""
        inside: npt.NDArray[np.bool_] = (time >= self.start) & (time < self.end)
        return inside

    def length(self, start: I64, end: I64) -> int:
        """How much of the disjoint intervals ``[start, end)`` belongs to the window, ns."""
        if self.whole:
            own = self.holds(start)
            return int((end[own] - start[own]).sum())
        low, high = clipped(start, end, self.start, self.end)
        return int((high - low).sum())


EVERYTHING = Window(-(2**62), 2**62, whole=True)
"""The whole trace."""
