"""What a compiled library may do of the drawing of a frame; all of it has a slower way beside its caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]


class Compiled(Protocol):
    """Loops over cells."""

    def cells(
        self, columns: Sequence[Array], which: I64, edges: I64, keys: Sequence[Array], bits: int, drop: int,
        found: Sequence[Array],
    ) -> None:  # fmt: skip
        """Fill ``found``, the columns of ``raster.Cells``, for the rows ``which`` between the columns' ``edges``.

        ``columns`` are those of ``Rows``, ``keys`` the keys of ``levels.Levels``, where each level begins, and every
        64th start; a key is a duration without its lowest ``drop`` bits and a position of ``bits`` bits.
        """
        ...

    def bars(
        self, cells: Sequence[Array], look: Sequence[Array], widths: I64, tables: Sequence[Array],
        grid: Sequence[Array], hits_only: bool, cursor: int,
    ) -> tuple[Array, Array, I64, I64]:  # fmt: skip
        """Draw the bars of ``cells`` into the planes char, fg, bg and attr of ``grid``, parts of planes of one width.

        ``cells`` are count, busy, position, from_left, to_right, touches, leads, start8 and end8 of ``raster.Cells``,
        ``look`` kind, other_kind, shade, selected, other_selected and hit of ``bars.Look``; ``tables`` the numbers
        and glyphs that ``bars`` lists. ``cursor`` is a column, -1 for none. Returns which cells are free and which are
        filled from edge to edge, and first cells and lengths of the runs that have room for a name.
        """
        ...

    def held(
        self, time: I64, marks: I64, value: Array, keys: Sequence[I64], edges: I64, kind: int
    ) -> tuple[Array, Array]:
        """In which columns between ``edges`` a value holds, and the most that holds in each, 0 where none does.

        Each ``value``, of 64 bits, holds from its ``time`` on until the next one; ``marks`` is every 64th time.
        ``keys`` are what ``frame.held`` orders values by, for all levels of blocks of 16, and where each level begins.
        The most is the highest of integers (``kind`` 0), the lowest (1), or the highest of floats (2).
        """
        ...

    def ansi(
        self, grid: Sequence[Array], before: Sequence[Array] | None, rows: I64, tables: Sequence[Array],
        coloured: bool, reset: bytes,
    ) -> list[str]:  # fmt: skip
        """The text of ``rows`` of ``grid`` for a terminal that shows ``before``; each ends with the four of ``reset``.

        Both are the planes char (uint32), fg, bg and attr (uint8) of a grid. ``tables``: which ink looks the same as
        each, whether an ink is a ground (uint8 both), and in records of 32 bytes, whose first is their length, the
        codes that lead from attributes to others (16 x 16), and those of each paint and ground.
        """
        ...
