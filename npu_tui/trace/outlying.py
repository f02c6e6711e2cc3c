"""Slices that a wrong clock puts far away from all others: they are shown, but not judged."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.model import Trace
from npu_tui.trace.once import of_trace

_HOUR_NS = 3600 * 10**9
_DAY_NS = 24 * _HOUR_NS
_LONGER = 100
"""A gap of less than a day, such as the hours of a time zone, is that many times as long as what lies on both sides."""
_FEW = 0.1  # such a gap parts less than this share of the slices from the others


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
    """Where the slices of ``trace`` lie that can be judged; None where no gap parts them.

    A gap is of a day or more, or of an hour or more and far longer than the trace is otherwise.
    Of what lies before and after the longest gap the smaller part are the strays, whichever it is. A slice that lasts
    for days where all others begin at once is one as well: its end is of another clock.
    """
    slices = trace.slices
    if trace.end < _HOUR_NS or len(slices) < 2:
        return None
    derived = np.array([trace.layers[lane.layer].kind == "overlap" for lane in trace.lanes])[slices.lane]
    items = np.flatnonzero(~derived)  # Free bridges every gap
    begun = int(np.ptp(slices.start[items])) if len(items) else 0
    endless = slices.end[items] - slices.start[items] >= max(_DAY_NS, _LONGER * begun)
    reached, items = int(slices.end[items].max(initial=0)), items[~endless]
    if not len(items):
        return None
    order = items[np.argsort(slices.start[items], kind="stable")]
    start, end = slices.start[order], np.maximum.accumulate(slices.end[order])
    low, high, longest = 0, len(order), reached - int(end[-1])
    while high - low > 1:  # strays may lie on both sides, and far from each other
        gaps = start[low + 1 : high] - end[low : high - 1]
        at = int(np.argmax(gaps))
        rest, fewer = int(end[high - 1] - start[low] - gaps[at]), min(at + 1, high - low - at - 1)
        few = fewer < _FEW * (high - low)  # else host and device have clocks of their own
        if gaps[at] < (min(_DAY_NS, max(_HOUR_NS, _LONGER * rest)) if few else _DAY_NS):
            break
        longest, at = max(longest, int(gaps[at])), low + at + 1
        low, high = (at, high) if at - low <= high - at else (low, at)
    if not longest:
        return None
    bulk = Bulk(int(start[low]), int(slices.end[order[low:high]].max()), 0, longest)
    far = np.count_nonzero(~bulk.holds(slices.start, slices.end))
    return Bulk(bulk.start, bulk.end, int(far), longest)
