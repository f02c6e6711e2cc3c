"""A grid as ANSI text: one string per row with escape sequences only where the look changes from cell to cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from npu_tui.native.cells import spread
from npu_tui.view.glyphs import GlyphSet, redraw, without_colour, without_shades
from npu_tui.view.grid import CONTINUED, SPACE, Attr, Grid
from npu_tui.view.palette import GROUNDS, Palette

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Rgb = tuple[int, int, int]
Colour = Rgb | int | None
"""Red, green and blue, the number of a colour, or None for the terminal's default."""
Run = tuple[str, Colour, Colour, int, bool]
"""Text, foreground, background, ``Attr`` bits, and whether both colours are exchanged."""
Depth = Literal["truecolor", "256", "16", "none"]


_RESET = "\x1b[0m"
_SAME = 256
"""In place of an ink number: the colour stays as it is."""
_WORTH = 3  # cells in a stretch that is worth a cursor move, which takes 4 bytes or more
# Cells less to write that are worth a move of a row: it takes 12 bytes, a cell with its share of colours 3.
_MOVE_WORTH = 4
_REVERSE = 8
_WEIGHT = int(Attr.BOLD | Attr.DIM)
_ON = {int(Attr.BOLD): "1", int(Attr.DIM): "2", int(Attr.UNDERLINE): "4", _REVERSE: "7"}
_OFF = {int(Attr.UNDERLINE): "24", _REVERSE: "27"}
_GROUND = np.zeros(256, np.bool_)
_GROUND[list(GROUNDS)] = True


