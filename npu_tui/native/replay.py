"""The loop of the replay, that of ``replay.c``, and its slower twin. Edges and rows are int32, times int64."""

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


def walking(
    source: I32, edge: I32, other_source: I32, other_edge: I32, lag: I64, time: I64, last: int, until: int
) -> tuple[I32, I32]:
    """What let row ``last`` pass, back to the first row passed at ``until`` (ns) or before: rows and edges, (n,) each.

    ``time`` is when each row is passed. Of two edges that let a row pass at once the first counts.
    """
    compiled = library()
    if compiled is None:
        return slow_walking(source, edge, other_source, other_edge, lag, time, last, until)
    rows, edges = np.empty((2, len(source)), np.int32)
    columns = [np.ascontiguousarray(column, np.int32) for column in (source, edge, other_source, other_edge)]
    lag = np.ascontiguousarray(lag, np.int64)
    count = compiled.walking(*columns, len(source), lag, len(lag), time, last, until, rows, edges)
    return rows[:count].copy(), edges[:count].copy()


def slow_walking(
    source: I32, edge: I32, other_source: I32, other_edge: I32, lag: I64, time: I64, last: int, until: int
) -> tuple[I32, I32]:
    """``walking`` without the library."""
    rows: list[int] = []
    edges: list[int] = []
    row = last
    while row > 0 and time[row] > until:
        first = time[source[row]] + lag[edge[row]] >= time[other_source[row]] + lag[other_edge[row]]
        passed_by = int(edge[row] if first else other_edge[row])
        if passed_by != len(lag) - 1:
            rows.append(row)
            edges.append(passed_by)
        row = int(source[row] if first else other_source[row])
    return np.array(rows, np.int32), np.array(edges, np.int32)
