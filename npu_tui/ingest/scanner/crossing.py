"""The compiled count of slices that cross others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.scanner.library import library

I64 = npt.NDArray[np.int64]


def crossing() -> Callable[[I64, I64], int] | None:
    """How many slices of a lane, by their starts and ends, cross another; None without a library."""
    found = library()
    if found is None:
        return None

    def count(start: I64, end: I64) -> int:
        start, end = np.ascontiguousarray(start, np.int64), np.ascontiguousarray(end, np.int64)
        opens = np.empty(len(start), np.int64)
        return int(found.crossing(start.ctypes.data, end.ctypes.data, len(start), opens.ctypes.data, len(opens)))

    return count
