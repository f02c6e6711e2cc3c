"""The grid of cells that a frame is drawn into."""

from __future__ import annotations

from enum import IntFlag

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.arrays import U8
from npu_tui.trace.text import char_cells

U32 = npt.NDArray[np.uint32]

SPACE = ord(" ")
CONTINUED = 0
"""The character of the second cell of a wide character."""


class Attr(IntFlag):
    """Attributes of a cell."""

    BOLD = 1
    DIM = 2
    UNDERLINE = 4


class Grid(Struct):
    """``char`` (code points), ``fg`` and ``bg`` (ink numbers) and ``attr`` (``Attr`` bits), each (height, width).

    A wide character has ``CONTINUED`` in its second cell; both cells have the same inks and attributes.
    """

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
        """A part of this grid that shares its memory."""
        rows, columns = slice(top, top + height), slice(left, left + width)
        return Grid(self.char[rows, columns], self.fg[rows, columns], self.bg[rows, columns], self.attr[rows, columns])

    def picked(self, rows: npt.NDArray[np.int64]) -> Grid:
        """A grid of these rows, in memory of its own."""
        return Grid(self.char[rows], self.fg[rows], self.bg[rows], self.attr[rows])

    def write(self, y: int, x: int, text: U32, fg: int, bg: int | None = None, attr: int = 0) -> int:
        """Write code points from column ``x`` on, cut at the right edge; returns the column after them."""
        stop = min(x + len(text), self.width)
        if stop <= x or x < 0:
            return x
        # A text that starts or ends inside a wide character leaves a half of it, which cannot be drawn.
        if self.char[y, x] == CONTINUED and x > 0:
            self.char[y, x - 1] = SPACE
        if stop < self.width and self.char[y, stop] == CONTINUED:
            self.char[y, stop] = SPACE
        self.char[y, x:stop] = text[: stop - x]
        if stop - x < len(text) and text[stop - x] == CONTINUED:
            self.char[y, stop - 1] = SPACE  # half a wide character cannot be drawn
        self.fg[y, x:stop] = fg
        self.attr[y, x:stop] = attr
        if bg is not None:
            self.bg[y, x:stop] = bg
        return stop

    def put(self, top: int, rows: Grid) -> None:
        """Copy ``rows``, a grid of this width, to row ``top`` and below."""
        place = slice(top, top + rows.height)
        self.char[place], self.fg[place], self.bg[place], self.attr[place] = rows.char, rows.fg, rows.bg, rows.attr

    def text(self, y: int) -> str:
        """The text of row ``y``."""
        return str(self.char[y].tobytes(), "utf-32-le").replace(chr(CONTINUED), "")

    def runs(self, y: int) -> list[tuple[str, int, int, int]]:
        """Row ``y`` in pieces of cells with the same look: text, ink, background ink, ``Attr`` bits."""
        fg, bg, attr = self.fg[y].astype(np.int64), self.bg[y].astype(np.int64), self.attr[y].astype(np.int64)
        key = (fg * 256 + bg) * 8 + attr
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1])).tolist()
        text = self.char[y].tobytes().decode("utf-32-le")
        return [
            (text[start:stop].replace(chr(CONTINUED), ""), int(fg[start]), int(bg[start]), int(attr[start]))
            for start, stop in zip(starts, [*starts[1:], len(text)], strict=True)
        ]

    def mend(self, marked: int | None = None) -> None:
        """Blank halves of wide characters whose other half was overwritten, and give both halves the same look.

        That is the look of the first cell, or of the cell in the column ``marked`` if one of them is there.
        """
        second = self.char == CONTINUED
        second[:, 0] = False
        first = np.zeros_like(second)
        first[:, :-1] = second[:, 1:]
        wide = _wide(self.char)
        self.char[(wide & ~first) | ((self.char == CONTINUED) & ~_right_of(wide))] = SPACE
        y, x = np.nonzero(self.char == CONTINUED)
        for plane in (self.fg, self.bg, self.attr):
            if marked is not None:
                hit = x == marked
                plane[y[hit], x[hit] - 1] = plane[y[hit], x[hit]]
            plane[y, x] = plane[y, x - 1]

    def changed(self, other: Grid | None) -> list[int]:
        """The rows in which this grid differs from ``other``; all rows if it has another size or is None."""
        if other is None or other.char.shape != self.char.shape:
            return list(range(self.height))
        differs = (self.char != other.char) | (self.fg != other.fg) | (self.bg != other.bg) | (self.attr != other.attr)
        return [int(y) for y in np.flatnonzero(differs.any(axis=1))]


def stacked(parts: list[Grid]) -> Grid:
    """All rows of ``parts``, one or more grids of one width."""
    planes = ([getattr(part, name) for part in parts] for name in Grid.__struct_fields__)
    return Grid(*map(np.concatenate, planes))


_NARROW_UP_TO = 0x1100  # below this code point no character is wide


def _wide(char: U32) -> npt.NDArray[np.bool_]:
    """Which cells hold a wide character."""
    result = char >= _NARROW_UP_TO
    codes, place = np.unique(char[result], return_inverse=True)
    result[result] = np.array([char_cells(chr(code)) == 2 for code in codes.tolist()], np.bool_)[place.reshape(-1)]
    return result


def _right_of(marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    result = np.zeros_like(marks)
    result[:, 1:] = marks[:, :-1]
    return result
