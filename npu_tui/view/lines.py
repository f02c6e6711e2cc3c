"""Straight lines between cells, as braille dots or as columns, drawn behind everything that is already there."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.native.cells import spread
from npu_tui.trace.arrays import F64, I64, U8, Bools
from npu_tui.view.bars import Painted
from npu_tui.view.grid import U32, Attr, Grid
from npu_tui.view.palette import Ink

COLUMN = ord("┃")
SOURCE, DOWN, UP, LEFT, RIGHT = ord("●"), ord("▼"), ord("▲"), ord("◄"), ord("►")
_BRAILLE = 0x2800
# Bit of each dot in a braille cell, by (row, column) of the dot.
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint32)
_UPRIGHT = 1.5  # cells: a solid line that leans less is drawn upright, without steps
_FIRST_GROUND, _SELECTED, _LABEL, _BOLD = int(Ink.LANE), int(Ink.SELECTED), int(Ink.LABEL), int(Attr.BOLD)


class Lines(Struct):
    """Lines from (``x0``, ``y0``) to (``x1``, ``y1``): x in fractional columns, y in rows of the lane area.

    Both may be off screen. ``ink`` is the colour; ``solid`` lines are two dots thick (upright ones are drawn as ``┃``);
    a larger ``order`` is on top. With ``ends`` both ends are always marked, also over a name and, off screen, at the
    border.
    """

    x0: F64
    y0: I64
    x1: F64
    y1: I64
    ink: U8
    solid: Bools
    order: I64
    ends: Bools

    def __len__(self) -> int:
        return len(self.x0)

    def picked(self, which: I64) -> Lines:
        """The lines at ``which``, in that order."""
        return Lines(
            self.x0[which],
            self.y0[which],
            self.x1[which],
            self.y1[which],
            self.ink[which],
            self.solid[which],
            self.order[which],
            self.ends[which],
        )


def joined_lines(parts: list[Lines]) -> Lines:
    """All lines of ``parts`` (at least one)."""
    return Lines(
        np.concatenate([part.x0 for part in parts]),
        np.concatenate([part.y0 for part in parts]),
        np.concatenate([part.x1 for part in parts]),
        np.concatenate([part.y1 for part in parts]),
        np.concatenate([part.ink for part in parts]),
        np.concatenate([part.solid for part in parts]),
        np.concatenate([part.order for part in parts]),
        np.concatenate([part.ends for part in parts]),
    )


def draw_lines(lines: Lines, grid: Grid, painted: Painted) -> None:
    """Draw ``lines`` and the marks of their ends into ``grid`` (the lane rows without gutter)."""
    if not len(lines):
        return
    lines = lines.picked(np.argsort(lines.order, kind="stable"))
    down = lines.y1 > lines.y0
    # In dots, of which a cell has 2 x 4: from the lower edge of the source's row to the upper edge of the target's, or
    # from upper to lower edge for a line that goes up.
    top = np.where(down, 4 * (lines.y0 + 1), 4 * lines.y0 - 1).astype(np.float64)
    bottom = np.where(down, 4 * lines.y1 - 1, 4 * (lines.y1 + 1)).astype(np.float64)
    upright = lines.solid & (np.abs(lines.x1 - lines.x0) < _UPRIGHT)
    # An upright line stands in the column of its target, where the kernel starts.
    column = np.floor(lines.x1)
    left = np.where(upright, 2 * column, 2 * lines.x0)
    right = np.where(upright, 2 * column, 2 * lines.x1)
    between = np.where(down, bottom >= top, bottom <= top) & (lines.y0 != lines.y1)

    enter, leave = _clip(left, top, right, bottom, 2 * grid.width, 4 * grid.height)
    drawn = between & (enter <= leave)
    _draw_dots(lines, np.flatnonzero(drawn & ~upright), (left, top, right, bottom), (enter, leave), grid, painted)
    _draw_columns(lines, np.flatnonzero(drawn & upright), (left, top, right, bottom), (enter, leave), grid, painted)
    _mark_border(lines, np.flatnonzero(drawn & lines.ends), (left, top, right, bottom), (enter, leave), grid, painted)
    _mark_ends(lines, grid, painted)


_Span = tuple[F64, F64, F64, F64]


def _clip(x0: F64, y0: F64, x1: F64, y1: F64, width: int, height: int) -> tuple[F64, F64]:
    """The part of each line on the screen as parameters 0..1 (Liang and Barsky); first > second if there is none."""
    enter, leave = np.zeros(len(x0)), np.ones(len(x0))
    for start, delta, limit in ((x0, x1 - x0, width), (y0, y1 - y0, height)):
        flat = delta == 0
        step = np.where(flat, 1.0, delta)
        low, high = (0 - start) / step, (limit - 0.01 - start) / step
        enter = np.where(flat, enter, np.maximum(enter, np.minimum(low, high)))
        leave = np.where(flat, leave, np.minimum(leave, np.maximum(low, high)))
        outside = flat & ((start < 0) | (start >= limit))
        leave = np.where(outside, -1.0, leave)
    return enter, leave


def _draw_dots(lines: Lines, which: I64, span: _Span, part: tuple[F64, F64], grid: Grid, painted: Painted) -> None:
    if not len(which):
        return
    x0, y0, x1, y1 = (values[which] for values in span)
    enter, leave = part[0][which], part[1][which]
    dx, dy = x1 - x0, y1 - y0
    length = np.maximum(np.abs(dx), np.abs(dy)) * (leave - enter)
    count = np.floor(length).astype(np.int64) + 1
    owner = np.repeat(np.arange(len(which)), count)
    step = spread(np.zeros(len(which), np.int64), count)
    t = enter[owner] + step * ((leave - enter) / np.maximum(count - 1, 1))[owner]
    x = np.clip(np.floor(x0[owner] + t * dx[owner]).astype(np.int64), 0, 2 * grid.width - 1)
    y = np.clip(np.floor(y0[owner] + t * dy[owner]).astype(np.int64), 0, 4 * grid.height - 1)

    dots = np.zeros((4 * grid.height, 2 * grid.width), np.bool_)
    dots[y, x] = True
    thick = lines.solid[which][owner]
    dots[np.minimum(y[thick] + 1, 4 * grid.height - 1), x[thick]] = True
    bits = np.zeros(grid.char.shape, np.uint32)
    for (row, column), bit in np.ndenumerate(_BITS):
        bits |= dots[row::4, column::2] * bit
    ink = np.zeros(grid.char.shape, np.uint8)
    # A cell has one ink: lines are in drawing order, so that of the top line wins.
    ink[y >> 2, x >> 1] = lines.ink[which][owner]
    _write_char(bits > 0, bits + np.uint32(_BRAILLE), ink, grid, painted)


def _draw_columns(lines: Lines, which: I64, span: _Span, part: tuple[F64, F64], grid: Grid, painted: Painted) -> None:
    char = np.full(grid.char.shape, COLUMN, np.uint32)
    ink = np.zeros(grid.char.shape, np.uint8)
    mask = np.zeros(grid.char.shape, np.bool_)
    x, y0, _, y1 = span
    for k in which.tolist():
        ends = sorted(y0[k] + t[k] * (y1[k] - y0[k]) for t in part)
        rows = slice(int(ends[0]) >> 2, (int(ends[1]) >> 2) + 1)
        mask[rows, int(x[k]) >> 1] = True
        ink[rows, int(x[k]) >> 1] = lines.ink[k]
    _write_char(mask, char, ink, grid, painted)
    grid.attr[mask & painted.free] |= _BOLD


def _write_char(mask: Bools, char: U32, ink: U8, grid: Grid, painted: Painted) -> None:
    """Write ``char`` where ``mask`` allows: in its ink on free cells, dark on the plain parts of bars."""
    dark = np.where(grid.bg == _SELECTED, np.uint8(_FIRST_GROUND), np.uint8(_LABEL))
    for place, colour in ((mask & painted.free, ink), (mask & painted.plain, dark)):
        grid.char[place] = char[place]
        grid.fg[place] = colour[place]


def _mark_border(lines: Lines, which: I64, span: _Span, part: tuple[F64, F64], grid: Grid, painted: Painted) -> None:
    """Draw an arrow at the border where the source or target of a line is off screen."""
    x0, y0, x1, y1 = span
    for k in which.tolist():
        for t, at_end in ((part[0][k], False), (part[1][k], True)):
            if t >= 1 if at_end else t <= 0:
                continue
            x = int(np.clip((x0[k] + t * (x1[k] - x0[k])) // 2, 0, grid.width - 1))
            y = int(np.clip((y0[k] + t * (y1[k] - y0[k])) // 4, 0, grid.height - 1))
            far = (lines.x1[k], lines.y1[k]) if at_end else (lines.x0[k], lines.y0[k])
            glyph = DOWN if far[1] >= grid.height else UP if far[1] < 0 else LEFT if far[0] < 0 else RIGHT
            at = np.array([[x], [y], [glyph]], np.int64)
            _mark(at[0], at[1], at[2], lines.ink[k : k + 1], grid, painted)


def _mark_ends(lines: Lines, grid: Grid, painted: Painted) -> None:
    target = np.where(lines.y1 >= lines.y0, DOWN, UP)
    for xs, ys, glyph in ((lines.x0, lines.y0, np.full(len(lines), SOURCE)), (lines.x1, lines.y1, target)):
        shown = np.flatnonzero((xs >= 0) & (xs < grid.width) & (ys >= 0) & (ys < grid.height))
        # Among many lines a name is worth more than another mark.
        shown = shown[lines.ends[shown] | ~painted.named[ys[shown], xs[shown].astype(np.int64)]]
        _mark(xs[shown].astype(np.int64), ys[shown], glyph[shown], lines.ink[shown], grid, painted)


def _mark(x: I64, y: I64, glyph: I64, ink: U8, grid: Grid, painted: Painted) -> None:
    """Write marks: dark on a bar, in the line's ink elsewhere."""
    bar = (grid.bg[y, x] < _FIRST_GROUND) | (grid.bg[y, x] == _SELECTED)
    grid.char[y, x] = glyph
    dark = np.where(grid.bg[y, x] == _SELECTED, _FIRST_GROUND, _LABEL)
    grid.fg[y, x] = np.where(bar, dark, ink)
    grid.attr[y, x] = _BOLD
    painted.free[y, x] = painted.plain[y, x] = False
