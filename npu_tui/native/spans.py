"""Spans ``[start, end)`` and places among ascending times: the loops of ``spans.c``, each with its slower twin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.native.library import library

I64 = npt.NDArray[np.int64]

_FEW = 16
"""A list this many times as long as the other is searched, not gone through."""


def count_until(known: I64, time: I64 | npt.NDArray[np.float64]) -> I64:
    """How many of the ascending ``known`` lie at or before each ``time``; (n,). Quick where ``time`` nearly ascends."""
    compiled = library()
    if compiled is None or known.dtype != np.int64 or time.dtype != np.int64:
        return np.searchsorted(known, time, "right")
    found = np.empty(len(time), np.int64)
    compiled.count_until(np.ascontiguousarray(known), len(known), np.ascontiguousarray(time), len(time), found)
    return found


def united(start: I64, end: I64) -> tuple[I64, I64]:
    """The union of spans as disjoint ones in ascending order; those that touch become one."""
    compiled = library()
    if compiled is None:
        return slow_united(start, end)
    start, end = np.ascontiguousarray(start, np.int64), np.ascontiguousarray(end, np.int64)
    low, high = np.empty((2, len(start)), np.int64)
    made = compiled.united(start, end, len(start), low, high)
    if made < 0:
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        made = compiled.united(start, end, len(start), low, high)
    return (start, end) if made == len(start) else (low[:made].copy(), high[:made].copy())


def slow_united(start: I64, end: I64) -> tuple[I64, I64]:
    """``united`` without the library."""
    lasting = end > start
    if not lasting.all():
        start, end = start[lasting], end[lasting]
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.ones(len(start), np.bool_)
    # A span opens where an interval starts after everything before it has ended; touching ones (==) merge.
    opens[1:] = start[1:] > reach[:-1]
    firsts = np.flatnonzero(opens)
    return start[firsts], reach[np.append(firsts[1:] - 1, len(start) - 1)]


def shared(start: I64, end: I64, other_start: I64, other_end: I64) -> tuple[I64, I64]:
    """What two lists of spans, each disjoint and ascending, share: one span for each pair that overlaps."""
    compiled = library()
    if len(start) > len(other_start):
        start, end, other_start, other_end = other_start, other_end, start, end
    if compiled is None or len(start) * _FEW < len(other_start):
        return slow_shared(start, end, other_start, other_end)
    lists = [np.ascontiguousarray(times, np.int64) for times in (start, end, other_start, other_end)]
    low, high = np.empty((2, len(start) + len(other_start)), np.int64)
    made = compiled.shared(*lists[:2], len(start), *lists[2:], len(other_start), low, high)
    return low[:made].copy(), high[:made].copy()


def slow_shared(start: I64, end: I64, other_start: I64, other_end: I64) -> tuple[I64, I64]:
    """``shared`` without the library."""
    first = np.searchsorted(other_end, start, "right")
    count = np.searchsorted(other_start, end, "left") - first
    other = np.repeat(first - (np.cumsum(count) - count), count)
    other += np.arange(len(other))
    low, high = other_start[other], other_end[other]
    return np.maximum(np.repeat(start, count), low, out=low), np.minimum(np.repeat(end, count), high, out=high)


def covered(start: I64, end: I64, low: I64, high: I64) -> tuple[I64, I64]:
    """Which of ``[low, high)`` the spans, disjoint and ascending, cover in part, and how much of each; (m,) each."""
    compiled = library()
    if compiled is None:
        return slow_covered(start, end, low, high)
    start, end, low, high = (np.ascontiguousarray(column, np.int64) for column in (start, end, low, high))
    sums = np.cumsum(end - start) - (end - start)
    place, length = np.empty(len(low), np.int64), np.empty(len(low), np.int64)
    count = compiled.covered(start, end, sums, len(start), low, high, len(low), place, length)
    return place[:count].copy(), length[:count].copy()


def slow_covered(start: I64, end: I64, low: I64, high: I64) -> tuple[I64, I64]:
    """``covered`` without the library."""
    before = np.append(0, np.cumsum(end - start))
    first, last = np.append(start, 0), np.append(end, 0)  # nothing lies before the first span

    def covered_before(time: I64) -> I64:
        at = np.searchsorted(start, time, "right") - 1
        return np.where(at < 0, 0, before[at] + np.minimum(time, last[at]) - first[at])

    length = covered_before(high) - covered_before(low)
    some = np.flatnonzero(length)
    return some, length[some]
