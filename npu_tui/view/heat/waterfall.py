"""One collective as bars on one clock: work, what of it was too much, waiting, transfer."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import cell_count, drawable, shortened
from npu_tui.view.cells.grid import Attr, Grid
from npu_tui.view.cells.labels import points
from npu_tui.view.cells.palette import Ink, bar

_WORK, _MORE, _WAIT, _TRANSFER, _EDGE = "█", "╱", "·", "▒", "│"
_ERROR = "~"
_BEFORE = "≤"
_WORK_INK, _MOVE_INK, _WAIT_INK = bar(OpClass.CUBE), bar(OpClass.COMMUNICATION), bar(OpClass.WAIT)


class DrawnBar(Struct, frozen=True):
    """One rank, ns from the start of the picture on: it worked from ``begin`` (None: not recorded) to ``come``.

    Of that ``own`` ns were more than its peers needed; it left at ``end``. ``words`` stand in its wait where there is
    room, ``note`` at the right edge. ``error`` is the ± of its clock in ns. ``at_most``: it came then or before.
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
    """Bars under a ``title``, ``length`` ns long; the last rank came at ``come``. The first of ``asides`` that
    fits stands at the right.

    ``more`` says what has no line.
    """

    title: str
    asides: tuple[str, ...]
    length: int
    come: int
    bars: tuple[DrawnBar, ...]
    more: str = ""


def draw_waterfall(picture: WaterfallPicture, grid: Grid) -> None:
    """Draw ``picture`` into ``grid``: its title, then a bar a line."""
    if grid.height < 2 or grid.width < 20:
        return
    title = drawable(picture.title)
    room = grid.width - cell_count(title) - 3
    aside = next((each for each in picture.asides if cell_count(each) <= room), picture.asides[-1])
    title = shortened(title, max(grid.width - cell_count(aside) - 3, 10))
    grid.write(0, 0, points(title), Ink.BRIGHT, attr=Attr.BOLD)
    grid.write(0, max(grid.width - cell_count(aside) - 1, 0), points(aside), Ink.DIM)
    label = max((cell_count(each.label) for each in picture.bars), default=0)
    note = max((cell_count(each.note) for each in picture.bars), default=0)
    left = 2 + label
    right = grid.width - note - 2
    if right - left < 12:
        right = grid.width - 1
        note = 0
    lines = grid.height - 1 - bool(picture.more)
    for line, each in enumerate(picture.bars[:lines], 1):
        _bar(picture, each, grid, line, left, right)
        if note:
            ink = Ink.ALERT if each.last else Ink.BRIGHT if each.marked else Ink.DIM
            grid.write(line, right + 1, points(each.note), ink, attr=Attr.BOLD if each.last else 0)
    if picture.more:
        grid.write(min(len(picture.bars), lines) + 1, 1, points(shortened(picture.more, grid.width - 2)), Ink.DIM)


def _bar(picture: WaterfallPicture, each: DrawnBar, grid: Grid, line: int, left: int, right: int) -> None:
    width = right - left

    def column(time: int) -> int:
        return left + min(max(time * width // max(picture.length, 1), 0), width - 1)

    if each.marked:
        grid.bg[line, :] = Ink.FOCUS
    grid.write(line, 1, points(each.label), Ink.BRIGHT if each.last or each.marked else Ink.TEXT)
    come, last, end = column(each.come), column(picture.come), column(each.end)
    if each.at_most:
        grid.write(line, come, points(_BEFORE), Ink.DIM)
    elif each.begin is not None:
        begin, more = column(each.begin), column(max(each.come - each.own, each.begin))
        _fill(grid, line, begin, more, _WORK, _WORK_INK)
        _fill(grid, line, more, come, _MORE if each.own else _WORK, Ink.ALERT if each.own else _WORK_INK)
    if come + 1 < last:
        _fill(grid, line, come + 1, last, _WAIT, _WAIT_INK)
        space = last - come - 3
        if cell_count(each.words) + 2 <= space:
            start = come + 1 + (last - come - cell_count(each.words)) // 2
            grid.write(line, start - 1, points(f" {each.words} "), Ink.DIM)
    _fill(grid, line, last + 1, end, _TRANSFER, _MOVE_INK)
    grid.write(line, last, points(_EDGE), Ink.BRIGHT)
    if end > last:
        grid.write(line, end, points(_EDGE), Ink.DIM)
    if not each.at_most:
        _error(each, grid, line, column)
        if come < last:
            grid.write(line, come, points(_EDGE), Ink.TEXT)


def _error(each: DrawnBar, grid: Grid, line: int, column: Callable[[int], int]) -> None:
    """What the clock leaves open about the arrival, where that is as wide as a cell."""
    low, high = column(each.come - each.error), column(each.come + each.error)
    if high > low:
        _fill(grid, line, low, high + 1, _ERROR, Ink.ACCENT)


def _fill(grid: Grid, line: int, start: int, end: int, char: str, ink: int) -> None:
    if end > start:
        grid.char[line, start:end], grid.fg[line, start:end] = ord(char), ink
