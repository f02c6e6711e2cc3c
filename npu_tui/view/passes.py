"""Stages of a pipeline as lines of bars: passes with their micro batch, transfers, and the bubble between them."""

from __future__ import annotations

from msgspec import Struct

from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import cell_count, drawable, shortened
from npu_tui.view.bars import points
from npu_tui.view.grid import Attr, Grid
from npu_tui.view.heat import HeatPlaces
from npu_tui.view.palette import Ink, bar

# The character and the ink of what fills a cell; nothing is a bubble.
_FILLS = {
    "": ("╱", bar(OpClass.WAIT)),
    "forward": ("█", bar(OpClass.CUBE)),
    "backward": ("▓", bar(OpClass.VECTOR)),
    "other": ("░", bar(OpClass.OTHER)),
    "transfer": ("▒", bar(OpClass.COMMUNICATION)),
    "tail": ("█", Ink.ALERT),
    "blank": (" ", Ink.FAINT),
}


class PassBar(Struct, frozen=True):
    """What fills the cells from ``first`` to before ``last``, with a ``label``; ``chosen``: the cursor is on it."""

    first: int
    last: int
    fill: str
    label: str
    chosen: bool = False


class DrawnStage(Struct, frozen=True):
    """One stage: its label, its bars and a note at the right edge."""

    label: str
    bars: tuple[PassBar, ...]
    note: str


class PassesPicture(Struct, frozen=True):
    """Stages under a ``title``; ``cursor`` is a line. The ``legend`` names the fills in their order.

    ``gap`` fills what no bar does: a bubble, where nothing else is known.
    """

    title: str
    stages: tuple[DrawnStage, ...]
    cursor: int
    legend: tuple[tuple[str, str], ...]
    gap: str = ""


def bar_room(labels: list[str], notes: list[str], width: int) -> tuple[int, int]:
    """The first column of the bars, and how many there are."""
    left = 3 + max(map(cell_count, labels), default=0)
    return left, max(width - left - max(map(cell_count, notes), default=0) - 2, 8)


_LEAST_WORD = 6  # cells of the shortest entry of the legend
_BESIDE_WORD = 4  # cells of an entry beside its word: the fill, and blanks


def legend_lines(picture: PassesPicture, width: int) -> int:
    """The lines of its legend: two where one is too short, the last entry on its own."""
    return 1 + (1 + sum(cell_count(drawable(word)) + _BESIDE_WORD for _, word in picture.legend) > width)


def draw_passes(picture: PassesPicture, grid: Grid) -> HeatPlaces:
    """Draw ``picture`` into ``grid``: title, legend, and the stages that fit around the cursor."""
    lines = legend_lines(picture, grid.width)
    places = HeatPlaces(first_line=1 + (lines if grid.height > lines + len(picture.stages) else 1))
    if grid.height < 3:
        return places
    grid.write(0, 1, points(shortened(drawable(picture.title), grid.width - 1)), Ink.BRIGHT, attr=Attr.BOLD)
    x, y = 1, 1
    for number, (fill, word) in enumerate(picture.legend, 1):
        if number == len(picture.legend) and places.first_line > 2:
            x, y = 1, 2
        if x + _LEAST_WORD > grid.width:
            break
        char, ink = _FILLS[fill]
        x = grid.write(y, x, points(char), ink)
        x = grid.write(y, x + 1, points(shortened(f"{drawable(word)}  ", max(grid.width - x - 2, 0))), Ink.DIM)
    labels, notes = [stage.label for stage in picture.stages], [stage.note for stage in picture.stages]
    left, room = bar_room(labels, notes, grid.width)
    places.rows = min(grid.height - places.first_line, len(picture.stages))
    places.top = min(max(picture.cursor - places.rows + 1, 0), max(len(picture.stages) - places.rows, 0))
    for line in range(places.rows):
        number, y = places.top + line, places.first_line + line
        focused, stage = number == picture.cursor, picture.stages[number]
        if focused:
            grid.bg[y, :] = Ink.FOCUS
        ink = Ink.BRIGHT if focused else Ink.TEXT
        grid.write(y, 0, points("▸" if focused else " "), Ink.ACCENT)
        grid.write(y, 1, points(stage.label), ink, attr=Attr.BOLD if focused else 0)
        char, ink = _FILLS[picture.gap]
        grid.char[y, left : left + room], grid.fg[y, left : left + room] = ord(char), ink
        for one in stage.bars:
            _draw_pass(one, grid, y, left, room)
        grid.write(y, left + room + 1, points(stage.note), Ink.BRIGHT if focused else Ink.DIM)
    return places


def _draw_pass(one: PassBar, grid: Grid, y: int, left: int, room: int) -> None:
    """A bar with its label, where the window holds it."""
    char, ink = _FILLS[one.fill]
    first, last = max(one.first, 0), min(one.last, room)
    if last <= first:
        return
    grid.char[y, left + first : left + last], grid.fg[y, left + first : left + last] = ord(char), ink
    inside = 1 if one.chosen and last - first > 1 else 0
    if cell_count(one.label) <= last - first - 2 * inside - (0 if one.chosen else 1):
        grid.write(y, left + first + inside, points(one.label), Ink.LABEL, ink, attr=Attr.BOLD)
    if not one.chosen:
        return
    # As a selected slice: between brackets, in its own colour; of a single cell nothing but a mark would be left.
    cells = slice(left + first, left + last)
    grid.attr[y, cells] |= int(Attr.UNDERLINE | Attr.BOLD)
    for x, sign in ((left + first, "["), (left + last - 1, "]")) if inside else ((left + first, "◆"),):
        grid.write(y, x, points(sign), Ink.SELECTED, Ink.LANE, attr=int(Attr.BOLD | Attr.UNDERLINE))