class Encoder:
    """Encodes grids in one palette for one colour depth and set of glyphs; escape sequences are cached."""

    def __init__(self, palette: Palette, depth: Depth = "truecolor", glyphs: GlyphSet = "blocks") -> None:
        self._palette = palette
        self._depth = depth
        self._glyphs: GlyphSet = glyphs
        self._sequences: dict[int, str] = {}
        # Inks of the same colour count as one: no sequence is spent on an invisible change.
        looks = palette.rgb if depth == "truecolor" else (palette.ansi if depth == "16" else palette.xterm)[:, None]
        _, first, same = np.unique(looks, axis=0, return_index=True, return_inverse=True)
        self._canonical = first[same.reshape(-1)].astype(np.int32)

    def prepared(self, grid: Grid) -> Grid:
        """``grid`` as this terminal can show it: without colours if it has none, in the glyphs that it supports."""
        if self._depth == "none":
            grid = without_colour(grid)
        elif self._depth == "16":
            grid = without_shades(grid, self._palette)
        return redraw(grid, self._glyphs)

    def encode(
        self, grid: Grid, rows: Sequence[int] | None = None, before: Grid | None = None, left: int = 0, panned: int = 0
    ) -> list[str]:
        """One string per row of ``rows`` (all rows if None), each closed by one reset.

        ``before`` is what the terminal shows now, cell for cell: longer stretches that stay are then passed over by
        moving the cursor. Such a row may be written once and only there; without ``before`` a row stands on its own.
        Where the view was ``panned`` by so many columns, the terminal moves the cells from column ``left`` to its right
        edge, in rows of which less is to be written then.

        The first of the terminal's two colours carries bars and text, the second the dark ground: a bar is the same
        pair in reverse video, so that most changes are four bytes. A colour that a blank does not show stays as it
        was, and so do its bold and dim bits.
        """
        if rows is not None:
            wanted = np.array(rows, np.int64)
            grid, before = grid.picked(wanted), None if before is None else before.picked(wanted)
        char = grid.char
        height, width = char.shape
        if height == 0 or width == 0:
            return [""] * height
        fg, bg, attr = self._canonical[grid.fg], self._canonical[grid.bg], grid.attr.astype(np.int32)
        second = char == CONTINUED
        wide = bool(second.any())

        written = np.ones(char.shape, np.bool_)
        moved = np.zeros(height, np.bool_)
        if before is not None:
            same = _same(grid, before)
            if panned:
                anew = ~_long(_same_panned(grid, before, same, left, panned))
            if wide:
                same[:, 1:] &= same[:, :-1] | ~second[:, 1:]  # both cells of a wide character or none
                same[:, :-1] &= same[:, 1:] | ~second[:, 1:]
            written = ~_long(same)
            if panned:  # no row with wide characters: an edge may halve one
                narrow = ~(second | (before.char == CONTINUED)).any(axis=1)
                moved = narrow & (anew.sum(axis=1) + _MOVE_WORTH < written.sum(axis=1))
                written[moved] = anew[moved]
        # The foreground of a blank is invisible: it may stay whatever it was.
        shown = written & ((char != SPACE) | (attr & int(Attr.UNDERLINE) != 0))
        reverse = ~_GROUND[grid.bg]
        paint = _inherited(np.where(reverse, bg, fg), shown | (written & reverse), _SAME)
        ground = _inherited(np.where(reverse, fg, bg), shown | (written & ~reverse), _SAME)
        weight = _inherited(attr & _WEIGHT, shown, 0)
        rest = (attr & int(Attr.UNDERLINE)) | np.where(reverse, _REVERSE, 0)
        attr = weight | (rest if written.all() else _inherited(rest, written, 0))

        old_attr = _shifted(attr, 0)
        if self._depth == "none":
            new_paint = new_ground = np.full_like(attr, _SAME)
        else:
            new_paint = np.where(paint == _shifted(paint, _SAME), _SAME, paint)
            new_ground = np.where(ground == _shifted(ground, _SAME), _SAME, ground)
        # One number per change of look: (old attributes, new attributes, new paint, new ground). Frames repeat the same
        # few hundred changes, so each sequence is made once.
        key = ((old_attr * 16 + attr) * 257 + new_paint) * 257 + new_ground
        turn = (new_paint != _SAME) | (new_ground != _SAME) | (attr != old_attr)
        turn |= written != _shifted(written.astype(np.int32), -1).astype(np.bool_)
        if wide:
            turn &= ~second
        turn[:, 0] = True
        rows_made = self._join(char, key, turn, written)
        move = f"\x1b[{left + 1}G\x1b[{abs(panned)}{'P' if panned > 0 else '@'}\r"
        for y in np.flatnonzero(moved).tolist():
            rows_made[y] = move + rows_made[y]
        return [row.replace(chr(CONTINUED), "") for row in rows_made] if wide else rows_made

    def runs(self, grid: Grid, y: int) -> list[Run]:
        """Row ``y`` in pieces of cells with the same look."""
        return [
            (text, self._named(fg), self._named(bg), attr, self._depth == "none" and not bool(_GROUND[bg]))
            for text, fg, bg, attr in grid.runs(y)
        ]

    def _named(self, ink: int) -> Colour:
        if self._depth == "truecolor":
            red, green, blue = self._palette.rgb[ink].tolist()
            return red, green, blue
        if self._depth == "none":
            return None
        return int((self._palette.xterm if self._depth == "256" else self._palette.ansi)[ink])

    def _join(self, char: npt.NDArray[np.uint32], key: I32, turn: Bools, written: Bools) -> list[str]:
        height, width = char.shape
        text = np.ascontiguousarray(char).tobytes().decode("utf-32-le")
        flat = np.flatnonzero(turn)
        starts = flat.tolist()
        stops = [*starts[1:], height * width]
        keys = key.reshape(-1)[flat].tolist()
        sequences = self._sequences
        for number in set(keys).difference(sequences):
            sequences[number] = self._sequence(number)
        # Dense frames have thousands of runs: two strided stores run in C, a loop over the runs would not.
        parts = [""] * (2 * len(keys))
        parts[0::2] = map(sequences.__getitem__, keys)
        parts[1::2] = map(text.__getitem__, map(slice, starts, stops))
        for k in np.flatnonzero(~written.reshape(-1)[flat]).tolist():
            parts[2 * k + 1] = f"\x1b[{stops[k] - starts[k]}C"
        bounds = [0, *(2 * np.cumsum(turn.sum(axis=1))).tolist()]
        return ["".join(parts[bounds[y] : bounds[y + 1]]) + _RESET for y in range(height)]

    def _sequence(self, key: int) -> str:
        rest, ground = divmod(key, 257)
        attrs, paint = divmod(rest, 257)
        old, new = divmod(attrs, 16)
        codes = _attribute_codes(old, new)
        if paint != _SAME:
            codes.append(self._colour(paint, 30))
        if ground != _SAME:
            codes.append(self._colour(ground, 40))
        return f"\x1b[{';'.join(codes)}m" if codes else ""

    def _colour(self, ink: int, base: int) -> str:
        """The codes that set ``ink`` as foreground (``base`` 30) or background (40)."""
        if self._depth == "256":
            return f"{base + 8};5;{self._palette.xterm[ink]}"
        if self._depth == "16":
            code = int(self._palette.ansi[ink])
            return str(base + code if code < 8 else base + 52 + code)
        red, green, blue = self._palette.rgb[ink]
        return f"{base + 8};2;{red};{green};{blue}"


