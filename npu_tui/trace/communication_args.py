"""What the args of collectives and of their tasks tell, as columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class PlaneArgs(Struct, frozen=True):
    """Args of the plane tasks ``item`` (slices in ascending order); (n,) each.

    ``source_rank`` and ``target_rank`` are ranks of the group, -1 where the task names none; ``size`` is in bytes, -1
    where unknown; ``link`` is the place in ``links``, texts such as ``HCCS`` or ``ON_CHIP``, empty where unknown.
    """

    item: I64
    source_rank: I32
    target_rank: I32
    size: I64
    link: I32
    links: list[str]

    def over(self, rule: Callable[[str], bool]) -> Bools:
        """Which tasks use a link whose type fulfils ``rule``; (n,)."""
        return np.array([rule(name) for name in self.links], np.bool_)[self.link]


class CollectiveArgs(Struct, frozen=True):
    """Args of the collectives ``item`` (slices in ascending order); (n,) each.

    ``algorithm`` is the place in ``algorithms``, empty where unknown; ``size`` is in bytes, -1 where unknown.
    """

    item: I64
    algorithm: I32
    size: I64
    algorithms: list[str]


class CommunicationArgs(Struct, frozen=True):
    """Args of all slices of communication layers: of the tasks of ``planes`` and of the ``collectives``."""

    planes: PlaneArgs
    collectives: CollectiveArgs
