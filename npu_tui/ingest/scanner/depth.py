"""Rows of overlapping slices, by the compiled library."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.scanner.library import Library

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_WORDS = 1 << 12


def first_fit(library: Library, lane: I32, start: I64, end: I64) -> I32:
    """``trace.depth.first_fit``: the row of every slice, in the order of ``sort_slices``, within its lane; (n,)."""
    lane = np.ascontiguousarray(lane, np.int32)
    start, end = np.ascontiguousarray(start, np.int64), np.ascontiguousarray(end, np.int64)
    depth = np.empty(len(lane), np.int32)
    words = _WORDS
    while True:
        tree = np.empty(words, np.int64)
        columns = (lane.ctypes.data, start.ctypes.data, end.ctypes.data, depth.ctypes.data)
        if library.first_fit(*columns, len(lane), tree.ctypes.data, tree.nbytes) == 0:
            return depth
        words *= 16  # more rows than anybody draws
