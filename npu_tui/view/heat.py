"""The heat map of ranks and steps, and the waterfall of a collective."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from npu_tui.trace.arrays import F64, U8
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import cell_count, drawable, padded, shortened
from npu_tui.view.bars import points
from npu_tui.view.grid import U32, Attr, Grid
from npu_tui.view.palette import Ink, bar

GLYPHS = np.array([ord(char) for char in "·░▒▓█"], np.uint32)
ALARMING = np.array([Ink.FAINT, Ink.DIM, Ink.ACCENT, Ink.ALERT_LOW, Ink.ALERT], np.uint8)
CALM = np.array([Ink.FAINT, Ink.COUNTER_LOW, Ink.COUNTER_LOW, Ink.COUNTER, Ink.COUNTER], np.uint8)
"""The inks of the shades: red only shows what a rank is to blame for."""
UNKNOWN = ord(" ")


def shaded(shares: F64, least: tuple[float, ...], alarming: bool) -> tuple[U32, U8]:
    """Characters and inks of ``shares`` (any shape); ``least`` are the lower bounds of the shades after the first.

    An unknown share (NaN) is blank.
    """
    known = ~np.isnan(shares)
    level = np.searchsorted(np.array(least), np.where(known, shares, 0.0), "right")
    char = np.where(known, GLYPHS[level], UNKNOWN).astype(np.uint32)
    ink = (ALARMING if alarming else CALM)[level]
    return char, ink


def worst(shares: F64, count: int) -> F64:
    """``shares`` (…, n) reduced to at most ``count`` columns, each with the maximum of its shares."""
    columns = shares.shape[-1]
    if columns <= count:
        return shares
    # A mean would hide a single bad step among many good ones.
    begins = np.arange(count) * columns // count
    reduced: F64 = np.fmax.reduceat(shares, begins, axis=-1)
    return reduced


_TALLEST = 16  # up to this many devices of a host each has its own line


class FieldPicture(Struct, frozen=True):
    """``shares`` (hosts, devices), NaN without a device, under a ``title``; ``cursor`` is (host, device)."""

    title: str
    shares: F64
    names: tuple[str, ...]
    least: tuple[float, ...]
    alarming: bool = True
    cursor: tuple[int, int] | None = None


class FieldPlaces(Struct, frozen=True):
    """The layout of a field: ``across`` hosts per line; with ``by_device`` a line is a device, else further hosts."""

    across: int
    by_device: bool
    hosts: int
    cell: int = 1
    left: int = 1

    def at(self, x: int, y: int) -> tuple[int, int] | None:
        """The host and device (-1: all) at column ``x`` of line ``y`` below the title; None outside."""
        column = (x - self.left) // self.cell
        if not 0 <= column < self.across or y < 0:
            return None
        if self.by_device:
            return column, y
        host = y * self.across + column
        return (host, -1) if host < self.hosts else None


def field_places(hosts: int, devices: int, width: int, height: int) -> FieldPlaces:
    """The layout of ``hosts`` with ``devices`` each in ``height`` lines of ``width`` columns."""
    room = max(width - 2, 1)
    if hosts <= room and devices <= min(height - 1, _TALLEST):
        return FieldPlaces(hosts, True, hosts, 2 if 2 * hosts <= room else 1)
    # Lines of multiples of ten hosts are easy to count.
    across = next((count for count in (50, 40, 30, 20, 10) if 2 * count <= room), room)
    while -(-hosts // across) > max(height - 1, 1) and across < room:
        across = min(across * 2, room)
    return FieldPlaces(across, False, hosts, 2 if 2 * across <= room else 1)


def draw_field(picture: FieldPicture, grid: Grid) -> FieldPlaces:
    """Draw ``picture`` into ``grid``: a title, then as many lines of cells as fit."""
    hosts, devices = picture.shares.shape
    places = field_places(hosts, devices, grid.width, grid.height)
    if grid.height < 2:
        return places
    grid.write(0, 1, points(shortened(drawable(picture.title), grid.width - 1)), Ink.BRIGHT, attr=Attr.BOLD)
    if places.by_device:
        cells = picture.shares.T
    else:
        worst_of_host = np.fmax.reduce(picture.shares, axis=1)
        lines = -(-hosts // places.across)
        cells = np.full(lines * places.across, np.nan)
        cells[:hosts] = worst_of_host
        cells = cells.reshape(lines, places.across)
    char, ink = shaded(cells, picture.least, picture.alarming)
    for line in range(min(len(cells), grid.height - 1)):
        at = places.left + np.arange(places.across) * places.cell
        grid.char[1 + line, at], grid.fg[1 + line, at] = char[line], ink[line]
    if picture.cursor is not None:
        _mark(picture.cursor, places, grid)
    return places


def _mark(cursor: tuple[int, int], places: FieldPlaces, grid: Grid) -> None:
    host, device = cursor
    line, column = (device, host) if places.by_device else divmod(host, places.across)
    x = places.left + column * places.cell
    if 1 + line < grid.height and x < grid.width:
        grid.bg[1 + line, x] = Ink.NAME_FOCUS
        grid.attr[1 + line, x] |= Attr.BOLD | Attr.UNDERLINE


_GAP = 2
_WIDEST = 6
"""The widest cell, its blank column included."""
_ASIDE_FROM = 70  # columns: narrower, words at the side would take the room of the map
_CURSOR = "▸"
_LEAST_CELLS = 12
"""Cells that the map keeps before a figure is shown."""


class DrawnRow(Struct, frozen=True):
    """One row: its label, a text beside it, its ``shares`` (columns,), and figures for the right edge.

    ``unknown`` rows have no files: their cells are question marks. The user chose a ``marked`` one.
    """

    label: str
    aside: str
    shares: F64
    figures: tuple[str, ...] = ()
    unknown: bool = False
    marked: bool = False


class HeatPicture(Struct, frozen=True):
    """Rows under a ``title`` and the labels of their columns; ``heads`` are the headings of the figures.

    ``least`` are the lower bounds of the shades. ``cursor`` is a row, ``column`` a highlighted column, -1 for none.
    With ``named`` rows have labels.
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


