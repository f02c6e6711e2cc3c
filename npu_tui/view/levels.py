"""Levels of detail: cells of rows, the union of a lane and extremes of ranges without a pass over every slice.

The minimap of a trace and the row of lost time are drawn from them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from npu_tui.native.cells import I64, AskedRows, Cells, Levels, cells
from npu_tui.trace.classes import OpClass
from npu_tui.trace.intervals import union
from npu_tui.trace.model import Lane, Rows, Trace
from npu_tui.view.bars import LOWER_EIGHTHS, points
from npu_tui.view.grid import Grid
from npu_tui.view.palette import Ink, bar
from npu_tui.view.scene import Losses
from npu_tui.view.viewport import Viewport


def rasterise(
    wanted: list[tuple[Rows | None, int, Viewport]], width: int, levels: Callable[[Rows], Levels]
) -> Cells:  # fmt: skip
    """The cells of the ``wanted`` (rows, row, view), ``width`` columns each; a row without ``Rows`` is empty.

    The view is on the clock of the row's trace. ``levels`` returns the (cached) longest-slice index of a ``Rows``.
    """
    drawn = [
        (rows, view) if rows is not None and 0 <= row < len(rows) and rows.offset[row] < rows.offset[row + 1] else None
        for rows, row, view in wanted
    ]
    asked: list[AskedRows] = []
    for one, lines in groupby(enumerate(drawn), itemgetter(1)):
        if one is not None:
            which = [y for y, _ in lines]
            asked.append(AskedRows(levels(one[0]), which[0], [wanted[y][1] for y in which], one[1].edges()))
    return cells(asked, len(wanted), width)


class Cover:
    """The union of the slices of one lane as disjoint intervals ``start``..``end`` (ns).

    The pieces of a lane's folded row are that union already, only cut where one slice takes over from another.
    """

    def __init__(self, trace: Trace, lane: int) -> None:
        shown_lane = trace.lanes[lane]
        folded = trace.folded.get(shown_lane.first_row)
        if folded is not None:
            self.start, self.end, self._sum = folded.start, folded.end, folded.busy
            return
        bounds = trace.rows.offset[shown_lane.first_row : shown_lane.first_row + shown_lane.rows + 1]
        low, high = (int(bounds[0]), int(bounds[-1])) if shown_lane.rows else (0, 0)
        self.start, self.end = union(trace.rows.start[low:high], trace.rows.end[low:high])
        self._sum = np.zeros(len(self.start) + 1, np.int64)
        np.cumsum(self.end - self.start, out=self._sum[1:])

    def busy(self, start: int, end: int) -> int:
        """How much of ``[start, end)`` is covered, ns."""
        until = []
        for time in (start, end):
            count = int(self.start.searchsorted(time))
            # The last interval that has begun may reach beyond the time.
            beyond = max(int(self.end[count - 1]) - time, 0) if count else 0
            until.append(int(self._sum[count]) - beyond)
        return until[1] - until[0]


_BLOCK = 16  # values: a window of them at either end of a range leaves whole blocks between

Number = TypeVar("Number", bound=np.generic)


class Extremes(Generic[Number]):
    """The extreme of ranges of ``values``; ``extreme`` is ``np.maximum`` or ``np.minimum``.

    Blocks of 16 values are reduced once: a long range takes its blocks and up to 16 values at either end.
    """

    def __init__(self, values: npt.NDArray[Number], extreme: np.ufunc) -> None:
        self._values = values
        self._extreme = extreme
        blocks = np.arange(0, len(values), _BLOCK)
        self._blocks: npt.NDArray[Any] = extreme.reduceat(values, blocks) if len(blocks) else values

    def over(self, first: I64, last: I64) -> npt.NDArray[Number]:
        """The extreme of each range ``[first, last)``; ranges ascend and are not empty."""
        # Both ends of a range are covered by windows of up to 16 values, which may overlap: that changes no extreme.
        longest = int((last - first).max(initial=1))
        window = np.arange(min(longest, _BLOCK))
        begin, end = first[:, None], last[:, None]
        extremes: npt.NDArray[Any] = self._extreme.reduce(self._values[np.minimum(begin + window, end - 1)], axis=1)
        if longest <= _BLOCK:
            return extremes
        ends = self._extreme.reduce(self._values[np.maximum(end - 1 - window, begin)], axis=1)
        extremes = self._extreme(extremes, ends)
        low, high = -(-first // _BLOCK), last // _BLOCK
        inner = np.flatnonzero(high > low)
        if len(inner):
            pairs = np.stack((low[inner], high[inner]), axis=1).ravel()
            # reduceat takes no index after the last block, which is where the last range may end.
            pairs = pairs[:-1] if pairs[-1] == len(self._blocks) else pairs
            extremes[inner] = self._extreme(extremes[inner], self._extreme.reduceat(self._blocks, pairs)[::2])
        return extremes


_LEFT, _RIGHT, _HIT = "▐", "▌", "▔"
_COMPUTING = "Computing"
_EXPOSED = "Communication(Not Overlapped)"


class Minimap:
    """The histogram of a minimap: levels 0..8 ``busy`` and ``exposed`` per column of ``viewport`` (trace's clock)."""

    def __init__(self, trace: Trace, viewport: Viewport, levels: Callable[[Rows], Levels]) -> None:
        self.viewport = viewport
        overlap = {lane.name: lane for lane in trace.file_lanes if trace.layer_of(lane.index).kind == "overlap"}
        if _COMPUTING in overlap:
            self.ink = bar(OpClass.CUBE)
            self.busy = self._levels(trace, [overlap[_COMPUTING]], levels)
        else:
            # Without an Overlap Analysis layer the busiest lane of any stream stands for the device.
            self.ink = bar(OpClass.OP)
            device = [lane for lane in trace.file_lanes if trace.layer_of(lane.index).kind == "hardware"]
            self.busy = self._levels(trace, device or trace.file_lanes, levels)
        exposed = [overlap[_EXPOSED]] if _EXPOSED in overlap else []
        self.exposed = self._levels(trace, exposed, levels)

    def _levels(self, trace: Trace, lanes: list[Lane], levels: Callable[[Rows], Levels]) -> I64:
        wanted = [(trace.rows, lane.first_row, self.viewport) for lane in lanes if lane.rows]
        if not wanted:
            return np.zeros(self.viewport.width, np.int64)
        busy = rasterise(list(wanted), self.viewport.width, levels).busy.max(axis=0)
        width = np.diff(self.viewport.edges())
        return np.where(busy > 0, np.clip((16 * busy + width) // (2 * width), 1, 8), 0)

    def draw(self, grid: Grid, view: Viewport, hits: I64) -> None:
        """Draw the one-row ``grid``: the histogram, the window ``view`` and search hits at the times ``hits``."""
        width = grid.width
        grid.char[0] = LOWER_EIGHTHS[np.where(self.busy > 0, self.busy, np.minimum(self.exposed, 1))]
        grid.fg[0] = np.where(self.busy > 0, self.ink, int(Ink.EXPOSED))
        low = np.clip(self.viewport.column(view.start), 0, width - 1)
        high = np.clip(self.viewport.column(view.end - 1), 0, width - 1)
        grid.bg[0, low : high + 1] = Ink.WINDOW
        hit_columns = np.flatnonzero(np.diff(np.searchsorted(hits, self.viewport.edges())))
        empty = hit_columns[self.busy[hit_columns] == 0]
        grid.fg[0, hit_columns] = Ink.HIT
        grid.char[0, empty] = ord(_HIT)
        if low > 0:
            grid.write(0, int(low) - 1, points(_LEFT), Ink.ACCENT)
        if high < width - 1:
            grid.write(0, int(high) + 1, points(_RIGHT), Ink.ACCENT)


class LossIndex:
    """Sums of lost time over any window, of all waits and of those for starved launches."""

    def __init__(self, losses: Losses) -> None:
        self._waits = []
        for chosen in (slice(None), losses.starved):
            start, end = np.sort(losses.start[chosen]), np.sort(losses.end[chosen])
            sums = (np.concatenate(([0], np.cumsum(times))) for times in (start, end))
            self._waits.append((start, end, *sums))

    def __bool__(self) -> bool:
        return len(self._waits[0][0]) > 0

    def cells(self, viewport: Viewport) -> list[I64]:
        """The lost time of every column and the part lost by starved launches; (width,) ns each."""
        edges, lost = viewport.edges(), []
        for start, end, start_sum, end_sum in self._waits:
            begun, over = start.searchsorted(edges), end.searchsorted(edges)
            # Each wait that has begun adds edge - start, each that is over takes back edge - end: what remains of it is
            # its length. Products may overflow, but the difference of two sums is right modulo 2**64.
            before = (begun * edges - start_sum[begun]) - (over * edges - end_sum[over])
            lost.append(np.diff(before))
        return lost


def draw_losses(grid: Grid, index: LossIndex, viewport: Viewport) -> tuple[int, bool]:
    """Draw the one-row ``grid``; returns the lost time in view (ns) and whether any of it is due to starved launches.

    The height of a column is the lost share of its time; it is red where a starved launch lost it.
    """
    lost, starved = index.cells(viewport)
    width = np.diff(viewport.edges())
    levels = np.clip(-(-8 * lost // width), 0, 8)
    grid.char[0] = LOWER_EIGHTHS[levels]
    grid.fg[0] = np.where(starved > 0, int(Ink.ALERT), int(Ink.COUNTER_LOW))
    return int(lost.sum()), bool(starved.any())
