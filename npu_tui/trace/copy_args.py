"""What the args of copies tell, as columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct


class Copies(Struct, frozen=True):
    """The copies ``item`` that have a size, ascending: its bytes ``size`` and the direction ``way``; (n,) each.

    A direction is a place in ``ways``, the words of the profiler in lower case.
    """

    item: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    way: npt.NDArray[np.int32]
    ways: list[str]
