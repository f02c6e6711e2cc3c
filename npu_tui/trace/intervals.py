"""Intervals of time as two sorted arrays: unions, intersections, lengths."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.trace.arrays import F64, I64, Bools

_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def union(start: I64, end: I64) -> tuple[I64, I64]:
    """The union of the intervals ``[start, end)`` as disjoint ones in ascending order; intervals that touch merge."""
    lasting = end > start
    if not lasting.all():
        start, end = start[lasting], end[lasting]
    # Slices of one row are disjoint and ascending already, which a look at the neighbours shows.
    if not len(start) or bool((start[1:] > end[:-1]).all()):
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.ones(len(start), np.bool_)
    # A span opens where an interval starts after everything before it has ended; touching ones (==) merge.
    opens[1:] = start[1:] > reach[:-1]
    firsts = np.flatnonzero(opens)
    return start[firsts], reach[np.append(firsts[1:] - 1, len(start) - 1)]


def covered(start: I64, end: I64) -> int:
    """Length of the union of ``[start, end)``, ns."""
    first, last = union(start, end)
    return int((last - first).sum())


def clipped(start: I64, end: I64, low: int, high: int) -> tuple[I64, I64]:
    """``[start, end)`` cut to ``[low, high)``; an interval outside becomes an empty one."""
    cut = np.clip(start, low, high)
    return cut, np.maximum(np.clip(end, low, high), cut)


def difference(start: I64, end: I64, cut_start: I64, cut_end: I64) -> tuple[I64, I64]:
    """The union of ``[start, end)`` without that of ``[cut_start, cut_end)``, disjoint and ascending."""
    # What lies outside the cuts is their complement: from the end of each cut to the start of the next.
    cut_start, cut_end = union(cut_start, cut_end)
    return _shared(*union(start, end), np.append(_EARLIEST, cut_end), np.append(cut_start, _LATEST))


def covered_before(start: I64, end: I64, time: F64) -> npt.NDArray[np.float64]:
    """How much of the union of ``[start, end)`` lies before each ``time``; (n,) float64 ns."""
    first, last = union(start, end)
    if not len(first):
        return np.zeros(len(time))
    length = last - first
    at = np.searchsorted(first, time, "right") - 1
    early = at < 0
    at[early] = 0
    before: F64 = np.minimum(time, last[at])
    # Covered so far = time since the current span began + the lengths of all spans before it. As an example, spans
    # [0, 10) and [20, 30) at time 25: (25 - 20) + 10 = 15.
    before -= (first - (np.cumsum(length) - length))[at]
    before[early] = 0.0
    return before


def covered_within(start: I64, end: I64, low: I64, high: I64) -> I64:
    """How much of each ``[low, high)`` the union of ``[start, end)`` covers, exact to the ns; (n,)."""
    if not len(start):
        return np.zeros(len(low), np.int64)
    since = start.min()  # ns since 1970 are too many for a float
    start, end = start - since, end - since
    before_high, before_low = (covered_before(start, end, (time - since).astype(np.float64)) for time in (high, low))
    return (before_high - before_low).astype(np.int64)


def inside(start: I64, end: I64, time: I64) -> Bools:
    """Which times lie in one of the disjoint, ascending ``[start, end)``; (n,)."""
    if not len(start):
        return np.zeros(len(time), np.bool_)
    at = np.searchsorted(start, time, "right") - 1
    lies: Bools = (at >= 0) & (time < end[np.maximum(at, 0)])
    return lies


def touches(start: I64 | F64, end: I64 | F64, low: F64, high: F64) -> Bools:
    """Whether any of ``[start, end)`` shares time with each ``[low, high)``; (n,)."""
    if not len(start):
        return np.zeros(len(low), np.bool_)
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(end[order])
    last = np.searchsorted(start[order], high, "left") - 1
    touching: Bools = (last >= 0) & (reach[np.maximum(last, 0)] > low)
    return touching


def intersection(start: I64, end: I64, other_start: I64, other_end: I64) -> tuple[I64, I64]:
    """What the unions of ``[start, end)`` and ``[other_start, other_end)`` share, disjoint and ascending."""
    return _shared(*union(start, end), *union(other_start, other_end))


def _shared(start: I64, end: I64, other_start: I64, other_end: I64) -> tuple[I64, I64]:
    """What two lists of intervals share, each disjoint and ascending: one interval per pair that overlaps."""
    first = np.searchsorted(other_end, start, "right")
    count = np.searchsorted(other_start, end, "left") - first
    other = np.repeat(first - (np.cumsum(count) - count), count)
    other += np.arange(len(other))
    low, high = other_start[other], other_end[other]
    return np.maximum(np.repeat(start, count), low, out=low), np.minimum(np.repeat(end, count), high, out=high)


def outermost(start: I64, end: I64, items: I64) -> I64:
    """Those of the slices ``items`` that begin once all earlier ones have ended, by start.

    ``start`` and ``end`` are those of all slices.
    """
    items = items[np.lexsort((-end[items], start[items]))]
    begins = np.append(True, start[items[1:]] >= np.maximum.accumulate(end[items])[:-1])
    return np.asarray(items[begins[: len(items)]])
