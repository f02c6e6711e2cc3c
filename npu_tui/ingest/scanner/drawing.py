"""The compiled loops over the cells of the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.scanner.library import Library, library

Array = npt.NDArray[Any]

_ROOM = 80
"""Bytes that a cell never exceeds: all its codes and its character."""


class Drawing:
    """What ``view.cells`` does in one loop each; ``view.cells.compiled`` says what is asked for."""

    def __init__(self, found: Library) -> None:
        self._library = found
        self._out = np.empty(0, np.uint8)

    def cells(
        self, columns: Sequence[Array], which: Array, edges: Array, keys: Sequence[Array], bits: int, drop: int,
        found: Sequence[Array],
    ) -> None:  # fmt: skip
        """Fill the columns ``found`` of cells, in the order in which they stand there."""
        given = [np.ascontiguousarray(column) for column in (*columns, which, edges, *keys)]
        numbers = (len(which), len(edges) - 1, len(keys[1]), bits, drop)
        plan = _plan([*given, *found], numbers)
        if self._library.cells(_address(plan), plan.nbytes):
            raise IndexError("a row ends after the slices")

    def bars(
        self, cells: Sequence[Array], look: Sequence[Array], widths: Array, tables: Sequence[Array],
        grid: Sequence[Array], hits_only: bool, cursor: int,
    ) -> tuple[Array, Array, Array, Array]:  # fmt: skip
        """Draw bars into the planes of ``grid``; free cells, filled ones, first cells and lengths of runs."""
        lines, columns = cells[0].shape
        given = [np.ascontiguousarray(column) for column in (*cells, *look, widths, *tables)]
        free, filled = np.empty((lines, columns), np.bool_), np.empty((lines, columns), np.bool_)
        first, length = np.empty(lines * columns, np.int64), np.empty(lines * columns, np.int64)
        stride = grid[1].strides[0]
        numbers = (lines, columns, columns if widths.ndim > 1 else 0, stride, int(hits_only), cursor)
        size = (lines - 1) * stride + columns if lines and columns else 0
        words = [word for plane in grid for word in (_address(plane), size * plane.itemsize)]
        plan = _plan([*given, free, filled, first, length], numbers)
        split = 2 * len(given)
        plan = np.concatenate([plan[:split], words, plan[split:]])
        found = self._library.bars(_address(plan), plan.nbytes)
        return free, filled, first[:found], length[:found]

    def held(
        self, time: Array, marks: Array, value: Array, keys: Sequence[Array], edges: Array, kind: int
    ) -> tuple[Array, Array]:
        """In which columns a value holds, and the most that holds in each."""
        count = len(edges) - 1
        found, known, places = np.empty(count, value.dtype), np.empty(count, np.bool_), np.empty(count, np.int64)
        given = [np.ascontiguousarray(column) for column in (time, marks, value, *keys, edges)]
        plan = _plan([*given, found, known, places], (len(time), count, len(keys[1]), kind))
        self._library.held(_address(plan), plan.nbytes)
        return known, found

    def ansi(
        self, grid: Sequence[Array], before: Sequence[Array] | None, rows: Array, tables: Sequence[Array],
        coloured: bool, reset: bytes,
    ) -> list[str]:  # fmt: skip
        """The text of each of ``rows``."""
        width = grid[0].shape[1]
        given = [np.ascontiguousarray(plane) for plane in (*grid, *(before or grid))]
        room = len(rows) * _ROOM * width + _ROOM
        if len(self._out) < room:
            self._out = np.empty(room, np.uint8)
        stops = np.empty(len(rows), np.int64)
        last = int.from_bytes(reset, "little")
        numbers = (len(rows), width, int(before is not None), int(coloured), last)
        plan = _plan([*given, rows, *tables, np.empty(width, np.uint8), self._out, stops], numbers)
        size = self._library.ansi(_address(plan), plan.nbytes)
        text, ends = self._out[:size].tobytes(), stops.tolist()
        return [text[low:high].decode() for low, high in zip([0, *ends[:-1]], ends, strict=True)]


def drawing() -> Drawing | None:
    """The compiled loops, None without a library."""
    found = library()
    return None if found is None else Drawing(found)


def _plan(arrays: Sequence[Array], numbers: Sequence[int]) -> npt.NDArray[np.int64]:
    words = [word for array in arrays for word in (_address(array), array.nbytes)]
    return np.array([*words, *numbers], np.int64)


def _address(array: Array) -> int:
    return int(array.ctypes.data)
