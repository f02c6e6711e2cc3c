"""The grid of cells that a frame consists of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]

SPACE = ord(" ")


class Attr(IntFlag):
    """Attributes of a cell."""

    BOLD = 1
    DIM = 2
    UNDERLINE = 4


@dataclass(slots=True)
class Grid:
    """``char`` (code points), ``fg`` and ``bg`` (ink numbers) and ``attr`` (``Attr`` bits), each (height, width)."""

    char: U32
    fg: U8
    bg: U8
    attr: U8

    @classmethod
    def blank(cls, height: int, width: int, fg: int, bg: int) -> Grid:
        """Spaces in the inks ``fg`` on ``bg``."""
        shape = (height, width)
        return cls(
            np.full(shape, SPACE, np.uint32),
            np.full(shape, fg, np.uint8),
            np.full(shape, bg, np.uint8),
            np.zeros(shape, np.uint8),
        )

    @property
    def height(self) -> int:
        """Number of rows."""
        return int(self.char.shape[0])

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.char.shape[1])

    def part(self, top: int, left: int, height: int, width: int) -> Grid:
        """A window of this grid; writing to it writes here."""
        rows, columns = slice(top, top + height), slice(left, left + width)
        return Grid(self.char[rows, columns], self.fg[rows, columns], self.bg[rows, columns], self.attr[rows, columns])

    def write(self, y: int, x: int, text: U32, fg: int, bg: int | None = None, attr: int = 0) -> int:
        """Write code points from column ``x`` on, cut at the right edge; returns the column behind them."""
        stop = min(x + len(text), self.width)
        if stop <= x or x < 0:
            return x
        self.char[y, x:stop] = text[: stop - x]
        self.fg[y, x:stop] = fg
        self.attr[y, x:stop] = attr
        if bg is not None:
            self.bg[y, x:stop] = bg
        return stop

    def put(self, y: int, row: Grid) -> None:
        """Copy ``row``, a grid of one row and this width, to row ``y``."""
        self.char[y], self.fg[y], self.bg[y], self.attr[y] = row.char[0], row.fg[0], row.bg[0], row.attr[0]

    def text(self, y: int) -> str:
        """The characters of row ``y``."""
        return str(self.char[y].tobytes(), "utf-32-le")

    def changed(self, other: Grid | None) -> list[int]:
        """The rows in which this grid differs from ``other`` (all of them if it has another size or is None)."""
        if other is None or other.char.shape != self.char.shape:
            return list(range(self.height))
        differs = (self.char != other.char) | (self.fg != other.fg) | (self.bg != other.bg) | (self.attr != other.attr)
        return [int(y) for y in np.flatnonzero(differs.any(axis=1))]
