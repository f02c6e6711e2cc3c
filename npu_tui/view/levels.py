"""Levels of detail: what is drawn of a row of millions of slices."""

from __future__ import annotations

from itertools import count
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from npu_tui.trace.intervals import union
from npu_tui.trace.model import Rows, Trace
from npu_tui.view.raster import Packed
from npu_tui.view.viewport import spread

I64 = npt.NDArray[np.int64]

_SHIFT = 4
_DIRECT = 32
_FEW = 64
_BUILD = 1 << 20


class Levels:
    """Longest-slice queries over the positions of one ``Rows``.

    Durations are compared to the nanosecond while the bits of the longest duration and of the number of positions
    fit 63 bits together (9 minutes at 10 M slices); beyond, the lowest bits of the durations are left out.
    """

    __slots__ = ("_begins", "_bits", "_drop", "_keys", "_marks", "_rows", "_upper")

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._bits = len(rows.item).bit_length()
        longest = int((rows.end - rows.start).max(initial=0))
        self._drop = max(longest.bit_length() + self._bits - 63, 0)
        self._upper: list[I64] = [self._first_level()]
        while len(self._upper[-1]) > _DIRECT:
            below = self._upper[-1]
            self._upper.append(np.maximum.reduceat(below, np.arange(0, len(below), 1 << _SHIFT)))
        self._begins = np.cumsum([0, *(len(level) for level in self._upper[:-1])])
        self._marks = rows.start[::64].copy()
        self._keys = np.concatenate(self._upper)
        self._upper = np.split(self._keys, self._begins[1:])

    def packed(self) -> Packed:
        """``Packed`` for a compiled library."""
        return (self._keys, self._begins, self._marks), self._bits, self._drop

    def longest(self, first: I64, last: I64) -> I64:
        """The position of the longest slice in each ``[first[k], last[k])`` (earlier on ties); no range is empty."""
        best = np.zeros(len(first), np.int64)  # less than any key
        direct = last - first <= _DIRECT
        self._raise_to(best, np.flatnonzero(direct), 0, first[direct], last[direct])
        # Whole blocks around a longer range are a few keys; it is rare that their winner lies outside of the range.
        active = np.flatnonzero(~direct)
        for level in count(1):
            if not len(active):
                break
            low, high = first[active] >> _SHIFT * level, (last[active] - 1 >> _SHIFT * level) + 1
            few = (high - low <= _FEW) | (level == len(self._upper))
            self._raise_to(best, active[few], level, low[few], high[few])
            active = active[~few]
        mask = (1 << self._bits) - 1
        found = mask - (best & mask)
        outside = np.flatnonzero((found < first) | (found >= last))
        if len(outside):
            found[outside] = self._exactly(first[outside], last[outside])
        return found

    def _exactly(self, first: I64, last: I64) -> I64:
        """``longest`` where whole blocks do not tell: what they leave at both ends is looked at by itself."""
        best = np.zeros(len(first), np.int64)  # less than any key
        active, low, high = np.arange(len(first)), first, last
        for level in count():
            direct = high - low <= _DIRECT
            self._raise_to(best, active[direct], level, low[direct], high[direct])
            rest = ~direct
            if not rest.any():
                break
            active, low, high = active[rest], low[rest], high[rest]
            inner_low, inner_high = -(-low >> _SHIFT), high >> _SHIFT
            self._raise_to(best, active, level, low, inner_low << _SHIFT)
            self._raise_to(best, active, level, inner_high << _SHIFT, high)
            low, high = inner_low, inner_high
        mask = (1 << self._bits) - 1
        return mask - (best & mask)

    def _raise_to(self, best: I64, which: I64, level: int, low: I64, high: I64) -> None:
        """Raise ``best[which]`` to the largest key of ``[low, high)`` on ``level``; empty ranges change nothing."""
        length = high - low
        some = length > 0
        if not some.all():
            which, low, length = which[some], low[some], length[some]
        if not len(which):
            return
        index = spread(low, length)
        keys = self._keys_of(index) if level == 0 else self._upper[level - 1][index]
        starts = np.cumsum(length) - length
        best[which] = np.maximum(best[which], np.maximum.reduceat(keys, starts))

    def _keys_of(self, position: I64) -> I64:
        duration = self._rows.end[position] - self._rows.start[position]
        return self._pack(duration, position)

    def _pack(self, duration: I64, position: I64) -> I64:
        mask = (1 << self._bits) - 1
        return ((duration >> self._drop) << self._bits) | (mask - position)

    def _first_level(self) -> I64:
        """Keys of the blocks of 16 positions, made in pieces so that no whole-trace temporary is needed."""
        rows, size = self._rows, len(self._rows.item)
        pieces = []
        for low in range(0, size, _BUILD):
            high = min(low + _BUILD, size)
            keys = self._pack(rows.end[low:high] - rows.start[low:high], np.arange(low, high))
            pieces.append(np.maximum.reduceat(keys, np.arange(0, high - low, 1 << _SHIFT)))
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


