"""The order in which slices find their rows: (start, -end, order in the file)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_FEW = 1 << 16


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
