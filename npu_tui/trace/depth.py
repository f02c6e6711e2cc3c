"""Rows for overlapping slices: first fit in the order (start, -end, order in the file)."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


def sort_slices(lane: npt.NDArray[np.int32], start: I64, end: I64) -> I64:
    """The order (lane, start, -end, position) of slices as indices; (n,)."""
    if not len(start):
        return np.zeros(0, np.int64)
    low = int(start.min())
    bits = int(start.max() - low).bit_length()
    if bits + int(lane.max()).bit_length() > 62:
        order: I64 = np.lexsort((-end, start, lane))
        return order
    key = (lane.astype(np.int64) << bits) | (start - low)
    order = np.argsort(key, kind="stable")
    key = key[order]
    tied = np.flatnonzero(key[1:] == key[:-1])
    if len(tied):
        runs = np.unique(np.concatenate((tied, tied + 1)))
        within = order[runs]
        order[runs] = within[np.lexsort((-end[within], key[runs]))]
    return order


def first_fit(lane: npt.NDArray[np.int32], start: I64, end: I64) -> npt.NDArray[np.int32]:
    """The row of every slice within its lane: the lowest row whose last slice has ended; (n,) int32.

    The slices are in the order of ``sort_slices``. A slice without duration takes up one nanosecond, so that it never
    shares a place with another one.
    """
    count = len(start)
    depth = np.zeros(count, np.int32)
    if not count:
        return depth
    until = np.maximum(end, start + 1)
    for first, last in zip(*_crowds(lane, start, until), strict=True):
        depth[first:last] = _packed(start[first:last].tolist(), until[first:last].tolist())
    return depth


def _crowds(lane: npt.NDArray[np.int32], start: I64, until: I64) -> tuple[I64, I64]:
    """[first, last) of the runs of two or more slices of one lane that are not separated by an idle instant."""
    count = len(start)
    opens = np.ones(count, np.bool_)
    bounds = np.flatnonzero(np.diff(lane)) + 1
    for first, last in zip([0, *bounds.tolist()], [*bounds.tolist(), count], strict=True):
        reach = np.maximum.accumulate(until[first:last])
        opens[first + 1 : last] = start[first + 1 : last] >= reach[:-1]
    firsts = np.flatnonzero(opens)
    lasts = np.append(firsts[1:], count)
    crowded = lasts - firsts > 1
    return firsts[crowded], lasts[crowded]


def _packed(starts: list[int], ends: list[int]) -> list[int]:
    rows: list[int] = []
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    used = 0
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        if free:
            row = heappop(free)
        else:
            row = used
            used += 1
        heappush(busy, (end, row))
        rows.append(row)
    return rows
