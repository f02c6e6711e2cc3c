"""What few slices of many have, such as the launch that led to each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


class BySlice:
    """A number from 0 to 2**31 - 2 for some of ``count`` slices; of several for one the first counts.

    Memory that holds nothing is never written to: of a large trace that is most of it.
    """

    def __init__(self, count: int, items: npt.NDArray[np.integer], values: npt.NDArray[np.integer]) -> None:
        """``values`` are those of ``items``, (n,) each."""
        self._found = np.zeros(count + 1, np.int32)  # the last one is that of no slice
        self._found[items[::-1]] = values[::-1] + 1

    def of(self, items: npt.NDArray[np.integer]) -> I64:
        """The number of each of ``items`` (-1: no slice), -1 without one; (m,)."""
        found: I64 = self._found[items].astype(np.int64) - 1
        return found
