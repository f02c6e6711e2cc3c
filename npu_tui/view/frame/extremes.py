"""The highest or lowest of any range of values: an exact answer whose cost grows little with the range."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from npu_tui.view.spans import I64

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
