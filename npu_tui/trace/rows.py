"""Slices once more, by row: what drawing and moving along a row need."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct


class Rows(Struct):
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


def joined_rows(parts: list[Rows]) -> Rows:
    """The rows of ``parts`` one after the other."""
    before = np.cumsum([0, *(len(part.item) for part in parts)])
    sums = np.cumsum([0, *(int(part.busy[-1] - part.busy[0]) for part in parts)])
    offsets = [part.offset[1:] + low for part, low in zip(parts, before[:-1], strict=True)]
    busy = [part.busy[:-1] - part.busy[0] + low for part, low in zip(parts, sums[:-1], strict=True)]
    nothing = np.zeros(0, np.int64)
    return Rows(
        np.concatenate([[0], *offsets]).astype(np.int64),
        np.concatenate([nothing.astype(np.int32), *(part.item for part in parts)]),
        np.concatenate([nothing, *(part.start for part in parts)]),
        np.concatenate([nothing, *(part.end for part in parts)]),
        np.concatenate([*busy, sums[-1:]]),
    )


def single_rows(rows: Rows) -> list[Rows]:
    """Every row by itself; sums of durations begin anywhere."""
    found = []
    for low, high in zip(rows.offset[:-1].tolist(), rows.offset[1:].tolist(), strict=True):
        own = slice(low, high)
        found.append(
            Rows(
                np.array([0, high - low], np.int64),
                rows.item[own],
                rows.start[own],
                rows.end[own],
                rows.busy[low : high + 1],
            )
        )
    return found
