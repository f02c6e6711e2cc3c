"""The loops of the replay, those of ``replay.c``, each with its slower twin. Edges and rows are int32, times int64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.native.library import library

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def passing(source: I32, edge: I32, other_source: I32, other_edge: I32, lag: I64) -> I64:
    """When each row of a model is passed: once both its edges allow it, each a ``lag`` after the row it comes from.

    Sources and edges are (n,), sources earlier rows; ``lag`` is (edges,). The first row is the origin.
    """
    compiled = library()
    if compiled is None:
        return slow_passing(source, edge, other_source, other_edge, lag)
    time = np.empty(len(source), np.int64)
    columns = [np.ascontiguousarray(column, np.int32) for column in (source, edge, other_source, other_edge)]
    lag = np.ascontiguousarray(lag, np.int64)
    compiled.passing(*columns, len(source), lag, len(lag), time)
    return time


def slow_passing(source: I32, edge: I32, other_source: I32, other_edge: I32, lag: I64) -> I64:
    """``passing`` without the library."""
    time: list[int] = []
    passed = time.append
    rows = zip(source.tolist(), lag[edge].tolist(), other_source.tolist(), lag[other_edge].tolist(), strict=True)
    next(rows)
    passed(0)
    for row, first, other, second in rows:
        one, two = time[row] + first, time[other] + second
        passed(one if one > two else two)
    return np.array(time, np.int64)


def covered(start: I64, end: I64, low: I64, high: I64, thread: I64, number: int | None = None) -> tuple[I64, I64]:
    """Which of ``[low, high)`` of the thread ``number`` the spans cover in part, and how much of each; (m,) each.

    The spans are disjoint and ascending; without ``number`` all threads count.
    """
    compiled = library()
    if compiled is None:
        return slow_covered(start, end, low, high, thread, number)
    start, end, low, high, thread = (
        np.ascontiguousarray(column, np.int64) for column in (start, end, low, high, thread)
    )
    sums = np.cumsum(end - start) - (end - start)
    place, length = np.empty(len(low), np.int64), np.empty(len(low), np.int64)
    stretches = low, high, thread, -1 if number is None else number, len(low)
    count = compiled.covered(start, end, sums, len(start), *stretches, place, length)
    return place[:count].copy(), length[:count].copy()


def slow_covered(start: I64, end: I64, low: I64, high: I64, thread: I64, number: int | None = None) -> tuple[I64, I64]:
    """``covered`` without the library."""
    stretches = np.arange(len(low)) if number is None else np.flatnonzero(thread == number)
    before = np.append(0, np.cumsum(end - start))
    first, last = np.append(start, 0), np.append(end, 0)  # nothing lies before the first span

    def covered_before(time: I64) -> I64:
        at = np.searchsorted(start, time, "right") - 1
        return np.where(at < 0, 0, before[at] + np.minimum(time, last[at]) - first[at])

    length = covered_before(high[stretches]) - covered_before(low[stretches])
    some = np.flatnonzero(length)
    return stretches[some], length[some]