class HeatPlaces(Struct):
    """The layout of a heat map: finds the picture's row and column at a cell; ``top`` is the first row drawn."""

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


def draw_heat(picture: HeatPicture, grid: Grid) -> HeatPlaces:
    """Draw ``picture`` into ``grid``: title, column labels, the rows that fit around the cursor, a note on the rest.

    A grid of less than three lines stays blank.
    """
    places = HeatPlaces()
    if grid.height < 3 or grid.width < 8:
        return places
    left = _label_columns(picture, grid.width)
    room = grid.width - left - _GAP
    shown = _figures_shown(picture, room)
    widths = [_figure_width(picture, k) for k in range(shown)]
    room -= sum(width + _GAP for width in widths)
    count = len(picture.columns)
    places.left, places.columns = left, count
    places.bins = min(count, max(room, 1))
    places.cell = min(max(room // max(places.bins, 1), 1), _WIDEST)
    filled = places.cell - 1 if places.cell > 2 else places.cell
    grid.write(0, 1, points(shortened(drawable(picture.title), grid.width - 1)), Ink.BRIGHT, attr=Attr.BOLD)
    _draw_column_labels(picture, grid, places)
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
        _draw_rank(picture, picture.rows[number], number, grid, places, places.first_line + line, filled)
        for k, x in enumerate(figure_at):
            figure = picture.rows[number].figures[k] if k < len(picture.rows[number].figures) else ""
            ink = Ink.BRIGHT if number == picture.cursor else Ink.TEXT
            grid.write(places.first_line + line, x, points(padded(figure, widths[k], right=True)), ink)
    if left_out:
        grid.write(places.first_line + places.rows, 1, points(shortened(picture.more, grid.width - 2)), Ink.DIM)
    return places


def _label_columns(picture: HeatPicture, width: int) -> int:
    """Columns before the cells."""
    if not picture.named:
        return 0
    label = max((cell_count(row.label) for row in picture.rows), default=0)
    aside = max((cell_count(row.aside) for row in picture.rows), default=0) if width >= _ASIDE_FROM else 0
    return min(1 + label + _GAP + (aside + _GAP if aside else 0), width // 2)


def _figures_shown(picture: HeatPicture, room: int) -> int:
    """How many figures fit beside the cells."""
    # Two cells per column, or 12 in all, are worth more than another figure.
    need, shown = min(len(picture.columns) * 2, _LEAST_CELLS), 0
    for k in range(len(picture.heads)):
        room -= _figure_width(picture, k) + _GAP
        if room < need:
            break
        shown += 1
    return shown


def _figure_width(picture: HeatPicture, k: int) -> int:
    widths = [cell_count(row.figures[k]) for row in picture.rows if k < len(row.figures)]
    return max([cell_count(picture.heads[k]), *widths])


def _figure_places(width: int, widths: Sequence[int]) -> list[int]:
    places: list[int] = []
    x = width
    for width_of_figure in reversed(widths):
        x -= width_of_figure + (_GAP if places else 1)
        places.append(x)
    return places[::-1]


def _draw_column_labels(picture: HeatPicture, grid: Grid, places: HeatPlaces) -> None:
    """Draw the labels of the columns that have room; the highlighted column always has one."""
    free = places.left
    count = len(picture.columns)
    wanted = picture.column * places.bins // count if 0 <= picture.column < count else -1
    taken = (-1, -1)
    if wanted >= 0:
        text = picture.columns[picture.column]
        start = places.left + wanted * places.cell
        taken = (start - 1, start + cell_count(text) + 1)
    # Left to right, a label is skipped where it would touch the one before or the highlighted one.
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


def _draw_rank(
    picture: HeatPicture, row: DrawnRow, number: int, grid: Grid, places: HeatPlaces, line: int, filled: int
) -> None:
    focused = number == picture.cursor
    if focused:
        grid.bg[line, :] = Ink.FOCUS
    if picture.named:
        grid.write(line, 0, points(_CURSOR if focused else "•" if row.marked else " "), Ink.ACCENT)
        ink = Ink.BRIGHT if focused else Ink.DIM if row.unknown else Ink.TEXT
        label = max((cell_count(other.label) for other in picture.rows), default=0)
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


# Fills of computing, exposed communication and free time, as in the bars of a step.
_FILLS = (("█", bar(OpClass.CUBE)), ("▒", bar(OpClass.COMMUNICATION)), ("╱", bar(OpClass.WAIT)))


class DrawnParts(Struct, frozen=True):
    """One rank: ``times`` are computing, exposed communication and free time of a step in ns; ``note`` their sum."""

    label: str
    times: tuple[float, float, float]
    note: str
    marked: bool = False


def draw_parts(title: str, rows: tuple[DrawnParts, ...], grid: Grid) -> None:
    """Draw ``rows`` below their ``title`` into ``grid``, the longest over its whole width."""
    grid.write(0, 1, points(shortened(drawable(title), grid.width - 1)), Ink.BRIGHT, attr=Attr.BOLD)
    for fill, ink in _FILLS:  # the title is the legend of the bars
        grid.fg[0, grid.char[0] == ord(fill)] = ink
    label = max((cell_count(row.label) for row in rows), default=0)
    note = max((cell_count(row.note) for row in rows), default=0)
    left, right = label + 2, grid.width - note - 2
    longest = max((sum(row.times) for row in rows), default=0.0)
    if right - left < 10 or longest <= 0:
        return
    for line, row in enumerate(rows[: grid.height - 1], 1):
        if row.marked:
            grid.bg[line, :] = Ink.FOCUS
        grid.write(line, 1, points(row.label), Ink.BRIGHT if row.marked else Ink.TEXT)
        grid.write(line, right + 1, points(row.note), Ink.DIM)
        done = 0.0
        for time, (fill, ink) in zip(row.times, _FILLS, strict=True):
            # Both ends are rounded from the running sum, so parts meet without gaps.
            start, done = round(left + done * (right - left) / longest), done + time
            end = round(left + done * (right - left) / longest)
            grid.char[line, start:end], grid.fg[line, start:end] = ord(fill), ink


_WORK, _MORE, _WAIT, _TRANSFER, _EDGE = "█", "╱", "·", "▒", "│"
_ERROR = "~"
_BEFORE = "≤"
_WORK_INK, _MOVE_INK, _WAIT_INK = bar(OpClass.CUBE), bar(OpClass.COMMUNICATION), bar(OpClass.WAIT)


class HeatBar(Struct, frozen=True):
    """One rank, ns from the start of the picture: it worked from ``begin`` (None: not recorded) to ``come``.

    ``own`` ns of that are more than its peers needed; it left at ``end``. ``words`` are drawn in its wait if there is
    room, ``note`` at the right edge. ``error`` is the uncertainty of its clock (± ns). ``at_most``: it came by then.
    """

    label: str
    begin: int | None
    come: int
    end: int
    own: int
    error: int
    words: str
    note: str
    last: bool = False
    at_most: bool = False
    marked: bool = False


class WaterfallPicture(Struct, frozen=True):
    """Bars under a ``title``, ``length`` ns long; the last rank came at ``come``.

    The first of ``asides`` that fits is drawn at the right; ``more`` is a note on bars without a line.
    """

    title: str
    asides: tuple[str, ...]
    length: int
    come: int
    bars: tuple[HeatBar, ...]
    more: str = ""


def draw_waterfall(picture: WaterfallPicture, grid: Grid) -> None:
    """Draw ``picture`` into ``grid``: its title, then one bar per line."""
    if grid.height < 2 or grid.width < 20:
        return
    title = drawable(picture.title)
    room = grid.width - cell_count(title) - 4
    aside = next((text for text in picture.asides if cell_count(text) <= room), picture.asides[-1])
    title = shortened(title, max(grid.width - cell_count(aside) - 4, 10))
    grid.write(0, 1, points(title), Ink.BRIGHT, attr=Attr.BOLD)
    grid.write(0, max(grid.width - cell_count(aside) - 1, 0), points(aside), Ink.DIM)
    label = max((cell_count(row.label) for row in picture.bars), default=0)
    note = max((cell_count(row.note) for row in picture.bars), default=0)
    left = 2 + label
    right = grid.width - note - 2
    if right - left < 12:
        right = grid.width - 1
        note = 0
    lines = grid.height - 1 - bool(picture.more)
    for line, row in enumerate(picture.bars[:lines], 1):
        _draw_rank_bar(picture, row, grid, line, left, right)
        if note:
            ink = Ink.ALERT if row.last else Ink.BRIGHT if row.marked else Ink.DIM
            grid.write(line, right + 1, points(row.note), ink, attr=Attr.BOLD if row.last else 0)
    if picture.more:
        grid.write(min(len(picture.bars), lines) + 1, 1, points(shortened(picture.more, grid.width - 2)), Ink.DIM)


def _draw_rank_bar(picture: WaterfallPicture, rank_bar: HeatBar, grid: Grid, line: int, left: int, right: int) -> None:
    width = right - left

    def column(time: int) -> int:
        return left + min(max(time * width // max(picture.length, 1), 0), width - 1)

    if rank_bar.marked:
        grid.bg[line, :] = Ink.FOCUS
    grid.write(line, 1, points(rank_bar.label), Ink.BRIGHT if rank_bar.last or rank_bar.marked else Ink.TEXT)
    come, last, end = column(rank_bar.come), column(picture.come), column(rank_bar.end)
    if rank_bar.at_most:
        grid.write(line, come, points(_BEFORE), Ink.DIM)
    elif rank_bar.begin is not None:
        begin, more = column(rank_bar.begin), column(max(rank_bar.come - rank_bar.own, rank_bar.begin))
        _fill(grid, line, begin, more, _WORK, _WORK_INK)
        _fill(grid, line, more, come, _MORE if rank_bar.own else _WORK, Ink.ALERT if rank_bar.own else _WORK_INK)
    if come + 1 < last:
        _fill(grid, line, come + 1, last, _WAIT, _WAIT_INK)
        space = last - come - 3
        if cell_count(rank_bar.words) + 2 <= space:
            start = come + 1 + (last - come - cell_count(rank_bar.words)) // 2
            grid.write(line, start - 1, points(f" {rank_bar.words} "), Ink.DIM)
    _fill(grid, line, last + 1, end, _TRANSFER, _MOVE_INK)
    grid.write(line, last, points(_EDGE), Ink.BRIGHT)
    if end > last:
        grid.write(line, end, points(_EDGE), Ink.DIM)
    if not rank_bar.at_most:
        _error(rank_bar, grid, line, column)
        if come < last:
            grid.write(line, come, points(_EDGE), Ink.TEXT)


def _error(rank_bar: HeatBar, grid: Grid, line: int, column: Callable[[int], int]) -> None:
    """Draw the uncertainty of the arrival where it is wider than a cell."""
    low, high = column(rank_bar.come - rank_bar.error), column(rank_bar.come + rank_bar.error)
    if high > low:
        _fill(grid, line, low, high + 1, _ERROR, Ink.ACCENT)


def _fill(grid: Grid, line: int, start: int, end: int, char: str, ink: int) -> None:
    if end > start:
        grid.char[line, start:end], grid.fg[line, start:end] = ord(char), ink
