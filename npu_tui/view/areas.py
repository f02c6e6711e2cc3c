"""What several holders have over time, on top of each other, in as many text rows as there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from npu_tui.trace.arrays import I64
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import memory_text
from npu_tui.view.bars import LOWER_EIGHTHS, points
from npu_tui.view.grid import Attr, Grid
from npu_tui.view.levels import Extremes
from npu_tui.view.palette import Ink, bar
from npu_tui.view.scene import StackedArea
from npu_tui.view.viewport import Viewport

_CLASSES = (OpClass.CUBE, OpClass.VECTOR, OpClass.COMMUNICATION, OpClass.MEMORY, OpClass.QUEUE, OpClass.OP)
_REST = OpClass.OTHER
_FILLS = np.array([ord("█"), ord("▓")], np.uint32)
"""Neighbours differ without colours too."""


def ink_of(area: StackedArea, holder: int) -> int:
    """The ink of a holder; the last one is all others."""
    rest = holder == len(area.names) - 1
    return bar(_REST if rest else _CLASSES[holder % len(_CLASSES)])


class DrawnArea:
    """An ``area`` with what is found out about it once."""

    def __init__(self, area: StackedArea) -> None:
        self.area = area

    @cached_property
    def total(self) -> I64:
        """What all holders have together, (n,)."""
        return np.asarray(self.area.value.sum(axis=0))

    @cached_property
    def peak(self) -> int:
        """Where in time most is held, as a place in ``time``."""
        return int(self.total.argmax()) if len(self.total) else 0

    @cached_property
    def _fullest(self) -> Extremes[np.int64]:
        """The moments by how much is held, each with its place: of a range the fullest one."""
        return Extremes(self.total * len(self.total) + np.arange(len(self.total))[::-1], np.maximum)

    def moments(self, viewport: Viewport) -> tuple[I64, I64]:
        """The columns that anything is known of, and the fullest moment of each; (m,) both."""
        edges, area = viewport.edges(), self.area
        first = np.maximum(np.searchsorted(area.time, edges[:-1], "right") - 1, 0)
        last = np.searchsorted(area.time, edges[1:], "left")
        known = np.flatnonzero((last > 0) & (edges[:-1] < area.end))
        key = self._fullest.over(first[known], np.maximum(last[known], first[known] + 1))
        return known, len(self.total) - 1 - key % len(self.total)

    def held(self, holder: int, time: int) -> int | None:
        """What ``holder`` has at ``time`` ns; None before the first moment and from the end on."""
        at = int(self.area.time.searchsorted(time, "right")) - 1
        return int(self.area.value[holder, at]) if at >= 0 and time < self.area.end else None

    def draw(self, grid: Grid, lines: Sequence[tuple[int, int]], bands: int, viewport: Viewport) -> None:
        """Draw the ``lines`` (row of ``grid``, band from the top) of all ``bands``; the first has the peak's mark."""
        columns, moment = self.moments(viewport)
        top = int(self.total[self.peak]) if len(self.total) else 0
        if not top or not len(columns):
            return
        heights = np.cumsum(self.area.value[:, moment], axis=0) * (8 * (bands - 1))
        levels = -(-heights // top)
        inks = np.array([ink_of(self.area, holder) for holder in range(len(levels))], np.uint8)
        for y, band in lines:
            floor = 8 * (bands - 1 - band)
            above = levels > floor
            holder = above.argmax(axis=0)
            here = above.any(axis=0)
            level = np.take_along_axis(levels, holder[None], 0)[0] - floor
            whole, part = here & (level >= 8), here & (level < 8)
            at = columns[whole]
            grid.char[y, at], grid.fg[y, at] = _FILLS[holder[whole] & 1], inks[holder[whole]]
            at = columns[part]
            grid.char[y, at], grid.fg[y, at] = LOWER_EIGHTHS[level[part]], inks[holder[part]]
            beyond = levels[:, part] > (level[part] + floor)[None]
            behind = np.flatnonzero(beyond.any(axis=0))
            grid.bg[y, at[behind]] = inks[beyond.argmax(axis=0)[behind]]
            if not band:
                self._mark(grid, y, viewport)

    def _mark(self, grid: Grid, y: int, viewport: Viewport) -> None:
        """Mark the peak where it is in view, with its bytes on the side that has room."""
        column = viewport.column(int(self.area.time[self.peak]))
        if not 0 <= column < viewport.width:
            return
        words = f"▼ {memory_text(int(self.total[self.peak]))}"
        if column + len(words) > viewport.width:
            words = words[2:] + " ▼"
        at = max(column if words[0] == "▼" else column - len(words) + 1, 0)
        grid.write(y, at, points(words), Ink.ACCENT, attr=int(Attr.BOLD))