def _attribute_codes(old: int, new: int) -> list[str]:
    """The SGR codes that lead from the attributes ``old`` to ``new``."""
    # 22 switches off bold and dim together, so what remains of them is set again.
    codes: list[str] = []
    if old & _WEIGHT & ~new:
        codes.append("22")
        old &= ~_WEIGHT
    codes.extend(code for bit, code in _OFF.items() if old & ~new & bit)
    codes.extend(code for bit, code in _ON.items() if new & ~old & bit)
    return codes


def _same_panned(grid: Grid, other: Grid, same: Bools, left: int, columns: int) -> Bools:
    """``same`` where ``columns`` cells of ``other`` were deleted at column ``left``, or ``-columns`` inserted."""
    result = np.zeros_like(same)
    result[:, :left] = same[:, :left]
    first, old = left + max(-columns, 0), left + max(columns, 0)
    width = grid.width - left - abs(columns)
    parts = (each.part(0, at, grid.height, width) for each, at in ((grid, first), (other, old)))
    result[:, first : first + width] = _same(*parts)
    return result


def _same(grid: Grid, other: Grid) -> Bools:
    """Whether a cell looks the same in both: a blank's foreground does not count."""
    blank = (grid.char == SPACE) & (grid.attr & int(Attr.UNDERLINE) == 0)
    look = (grid.char == other.char) & (grid.bg == other.bg)
    return np.asarray(look & np.where(blank, other.attr & int(Attr.UNDERLINE) == 0, _same_ink(grid, other)))


def _same_ink(grid: Grid, other: Grid) -> Bools:
    return np.asarray((grid.fg == other.fg) & (grid.attr == other.attr))


def _long(same: Bools) -> Bools:
    """The cells of ``same`` in stretches that are long enough for a cursor move."""
    edge = np.zeros((same.shape[0], same.shape[1] + 1), np.int8)
    edge[:, :-1] = same
    change = np.diff(edge, axis=1, prepend=np.int8(0))
    y, first = np.nonzero(change == 1)
    last = np.nonzero(change == -1)[1]
    length = last - first
    enough = length >= _WORTH
    y, first, length = y[enough], first[enough].astype(np.int64), length[enough].astype(np.int64)
    result = np.zeros(same.shape, np.bool_)
    result[np.repeat(y, length), spread(first, length)] = True
    return result


def _inherited(values: I32, written: Bools, first: int) -> I32:
    """``values`` where ``written``, elsewhere that of the nearest written cell to the left, else ``first``."""
    height, width = values.shape
    known = np.empty((height, width + 1), np.int32)  # a cell more at the left of each row, which ends the search
    known[:, 0], known[:, 1:] = first, values
    source = np.arange(known.size, dtype=np.int32).reshape(known.shape)
    source[:, 1:][~written] = 0
    inherited: I32 = known.reshape(-1)[np.maximum.accumulate(source.reshape(-1))].reshape(known.shape)
    return inherited[:, 1:]


def _shifted(values: I32, first: int) -> I32:
    """The left neighbour of every cell, ``first`` for the first cell of a row."""
    result = np.empty_like(values)
    result[:, 0] = first
    result[:, 1:] = values[:, :-1]
    return result
