"""Ranks over steps, collectives or time: a row of shades each, with figures after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.text import cell_count, drawable, padded, shortened
from npu_tui.view.cells.grid import Attr, Grid
from npu_tui.view.cells.labels import points
from npu_tui.view.cells.palette import Ink
from npu_tui.view.heat.shades import shaded, worst

F64 = npt.NDArray[np.float64]

_GAP = 2
_WIDEST = 6
"""Columns of a cell at most, one of them blank."""
_ASIDE_FROM = 70
_CURSOR = "▸"
_LEAST_CELLS = 12
"""Cells that the map keeps before a figure is shown."""


class DrawnRow(Struct, frozen=True):
    """One row: what it is called, what stands beside that, its ``shares`` (columns,), and figures for the right edge.

    ``unknown`` rows have no files: their cells show that. A ``marked`` one was chosen.
    """

    label: str
    aside: str
    shares: F64
    figures: tuple[str, ...] = ()
    unknown: bool = False
    marked: bool = False


class HeatPicture(Struct, frozen=True):
    """Rows under a ``title`` and the labels of their columns; ``heads`` stand over the figures.

    ``least`` are the shares at which shades begin. ``cursor`` is a row, ``column`` a column that is looked at, -1 for
    none. With ``named`` rows have labels.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[DrawnRow, ...]
    heads: tuple[str, ...]
    least: tuple[float, ...]
    alarming: bool = True
    cursor: int = -1
    column: int = -1
    named: bool = True
    more: str = ""


class Places(Struct):
    """Where on the grid what is: the picture's row and column at a cell; ``top`` is the first row that is drawn."""

    top: int = 0
    first_line: int = 2
    rows: int = 0
    left: int = 0
    cell: int = 1
    bins: int = 0
    columns: int = 0
    figures: list[int] = []

    def row(self, y: int) -> int | None:
        """The picture's row on line ``y``."""
        at = y - self.first_line
        return self.top + at if 0 <= at < self.rows else None

    def column(self, x: int) -> int | None:
        """The first of the picture's columns in screen column ``x``."""
        at = (x - self.left) // self.cell
        return at * self.columns // self.bins if self.bins and 0 <= at < self.bins else None


def draw_heat(picture: HeatPicture, grid: Grid) -> Places:
    """Draw ``picture`` into ``grid``: title, column labels, the rows that fit around the cursor, what is left out.

    A grid of less than three lines stays blank.
    """
    places = Places()
    if grid.height < 3 or grid.width < 8:
        return places
    left = _left(picture, grid.width)
    room = grid.width - left - _GAP
    shown = _figures_shown(picture, room)
    widths = [_figure_width(picture, k) for k in range(shown)]
    room -= sum(width + _GAP for width in widths)
    count = len(picture.columns)
    places.left, places.columns = left, count
    places.bins = min(count, max(room, 1))
    places.cell = min(max(room // max(places.bins, 1), 1), _WIDEST)
    filled = places.cell - 1 if places.cell > 2 else places.cell
    grid.write(0, 0, points(shortened(drawable(picture.title), grid.width)), Ink.BRIGHT, attr=Attr.BOLD)
    _labels(picture, grid, places)
    figure_at = _figure_places(grid.width, widths)
    for k, x in enumerate(figure_at):
        grid.write(1, x, points(padded(picture.heads[k], widths[k], right=True)), Ink.DIM)
    lines = grid.height - places.first_line
    rows = len(picture.rows)
    left_out = rows > lines
    lines -= left_out
    places.top = min(max(picture.cursor - lines + 1, 0), max(rows - lines, 0))
    places.rows = min(lines, rows - places.top)
    for line in range(places.rows):
        number = places.top + line
        _row(picture, picture.rows[number], number, grid, places, places.first_line + line, filled)
        for k, x in enumerate(figure_at):
            figure = picture.rows[number].figures[k] if k < len(picture.rows[number].figures) else ""
            ink = Ink.BRIGHT if number == picture.cursor else Ink.TEXT
            grid.write(places.first_line + line, x, points(padded(figure, widths[k], right=True)), ink)
    if left_out:
        grid.write(places.first_line + places.rows, 1, points(shortened(picture.more, grid.width - 2)), Ink.DIM)
    return places


def _left(picture: HeatPicture, width: int) -> int:
    """Columns before the cells."""
    if not picture.named:
        return 0
    label = max((cell_count(row.label) for row in picture.rows), default=0)
    aside = max((cell_count(row.aside) for row in picture.rows), default=0) if width >= _ASIDE_FROM else 0
    return min(1 + label + _GAP + (aside + _GAP if aside else 0), width // 2)


def _figures_shown(picture: HeatPicture, room: int) -> int:
    """How many figures fit beside the cells."""
    need, shown = min(len(picture.columns) * 2, _LEAST_CELLS), 0
    for k in range(len(picture.heads)):
        room -= _figure_width(picture, k) + _GAP
        if room < need:
            break
        shown += 1
    return shown


def _figure_width(picture: HeatPicture, k: int) -> int:
    own = [cell_count(row.figures[k]) for row in picture.rows if k < len(row.figures)]
    return max([cell_count(picture.heads[k]), *own])


def _figure_places(width: int, widths: Sequence[int]) -> list[int]:
    found: list[int] = []
    x = width
    for own in reversed(widths):
        x -= own + (_GAP if found else 1)
        found.append(x)
    return found[::-1]


def _labels(picture: HeatPicture, grid: Grid, places: Places) -> None:
    """The labels of the columns, those that have room; that of the column looked at in any case."""
    free = places.left
    count = len(picture.columns)
    wanted = picture.column * places.bins // count if 0 <= picture.column < count else -1
    taken = (-1, -1)
    if wanted >= 0:
        text = picture.columns[picture.column]
        start = places.left + wanted * places.cell
        taken = (start - 1, start + cell_count(text) + 1)
    for at in range(places.bins):
        text = picture.columns[picture.column if at == wanted else at * count // places.bins]
        x = places.left + at * places.cell
        size = cell_count(text)
        if at != wanted and (x < free or (x < taken[1] and x + size > taken[0])):
            continue
        if x + size > places.left + places.bins * places.cell + 1 and at != wanted:
            break
        ink = Ink.ACCENT if at == wanted else Ink.DIM
        grid.write(1, x, points(text), ink, attr=Attr.BOLD if at == wanted else 0)
        free = x + size + 1


def _row(picture: HeatPicture, row: DrawnRow, number: int, grid: Grid, places: Places, line: int, filled: int) -> None:
    focused = number == picture.cursor
    if focused:
        grid.bg[line, :] = Ink.FOCUS
    if picture.named:
        grid.write(line, 0, points(_CURSOR if focused else "•" if row.marked else " "), Ink.ACCENT)
        ink = Ink.BRIGHT if focused else Ink.DIM if row.unknown else Ink.TEXT
        label = max((cell_count(each.label) for each in picture.rows), default=0)
        grid.write(line, 1, points(shortened(row.label, places.left - 2)), ink, attr=Attr.BOLD if focused else 0)
        start = 1 + label + _GAP
        if start < places.left - 1:
            grid.write(line, start, points(shortened(row.aside, places.left - start - 1)), Ink.DIM)
    if not places.bins:
        return
    binned = worst(row.shares, places.bins)
    char, inks = shaded(binned, picture.least, picture.alarming)
    if row.unknown:
        char[:], inks[:] = ord("?"), Ink.FAINT
    for k in range(filled):
        at = places.left + np.arange(places.bins) * places.cell + k
        grid.char[line, at], grid.fg[line, at] = char, inks
