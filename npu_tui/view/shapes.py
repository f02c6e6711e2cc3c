"""A screen without colour: shapes, textures and reverse video replace the inks."""

from __future__ import annotations

import numpy as np

from npu_tui.trace.classes import OpClass
from npu_tui.view.grid import CONTINUED, SPACE, Attr, Grid
from npu_tui.view.palette import GROUNDS, LIT, SHADES, Ink, Palette, bar

TEXTURES: dict[OpClass, str] = {
    OpClass.FRAME: "·",
    OpClass.OP: " ",
    OpClass.QUEUE: ":",
    OpClass.CANN: "▒",
    OpClass.CUBE: " ",
    OpClass.VECTOR: "▓",
    OpClass.COMMUNICATION: "░",
    OpClass.MEMORY: "=",
    OpClass.WAIT: "╱",
    OpClass.OTHER: "-",
    OpClass.STEP: " ",
}
"""The texture of the bars of each class; classes that share a lane differ."""

_TEXTURE = np.array([ord(TEXTURES[OpClass(kind)]) for kind in range(len(OpClass))], np.uint32)
_BARS = len(OpClass) * SHADES
_GROUND = np.zeros(256, np.bool_)
_GROUND[list(GROUNDS)] = True
_CURSOR, _RANGE, _SELECTED, _TICK = ord("│"), ord("░"), ord("━"), ord("▏")
_ALERTS = (int(Ink.ALERT), int(Ink.ALERT_LOW))
_CHART = ord("▁"), ord("█")
_HANGING = [ord("▀"), ord("▔")]
_BOLD, _UNDERLINE = int(Attr.BOLD), int(Attr.UNDERLINE)
_PLAIN_BAR = bar(OpClass.OP)


def without_colour(grid: Grid) -> Grid:
    """``grid`` for a terminal of one colour: a bar is reverse video, filled with the texture of its class.

    The cursor's column is a line, the range is dotted, the selected slice is a bold line instead of reverse video;
    starved launches and the name of the cursor's row are reversed.
    """
    char, fg, bg, attr = grid.char.copy(), grid.fg.copy(), grid.bg.copy(), grid.attr.copy()
    blank = (char == SPACE) & (attr & _UNDERLINE == 0)
    bars = bg < _BARS

    # Two bars in one cell become one bar with a tick: both have the same brightness.
    char[bars & (fg < _BARS) & ~blank] = _TICK
    fg[bars & (char == _TICK)] = Ink.LANE
    body = bars & blank & ~_beside_text(grid)
    char[body] = _TEXTURE[bg[body] // SHADES]
    char[body & (bg % SHADES == LIT)] = _CURSOR
    fg[body] = Ink.LABEL

    selected = bg == Ink.SELECTED
    char[selected & blank] = _SELECTED
    attr[selected] |= _BOLD
    fg[selected], bg[selected] = Ink.SELECTED, Ink.LANE

    free = blank & ~bars & ~selected
    char[free & (bg == Ink.CURSOR)] = _CURSOR
    char[free & ((bg == Ink.RANGE) | (bg == Ink.RANGE_FOCUS))] = _RANGE

    # The height of a chart is its meaning, and reverse video would turn it upside down.
    chart = (char >= _CHART[0]) & (char <= _CHART[1]) | np.isin(char, _HANGING)
    alarming = np.isin(fg, _ALERTS) & _GROUND[bg] & (char != SPACE) & ~chart
    alarming |= bg == Ink.NAME_FOCUS
    fg[alarming], bg[alarming] = Ink.LABEL, _PLAIN_BAR
    return Grid(char, fg, bg, attr)


def without_shades(grid: Grid, palette: Palette) -> Grid:
    """``grid`` for a terminal of 16 colours: a tick separates two bars of one colour that meet in a cell."""
    same = (grid.bg < _BARS) & (grid.fg < _BARS) & (palette.ansi[grid.fg] == palette.ansi[grid.bg])
    same &= grid.char != SPACE
    if not same.any():
        return grid
    char, fg = grid.char.copy(), grid.fg.copy()
    char[same], fg[same] = _TICK, Ink.LANE
    return Grid(char, fg, grid.bg, grid.attr)


def _beside_text(grid: Grid) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Cells next to a character of a name: a blank there may belong to the name."""
    text = (grid.fg == Ink.LABEL) & (grid.char != SPACE)
    text |= grid.char == CONTINUED
    beside = np.zeros_like(text)
    beside[:, 1:] |= text[:, :-1]
    beside[:, :-1] |= text[:, 1:]
    return np.asarray(beside)
