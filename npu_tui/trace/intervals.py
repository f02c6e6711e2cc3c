"""Intervals of time as two sorted arrays: unions, intersections, lengths."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from npu_tui.native.spans import count_until, shared, united
from npu_tui.trace.arrays import F64, I64, Bools

Times = TypeVar("Times", I64, F64)

_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def union(start: I64, end: I64) -> tuple[I64, I64]:
    """The union of the intervals ``[start, end)`` as disjoint ones in ascending order; intervals that touch merge."""
    return united(start, end)


def covered(start: I64, end: I64) -> int:
    """Length of the union of ``[start, end)``, ns."""
    first, last = union(start, end)
    return int((last - first).sum())


def clipped(start: I64, end: I64, low: int, high: int) -> tuple[I64, I64]:
    """``[start, end)`` cut to ``[low, high)``; an interval outside becomes an empty one."""
    cut = np.clip(start, low, high)
    return cut, np.maximum(np.minimum(end, high), cut)


def parted(start: I64, end: I64, cuts: I64) -> tuple[I64, I64]:
    """``[start, end)`` cut at the ascending ``cuts`` that lie within, by start."""
    first, last = np.searchsorted(cuts, start, "right"), np.searchsorted(cuts, end, "left")
    pieces = np.maximum(last - first, 0) + 1
    if not len(cuts) or int(pieces.max(initial=1)) == 1:
        return start, end
    head = np.cumsum(pieces) - pieces
    place = np.arange(int(pieces.sum())) - np.repeat(head, pieces)
    low, high = np.repeat(start, pieces), np.repeat(end, pieces)
    cut = np.repeat(first, pieces) + place
    inner = place > 0
    low[inner] = cuts[cut[inner] - 1]
    inner = place < np.repeat(pieces, pieces) - 1
    high[inner] = cuts[cut[inner]]
    order = np.argsort(low, kind="stable")
    return low[order], high[order]


def difference(start: I64, end: I64, cut_start: I64, cut_end: I64) -> tuple[I64, I64]:
    """The union of ``[start, end)`` without that of ``[cut_start, cut_end)``, disjoint and ascending."""
    # What lies outside the cuts is their complement: from the end of each cut to the start of the next.
    cut_start, cut_end = union(cut_start, cut_end)
    return shared(*union(start, end), np.append(_EARLIEST, cut_end), np.append(cut_start, _LATEST))


def covered_before(start: I64, end: I64, time: Times) -> Times:
    """How much of the union of ``[start, end)`` lies before each ``time``; (n,) ns."""
    first, last = union(start, end)
    if not len(first):
        return np.zeros_like(time)
    length = last - first
    at = count_until(first, time) - 1
    early = at < 0
    at[early] = 0
    before = np.minimum(time, last[at])
    # Covered so far = time since the current span began + the lengths of all spans before it. As an example, spans
    # [0, 10) and [20, 30) at time 25: (25 - 20) + 10 = 15.
    before -= (first - (np.cumsum(length) - length))[at]
    before[early] = 0
    return before


def covered_within(start: I64, end: I64, low: I64, high: I64) -> I64:
    """How much of each ``[low, high)`` the union of ``[start, end)`` covers, exact to the ns; (n,)."""
    start, end = union(start, end)
    return covered_before(start, end, high) - covered_before(start, end, low)


def quiet(moments: I64, least: int) -> tuple[I64, I64]:
    """The times of ``least`` ns or more between two neighbours of ``moments``, in any order; ascending, (n,) each.

    Only moments beside an empty stretch of at most half that length are sorted: there are few among millions.
    """
    if not len(moments):
        return moments, moments
    first, half = int(moments.min()), max(least.bit_length() - 2, 0)  # a power of two
    stretch = (moments - first) >> half
    if int(stretch.max()) > moments.nbytes:  # damage may put one years away: a table of stretches would be larger
        edges = np.sort(moments)
        found = np.diff(edges) >= least
        return edges[:-1][found], edges[1:][found]
    full = np.zeros(int(stretch.max()) + 3, np.bool_)  # a stretch more at both ends, that each has neighbours
    full[stretch + 1] = True
    beside = full[1:-1] & ~(full[:-2] & full[2:])
    edges = np.sort(moments[beside[stretch]])
    start, end = edges[:-1], edges[1:]
    # Neighbours that only full stretches part have others between them.
    found = (end - start >= least) & ~full[((start - first) >> half) + 2]
    return start[found], end[found]


def inside(start: I64, end: I64, time: I64) -> Bools:
    """Which times lie in one of the disjoint, ascending ``[start, end)``; (n,)."""
    if not len(start):
        return np.zeros(len(time), np.bool_)
    at = count_until(start, time) - 1
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
    return shared(*union(start, end), *union(other_start, other_end))


def outermost(start: I64, end: I64, items: I64) -> I64:
    """Those of the slices ``items`` that begin once all earlier ones have ended, by start.

    ``start`` and ``end`` are those of all slices.
    """
    items = items[np.lexsort((-end[items], start[items]))]
    begins = np.append(True, start[items[1:]] >= np.maximum.accumulate(end[items])[:-1])
    return np.asarray(items[begins[: len(items)]])