class Cover:
    """The union of the slices of one lane as disjoint intervals ``start``..``end`` (ns).

    The pieces of a lane that was made one row of are that union, cut where another slice goes on.
    """

    def __init__(self, trace: Trace, lane: int) -> None:
        home = trace.lanes[lane]
        leaf = trace.folded.get(home.first_row)
        if leaf is not None:
            self.start, self.end, self._sum = leaf.start, leaf.end, leaf.busy
            return
        bounds = trace.rows.offset[home.first_row : home.first_row + home.rows + 1]
        low, high = (int(bounds[0]), int(bounds[-1])) if home.rows else (0, 0)
        self.start, self.end = union(trace.rows.start[low:high], trace.rows.end[low:high])
        self._sum = np.zeros(len(self.start) + 1, np.int64)
        np.cumsum(self.end - self.start, out=self._sum[1:])

    def busy(self, start: int, end: int) -> int:
        """Nanoseconds of ``[start, end)`` that are covered."""
        return self._until(end) - self._until(start)

    def _until(self, time: int) -> int:
        count = int(self.start.searchsorted(time))
        total = int(self._sum[count])
        return total - max(int(self.end[count - 1]) - time, 0) if count else total


_BLOCK = 16

Number = TypeVar("Number", bound=np.generic)


class Extremes(Generic[Number]):
    """Of ``values``, the most by ``extreme``, which is ``np.maximum`` or ``np.minimum``."""

    def __init__(self, values: npt.NDArray[Number], extreme: np.ufunc) -> None:
        self._values = values
        self._extreme = extreme
        blocks = np.arange(0, len(values), _BLOCK)
        self._blocks: npt.NDArray[Any] = extreme.reduceat(values, blocks) if len(blocks) else values

    def over(self, first: I64, last: I64) -> npt.NDArray[Number]:
        """The extreme of the values ``[first, last)`` of each range, none of which is empty; ranges ascend."""
        longest = int((last - first).max(initial=1))
        window = np.arange(min(longest, _BLOCK))
        begin, end = first[:, None], last[:, None]
        found: npt.NDArray[Any] = self._extreme.reduce(self._values[np.minimum(begin + window, end - 1)], axis=1)
        if longest <= _BLOCK:
            return found
        ends = self._extreme.reduce(self._values[np.maximum(end - 1 - window, begin)], axis=1)
        found = self._extreme(found, ends)
        low, high = -(-first // _BLOCK), last // _BLOCK
        inner = np.flatnonzero(high > low)
        if len(inner):
            pairs = np.stack((low[inner], high[inner]), axis=1).ravel()
            # The last range may end with the blocks, where nothing can begin.
            pairs = pairs[:-1] if pairs[-1] == len(self._blocks) else pairs
            found[inner] = self._extreme(found[inner], self._extreme.reduceat(self._blocks, pairs)[::2])
        return found
