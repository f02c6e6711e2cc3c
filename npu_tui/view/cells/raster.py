"""Rows of slices to cells: what every cell of the screen sums up, exact at any zoom."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import numpy.typing as npt

from npu_tui.trace.rows import Rows
from npu_tui.view.viewport import Viewport

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_BEFORE = np.iinfo(np.int64).min // 4


class Longest(Protocol):
    """Answers longest-slice queries; ``levels.Levels`` is one."""

    def longest(self, first: I64, last: I64) -> I64:
        """The position of the longest slice in ``[first[k], last[k])``, earlier on ties."""
        ...


class LevelsOf(Protocol):
    """Gives the longest-slice queries of a ``Rows``, made when first asked for."""

    def __call__(self, rows: Rows) -> Longest:
        """The queries over ``rows``."""
        ...


@dataclass(slots=True)
class Cells:
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


def rasterise(wanted: list[tuple[Rows | None, int, Viewport]], width: int, levels: LevelsOf) -> Cells:
    """The cells of the rows ``wanted`` as (rows, row, view), ``width`` columns each; without rows they stay empty.

    The view of a row tells its columns on the clock of its times.
    """
    groups: dict[tuple[int, Viewport], list[int]] = {}
    for y, (rows, row, view) in enumerate(wanted):
        if rows is not None and 0 <= row < len(rows) and rows.offset[row] < rows.offset[row + 1]:
            groups.setdefault((id(rows), view), []).append(y)
    cells = Cells.empty(len(wanted), width)
    for (_, view), members in groups.items():
        rows = wanted[members[0]][0]
        assert rows is not None
        part = _rasterise_rows(rows, [wanted[y][1] for y in members], view.edges(), levels)
        if len(groups) == 1 and len(members) == len(wanted):
            return part
        for name in _FIELDS:
            getattr(cells, name)[members] = getattr(part, name)
    return cells


_FIELDS = [field.name for field in fields(Cells)]


def _rasterise_rows(rows: Rows, which: list[int], edges: I64, levels: LevelsOf) -> Cells:
    width = np.diff(edges)
    started = np.empty((len(which), len(edges)), np.int64)
    origin = rows.offset[which][:, None]
    for k, row in enumerate(which):
        low, high = rows.offset[row], rows.offset[row + 1]
        started[k] = low + rows.start[low:high].searchsorted(edges)

    # Slices of a row never overlap: only the last one that started before an edge can hang over it.
    before = np.maximum(started - 1, 0)
    ended = np.where(started > origin, rows.end[before], _BEFORE)
    over = np.maximum(ended - edges, 0)
    busy = np.diff(rows.busy[started] - over, axis=1)
    hangs = over > 0

    left, right = edges[:-1], edges[1:]
    first = started[:, :-1] - hangs[:, :-1]
    count = started[:, 1:] - first
    entered = np.minimum(started[:, :-1], len(rows.item) - 1)
    first_start = np.where(hangs[:, :-1], left, rows.start[entered])
    first_end = np.where(hangs[:, :-1], ended[:, :-1], rows.end[entered])
    last = before[:, 1:]
    last_start = rows.start[last]

    position = first.copy()
    several = count >= 2
    if several.any():
        lead = first_end - first_start
        final = np.minimum(ended[:, 1:], right) - last_start
        many = count >= 3
        if many.any():
            middle = levels(rows).longest(first[many] + 1, last[many])
            inner = rows.end[middle] - rows.start[middle]
            better = inner > lead[many]
            position[many] = np.where(better, middle, position[many])
            lead[many] = np.where(better, inner, lead[many])
        position = np.where(several & (final > lead), last, position)

    some = count > 0
    stop = len(rows.item) - 1
    leads = position == first
    other = np.full(count.shape, -1, np.int32)
    pair = (count == 2) & hangs[:, :-1] & hangs[:, 1:]
    other[pair] = rows.item[np.where(leads, last, first)[pair]]
    touches = np.zeros(count.shape, np.bool_)
    single = (count == 1) & (hangs[:, :-1] | hangs[:, 1:])
    touches[single] = _touches(rows, position[single], np.broadcast_to(width // 4, count.shape)[single])
    return Cells(
        count=count,
        busy=busy,
        item=np.where(some, rows.item[np.minimum(position, stop)], np.int32(-1)),
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


def _touches(rows: Rows, position: I64, near: I64) -> Bools:
    """Whether the slice at ``position`` lies closer than ``near`` ns to the one before or behind it."""
    here = position
    before, behind = np.maximum(here - 1, 0), np.minimum(here + 1, len(rows.item) - 1)
    # Neighbours in another row lie elsewhere in time; should they meet here, only a shade is at stake.
    gap_before, gap_behind = rows.start[here] - rows.end[before], rows.start[behind] - rows.end[here]
    return np.asarray(((gap_before >= 0) & (gap_before <= near)) | ((gap_behind >= 0) & (gap_behind <= near)))


def _eighths(time: I64, width: I64) -> I8:
    """``time`` ns into a cell of ``width`` ns as eighths 0..8, rounded to the nearest."""
    inside = np.clip(time, 0, width)
    return np.asarray((16 * inside + width) // (2 * width), np.int8)
