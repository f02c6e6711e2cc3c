"""A grid as ANSI text: a string per row, escape sequences where the look changes, characters that the terminal has.

Nearly all block and line glyphs have the East_Asian_Width Ambiguous (Unicode Annex 11): terminals set up for Chinese
may draw them two cells wide, which shifts every column after them. ``safe`` uses neutral characters (braille, ``▐``)
instead, and ``ascii`` only ASCII. A replacement has the same width, so the layout does not depend on the set.

On a screen without colour shapes, textures and reverse video replace the inks.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from npu_tui.native.cells import spread
from npu_tui.trace.arrays import I32, U8, Bools
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import char_cells
from npu_tui.view.grid import CONTINUED, SPACE, U32, Attr, Grid
from npu_tui.view.palette import IS_GROUND, LIT, SHADES, Ink, Palette, bar

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
    hollow = IS_GROUND[front] & ~IS_GROUND[back]
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
    alarming = np.isin(fg, _ALERTS) & IS_GROUND[bg] & (char != SPACE) & ~chart
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
        reverse = ~IS_GROUND[grid.bg]
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
            (text, self._named(fg), self._named(bg), attr, self._depth == "none" and not bool(IS_GROUND[bg]))
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
    ink = (grid.fg == other.fg) & (grid.attr == other.attr)
    return np.asarray(look & np.where(blank, other.attr & int(Attr.UNDERLINE) == 0, ink))


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
