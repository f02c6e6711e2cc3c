"""Medians of many groups at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


class Grouped:
    """Values in ``count`` groups: ``group`` (n,) says which one each belongs to. Made once, asked often."""

    def __init__(self, group: I64, count: int) -> None:
        self.count = count
        order = np.argsort(group, kind="stable")
        sizes = np.bincount(group, minlength=count)
        first = np.cumsum(sizes) - sizes
        self._same_size = []
        for size in np.unique(sizes[sizes > 0]).tolist():
            own = np.flatnonzero(sizes == size)
            self._same_size.append((own, order[first[own][:, None] + np.arange(size)]))

    def medians(self, value: F64) -> F64:
        """The median of every group, NaN for one without values; (count,)."""
        return self.ranked(value, 0.5)

    def ranked(self, value: F64, share: float) -> F64:
        """The value below which ``share`` of each group lies, halfway between the two next to it; (count,)."""
        found = np.full(self.count, np.nan)
        for own, places in self._same_size:
            size = places.shape[1]
            low, high = int(np.floor((size - 1) * share)), int(np.ceil((size - 1) * share))
            ordered = np.partition(value[places], (low, high), axis=1)
            found[own] = (ordered[:, low] + ordered[:, high]) / 2
        return found

    def low_medians(self, value: I64) -> I64:
        """The median of every group, of two in the middle the lower one; 0 for one without values; (count,)."""
        found = np.zeros(self.count, np.int64)
        for own, places in self._same_size:
            low = (places.shape[1] - 1) // 2
            found[own] = np.partition(value[places], low, axis=1)[:, low]
        return found
