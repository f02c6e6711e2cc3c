"""The compiled loop over the points of a model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.scanner.library import library

I64 = npt.NDArray[np.int64]


def passing() -> Callable[[I64, I64, I64, I64, I64], I64] | None:
    """When each row of a model is passed, of its two sources and edges and of the lags; None without a library."""
    found = library()
    if found is None:
        return None

    def passed(source: I64, edge: I64, other_source: I64, other_edge: I64, lag: I64) -> I64:
        time = np.empty(len(source), np.int64)
        columns = [np.ascontiguousarray(each, np.int64) for each in (source, edge, other_source, other_edge)]
        lag = np.ascontiguousarray(lag, np.int64)
        found.passing(*(each.ctypes.data for each in columns), len(source), lag.ctypes.data, len(lag), time.ctypes.data)
        return time

    return passed
