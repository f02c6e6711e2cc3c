"""Slices that a wrong clock puts a day or more away from all others: they are shown, but not judged."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.model import Trace
from npu_tui.trace.once import of_trace

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_DAY_NS = 24 * 3600 * 10**9


class Bulk(Struct, frozen=True):
    """The times ``[start, end]`` that nearly all slices lie in, ns; ``far`` slices lie beyond a ``gap`` of ns."""

    start: int
    end: int
    far: int
    gap: int

    def holds(self, start: I64, end: I64) -> Bools:
        """Which of the intervals from ``start`` to ``end`` lie in it; (n,)."""
        inside: Bools = (start >= self.start) & (end <= self.end)
        return inside


@of_trace
def bulk_of(trace: Trace) -> Bulk | None:
    """Where the slices of ``trace`` lie that can be judged; None where no gap of a day or more parts them.

    Of what lies before and after the longest gap the smaller part are the strays, whichever it is.
    """
    slices = trace.slices
    if trace.end < _DAY_NS or len(slices) < 2:
        return None
    derived = np.array([trace.layers[lane.layer].kind == "overlap" for lane in trace.lanes])[slices.lane]
    items = np.flatnonzero(~derived)  # Free bridges every gap
    order = items[np.argsort(slices.start[items], kind="stable")]
    start, end = slices.start[order], np.maximum.accumulate(slices.end[order])
    low, high, longest = 0, len(order), 0
    while high - low > 1:  # strays may lie on both sides, and far from each other
        gaps = start[low + 1 : high] - end[low : high - 1]
        at = int(np.argmax(gaps))
        if gaps[at] < _DAY_NS:
            break
        longest, at = max(longest, int(gaps[at])), low + at + 1
        low, high = (at, high) if at - low <= high - at else (low, at)
    if not longest:
        return None
    bulk = Bulk(int(start[low]), int(slices.end[order[low:high]].max()), 0, longest)
    far = np.count_nonzero(~bulk.holds(slices.start, slices.end))
    return Bulk(bulk.start, bulk.end, int(far), longest)
