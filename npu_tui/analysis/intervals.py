"""Unions of time intervals in whole nanoseconds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


def union(start: I64, end: I64) -> tuple[I64, I64]:
    """The union of the intervals ``[start, end)`` as disjoint ones in ascending order; intervals that touch merge."""
    lasting = end > start
    start, end = start[lasting], end[lasting]
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.ones(len(start), np.bool_)
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
