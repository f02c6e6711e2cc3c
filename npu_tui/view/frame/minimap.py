"""The whole trace in one row: where the device computes, where it only communicates, which part is on screen."""

from __future__ import annotations

import numpy as np

from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Lane, Trace
from npu_tui.view.cells.bars import LOWER_EIGHTHS
from npu_tui.view.cells.grid import Grid
from npu_tui.view.cells.labels import points
from npu_tui.view.cells.palette import Ink, bar
from npu_tui.view.cells.raster import LevelsOf, rasterise
from npu_tui.view.spans import I64
from npu_tui.view.viewport import Viewport

_LEFT, _RIGHT, _HIT = "▐", "▌", "▔"
_COMPUTING = "Computing"
_EXPOSED = "Communication(Not Overlapped)"


class Minimap:
    """The part of the minimap that does not change: ``busy`` and ``exposed`` levels 0..8 per column of ``viewport``.

    All times are those of ``trace``.
    """

    def __init__(self, trace: Trace, viewport: Viewport, levels: LevelsOf) -> None:
        self.viewport = viewport
        overlap = {lane.name: lane for lane in trace.file_lanes if trace.layer_of(lane.index).kind == "overlap"}
        self.device = _COMPUTING in overlap
        if self.device:
            self.busy = self._levels(trace, [overlap[_COMPUTING]], levels)
        else:
            device = [lane for lane in trace.file_lanes if trace.layer_of(lane.index).kind == "hardware"]
            self.busy = self._levels(trace, device or trace.file_lanes, levels)
        exposed = [overlap[_EXPOSED]] if _EXPOSED in overlap else []
        self.exposed = self._levels(trace, exposed, levels)

    def _levels(self, trace: Trace, lanes: list[Lane], levels: LevelsOf) -> I64:
        wanted = [(trace.rows, lane.first_row, self.viewport) for lane in lanes if lane.rows]
        if not wanted:
            return np.zeros(self.viewport.width, np.int64)
        busy = rasterise(list(wanted), self.viewport.width, levels).busy.max(axis=0)
        width = np.diff(self.viewport.edges())
        return np.where(busy > 0, np.clip((16 * busy + width) // (2 * width), 1, 8), 0)

    def draw(self, grid: Grid, view: Viewport, hits: I64) -> None:
        """Draw the one-row ``grid``: histogram, the window ``view`` and the times ``hits`` of search hits."""
        width = grid.width
        grid.char[0] = LOWER_EIGHTHS[np.where(self.busy > 0, self.busy, np.minimum(self.exposed, 1))]
        grid.fg[0] = np.where(self.busy > 0, bar(OpClass.CUBE if self.device else OpClass.OP), int(Ink.EXPOSED))
        low = np.clip(self.viewport.column(view.start), 0, width - 1)
        high = np.clip(self.viewport.column(view.end - 1), 0, width - 1)
        grid.bg[0, low : high + 1] = Ink.WINDOW
        found = np.flatnonzero(np.diff(np.searchsorted(hits, self.viewport.edges())))
        empty = found[self.busy[found] == 0]
        grid.fg[0, found] = Ink.HIT
        grid.char[0, empty] = ord(_HIT)
        if low > 0:
            grid.write(0, int(low) - 1, points(_LEFT), Ink.ACCENT)
        if high < width - 1:
            grid.write(0, int(high) + 1, points(_RIGHT), Ink.ACCENT)
