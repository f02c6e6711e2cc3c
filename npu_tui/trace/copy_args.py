"""What the args of copies tell, as columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct


class Copies(Struct, frozen=True):
    """The copies ``item`` that have a size, ascending: bytes ``size`` and direction ``way``, as it is in ``ways``; (n,).

    ``ways`` are the profiler's words for the directions in lower case.
    """

    item: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    way: npt.NDArray[np.int32]
    ways: list[str]
