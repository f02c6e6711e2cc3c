"""How values spread: counts in bins of equal ratio."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct


class Histogram(Struct, frozen=True):
    """``count[k]`` values lie in ``[edges[k], edges[k + 1])``, the last bin holds its upper edge too."""

    edges: npt.NDArray[np.float64]
    count: npt.NDArray[np.int64]


def histogram(values: npt.NDArray[np.int64], bins: int) -> Histogram:
    """``values`` (above 0 or clipped to 1) in at most ``bins`` bins from the lowest to the highest, of equal ratio.

    Values that are all alike are one bin.
    """
    values = np.maximum(values, 1)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return Histogram(np.array([low, high], np.float64), np.array([len(values)], np.int64))
    edges = np.geomspace(low, high, bins + 1)
    edges[0], edges[-1] = low, high
    at = np.clip(np.searchsorted(edges, values, "right") - 1, 0, bins - 1)
    return Histogram(edges, np.bincount(at, minlength=bins).astype(np.int64))
