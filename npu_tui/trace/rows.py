"""Slices once more, by row: what drawing and moving along a row need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class Rows:
    """Row r holds the positions ``[offset[r], offset[r + 1])``, sorted by start and never overlapping.

    ``item`` is the slice at each position, ``start`` and ``end`` its times (int64 ns; within one row both ascend),
    ``busy`` the prefix sum of durations over all positions, with one entry more than positions. A leaf row cuts
    slices into pieces, so there ``start`` and ``end`` may differ from the slice's own.
    """

    offset: npt.NDArray[np.int64]
    item: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    busy: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offset) - 1


def make_rows(
    offset: npt.NDArray[np.int64],
    item: npt.NDArray[np.int32],
    start: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
) -> Rows:
    """Rows over positions that are already in row order."""
    busy = np.zeros(len(item) + 1, np.int64)
    np.cumsum(end - start, out=busy[1:])
    return Rows(offset, item, start, end, busy)
