"""Rows for overlapping slices: first fit in the order (start, -end, order in the file)."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt
from msgspec import Struct

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_FOREVER = (1 << 63) - 1
_FEW = 1 << 16
_BLOCK = 1 << 16
"""Slices at a time that are plain numbers, which take up ten times the memory."""


def sort_slices(lane: I32, start: I64, end: I64) -> I64:
    """The order (lane, start, -end, position) of slices as indices; (n,)."""
    if not len(start):
        return np.zeros(0, np.int64)
    low = int(start.min())
    bits = int(start.max() - low).bit_length()
    if bits + int(lane.max()).bit_length() > 62:
        order: I64 = np.lexsort((-end, start, lane))
        return order
    key = (lane.astype(np.int64) << bits) | (start - low)
    if int(lane.max()) < _FEW:  # numbers of 16 bits are sorted digit by digit, and most lanes are in order already
        order = np.argsort(lane.astype(np.uint16), kind="stable")
        key = np.take(key, order)
        if (key[1:] < key[:-1]).any():
            again = np.argsort(key, kind="stable")
            order, key = np.take(order, again), np.take(key, again)
    else:
        order = np.argsort(key, kind="stable")
        key = np.take(key, order)
    same = np.zeros(len(key) + 1, np.bool_)
    np.equal(key[1:], key[:-1], out=same[1:-1])
    runs = np.flatnonzero(same[1:] | same[:-1])
    if len(runs):
        within = order[runs]
        order[runs] = within[np.lexsort((-end[within], key[runs]))]
    return order


class Crowds(Struct, frozen=True):
    """The slices, of ``count``, that overlap others of their lane, in the order of ``sort_slices``.

    ``where`` is the index of each, ``start`` and ``until`` its times (ns), ``first`` whether all before it have ended;
    (m,) each. A crowd that begins with a ``first`` has nothing to do with those before it.
    """

    count: int
    where: I64
    start: I64
    until: I64
    first: npt.NDArray[np.bool_]

    def depth(self, rows: I32) -> I32:
        """The row of every slice, given those of the crowds: any other one is alone in row 0; (count,) int32."""
        depth = np.zeros(self.count, np.int32)
        depth[self.where] = rows
        return depth


def crowds(lane: I32, start: I64, end: I64) -> Crowds:
    """What overlaps among slices in the order of ``sort_slices``.

    A slice without duration takes up one nanosecond, so that it never shares a place with another one.
    """
    count = len(start)
    until = np.maximum(end, start + 1)
    first = _crowd_starts(lane, start, until)
    lonely = first.copy()
    lonely[:-1] &= first[1:]
    where = np.flatnonzero(~lonely)
    return Crowds(count, where, start[where], until[where], first[where])


def first_fit(lane: I32, start: I64, end: I64) -> I32:
    """The row of every slice within its lane: the lowest row whose last slice has ended; (n,) int32.

    The slices are in the order of ``sort_slices``.
    """
    found = crowds(lane, start, end)
    return found.depth(packed(found.start, found.until, found.first))


def _crowd_starts(lane: I32, start: I64, until: I64) -> npt.NDArray[np.bool_]:
    """Which slices begin when their lane is idle; (n,)."""
    count = len(start)
    opens = np.ones(count, np.bool_)
    bounds = np.flatnonzero(lane[1:] != lane[:-1]) + 1
    for first, last in zip([0, *bounds.tolist()], [*bounds.tolist(), count], strict=True):
        reach = np.maximum.accumulate(until[first:last])
        opens[first + 1 : last] = start[first + 1 : last] >= reach[:-1]
    return opens


def packed(start: I64, until: I64, first: npt.NDArray[np.bool_]) -> I32:
    """The rows of slices in ``Crowds``; (m,) int32.

    What is open is kept as a stack with the earliest end on top, which nested slices only push to and pop from; a slice
    that ends after the top waits in a heap instead. Rows from ``unused`` on are free, and so are those in the heap
    ``free``. A slice that ends before the next one starts takes no row from the others.
    """
    rows = np.empty(len(start), np.int32)
    now = np.where(first, _FOREVER, start)
    following = np.append(now[1:], _FOREVER)
    ends, held = [_FOREVER + 1], [0]
    crossing: list[tuple[int, int]] = [(_FOREVER + 1, 0)]
    free: list[int] = []
    unused = 0
    for low in range(0, len(start), _BLOCK):
        block = slice(low, low + _BLOCK)
        found: list[int] = []
        for time, end, later in zip(now[block].tolist(), until[block].tolist(), following[block].tolist(), strict=True):
            while ends[-1] <= time:
                ends.pop()
                row = held.pop()
                if row == unused - 1:
                    unused = row
                else:
                    heappush(free, row)
            while crossing[0][0] <= time:
                heappush(free, heappop(crossing)[1])
            row = free[0] if free else unused
            found.append(row)
            if end > later:
                if free:
                    heappop(free)
                else:
                    unused += 1
                if end <= ends[-1]:
                    ends.append(end)
                    held.append(row)
                else:
                    heappush(crossing, (end, row))
        rows[block] = found
    return rows
