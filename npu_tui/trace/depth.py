"""Rows for overlapping slices: first fit in the order (start, -end, order in the file)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]

_FOREVER = (1 << 63) - 1
_BLOCK = 1 << 16
"""Slices at a time that are plain numbers, which take up ten times the memory."""


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
    first = _crowd_starts(lane, start, until)
    lonely = first.copy()
    lonely[:-1] &= first[1:]
    crowded = np.flatnonzero(~lonely)
    if len(crowded):
        depth[crowded] = _packed(start[crowded], until[crowded], first[crowded])
    return depth


def _crowd_starts(lane: npt.NDArray[np.int32], start: I64, until: I64) -> npt.NDArray[np.bool_]:
    """Which slices begin when their lane is idle; (n,)."""
    count = len(start)
    opens = np.ones(count, np.bool_)
    bounds = np.flatnonzero(lane[1:] != lane[:-1]) + 1
    for first, last in zip([0, *bounds.tolist()], [*bounds.tolist(), count], strict=True):
        reach = np.maximum.accumulate(until[first:last])
        opens[first + 1 : last] = start[first + 1 : last] >= reach[:-1]
    return opens


def _packed(start: I64, until: I64, first: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """The rows of slices that are never alone; where ``first``, everything before has ended.

    What is open is kept as a stack with the earliest end on top, which nested slices only push to and pop from, and the
    free rows as the bits of a number. A slice that ends before the next one starts is never put on the stack.
    """
    rows = np.empty(len(start), np.int32)
    now = np.where(first, _FOREVER, start)
    following = np.append(now[1:], _FOREVER)
    ends, held, free = [_FOREVER + 1], [0], -1
    for low in range(0, len(start), _BLOCK):
        block = slice(low, low + _BLOCK)
        found: list[int] = []
        for time, end, later in zip(now[block].tolist(), until[block].tolist(), following[block].tolist(), strict=True):
            while ends[-1] <= time:
                ends.pop()
                free |= held.pop()
            row = free & -free
            found.append(row.bit_length())
            if end > later:
                free ^= row
                if end <= ends[-1]:
                    ends.append(end)
                    held.append(row)
                else:
                    at = len(ends) - 1
                    while ends[at - 1] < end:
                        at -= 1
                    ends.insert(at, end)
                    held.insert(at, row)
        rows[block] = found
    rows -= 1
    return rows
