"""The minimap of a trace, and the row of lost time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu_tui.native.cells import I64, Levels
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Lane, Rows, Trace
from npu_tui.view.bars import LOWER_EIGHTHS, points
from npu_tui.view.grid import Grid
from npu_tui.view.levels import rasterise
from npu_tui.view.palette import Ink, bar
from npu_tui.view.scene import Losses
from npu_tui.view.viewport import Viewport

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
