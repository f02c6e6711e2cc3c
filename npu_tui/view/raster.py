"""Rows of slices to cells: what every cell of the screen sums up, exact at any zoom."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.model import Rows
from npu_tui.view.cells.compiled import Compiled
from npu_tui.view.viewport import Viewport

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_BEFORE = np.iinfo(np.int64).min // 4


Packed = tuple[tuple[I64, I64, I64], int, int]
"""Keys of all levels, where each begins, and every 64th start; bits of a position, and those dropped of a duration."""


class Longest(Protocol):
    """Answers longest-slice queries; ``levels.Levels`` is one."""

    def longest(self, first: I64, last: I64) -> I64:
        """The position of the longest slice in ``[first[k], last[k])``, earlier on ties."""
        ...

    def packed(self) -> Packed:
        """What a compiled library looks them up in."""
        ...


class LevelsOf(Protocol):
    """Gives the longest-slice queries of a ``Rows``, made when first asked for."""

    def __call__(self, rows: Rows) -> Longest:
        """The queries over ``rows``."""
        ...


class Cells(Struct):
    """What lies in each cell; all arrays are (rows on screen, columns).

    ``count`` slices touch the cell and cover ``busy`` ns of it. ``item`` is the slice that covers most of it (-1 in an
    empty cell; the earlier on ties) and ``position`` its place in its ``Rows``, ``first`` that of the first slice.
    ``other`` is the second slice of a cell that holds the end of one and the start of another and nothing else (-1
    elsewhere); ``leads``: ``item`` is the earlier of the two. ``from_left`` and ``to_right``: a slice reaches over
    that edge.
    ``touches``: the only slice, over an edge, and less than a quarter of a cell away from its neighbour in the row.
    ``end8`` is where the first slice ends and ``start8`` where the last one starts, in eighths of the cell (0..8).
    """

    count: I64
    busy: I64
    item: I32
    position: I64
    first: I64
    other: I32
    leads: Bools
    from_left: Bools
    to_right: Bools
    touches: Bools
    start8: I8
    end8: I8

    @classmethod
    def empty(cls, rows: int, width: int) -> Cells:
        """Cells in which nothing lies."""
        shape = (rows, width)
        return cls(
            count=np.zeros(shape, np.int64),
            busy=np.zeros(shape, np.int64),
            item=np.full(shape, -1, np.int32),
            position=np.full(shape, -1, np.int64),
            first=np.zeros(shape, np.int64),
            other=np.full(shape, -1, np.int32),
            leads=np.zeros(shape, np.bool_),
            from_left=np.zeros(shape, np.bool_),
            to_right=np.zeros(shape, np.bool_),
            touches=np.zeros(shape, np.bool_),
            start8=np.zeros(shape, np.int8),
            end8=np.zeros(shape, np.int8),
        )


def rasterise(
    wanted: list[tuple[Rows | None, int, Viewport]], width: int, levels: LevelsOf, compiled: Compiled | None = None
) -> Cells:
    """The cells of the rows ``wanted`` as (rows, row, view), ``width`` columns each; without rows they stay empty.

    The view of a row tells its columns on the clock of its times.
    """
    groups: dict[tuple[int, Viewport], list[int]] = {}
    for y, (rows, row, view) in enumerate(wanted):
        if rows is not None and 0 <= row < len(rows) and rows.offset[row] < rows.offset[row + 1]:
            groups.setdefault((id(rows), view), []).append(y)
    if not groups:
        return Cells.empty(len(wanted), width)
    runs: list[_Run] = []
    lines: list[int] = []
    for (_, view), members in groups.items():
        own = wanted[members[0]][0]
        assert own is not None
        runs.append(
            _Run(own, [wanted[y][1] for y in members], view.edges(), slice(len(lines), len(lines) + len(members)))
        )
        lines += members
    found = _rasterise_runs(runs, width, levels) if compiled is None else _compiled_runs(runs, width, levels, compiled)
    if lines == list(range(len(wanted))):
        return found
    cells = Cells.empty(len(wanted), width)
    for name in _FIELDS:
        getattr(cells, name)[lines] = getattr(found, name)
    return cells


_FIELDS = Cells.__struct_fields__
_KINDS = [getattr(Cells.empty(0, 0), name).dtype for name in _FIELDS]


class _Run(Struct, frozen=True):
    """Some of ``rows`` whose cells are the lines ``lines``, between the same column ``edges``."""

    rows: Rows
    which: list[int]
    edges: I64
    lines: slice


def _compiled_runs(runs: list[_Run], columns: int, levels: LevelsOf, compiled: Compiled) -> Cells:
    cells = Cells(*(np.empty((runs[-1].lines.stop, columns), kind) for kind in _KINDS))
    for run in runs:
        rows = run.rows
        keys, bits, drop = levels(rows).packed()
        found = [getattr(cells, name)[run.lines] for name in _FIELDS]
        given = (rows.offset, rows.item, rows.start, rows.end, rows.busy)
        compiled.cells(given, np.array(run.which, np.int64), run.edges, keys, bits, drop, found)
    return cells


def _rasterise_runs(runs: list[_Run], columns: int, levels: LevelsOf) -> Cells:
    count_of_lines = runs[-1].lines.stop
    started = np.empty((count_of_lines, columns + 1), np.int64)
    origin, stop = (np.empty((count_of_lines, 1), np.int64) for _ in range(2))
    edges = runs[0].edges if len(runs) == 1 else np.empty((count_of_lines, columns + 1), np.int64)
    for run in runs:
        rows, offset = run.rows, run.rows.offset
        origin[run.lines, 0], stop[run.lines] = offset[run.which], len(rows.item) - 1
        if len(runs) > 1:
            edges[run.lines] = run.edges
        for line, row in enumerate(run.which, run.lines.start):
            low, high = offset[row], offset[row + 1]
            started[line] = low + rows.start[low:high].searchsorted(run.edges)
    width = np.diff(edges)

    # Slices of a row never overlap: only the last one that started before an edge can hang over it.
    before = np.maximum(started - 1, 0)
    ended = np.where(started > origin, _taken(runs, "end", before), _BEFORE)
    over = np.maximum(ended - edges, 0)
    busy = np.diff(_taken(runs, "busy", started) - over, axis=1)
    hangs = over > 0

    left, right = edges[..., :-1], edges[..., 1:]
    first = started[:, :-1] - hangs[:, :-1]
    count = started[:, 1:] - first
    entered = np.minimum(started[:, :-1], stop)
    first_start = np.where(hangs[:, :-1], left, _taken(runs, "start", entered))
    first_end = np.where(hangs[:, :-1], ended[:, :-1], _taken(runs, "end", entered))
    last = before[:, 1:]
    last_start = _taken(runs, "start", last)

    position = first.copy()
    several = count >= 2
    if several.any():
        lead = first_end - first_start
        final = np.minimum(ended[:, 1:], right) - last_start
        many = count >= 3
        if many.any():
            for run in runs:
                some = many[run.lines]
                if some.any():
                    middle = levels(run.rows).longest(first[run.lines][some] + 1, last[run.lines][some])
                    inner = run.rows.end[middle] - run.rows.start[middle]
                    better = inner > lead[run.lines][some]
                    position[run.lines][some] = np.where(better, middle, position[run.lines][some])
                    lead[run.lines][some] = np.where(better, inner, lead[run.lines][some])
        position = np.where(several & (final > lead), last, position)

    leads = position == first
    other = np.full(count.shape, -1, np.int32)
    pair = (count == 2) & hangs[:, :-1] & hangs[:, 1:]
    touches = np.zeros(count.shape, np.bool_)
    single = (count == 1) & (hangs[:, :-1] | hangs[:, 1:])
    near = np.broadcast_to(width // 4, count.shape)
    for run in runs:
        own = pair[run.lines]
        if own.any():
            other[run.lines][own] = run.rows.item[np.where(leads[run.lines], last[run.lines], first[run.lines])[own]]
        own = single[run.lines]
        if own.any():
            touches[run.lines][own] = _touches(run.rows, position[run.lines][own], near[run.lines][own])
    some = count > 0
    return Cells(
        count=count,
        busy=busy,
        item=np.where(some, _taken(runs, "item", np.minimum(position, stop)), np.int32(-1)),
        position=np.where(some, position, -1),
        first=first,
        other=other,
        leads=leads,
        from_left=hangs[:, :-1],
        to_right=hangs[:, 1:],
        touches=touches,
        start8=_eighths(last_start - left, width),
        end8=_eighths(first_end - left, width),
    )


def _taken(runs: list[_Run], column: str, index: I64) -> Any:
    """What stands at ``index`` in ``column`` of the rows of each line."""
    if len(runs) == 1:
        return getattr(runs[0].rows, column)[index]
    found = np.empty(index.shape, getattr(runs[0].rows, column).dtype)
    for run in runs:
        found[run.lines] = getattr(run.rows, column)[index[run.lines]]
    return found


def _touches(rows: Rows, position: I64, near: I64) -> Bools:
    """Whether the slice at ``position`` lies closer than ``near`` ns to the one before or after it."""
    here = position
    before, behind = np.maximum(here - 1, 0), np.minimum(here + 1, len(rows.item) - 1)
    # Neighbours in another row lie elsewhere in time; should they meet here, only a shade is at stake.
    gap_before, gap_behind = rows.start[here] - rows.end[before], rows.start[behind] - rows.end[here]
    return np.asarray(((gap_before >= 0) & (gap_before <= near)) | ((gap_behind >= 0) & (gap_behind <= near)))


def _eighths(time: I64, width: I64) -> I8:
    """``time`` ns into a cell of ``width`` ns as eighths 0..8, rounded to the nearest."""
    inside = np.clip(time, 0, width)
    return np.asarray((16 * inside + width) // (2 * width), np.int8)
