"""The compiled loop over slices that lie above each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.scanner.library import library
from npu_tui.trace.leaf import Flatten, Pieces, pieces_of

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def flatten() -> Flatten:
    """What finds the pieces of slices: the compiled loop, or without a library the slower way."""
    found = library()
    if found is None:
        return pieces_of

    def pieces(start: I64, end: I64, level: I32, levels: int) -> Pieces:
        start, end = np.ascontiguousarray(start, np.int64), np.ascontiguousarray(end, np.int64)
        level = np.ascontiguousarray(level, np.int32)
        room = 2 * len(start)  # every start and every end begins one piece at most
        who, begin, stop = np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
        active, marks = np.zeros(2 * levels, np.int64), np.zeros(-(-levels // 64), np.int64)
        columns = [each.ctypes.data for each in (start, end, level)]
        results = [each.ctypes.data for each in (who, begin, stop)]
        count = found.leaves(*columns, len(start), *results, room, active.ctypes.data, levels, marks.ctypes.data)
        if count < 0:
            return pieces_of(start, end, level, levels)
        return who[:count].copy(), begin[:count].copy(), stop[:count].copy()

    return pieces
