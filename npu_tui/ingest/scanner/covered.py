"""The compiled sum of what spans of time cover of others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.scanner.library import library

I64 = npt.NDArray[np.int64]


def covered() -> Callable[[I64, I64, I64, I64], I64] | None:
    """How much of each ``[low, high)`` disjoint ascending spans cover, None without a library.

    Its arguments are the starts and ends of the spans, ``low`` and ``high``.
    """
    found = library()
    if found is None:
        return None

    def within(start: I64, end: I64, low: I64, high: I64) -> I64:
        start, end, low, high = (np.ascontiguousarray(each, np.int64) for each in (start, end, low, high))
        sums = np.cumsum(end - start) - (end - start)
        result = np.empty(len(low), np.int64)
        spans = start.ctypes.data, end.ctypes.data, sums.ctypes.data, len(start)
        found.covered(*spans, low.ctypes.data, high.ctypes.data, len(low), result.ctypes.data)
        return result

    return within
