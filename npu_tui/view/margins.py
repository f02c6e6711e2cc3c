"""The margins of the lanes: the gutter with the names of rows at the left, and the ruler of time on top."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct

from npu_tui.native.cells import I64
from npu_tui.trace.text import cell_count, drawable, duration_text, event_axis, signed_text, unit_text
from npu_tui.view.bars import cut_middle, points
from npu_tui.view.grid import SPACE, Attr, Grid
from npu_tui.view.palette import Ink
from npu_tui.view.scene import ScreenRow
from npu_tui.view.viewport import Viewport

_WIDE, _NORMAL, _NARROW = 31, 24, 16
_FROM = {False: ((160, _WIDE), (100, _NORMAL)), True: ((100, _WIDE), (80, _NORMAL))}
"""Columns of the screen from which the gutter has this width; with holders of memory, whose names are lines of code."""
_LEAST_LANES = 4  # columns that the lanes keep in the narrowest terminal
_STRIP, _FOLDED, _OPEN, _GUIDE = "▎", "▸", "▾", "│"
_PIN = "^"
_GUIDE_EVERY = 5
_VALUE = 3
_IDLE = "·"


def gutter_width(width: int, has_holders: bool = False) -> int:
    """The width of the gutter on a screen of ``width`` columns: 31, 24 or 16, less if the lanes need the room."""
    for least, columns in _FROM[has_holders]:
        if width >= least:
            return columns
    return max(min(_NARROW, width - _LEAST_LANES), 0)


def busy_text(share: float) -> str:
    """A busy share (0..1) in at most four cells: ``100%``, ``7%``, ``<1%``, ``·`` for 0."""
    if share <= 0:
        return _IDLE
    if share < 0.01:
        return "<1%"
    # Only a lane without any gap shows 100 %.
    return f"{min(round(100 * share), 99) if share < 1 else 100}%"


def offset_text(offset: int) -> str:
    """The shift of a trace (ns) with its sign; empty if it is 0."""
    return signed_text(offset, 3, gap="") if offset else ""


def gutter_row(row: ScreenRow, ink: int, value: str, focused: bool, width: int, label: str, shorter: str) -> Grid:
    """The gutter of one row, ``width`` columns wide, its strip in ``ink``, with ``value`` at its right edge.

    ``label`` identifies the trace where there are several, ``shorter`` are the abbreviations of words in names.
    """
    grid = Grid.blank(1, width, Ink.TEXT, Ink.LANE)
    pinned, head = row.pinned and row.opener, row.kind in ("trace", "layer")
    grid.write(0, 0, points(_PIN if pinned else _STRIP), Ink.ACCENT if pinned else ink)
    if focused:
        grid.bg[0, 1:] = Ink.NAME_FOCUS
    shift = grid.write(0, 1, points(label), Ink.DIM) - 1
    # Rows below the first one of a lane show a guide, and their depth every five rows.
    if not row.opener:
        text = _GUIDE if row.depth % _GUIDE_EVERY else str(row.depth)
        grid.write(0, shift + (4 if width > _NARROW else 3) - len(text) + 1, points(text), Ink.FAINT)
        return grid
    bright = focused or head
    idle = value == _IDLE
    indent = shift + (1 if head or width <= _NARROW else 2)
    if row.foldable:
        grid.write(0, indent, points(_FOLDED if row.folded else _OPEN), Ink.BRIGHT if bright else Ink.DIM)
    start = indent + 2 * (not row.bands or not row.depth)  # a holder of memory has nothing to unfold
    room = width - start - 1 - (len(value) + bool(value) if head else max(len(value), _VALUE) + 1)
    name = _fitted(row.name, max(room, 0), shorter)
    grid.write(0, start, points(name), Ink.BRIGHT if bright else Ink.DIM if idle else Ink.TEXT)
    if width - 1 - len(value) > start:
        grid.write(0, width - 1 - len(value), points(value), Ink.BRIGHT if focused else Ink.FAINT if idle else Ink.DIM)
    return grid


@lru_cache
def _abbreviations(words: str) -> list[tuple[str, str]]:
    """Abbreviations of words in names, in the order in which they are tried: ``Communication=Comm|...``."""
    pairs = (pair.partition("=") for pair in words.split("|"))
    return [(long, short) for long, _, short in pairs]


@lru_cache(maxsize=4096)
def _fitted(name: str, room: int, shorter: str) -> str:
    """``name`` in ``room`` cells with as few abbreviations as that takes: a row says it in every frame."""
    text = drawable(name)
    for long, short in _abbreviations(shorter):
        if cell_count(text) <= room:
            break
        text = text.replace(long, short)
    return cut_middle(text, room)


_WIDE_GAP, _NARROW_GAP, _RULER_WIDE = 14, 11, 100  # columns between two ticks at least, from a width on and below it
_LONGEST_STEP = 1 << 62
_TICK, _LINE, _CURSOR, _FLAG = "╷", "━", "▼", "⚑"


class Ticks(Struct, frozen=True):
    """``times`` (ns) of the ticks, their ``columns`` and ``labels``; labels count from ``anchor`` ns unless None."""

    times: I64
    columns: I64
    labels: list[str]
    anchor: int | None


def find_ticks(viewport: Viewport) -> Ticks:
    """Ticks at multiples of 1, 2 or 5 x 10^k ns, as close as their labels allow without touching.

    A view of many years in few columns has none: the step would not fit into 64 bits.
    """
    gap = _WIDE_GAP if viewport.width >= _RULER_WIDE else _NARROW_GAP
    axis = event_axis()
    exponent, factor = 0 if axis is None else len(str(axis.event_ns)) - 1, 1  # nothing happens between two events
    while True:
        step = factor * 10**exponent
        if step > _LONGEST_STEP:
            none = np.zeros(0, np.int64)
            return Ticks(none, none, [], None)
        columns = step * viewport.width / viewport.span
        if columns >= gap:
            ticks = _ticks_at(viewport, step, exponent)
            if max(map(len, ticks.labels), default=0) + 2 <= columns:
                return ticks
        exponent, factor = (exponent + 1, 1) if factor == 5 else (exponent, 5 if factor == 2 else 2)


def _ticks_at(viewport: Viewport, step: int, exponent: int) -> Ticks:
    """Ticks at the multiples of ``step`` ns in view, ``exponent`` the power of ten in it, each with its label."""
    first = -(-viewport.start // step)
    last = (viewport.end - 1) // step
    times = np.arange(first, last + 1, dtype=np.int64) * step
    # Labels of a very close view would need 10 digits or more: they count from the last microsecond instead.
    anchor = viewport.start // 1000 * 1000 if step < 1000 and viewport.end >= 10**5 else None
    if anchor is None:
        labels = [_time_text(time, viewport.end, exponent) for time in times.tolist()]
    else:
        labels = [f"{time - anchor:+d}{unit_text(0)}" for time in times.tolist()]
    return Ticks(times, viewport.columns(times), labels, anchor)


def _time_text(time: int, end: int, exponent: int) -> str:
    """``time`` with the decimals that a step of 10^``exponent`` ns needs, in a unit that fits the view's ``end``."""
    axis = event_axis()
    if axis is not None:
        return f"{round(time / axis.event_ns):,}"
    power = 9 if end >= 10**9 else 6 if end >= 10**6 else 3
    unit = unit_text(power)
    decimals = max(power - exponent, 0)
    digits = str(abs(time) // 10 ** (power - decimals)).rjust(decimals + 1, "0")
    sign = "-" if time < 0 else ""
    if not decimals:
        return f"{sign}{digits}{unit}"
    return f"{sign}{digits[:-decimals]}.{digits[-decimals:]}{unit}"


def anchor_text(anchor: int) -> str:
    """The text of the time that the labels of a very close view count from, to the microsecond."""
    return f"T+{_time_text(anchor, anchor, 3)}"


def draw_ruler(
    grid: Grid,
    ticks: Ticks,
    viewport: Viewport,
    cursor: int | None,
    span: tuple[int, int] | None,
    hits: I64,
    flags: Sequence[int] = (),
) -> None:
    """Draw the one-row ``grid``; ``cursor`` is a column, ``span`` the range, ``hits`` and ``flags`` times in ns."""
    taken = np.zeros(grid.width, np.bool_)
    if cursor is not None:
        taken[cursor] = True
    if span is not None:
        first, last = range_columns(viewport, span)
        taken[first : last + 1] = True
    for column, label in zip(ticks.columns.tolist(), ticks.labels, strict=True):
        grid.write(0, column, points(_TICK), Ink.FAINT)
        # A label that the cursor or the range would cut off could be read as another time.
        if column + len(label) < grid.width and not taken[column + 1 : column + 1 + len(label)].any():
            grid.write(0, column + 1, points(label), Ink.DIM)
    length = range(0) if span is None else _draw_range(grid, viewport, span)
    hit_columns = np.flatnonzero(np.diff(np.searchsorted(hits, viewport.edges())))
    grid.attr[0, hit_columns] |= int(Attr.UNDERLINE)
    grid.fg[0, hit_columns] = Ink.HIT
    for column in {viewport.column(flag) for flag in flags}:
        if 0 <= column < grid.width and column not in length:
            grid.write(0, column, points(_FLAG), Ink.ACCENT, attr=int(Attr.BOLD))
    if cursor is not None and cursor not in length:
        grid.write(0, cursor, points(_CURSOR), Ink.ACCENT, attr=int(Attr.BOLD))


def range_columns(viewport: Viewport, span: tuple[int, int]) -> tuple[int, int]:
    """The first and last column that ``span`` (ns) touches, clipped to the screen; first > last if it is outside."""
    low, high = min(span), max(span)
    if high < viewport.start or low >= viewport.end:
        return 0, -1
    first, last = viewport.columns(np.array([low, max(high - 1, low)], np.int64)).tolist()
    return max(first, 0), min(last, viewport.width - 1)


def _draw_range(grid: Grid, viewport: Viewport, span: tuple[int, int]) -> range:
    """Draw ``span`` as a line with its length and the times of its ends; returns the columns of the length."""
    first, last = range_columns(viewport, span)
    if first > last:
        return range(0)
    grid.write(0, first, points(_LINE * (last - first + 1)), Ink.ACCENT)
    label = f" {duration_text(abs(span[1] - span[0]), gap='')} "
    room = last - first + 1
    ends = [_end_text(viewport, when) for when in (min(span), max(span))]
    # In order of preference: all three texts inside the range, the length inside and the ends outside, the length
    # beside it.
    inside = sum(map(len, ends)) + len(label) + 6 <= room
    if len(label) + 2 <= room:
        x = first + (room - len(label)) // 2
        grid.write(0, x, points(label), Ink.ACCENT, attr=int(Attr.BOLD))
    else:
        x = last + 1 if last + 1 + len(label) <= grid.width else first - len(label)
        _write_alone(grid, x, label)
    low, high = min(span) >= viewport.start, max(span) <= viewport.end
    if inside:
        if low:
            grid.write(0, first + 1, points(f" {ends[0]} "), Ink.ACCENT)
        if high:
            grid.write(0, last - len(ends[1]) - 2, points(f" {ends[1]} "), Ink.ACCENT)
    elif x >= first:
        behind = max(last + 1, x + len(label))
        if low and first - len(ends[0]) - 1 >= 0:
            _write_alone(grid, first - len(ends[0]) - 1, f"{ends[0]} ", 0)
        if high and behind + len(ends[1]) + 1 <= grid.width:
            _write_alone(grid, behind, f" {ends[1]}", 0)
    return range(x, x + len(label))


def _end_text(viewport: Viewport, when: int) -> str:
    """The time of an end of the range, as precise as a column."""
    return _time_text(when, viewport.end, len(str(max(viewport.span // viewport.width, 1))) - 1)


def _write_alone(grid: Grid, x: int, label: str, attr: int = int(Attr.BOLD)) -> None:
    """Write ``label`` at ``x`` and blank the rest of any word that it would cut."""
    if x < 0:
        return
    blank = grid.char[0] == SPACE
    low, high = x, min(x + len(label), grid.width)
    while low > 0 and not blank[low - 1] and grid.fg[0, low - 1] == Ink.DIM:
        low -= 1
    while high < grid.width and not blank[high] and grid.fg[0, high] == Ink.DIM:
        high += 1
    grid.char[0, low:high] = SPACE
    grid.write(0, x, points(label), Ink.ACCENT, attr=attr)
