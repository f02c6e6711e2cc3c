"""Call stacks of a database told apart, by the compiled library."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.scanner.library import Library

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]


def stack_marks(library: Library, chain: I64, frame: I64, depth: I64) -> tuple[I64, U64, U64] | None:
    """The first row of every stack and two numbers that equal ones share; None if the rows (n,) are in no order."""
    columns = [np.ascontiguousarray(values, np.int64) for values in (chain, frame, depth)]
    first, one, two = (np.empty(len(chain), np.int64) for _ in range(3))
    given = [values.ctypes.data for values in columns]
    count = library.stack_marks(*given, len(chain), first.ctypes.data, one.ctypes.data, two.ctypes.data)
    if count < 0:
        return None
    return first[:count].copy(), one[:count].copy().view(np.uint64), two[:count].copy().view(np.uint64)
