"""The columns left of the lanes: layer colour, fold mark, name, and how busy the lane is in view."""

from __future__ import annotations

from functools import lru_cache

from npu_tui.strings import say
from npu_tui.trace.text import cell_count, drawable
from npu_tui.trace.units import duration_text
from npu_tui.view.cells.grid import Grid
from npu_tui.view.cells.labels import cut_middle, points
from npu_tui.view.cells.palette import Ink
from npu_tui.view.scene import ScreenRow

_WIDE, _NORMAL = (160, 31), (100, 24)
_NARROW = 16
_LEAST_LANES = 4
_STRIP, _FOLDED, _OPEN, _GUIDE = "▎", "▸", "▾", "│"
_PIN = "^"
_GUIDE_EVERY = 5
_VALUE = 3
_IDLE = "·"


def gutter_width(width: int) -> int:
    """Columns of the gutter on a screen of ``width`` columns: 31, 24 or 16, less where lanes would have no room."""
    for least, columns in (_WIDE, _NORMAL):
        if width >= least:
            return columns
    return max(min(_NARROW, width - _LEAST_LANES), 0)


def share_text(share: float | None) -> str:
    """A busy share 0..1 in at most four cells: ``100%``, ``7%``, ``<1%``, ``·`` for nothing, empty if unknown."""
    if share is None:
        return ""
    if share <= 0:
        return _IDLE
    if share < 0.01:
        return "<1%"
    # Only a lane without any gap is 100 %.
    return f"{min(round(100 * share), 99) if share < 1 else 100}%"


def offset_text(offset: int) -> str:
    """By how much a trace is shifted (ns), with its sign; empty if it is not."""
    return ("+" if offset > 0 else "") + duration_text(offset, 3, gap="") if offset else ""


def gutter_row(row: ScreenRow, layer_ink: int, value: str, focused: bool, width: int, label: str = "") -> Grid:
    """The gutter of one row, ``width`` columns wide; ``value`` stands right-aligned at its end.

    ``label`` tells the traces apart where there are several.
    """
    depth = -1 if row.opener else row.depth
    mark = (_FOLDED if row.folded else _OPEN) if row.foldable else " "
    pinned = row.pinned and row.opener
    head = row.kind in ("trace", "layer")
    return _gutter_row(head, row.name, mark, depth, layer_ink, value, focused, width, pinned, label)


class Gutter:
    """The gutter that was drawn last; most of its rows stay from frame to frame."""

    def __init__(self) -> None:
        self._rows: list[Grid] = []
        self._grid = Grid.blank(0, 0, Ink.TEXT, Ink.LANE)

    def put(self, rows: list[Grid], grid: Grid) -> None:
        """Copy ``rows``, one of each line of ``grid``, into it."""
        kept = self._grid
        if kept.char.shape != grid.char.shape:
            kept = self._grid = Grid.blank(grid.height, grid.width, Ink.TEXT, Ink.LANE)
            self._rows = []
        for y, row in enumerate(rows):
            if not self._rows or row is not self._rows[y]:
                kept.put(y, row)
        self._rows = rows
        grid.put(0, kept)


@lru_cache(maxsize=4)
def blank_row(width: int) -> Grid:
    """The gutter beside a line without a row."""
    return Grid.blank(1, width, Ink.TEXT, Ink.LANE)


@lru_cache(maxsize=4096)
def _gutter_row(
    head: bool,
    name: str,
    mark: str,
    depth: int,
    layer_ink: int,
    value: str,
    focused: bool,
    width: int,
    pinned: bool,
    label: str,
) -> Grid:
    grid = Grid.blank(1, width, Ink.TEXT, Ink.LANE)
    grid.write(0, 0, points(_PIN if pinned else _STRIP), Ink.ACCENT if pinned else layer_ink)
    if focused:
        grid.bg[0, 1:] = Ink.NAME_FOCUS
    shift = grid.write(0, 1, points(label), Ink.DIM) - 1
    if depth >= 0:
        text = _GUIDE if depth % _GUIDE_EVERY else str(depth)
        grid.write(0, shift + (4 if width > _NARROW else 3) - len(text) + 1, points(text), Ink.FAINT)
        return grid
    bright = focused or head
    idle = value == _IDLE
    indent = shift + (1 if head or width <= _NARROW else 2)
    grid.write(0, indent, points(mark), Ink.BRIGHT if bright else Ink.DIM)
    start = indent + 2
    room = width - start - 1 - (len(value) + bool(value) if head else max(len(value), _VALUE) + 1)
    grid.write(0, start, points(_fitted(name, max(room, 0))), Ink.BRIGHT if bright else Ink.DIM if idle else Ink.TEXT)
    if width - 1 - len(value) > start:
        ink = Ink.BRIGHT if focused else Ink.FAINT if idle else Ink.DIM
        grid.write(0, width - 1 - len(value), points(value), ink)
    return grid


@lru_cache
def _shorter(words: str) -> list[tuple[str, str]]:
    """Shorter words for parts of names, in the order in which they are tried."""
    pairs = (each.partition("=") for each in words.split("|"))
    return [(long, short) for long, _, short in pairs]


def _fitted(name: str, room: int) -> str:
    text = drawable(name)
    for long, short in _shorter(say("lane.short")):
        if cell_count(text) > room:
            text = text.replace(long, short)
    return cut_middle(text, room)
