"""Bars of slices and their labels, drawn into cells.

A column is eight eighths wide (``▏`` to ``█``); slices start and end at eighths (``Cells.start8``, ``end8``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.native.cells import I32, I64, Bools, Cells, spread
from npu_tui.trace.arrays import U8
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import HEIGHTS, WIDTHS, cell_count, char_cells, drawable
from npu_tui.view.grid import CONTINUED, SPACE, U32, Attr, Grid
from npu_tui.view.palette import LIT, SHADES, Ink

RUNGS = 4
"""Forms of a name at most, the full one included."""
ELLIPSIS = "…"
_LONGEST = 400
"""Characters of a name that are looked at; no screen shows more."""
_MISSING = -1

_SOURCE = re.compile(r"^(?:.*/)?(?P<file>[^/()]+\.py)\((?P<line>\d+)\): (?P<function>.+)$")
_BUILT_IN = re.compile(r"^<built-in (?:method|function) (?P<function>[^ >]+).*>$")
_MODULE = re.compile(r"^nn\.Module: (?P<name>.+)$")
_STEP = re.compile(r"^ProfilerStep(?P<number>#\d+)$")
_QUEUED = re.compile(r"^(?:\w+)@(?P<name>.+)$")
_GROUP = re.compile(r"^hcom_(?P<name>[A-Za-z0-9]+?)_?(?:__.*|_\d[\d_]*)?$")
_KERNEL = re.compile(r"^acl(?:nn\w|op)\w*_(?P<kernel>[A-Za-z0-9]+)$")


def ladder(name: str) -> list[str]:
    """``name`` and its shorter forms, longest first, each safe to draw.

    ``train.py(31): forward`` becomes ``forward train.py:31`` and ``forward``; ``hcom_allReduce__586_0_1`` becomes
    ``allReduce``.
    """
    steps = [drawable(name)]
    for shorter in _shorter_names(steps[0]):
        if 0 < cell_count(shorter) < cell_count(steps[-1]):
            steps.append(shorter)
    return steps[:RUNGS]


def _shorter_names(name: str) -> list[str]:
    """Shorter forms of ``name``, longest first, by the writer that its pattern shows; empty for any other name."""
    if match := _SOURCE.match(name):
        return [f"{match['function']} {match['file']}:{match['line']}", match["function"]]
    if match := _BUILT_IN.match(name):
        return [match["function"]]
    if match := _MODULE.match(name):
        return [match["name"], re.sub(r"_\d+$", "", match["name"])]
    if match := _STEP.match(name):
        return [match["number"]]
    if match := _GROUP.match(name):
        return [match["name"]]
    if match := _KERNEL.match(name):
        return [match["kernel"]]
    if match := _QUEUED.match(name):
        return [match["name"], *_shorter_names(match["name"])]
    if "::" in name:
        tail = name.partition("::")[2] if name.startswith(("aten::", "c10d::", "npu::")) else name.rpartition("::")[2]
        return [tail, tail.rpartition(": ")[2]]
    if "#" in name:
        return [name.rpartition("#")[2]]
    return []


def cut_middle(text: str, room: int) -> str:
    """``text`` in at most ``room`` cells without its middle: names of threads and groups differ at their ends."""
    if cell_count(text) <= room:
        return text
    tail = min(room // 2 + 1, room - 2) if room > 2 else room - 1
    end = cut_end(text[::-1], max(tail, 0))[::-1]
    return cut_end(text, room - 1 - cell_count(end)) + ELLIPSIS + end if room > 0 else ""


def cut_end(text: str, room: int) -> str:
    """The beginning of ``text`` that fits ``room`` cells."""
    if text.isascii():
        return text[:room]
    for length, char in enumerate(text):
        room -= char_cells(char)
        if room < 0:
            return text[:length]
    return text


@lru_cache(maxsize=4096)
def points(text: str) -> U32:
    """The code points of ``text``, one per cell; the second cell of a wide character is ``CONTINUED``. Read-only."""
    if not text.isascii():
        text = "".join(char if char_cells(char) < 2 else f"{char}{chr(CONTINUED)}" for char in text)
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


class NameLadders:
    """The ladders of names, made when a name first comes into view."""

    def __init__(self) -> None:
        self._lists: list[tuple[int, list[str], Callable[[str], list[str]]]] = []
        self._offset = np.zeros((0, RUNGS), np.int64)
        self._length = np.zeros((0, RUNGS), np.int64)
        self.text = np.zeros(1 << 12, np.uint32)
        """The code points of all labels made so far; ``fit`` returns offsets into it."""
        self._used = 0
        self.wide = False
        """Whether any label made so far has characters of two cells."""

    def add(self, names: list[str], forms: Callable[[str], list[str]] = ladder) -> int:
        """The number of the first of ``names``; ``forms`` makes the ladder of each. One list is added once."""
        for first, known, _ in self._lists:
            if known is names:
                return first
        first, rows = len(self._offset), np.full((len(names), RUNGS), _MISSING, np.int64)
        self._lists.append((first, names, forms))
        self._offset, self._length = (np.concatenate([known, rows]) for known in (self._offset, self._length))
        return first

    def fit(self, names: I64, room: I64) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
        """Offset and length in ``text`` of the longest label that fits ``room`` cells, and whether it must be cut.

        A cut label fills the room: its last cell is for the ellipsis.
        """
        for code in np.unique(names[self._length[names, 0] == _MISSING]).tolist():
            self._make(code)
        lengths = self._length[names]
        fits = lengths <= room[:, None]
        cut = ~fits[:, -1]
        rung = np.where(cut, RUNGS - 1, fits.argmax(axis=1))
        query = np.arange(len(names))
        return self._offset[names, rung], np.minimum(lengths[query, rung], room), cut

    def _make(self, code: int) -> None:
        first, names, forms = next(one for one in reversed(self._lists) if one[0] <= code)
        steps = forms(names[code - first][:_LONGEST])[:RUNGS]
        steps += [steps[-1]] * (RUNGS - len(steps))
        for rung, label in enumerate(map(points, steps)):
            if self._used + len(label) > len(self.text):
                larger = np.zeros(max(2 * len(self.text), self._used + len(label)), np.uint32)
                larger[: self._used] = self.text[: self._used]
                self.text = larger
            self.text[self._used : self._used + len(label)] = label
            self.wide = self.wide or bool((label == CONTINUED).any())
            self._offset[code, rung], self._length[code, rung] = self._used, len(label)
            self._used += len(label)


LEFT_EIGHTHS: U32 = np.array([*map(ord, WIDTHS)], np.uint32)
LOWER_EIGHTHS: U32 = np.array([*map(ord, HEIGHTS)], np.uint32)
HATCH = ord("╱")
OPEN_END = ord("►")
_TICK = ord("▏")
_THIN: U32 = np.array([ord(c) for c in "▏▏▏│││▕▕▕"], np.uint32)
_EDGE, _WHOLE, _LEFT_HALF, _RIGHT_HALF, _STRONG = (ord(c) for c in "▕█▌▐┃")
_LABEL_ROOM = 3
"""The shortest run of cells that gets a label."""
_GAP8 = 2  # slices with a smaller gap, in eighths of a cell, are drawn as meeting


class BarStyle(Struct):
    """How to draw the cells of the lane rows; arrays are (rows, columns).

    ``kind`` and ``other_kind`` are the operator classes of ``item`` and ``other`` of the cells. ``trace`` and
    ``shade`` (rows,) are the trace of each row and the shade of its bars, which alternates with the depth; ``names``
    are, by trace, the name codes of the slices and the number of its first name in ``labels``. With ``hits_only`` the
    cells without a ``hit`` are dimmed.
    """

    kind: npt.NDArray[np.int8]
    other_kind: npt.NDArray[np.int8]
    trace: I64
    shade: U8
    names: list[tuple[I32, int]]
    labels: NameLadders
    selected: Bools
    other_selected: Bools
    hit: Bools
    hits_only: bool
    cursor: int | None


class Painted(Struct):
    """Where links may be drawn: ``free`` cells have no slice, ``plain`` a bar without a glyph, ``named`` a name."""

    free: Bools
    plain: Bools
    named: Bools


def draw_bars(cells: Cells, look: BarStyle, width_ns: I64, grid: Grid) -> Painted:
    """Draw ``cells`` into ``grid`` (the lane rows without gutter, its backgrounds already set).

    ``width_ns`` are the widths of the columns. Where a bar fills a part of a cell, the rest shows the background.
    """
    free, filled = _draw_bodies(cells, look, width_ns, grid)
    first, length = _label_runs(cells)
    labelled = _draw_labels(first, length, cells, look, grid)
    return Painted(free, filled & ~labelled, labelled)


def _draw_bodies(cells: Cells, look: BarStyle, width_ns: I64, grid: Grid) -> tuple[Bools, Bools]:
    """Draw all but the names; returns which cells are free and which are filled from edge to edge."""
    ground = grid.bg.copy()
    ink, fill = _inks(cells, look, ground)
    waits = look.kind == OpClass.WAIT
    solid = _draw_single(cells, waits, ink, fill, ground, grid)
    meet = (cells.count == 2) & cells.from_left & cells.to_right & (cells.start8 - cells.end8 < _GAP8)
    if meet.any():
        _draw_meeting(meet, cells, look, grid)
    full = _draw_several((cells.count >= 2) & ~meet, cells, ink, fill, width_ns, grid)
    hatched = (solid | full) & waits
    grid.char[hatched] = HATCH
    grid.fg[hatched] = np.where(look.selected, int(Ink.LANE), ink)[hatched]
    if look.hit.any():
        _mark_hits(cells, look, grid)
    return cells.count == 0, (solid | full) & ~waits


def _inks(cells: Cells, look: BarStyle, ground: U8) -> tuple[U8, U8]:
    """The ink of the dominating slice of every cell, and the background of a cell that it fills."""
    # Only touching neighbours need two shades; elsewhere a change of colour costs bytes for nothing.
    apart = (cells.count > 1) | ~cells.touches | ~(cells.from_left | cells.to_right)
    shade = np.where(apart, look.shade[:, None], (cells.position & 1).astype(np.uint8))
    if look.cursor is not None:
        shade[:, look.cursor] = LIT
    ink = look.kind.astype(np.uint8) * np.uint8(SHADES) + shade
    if look.hits_only:
        ink[~look.hit] = Ink.RULE
    ink[look.selected] = Ink.SELECTED
    # A wait is transparent enough to show the range and the cursor's column.
    tinted = (ground == Ink.RANGE) | (ground == Ink.RANGE_FOCUS) | (ground == Ink.CURSOR)
    waiting, waits = np.where(tinted, ground, np.uint8(Ink.WAIT_GROUND)), (look.kind == OpClass.WAIT) & ~look.selected
    ink[tinted & waits] = OpClass.WAIT * SHADES + LIT  # its hatch has to be seen on those
    return ink, np.where(waits, waiting, ink)


def _draw_single(cells: Cells, waits: Bools, ink: U8, fill: U8, ground: U8, grid: Grid) -> Bools:
    """Draw the cells with one slice; returns those that it covers from edge to edge."""
    one = cells.count == 1
    starts, ends = one & ~cells.from_left, one & ~cells.to_right
    at_left, at_right = cells.start8 == 0, cells.end8 == 8

    # A bar that starts at a cell's left edge gets a tick, which separates it from one that ends right there.
    solid = one & (~starts | at_left) & (~ends | at_right)
    grid.bg[solid] = fill[solid]
    tick = solid & starts
    grid.char[tick] = _TICK
    grid.fg[tick] = np.where(waits, ink, ground)[tick]

    # Left blocks fill a cell from the left only. A bar that starts inside the cell is drawn the other way round: the
    # block is the ground in front of it, and the bar is the background.
    opening = starts & ~ends & ~at_left
    blunt = opening & ~waits
    grid.char[blunt] = LEFT_EIGHTHS[np.minimum(cells.start8[blunt], 7)]
    grid.fg[blunt], grid.bg[blunt] = ground[blunt], fill[blunt]

    closing = ends & ~starts & ~at_right
    blunt = closing & ~waits
    grid.char[blunt] = LEFT_EIGHTHS[np.maximum(cells.end8[blunt], 1)]
    grid.fg[blunt] = ink[blunt]

    _draw_wait_ends(opening & waits, closing & waits, cells, ink, fill, grid)

    lone = starts & ends & ~solid
    if lone.any():
        size = cells.end8[lone] - cells.start8[lone]
        middle = (cells.end8[lone] + cells.start8[lone]) // 2
        thin = _THIN[middle]
        half = np.where(middle < 4, _LEFT_HALF, _RIGHT_HALF)
        grid.char[lone] = np.select([size >= 6, size >= 3, size == 2], [_WHOLE, half, _STRONG], thin)
        grid.fg[lone] = ink[lone]
    return np.asarray(solid & ~tick)


def _draw_wait_ends(opening: Bools, closing: Bools, cells: Cells, ink: U8, fill: U8, grid: Grid) -> None:
    """Draw the ends of waits: a hatch cannot be cut at an eighth, so a cell is hatched if half full, else an edge."""
    for ends, mostly, edge in ((opening, cells.start8 <= 4, _EDGE), (closing, cells.end8 >= 5, _TICK)):
        grid.char[ends] = np.where(mostly, HATCH, edge)[ends]
        grid.fg[ends] = ink[ends]
        hatched = ends & mostly
        grid.bg[hatched] = fill[hatched]
        grid.fg[hatched & (fill == ink)] = Ink.LANE


def _draw_meeting(meet: Bools, cells: Cells, look: BarStyle, grid: Grid) -> None:
    """Draw the cells in which one slice ends and the next begins at once: both colours, divided at that eighth."""
    leads = cells.leads[meet]
    # Neighbours in a row differ by one position: the parity of the dominating slice gives both shades.
    parity = cells.position[meet] & 1
    ours = look.kind[meet].astype(np.int64) * SHADES + parity
    ours[look.selected[meet]] = Ink.SELECTED
    others = look.other_kind[meet].astype(np.int64) * SHADES + 1 - parity
    others[look.other_selected[meet]] = Ink.SELECTED
    first, last = np.where(leads, ours, others), np.where(leads, others, ours)
    last_kind = np.where(leads, look.other_kind[meet], look.kind[meet])
    if look.hits_only:
        first[~look.hit[meet] & (first != Ink.SELECTED)] = Ink.RULE
        last[~look.hit[meet] & (last != Ink.SELECTED)] = Ink.RULE
    grid.char[meet] = LEFT_EIGHTHS[np.clip(cells.end8[meet], 1, 7)]
    grid.fg[meet] = first
    grid.bg[meet] = np.where((last_kind == OpClass.WAIT) & (last != Ink.SELECTED), int(Ink.WAIT_GROUND), last)


def _draw_several(several: Bools, cells: Cells, ink: U8, fill: U8, width_ns: I64, grid: Grid) -> Bools:
    """Draw cells with several slices as columns of their busy share; returns those that are at least 7/8 busy."""
    # ``▁`` to ``▇`` show one to seven eighths; anything busier is a full bar.
    full = several & (8 * cells.busy >= 7 * width_ns)
    grid.bg[full] = fill[full]
    part = several & ~full
    level = (16 * cells.busy + width_ns) // (2 * width_ns)
    grid.char[part] = LOWER_EIGHTHS[np.clip(level[part], 1, 7)]
    grid.fg[part] = ink[part]
    return np.asarray(full)


def _mark_hits(cells: Cells, look: BarStyle, grid: Grid) -> None:
    """Underline search hits; a thin bar has no body to underline and takes the hit's ink."""
    hit = look.hit & (cells.count > 0)
    grid.attr[hit] |= int(Attr.UNDERLINE)
    thin = hit & (cells.count == 1) & ~cells.from_left & ~cells.to_right
    grid.fg[thin] = Ink.HIT


