"""Levels of detail: what is drawn of a row of millions of slices."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from npu_tui.native.cells import I64
from npu_tui.trace.intervals import union
from npu_tui.trace.model import Trace


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
