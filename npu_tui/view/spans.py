"""Many short index ranges as one array, so that per-cell work needs no Python loop."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


def spread(first: I64, length: I64) -> I64:
    """The indices ``first[k] .. first[k] + length[k] - 1`` of every k, one range after the other."""
    stop = np.cumsum(length)
    total = int(stop[-1]) if len(stop) else 0
    return np.repeat(first - (stop - length), length) + np.arange(total, dtype=np.int64)
