"""Drawing a comparison of two traces: marks on slices that differ, the lag, and where time was lost or gained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.native.cells import Cells
from npu_tui.strings import say
from npu_tui.trace.text import change_text
from npu_tui.view.bars import LOWER_EIGHTHS, Painted, points
from npu_tui.view.caches import SceneCache
from npu_tui.view.grid import Attr, Grid
from npu_tui.view.palette import Ink
from npu_tui.view.scene import ALONE, BASE, CHANGED, SAME, ComparedPair, ScreenRow
from npu_tui.view.viewport import Viewport

I64 = npt.NDArray[np.int64]

GONE, ADDED, DIFFERS = "−+≠"
"""Signs of a slice that only the base has, that only the new trace has, and that differs."""
_BODY = ord("░")
_GAIN, _LOSS, _REST = ord("−"), ord("+"), ord("·")
_NOTICED = 0.002
"""A column has lost or gained time if the lag changes by this share of the step."""


def draw_marks(
    pair: ComparedPair, rows: list[ScreenRow | None], cells: Cells, cache: SceneCache, painted: Painted, grid: Grid
) -> None:
    """Mark the slices of ``rows`` without a counterpart or different from it; ``painted`` are the bars drawn so far.

    The body of a slice without a counterpart is hollow: a dotted pattern in its colour on the background.
    """
    # Rows of one trace that share ``Rows`` share its counts of marks.
    groups: dict[tuple[int, int], list[int]] = {}
    for line, row in enumerate(rows):
        if row is not None and row.rows is not None and len(row.rows.item):
            groups.setdefault((row.trace, id(row.rows)), []).append(line)
    for (trace, _), members in groups.items():
        row_of_group = rows[members[0]]
        assert row_of_group is not None
        assert row_of_group.rows is not None
        first, count = cells.first[members], cells.count[members]
        differs, alone = (
            before[first + count] > before[first]
            for before in (cache.counts(row_of_group.rows, pair.marks[trace], mark) for mark in (CHANGED, ALONE))
        )
        if not (differs.any() or alone.any()):
            continue
        at = np.array(members)
        # A slice gets its sign in its first cell only; a cell with several slices stands for all of them.
        free = (~cells.from_left[at] | (count > 1)) & ~painted.named[at]
        if alone.any():
            item = cells.item[at]
            y, x = np.nonzero((np.where(item >= 0, pair.marks[trace][item], SAME) == ALONE) & (count == 1))
            y = at[y]
            ink = grid.bg[y, x]
            bar = ink < Ink.LANE
            hollow = painted.plain[y, x]
            grid.char[y[hollow], x[hollow]] = _BODY
            grid.fg[y[bar], x[bar]] = ink[bar]
            grid.bg[y[bar], x[bar]] = Ink.LANE
        for marked, sign in ((differs, DIFFERS), (alone, (GONE, ADDED)[trace])):
            y, x = np.nonzero(marked & free)
            y = at[y]
            on_bar = grid.bg[y, x] < Ink.LANE
            grid.fg[y[on_bar], x[on_bar]] = Ink.LABEL
            grid.char[y, x] = ord(sign)
            grid.attr[y, x] |= int(Attr.BOLD)
            painted.plain[y, x] = False


def draw_lag(grid: Grid, pair: ComparedPair, view: Viewport) -> None:
    """Draw the lag into the one-row ``grid``, scaled to its extremes; ``view`` is on the clock of the base."""
    lag = pair.lag
    low, high = min(int(lag.min()), 0), max(int(lag.max()), 0)
    edges = view.edges()[1:]
    start, end = pair.windows[BASE]
    # Between two matched times the lag is taken to change evenly.
    value = np.interp(edges, pair.matched.base, lag)
    inside = (edges > start) & (view.edges()[:-1] < end)
    levels = np.clip(np.rint(7 * (value - low) / max(high - low, 1)).astype(np.int64) + 1, 1, 8)
    grid.char[0, inside] = LOWER_EIGHTHS[levels][inside]
    grid.fg[0] = np.where(value < 0, int(Ink.NEAR), int(Ink.COUNTER))


def draw_lost(grid: Grid, pair: ComparedPair, view: Viewport) -> int:
    """Draw where the lag grows (+) or shrinks (−) into the one-row ``grid``; returns its growth over the view, ns."""
    edges = view.edges()
    start, end = pair.windows[BASE]
    value = np.interp(edges, pair.matched.base, pair.lag)
    grown = np.diff(value)
    least = _NOTICED * max(end - start, 1)
    inside = (edges[1:] > start) & (edges[:-1] < end)
    grid.char[0, inside] = np.select([grown >= least, grown <= -least], [_LOSS, _GAIN], _REST)[inside]
    grid.fg[0] = np.select([grown >= least, grown <= -least], [int(Ink.BRIGHT), int(Ink.NEAR)], int(Ink.FAINT))
    return round(float(value[-1] - value[0]))


def lag_at(pair: ComparedPair, when: int) -> int:
    """The lag (ns) at ``when`` ns on the clock of the base."""
    return round(float(np.interp(when, pair.matched.base, pair.lag)))


class PairRows(Struct, frozen=True):
    """The rows above the lanes: the lag, its growth (None: no room), and the gutter to the left of both."""

    lag: Grid
    lost: Grid | None
    left: Grid


_LAG_ROW, _LOST_ROW = 2, 3


def draw_pair_rows(pair: ComparedPair, rows: PairRows, view: Viewport, cursor: int) -> None:
    """Draw the lag and its growth; ``view`` and ``cursor`` are on the clock of the base."""
    draw_lag(rows.lag, pair, view)
    x = rows.left.write(_LAG_ROW, 1, points(say("frame.lag")), Ink.DIM)
    rows.left.write(_LAG_ROW, x + 1, points(change_text(lag_at(pair, cursor))), Ink.TEXT)
    if rows.lost is not None:
        grown = draw_lost(rows.lost, pair, view)
        x = rows.left.write(_LOST_ROW, 1, points(say("frame.lost_here")), Ink.DIM)
        rows.left.write(_LOST_ROW, x + 1, points(change_text(grown)), Ink.TEXT)


def column_widths(view: Viewport, local: Sequence[Viewport], traces: I64) -> I64:
    """The widths of the columns, ns; (columns,), or (rows, columns) where they differ between ``traces``."""
    # Only a warped viewport has columns of other widths than the scene's.
    if all(type(view_of_trace) is Viewport for view_of_trace in local):
        return np.diff(view.edges())
    widths = [np.diff(view_of_trace.edges()) for view_of_trace in local]
    return np.array([widths[number] for number in traces.tolist()]).reshape(len(traces), view.width)
