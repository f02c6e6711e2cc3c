"""The rows above the lanes: minimap or findings, ruler, link strip, lost time, and the gutter beside them.

Of two traces compared: marks on slices that differ, the lag, and where time was lost or gained.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct

from npu_tui.native.cells import I64, Cells
from npu_tui.strings import knows, say
from npu_tui.trace.text import cell_count, change_text, drawable, duration_text
from npu_tui.view.bars import LOWER_EIGHTHS, Painted, points
from npu_tui.view.caches import Frame, SceneCache
from npu_tui.view.grid import SPACE, Attr, Grid
from npu_tui.view.levels import draw_losses
from npu_tui.view.links import draw_strip
from npu_tui.view.margins import Ticks, anchor_text, draw_ruler, range_columns
from npu_tui.view.palette import Ink
from npu_tui.view.scene import ALONE, BASE, CHANGED, SAME, ComparedPair, FindingMark, Scene, ScreenRow, ViewState
from npu_tui.view.viewport import Viewport

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


MARK_INKS = {"high": Ink.ALERT, "medium": Ink.ACCENT, "low": Ink.DIM, "info": Ink.FAINT}
_LINE, _HIT = "━", "▔"


def draw_findings(grid: Grid, marks: list[FindingMark], viewport: Viewport, hits: I64) -> None:
    """Draw the one-row ``grid``: a line over the time of each mark, with its label where that stands by itself.

    ``hits`` are the times (ns) of search hits, which are marked here as this row replaces the minimap.
    """
    placed = place_marks(marks, viewport)
    for each in placed:
        line = points(_LINE * (each.last - each.first + 1))
        grid.write(0, each.first, line, MARK_INKS[each.mark.severity])
    _draw_labels(grid, placed)
    hit_columns = np.flatnonzero(np.diff(np.searchsorted(hits, viewport.edges())))
    grid.char[0, hit_columns[grid.char[0, hit_columns] == SPACE]] = ord(_HIT)
    grid.attr[0, hit_columns] |= int(Attr.UNDERLINE)
    grid.fg[0, hit_columns] = Ink.HIT


def _draw_labels(grid: Grid, placed: list[PlacedMark]) -> None:
    for each in placed:
        if each.label is not None:
            grid.write(0, each.label, points(each.mark.label), MARK_INKS[each.mark.severity], attr=int(Attr.BOLD))


def _worth(mark: FindingMark) -> tuple[int, int, str, int]:
    """What comes first: the most severe, of those the lowest number, of one finding the earliest."""
    return list(MARK_INKS).index(mark.severity), len(mark.label), mark.label, mark.start


_NEAR = 4  # columns from the begin of a line that its label may lie: farther off it would name another moment


class PlacedMark(Struct, frozen=True):
    """A mark in the columns ``first`` to ``last``; its label begins at column ``label``, None without room for it."""

    mark: FindingMark
    first: int
    last: int
    label: int | None


def place_marks(marks: Iterable[FindingMark], viewport: Viewport) -> list[PlacedMark]:
    """Those of ``marks`` that ``viewport`` shows in drawing order, the most severe last and so on top.

    A column lies between any two labels, as ``1`` beside ``2`` would read as twelve. The label of a line that begins
    beside another one moves along its line; where there is no room, it is left out.
    """
    taken = np.zeros(viewport.width + 2, np.bool_)  # one more column on either side
    placed = []
    for mark in sorted(marks, key=_worth):
        first, last = range_columns(viewport, (mark.start, mark.end))
        if first > last:
            continue
        size, label = len(mark.label), None
        for at in range(first, min(max(last - size + 1, first), first + _NEAR) + 1):
            if at + size <= viewport.width and not taken[at : at + size + 2].any():
                label = at
                taken[at + 1 : at + size + 1] = True
                break
        placed.append(PlacedMark(mark, first, last, label))
    return placed[::-1]


_placed_on_whole = lru_cache(maxsize=8)(place_marks)
"""Those of a ``tuple`` of marks over all of a trace, which no motion changes."""


def mark_at(marks: list[FindingMark], viewport: Viewport, column: int) -> FindingMark | None:
    """The mark that is visible in ``column``; None without one."""
    seen, named = None, None
    for each in place_marks(marks, viewport):
        if each.first <= column <= each.last:
            seen = each.mark
        if each.label is not None and each.label <= column < each.label + len(each.mark.label):
            named = each.mark
    return named or seen


_MINIMAP, _RULER, _STRIP, _LOSSES = range(4)
_ROOMY = 16  # columns; in fewer the name of the category stands alone


class TopRows(Struct):
    """Draws the top rows of a frame for trace number ``trace``; ``local`` is the view on the clock of that trace.

    ``cursor`` is a column, None out of view.
    """

    scene: Scene
    cache: SceneCache
    state: ViewState
    frame: Frame
    trace: int
    local: Viewport
    ticks: Ticks
    cursor: int | None

    def draw(self) -> None:
        """Draw all top rows and their gutter."""
        grid, gutter, view = self.frame.grid, self.frame.gutter, self.frame.viewport
        minimap, ruler = (grid.part(y, gutter, 1, view.width) for y in (_MINIMAP, _RULER))
        strip = grid.part(_STRIP, gutter, int(self.frame.lanes_top > _STRIP), view.width)
        left = grid.part(0, 0, self.frame.lanes_top, gutter)
        minimap.bg[:] = strip.bg[:] = Ink.BAND
        if self.scene.pair is not None:
            self._draw_pair(self.scene.pair, minimap, strip, left)
        else:
            lost, shows_step = None, False
            if self.trace < len(self.scene.traces):
                shows_step = self.cache.holds_step(self.trace, view.start, view.end)
                lost = self._overview(minimap, shows_step)
                if self.scene.measured and strip.height:
                    draw_strip(strip, self.cache.links(self.trace, self.state.link_category), self.local)
            self._heading(left, lost, shows_step)
        draw_ruler(ruler, self.ticks, view, self.cursor, self.state.range, self.state.hits, self.state.flags)
        if self.cursor is not None:
            strip.bg[:, self.cursor] = Ink.CURSOR
        # The time that the labels of the ruler count from, else the length of the view.
        if self.ticks.anchor is not None and self.ticks.times.size:
            left.write(_RULER, 1, points(anchor_text(self.ticks.anchor)), Ink.DIM)
        else:
            span = duration_text(view.end - view.start, gap="")
            left.write(_RULER, 1, points(say("frame.view", span=span)), Ink.DIM)

    def _draw_pair(self, pair: ComparedPair, minimap: Grid, strip: Grid, left: Grid) -> None:
        """Draw the marks of changes in view, or else the minimap, then the lag and, if there is room, its growth."""
        view, lost = self.frame.viewport, None
        if self.frame.lanes_top > _LOSSES:
            lost = self.frame.grid.part(_LOSSES, self.frame.gutter, 1, view.width)
            lost.bg[:] = Ink.BAND
        cursor = self.scene.to_trace(BASE, self.state.cursor)
        draw_pair_rows(pair, PairRows(strip, lost, left), self.scene.local(BASE, view), cursor)
        self._draw_first(minimap, True)
        title = say("frame.changes" if self.frame.top == "findings" else "frame.whole")
        left.write(_MINIMAP, 1, points(title), Ink.BRIGHT)

    def _draw_first(self, minimap: Grid, findings: bool) -> None:
        """Draw the minimap or, with ``findings``, the marks of those in view if there are any."""
        view, hits = self.local, self.scene.to_trace(self.trace, self.state.hits)
        marks = [mark for mark in self.scene.findings[self.trace] if mark.start < view.end and mark.end > view.start]
        if findings and marks:
            self.frame.top = "findings"
            draw_findings(minimap, marks, view, hits)
        else:
            whole = self.scene.local(self.trace, self.scene.overview(view.width))
            self.cache.minimap(self.trace, whole).draw(minimap, view, hits)
            _draw_labels(minimap, _placed_on_whole(tuple(self.scene.findings[self.trace]), whole))

    def _overview(self, minimap: Grid, shows_step: bool) -> tuple[int, int, bool] | None:
        """Draw minimap or findings, and lost time in its row or, with a step or more in view, instead of the minimap.

        Returns the row of lost time, its sum in view (ns), and whether a launch starved; None if it has no row.
        """
        index = self.cache.losses(self.trace)
        # A low screen has no row for lost time. It may take the minimap's place once a step is in view, as then the
        # minimap says little.
        y = _LOSSES if self.frame.lanes_top > _LOSSES else _MINIMAP if shows_step and index else None
        if y == _MINIMAP:
            self.frame.top = "losses"
        else:
            self._draw_first(minimap, shows_step)
        if y is None:
            return None
        row = self.frame.grid.part(y, self.frame.gutter, 1, self.frame.viewport.width)
        row.bg[:] = Ink.BAND
        lost, starved = draw_losses(row, index, self.local)
        if self.cursor is not None:
            row.bg[0, self.cursor] = Ink.CURSOR
        return y, lost, starved

    def _launches(self) -> bool:
        """Whether the trace may have links."""
        if self.trace >= len(self.scene.traces):
            return True
        trace = self.scene.traces[self.trace]
        if not self.scene.measured:
            return trace.nature.launches
        kinds = {layer.kind for layer in trace.layers}
        return bool(kinds & {"cann", "hardware"} or len(self.cache.links(self.trace, self.state.link_category)))

    def _heading(self, left: Grid, lost: tuple[int, int, bool] | None, shows_step: bool) -> None:
        """Draw the gutter beside the top rows: rank and duration, links, lost time."""
        rank = self.scene.traces[self.trace].rank if self.trace < len(self.scene.traces) else None
        duration = duration_text(self.scene.lengths[self.trace] if self.scene.traces else 0, gap="")
        title = f"{say('header.rank', rank=rank)} · {duration}" if rank is not None else duration
        if self.frame.top == "findings":
            title = say("frame.findings")
        if lost is None or lost[0] != _MINIMAP:
            left.write(_MINIMAP, 1, points(title if cell_count(title) < left.width else duration), Ink.BRIGHT)
        if self.frame.lanes_top <= _STRIP or not self._launches():
            return
        if lost is not None:
            x = left.write(lost[0], 1, points(say("frame.lost")), Ink.DIM)
            ink = Ink.ALERT if lost[2] else Ink.TEXT
            # Of whole steps the findings say what each loses: the sum of all in view would be a second number for it.
            told = lost[1] and shows_step and self.scene.findings[self.trace]
            if not told and (lost[1] or (self.scene.measured and self.cache.classed(self.trace))):
                left.write(lost[0], x + 1, points(duration_text(lost[1], 3, gap="")), ink)
        category, key = self.state.link_category, f"category.{self.state.link_category}"
        category = say(key) if knows(key) else drawable(category)
        words = say("frame.links", category=category) if left.width > _ROOMY else category
        left.write(_STRIP, 1, points(words), Ink.DIM)