def _label_runs(cells: Cells) -> tuple[I64, I64]:
    """Runs of cells that one slice covers, with room for a name: first cell and length."""
    width = cells.count.shape[1]
    body = (cells.count == 1) & cells.from_left & (cells.to_right | (cells.end8 == 8))
    fresh = body.copy()
    fresh[:, 1:] &= ~body[:, :-1] | (cells.position[:, 1:] != cells.position[:, :-1])
    first = np.flatnonzero(fresh)
    member = np.flatnonzero(body)
    length = np.diff(np.append(np.searchsorted(member, first), len(member)))
    # A blank separates a name from the gutter, and from the edge of a bar without a tick.
    before = cells.start8.reshape(-1)[np.maximum(first - 1, 0)]
    indent = ((first % width == 0) | ((before >= 4) & (length > _LABEL_ROOM))).astype(np.int64)
    first, length = first + indent, length - indent
    roomy = length >= _LABEL_ROOM
    return first[roomy], length[roomy]


def _draw_labels(first: I64, room: I64, cells: Cells, look: BarStyle, grid: Grid) -> Bools:
    """Write names into the runs of ``room`` cells from ``first`` on; returns the cells that were written."""
    height, width = grid.char.shape
    drawn = np.zeros((height, width), np.bool_)
    if not len(first):
        return drawn
    owner, item = look.trace[first // width], cells.item.reshape(-1)[first]
    name = np.zeros(len(first), np.int64)
    for index, (codes, first_name) in enumerate(look.names):
        of_trace = owner == index
        name[of_trace] = codes[item[of_trace]] + np.int64(first_name)
    offset, length, cut = look.labels.fit(name, room)
    target = spread(first, length)
    y, x = np.divmod(target, width)
    grid.char[y, x] = look.labels.text[spread(offset, length)]
    last = first[cut] + room[cut] - 1
    halved = grid.char[last // width, last % width] == CONTINUED
    grid.char[last[halved] // width, last[halved] % width] = SPACE
    last = last - halved
    grid.char[last // width, last % width] = ord(ELLIPSIS)
    wait = look.kind.reshape(-1)[first] == OpClass.WAIT
    selected = look.selected.reshape(-1)[first]
    fg = np.where(selected, int(Ink.LANE), np.where(wait, int(Ink.WAIT_LABEL), int(Ink.LABEL)))
    if look.hits_only:
        fg[~look.hit.reshape(-1)[first] & ~selected] = Ink.DIM
    grid.fg[y, x] = np.repeat(fg, length)
    drawn[y, x] = True
    if wait.any():
        _space_hatch(first, first + length, first + room, wait, grid)
    if selected.any():
        _frame_selected(first[selected], (first + length)[selected], (first + room)[selected], grid, drawn)
    return drawn


def draw_open_ends(ends: Bools, look: BarStyle, painted: Painted, grid: Grid) -> None:
    """Mark the last cells of slices that began and never ended."""
    grid.char[ends] = OPEN_END
    grid.fg[ends] = np.where(look.selected, int(Ink.LANE), int(Ink.LABEL))[ends]
    grid.attr[ends] = int(Attr.BOLD)
    painted.plain[ends] = False
    painted.named[ends] = True


def _space_hatch(first: I64, after: I64, stop: I64, wait: Bools, grid: Grid) -> None:
    """Leave one blank between the name of a wait and its hatch, on both sides."""
    gap = np.concatenate([after[wait & (after < stop)], first[wait & (first % grid.width > 0)] - 1])
    y, x = gap // grid.width, gap % grid.width
    hatched = grid.char[y, x] == HATCH
    grid.char[y[hatched], x[hatched]] = SPACE


def _frame_selected(first: I64, after: I64, stop: I64, grid: Grid, drawn: Bools) -> None:
    """Put the name of the selected slice in brackets, which shows it without colour."""
    for start, behind, end in zip(first.tolist(), after.tolist(), stop.tolist(), strict=True):
        y, x = divmod(start, grid.width)
        grid.attr[y, x : x + behind - start] |= int(Attr.BOLD)
        if x > 0:
            grid.char[y, x - 1] = ord("[")
            grid.fg[y, x - 1], grid.bg[y, x - 1] = Ink.LANE, Ink.SELECTED
        if behind < end:
            column = behind % grid.width
            grid.char[y, column], grid.fg[y, column] = ord("]"), Ink.LANE
            drawn[y, column] = True
