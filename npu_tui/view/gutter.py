"""The columns left of the lanes: layer colour, fold mark, name, and how busy the lane is in view."""

from __future__ import annotations

from functools import lru_cache

from npu_tui.view.grid import U32, Grid
from npu_tui.view.labels import cut_middle, points, safe
from npu_tui.view.palette import Ink
from npu_tui.view.scene import ScreenRow

_WIDE, _NORMAL = (160, 31), (100, 24)
_NARROW = 16
_LEAST_LANES = 4
_STRIP, _FOLDED, _OPEN, _GUIDE = "▎", "▸", "▾", "│"
_SHORT = (("Thread ", "T"), ("Stream ", "Str "), ("Group ", "Grp "))
_GUIDE_EVERY = 5
_VALUE = 5


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
        return "·"
    if share < 0.01:
        return "<1%"
    # Only a lane without any gap is 100 %.
    return f"{min(round(100 * share), 99) if share < 1 else 100}%"


def draw_gutter_row(grid: Grid, y: int, row: ScreenRow, layer_ink: int, value: str, focused: bool) -> None:
    """Draw row ``y`` of ``grid`` (the gutter's columns); ``value`` stands right-aligned at its end."""
    width = grid.width
    if width <= 0:
        return
    grid.write(y, 0, _points(_STRIP), layer_ink)
    if focused:
        grid.bg[y, 1:] = Ink.NAME_FOCUS
    if not row.opener:
        _draw_guide(grid, y, row.depth)
        return
    wide = width > _NARROW
    indent = 1 if row.kind == "layer" or not wide else 2
    mark = (_FOLDED if row.folded else _OPEN) if row.foldable else " "
    bright = focused or row.kind == "layer"
    ink = Ink.BRIGHT if bright else Ink.TEXT
    grid.write(y, indent, _points(mark), Ink.BRIGHT if bright else Ink.DIM)
    start = indent + 2
    room = width - start - 1 - ((max(len(value), _VALUE - 1) + 1) if row.kind != "layer" else 0)
    grid.write(y, start, _name(row.name, max(room, 0)), ink if bright else Ink.DIM if value == "·" else ink)
    at = width - 1 - len(value)
    if value and at > start:
        grid.write(y, at, _points(value), Ink.BRIGHT if focused else Ink.FAINT if value == "·" else Ink.DIM)


def _draw_guide(grid: Grid, y: int, depth: int) -> None:
    column = 4 if grid.width > _NARROW else 3
    every = depth % _GUIDE_EVERY == 0
    text = str(depth) if every else _GUIDE
    grid.write(y, column - len(text) + 1, _points(text), Ink.FAINT)


@lru_cache(maxsize=4096)
def _name(name: str, room: int) -> U32:
    text = safe(name)
    if len(text) > room:
        for long, short in _SHORT:
            if text.startswith(long):
                text = short + text[len(long) :]
    return points(cut_middle(text, room))


@lru_cache(maxsize=4096)
def _points(text: str) -> U32:
    return points(text)
