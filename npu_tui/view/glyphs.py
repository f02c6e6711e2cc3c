"""Sets of characters for terminals, and the replacement of each character in them.

Nearly all block and line glyphs have the East_Asian_Width Ambiguous (Unicode Annex 11): terminals set up for Chinese
may draw them two cells wide, which shifts every column after them. ``safe`` uses neutral characters (braille, ``▐``)
instead, and ``ascii`` only ASCII. A replacement has the same width, so the layout does not depend on the set.

A screen without colour: shapes, textures and reverse video replace the inks.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from npu_tui.native.cells import Bools
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import char_cells
from npu_tui.view.grid import CONTINUED, SPACE, U8, U32, Attr, Grid
from npu_tui.view.palette import GROUNDS, LIT, SHADES, Ink, Palette, bar

GlyphSet = Literal["blocks", "safe", "ascii"]
GLYPH_SETS: tuple[GlyphSet, ...] = get_args(GlyphSet)

PROBE = "▏▁─╱→…●▼"
"""One glyph of every family in use, each of ambiguous width; the terminal is asked how wide it draws them."""

_ASCII = {
    "│": "|", "┃": "|", "┊": ":", "╷": "|", "╵": "|", "╱": "/", "╲": "_", "─": "-", "━": "=", "═": "=", "╸": "=",
    "╺": "=", "╭": "+", "╮": "+", "╰": "+", "╯": "+", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+",
    "┬": "+", "┴": "+", "┼": "+", "…": "~", "·": ".", "•": "*", "→": ">", "←": "<", "↑": "^", "↓": "v", "●": "o",
    "▼": "v", "▲": "^", "▾": "v", "▴": "^", "▸": ">", "◂": "<", "►": ">", "◄": "<", "◆": "*", "◊": "*", "░": ":",
    "▒": "%", "▓": "#", "▀": "'", "▄": "_", "▔": "'", "▐": "|", "▕": "|", "▌": "|", "▊": "#", "▎": "|", "Δ": "d",
    "µ": "u", "μ": "u", "×": "x", "±": "+", "≥": ">", "≤": "<", "−": "-", "–": "-", "—": "-", "“": '"', "”": '"',
    "‘": "'", "’": "'", "▁": "_", "█": "#", "✓": "v", "✗": "x", "⚠": "!", "⚑": "F",
    "▂": "_", "▃": "_", "▅": "#", "▆": "#", "▇": "#", "▉": "#", "▋": "|", "▍": "|", "▏": "|",
}  # fmt: skip
_SAFE = {
    "▼": "▾", "▲": "▴", "●": "◉", "◆": "◊", "▔": "⠉", "▁": "⣀", "▂": "⣀", "▃": "⣤", "▄": "⣤", "▅": "⣶", "▆": "⣶",
    "▇": "⣿", "█": "⣿", "▏": "⡇", "▎": "⡇", "▍": "⡇", "▌": "⡇", "▋": "⡇", "▊": "⣿", "▉": "⣿", "▕": "⢸", "▀": "⠛",
    "▒": "%", "▓": "#",
}  # fmt: skip
_LEVELS_ASCII = ".:-=+*#"
_LEVELS_SAFE = "⣀⣀⣤⣤⣶⣶⣿"
_LEVELS = {"ascii": _LEVELS_ASCII, "safe": _LEVELS_SAFE}

_FULL, _THINNEST, _RIGHT_HALF = 0x2588, 0x258F, ord("▐")
_LOWEST = 0x2581
_SAFE_LEFT, _SAFE_RIGHT = ord("⡇"), ord("⢸")
_TABLE_END = 0x2900
_UNKNOWN = "?"
_GROUND = np.zeros(256, np.bool_)
_GROUND[list(GROUNDS)] = True


@lru_cache(maxsize=8192)
def stand_in(char: str, glyphs: GlyphSet) -> str:
    """The replacement of ``char`` in ``glyphs``: itself if the set has it, else text of the same width.

    A single accent, which has no width, becomes empty.
    """
    if glyphs == "blocks" or char.isascii():
        return char
    if glyphs == "safe":
        if unicodedata.east_asian_width(char) != "A":
            return char
        if char in _SAFE:
            return _SAFE[char]
    if char in _ASCII:
        return _ASCII[char]
    if unicodedata.category(char) in ("Mn", "Me"):
        return ""
    if 0x2801 <= ord(char) < _TABLE_END:
        return _braille_slope(ord(char) - 0x2800)
    # Decomposed, ``é`` is an e and ``Ａ`` (fullwidth) an A, which is a cell short: that becomes question marks.
    plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
    width = max(char_cells(char), 1)
    return plain if len(plain) == width and plain.isprintable() else _UNKNOWN * width


def plain_text(text: str, glyphs: GlyphSet) -> str:
    """``text`` in the characters of ``glyphs``, with the same width."""
    return text if text.isascii() or glyphs == "blocks" else "".join(stand_in(char, glyphs) for char in text)


def redraw(grid: Grid, glyphs: GlyphSet) -> Grid:
    """``grid`` in the characters of ``glyphs``: blocks of bars become whole cells, half cells or thin lines."""
    if glyphs == "blocks":
        return grid
    char, fg, bg = grid.char.copy(), grid.fg.copy(), grid.bg.copy()
    small = char < _TABLE_END
    char[small] = _replacement_table(glyphs)[char[small]]
    if not small.all():
        _other(char, ~small, glyphs)
    if glyphs == "ascii":
        char[char == CONTINUED] = ord(_UNKNOWN)
    _left_blocks(grid, char, fg, bg, glyphs)
    return Grid(char, fg, bg, grid.attr)


def _other(char: U32, which: Bools, glyphs: GlyphSet) -> None:
    """Replace the characters beyond the table, most of them wide; ``redraw`` replaces their second cells."""
    codes, place = np.unique(char[which], return_inverse=True)
    stands = [ord(stand_in(chr(code), glyphs)[0]) for code in codes.tolist()]
    char[which] = np.array(stands, np.uint32)[place.reshape(-1)]


def _left_blocks(grid: Grid, char: U32, fg: U8, bg: U8, glyphs: GlyphSet) -> None:
    """Draw ``▏`` to ``█`` as the nearest of an empty, half or full cell, but never leave a bar invisible.

    A ``hollow`` block is the ground before the start of a bar: there the bar is the background and must stay visible.
    """
    block = (grid.char >= _FULL) & (grid.char <= _THINNEST)
    if not block.any():
        return
    level = (_THINNEST + 1 - grid.char[block]).astype(np.int64)
    front, back = grid.fg[block], grid.bg[block]
    hollow = _GROUND[front] & ~_GROUND[back]
    if glyphs == "safe":
        half = (level >= 3) & (level <= 5)
        full = (level >= 8) | ((level >= 6) & ~hollow)
        late = (level >= 6) & hollow
        drawn = np.select([half, full, late], [_RIGHT_HALF, SPACE, _SAFE_RIGHT], _SAFE_LEFT)
        swap = half | full | late
    else:
        late = (level >= 5) & hollow
        full = (level >= 4) & ~hollow
        bare = (level >= 3) & (level < 5) & hollow
        drawn = np.select([full | bare], [SPACE], ord("|"))
        swap = late | full
    char[block] = drawn
    fg[block], bg[block] = np.where(swap, back, front), np.where(swap, front, back)


@lru_cache(maxsize=2)
def _replacement_table(glyphs: GlyphSet) -> U32:
    """The replacement of every code point below ``_TABLE_END``; levels of charts differ from blocks in a text."""
    table = np.array([ord((stand_in(chr(code), glyphs) or _UNKNOWN)[0]) for code in range(_TABLE_END)], np.uint32)
    for step, glyph in enumerate(_LEVELS[glyphs]):
        table[_LOWEST + step] = ord(glyph)
    return table


def _braille_slope(bits: int) -> str:
    """The direction in which the dots of a braille cell run."""
    dots = [(x, y) for bit, (x, y) in enumerate(_DOTS) if bits >> bit & 1]
    left = [y for x, y in dots if x == 0]
    right = [y for x, y in dots if x == 1]
    if left and right:
        slope = sum(right) / len(right) - sum(left) / len(left)
        return "\\" if slope > 0 else "/" if slope < 0 else "-"
    return "." if len(dots) == 1 and dots[0][1] >= 2 else "'" if len(dots) == 1 else ":"


_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))


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
_GROUND_INK = np.zeros(256, np.bool_)
_GROUND_INK[list(GROUNDS)] = True
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
    alarming = np.isin(fg, _ALERTS) & _GROUND_INK[bg] & (char != SPACE) & ~chart
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
