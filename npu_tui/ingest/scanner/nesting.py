"""The compiled search for the slice around each slice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.scanner.library import library

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def nesting() -> Callable[[I64, I32], I64] | None:
    """Which slice holds each, by the ends and lanes of slices by lane and start; None without a library."""
    found = library()
    if found is None:
        return None

    def parents(end: I64, lane: I32) -> I64:
        end, lane = np.ascontiguousarray(end, np.int64), np.ascontiguousarray(lane, np.int32)
        result = np.empty(len(end), np.int64)
        found.nesting(end.ctypes.data, lane.ctypes.data, len(end), result.ctypes.data)
        return result

    return parents
