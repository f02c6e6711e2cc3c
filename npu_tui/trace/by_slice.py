"""What few slices of many have, such as the launch that led to each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


class BySlice:
    """A number from 0 to 2**31 - 2 for some slices; of several for one the first counts.

    There is room for the slices between the first and the last of them: those of a few lanes, mostly.
    """

    def __init__(self, items: npt.NDArray[np.integer], values: npt.NDArray[np.integer]) -> None:
        """``values`` are those of ``items``, (n,) each."""
        self._first, self._last = (int(items.min()), int(items.max())) if len(items) else (0, -1)
        self._found = np.zeros(self._last - self._first + 2, np.int32)  # the last one is that of all other slices
        self._found[items[::-1] - self._first] = values[::-1] + 1

    def of(self, items: npt.NDArray[np.integer]) -> I64:
        """The number of each of ``items`` (-1: no slice), -1 without one; (m,)."""
        at = items.astype(np.int64) - self._first
        at[(at < 0) | (at > self._last - self._first)] = -1
        found: I64 = self._found[at].astype(np.int64)
        found -= 1
        return found
