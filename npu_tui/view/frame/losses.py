"""The lost time of every column in one row: how long the idle device waited for launches there."""

from __future__ import annotations

import numpy as np

from npu_tui.view.cells.bars import LOWER_EIGHTHS
from npu_tui.view.cells.grid import Grid
from npu_tui.view.cells.palette import Ink
from npu_tui.view.scene import Losses
from npu_tui.view.spans import I64
from npu_tui.view.viewport import Viewport


class LossIndex:
    """Sums of lost time over any window, from all waits and from those for starved launches."""

    def __init__(self, losses: Losses) -> None:
        self._all = _Cumulated(losses.start, losses.end)
        self._starved = _Cumulated(losses.start[losses.starved], losses.end[losses.starved])

    def __bool__(self) -> bool:
        return bool(self._all)

    def cells(self, viewport: Viewport) -> tuple[I64, I64]:
        """Lost time of every column (ns), and the part of it that starved launches lost; (width,) each."""
        edges = viewport.edges()
        return np.diff(self._all.before(edges)), np.diff(self._starved.before(edges))


class _Cumulated:
    """How much of some intervals lies before a time."""

    def __init__(self, start: I64, end: I64) -> None:
        self._start, self._end = np.sort(start), np.sort(end)
        self._start_sum = np.concatenate(([0], np.cumsum(self._start)))
        self._end_sum = np.concatenate(([0], np.cumsum(self._end)))

    def __bool__(self) -> bool:
        return len(self._start) > 0

    def before(self, time: I64) -> I64:
        """The sum in ns; products may wrap round, their difference is right."""
        begun, over = self._start.searchsorted(time), self._end.searchsorted(time)
        return (begun * time - self._start_sum[begun]) - (over * time - self._end_sum[over])


def draw_losses(grid: Grid, index: LossIndex, viewport: Viewport) -> tuple[int, bool]:
    """Draw the one-row ``grid``; returns the lost time in view (ns), and whether a launch starved in it.

    The height of a column is the share of its time that was lost; it is red where that is the loss of a starved launch.
    """
    lost, starved = index.cells(viewport)
    width = np.diff(viewport.edges())
    levels = np.clip(-(-8 * lost // width), 0, 8)
    grid.char[0] = LOWER_EIGHTHS[levels]
    grid.fg[0] = np.where(starved > 0, int(Ink.ALERT), int(Ink.COUNTER_LOW))
    return int(lost.sum()), bool(starved.any())
