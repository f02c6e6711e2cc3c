"""What the frames of a scene share: levels, labels and indexes, computed once; and the record of a drawn frame."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.native.cells import I64, Levels
from npu_tui.trace.model import Rows
from npu_tui.view.bars import Labels
from npu_tui.view.curves import Curve, StepCurve, find_curve
from npu_tui.view.grid import Grid
from npu_tui.view.levels import Cover
from npu_tui.view.links import LinkIndex, links_of_slice
from npu_tui.view.margins import Gutter
from npu_tui.view.minimap import LossIndex, Minimap
from npu_tui.view.rows import RowIndex
from npu_tui.view.scene import Chart, Scene, ScreenRow, Selected
from npu_tui.view.viewport import Viewport

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

_MOST_ROWS = 512
"""Folded rows that keep their index; a trace with more lanes makes them again now and then."""


class SceneCache:
    """Everything about a scene that drawing computes once, at its first use."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.labels = [Labels(trace.names) for trace in scene.traces]
        # The key is an ``id``: the entry holds the rows too, or a new object could get the address of a freed one.
        self._levels: dict[int, tuple[Rows, Levels]] = {}
        self._links: dict[tuple[int, str], LinkIndex] = {}
        self._minimaps: dict[tuple[int, Viewport], Minimap] = {}
        self._covers: dict[tuple[int, int], Cover] = {}
        self._curves: dict[tuple[int, int], Curve] = {}
        self._charts: dict[tuple[int, Chart], StepCurve] = {}
        self._losses: dict[int, LossIndex] = {}
        self.gutter = Gutter()
        self._steps: dict[int, tuple[I64, I64]] = {}
        self._places: tuple[list[ScreenRow], int, RowIndex] | None = None
        self._selection: tuple[Selected, I64] | None = None
        self._hits: dict[int, tuple[Rows, Bools, I32]] = {}
        self._marked: dict[tuple[int, int], tuple[Rows, I8, I32]] = {}

    def levels(self, rows: Rows) -> Levels:
        """The longest-slice queries of ``rows``."""
        entry = self._levels.get(id(rows))
        if entry is None:
            if len(self._levels) >= _MOST_ROWS:
                self._levels.clear()
            entry = self._levels[id(rows)] = (rows, Levels(rows.start, rows.end))
        return entry[1]

    def hits(self, rows: Rows, mask: Bools) -> I32:
        """How many of the slices that ``mask`` chooses lie before each position of ``rows``."""
        entry = self._hits.get(id(rows))
        if entry is None or entry[1] is not mask:
            if len(self._hits) >= _MOST_ROWS:
                self._hits.clear()
            entry = self._hits[id(rows)] = (rows, mask, _counted(mask[rows.item]))
        return entry[2]

    def marked(self, rows: Rows, marks: I8, mark: int) -> I32:
        """How many of the slices with ``mark`` lie before each position of ``rows``."""
        entry = self._marked.get((id(rows), mark))
        if entry is None or entry[1] is not marks:
            if len(self._marked) >= _MOST_ROWS:
                self._marked.clear()
            entry = self._marked[id(rows), mark] = (rows, marks, _counted(marks[rows.item] == mark))
        return entry[2]

    def links(self, trace: int, category: str) -> LinkIndex:
        """The index of the links of ``category`` in trace number ``trace``."""
        key = (trace, category)
        if key not in self._links:
            self._links[key] = LinkIndex(self.scene.traces[trace], self.scene.link_classes[trace], category)
        return self._links[key]

    def minimap(self, trace: int, width: int) -> Minimap:
        """The minimap of trace number ``trace`` over the whole scene, ``width`` columns wide."""
        key = (trace, self.scene.local(trace, self.scene.whole(width)))
        if key not in self._minimaps:
            self._minimaps[key] = Minimap(self.scene.traces[trace], key[1], self.levels)
        return self._minimaps[key]

    def cover(self, trace: int, lane: int) -> Cover:
        """The union of the slices of a lane."""
        key = (trace, lane)
        if key not in self._covers:
            self._covers[key] = Cover(self.scene.traces[trace], lane)
        return self._covers[key]

    def curve(self, trace: int, series: int) -> Curve:
        """The curve of a counter series."""
        key = (trace, series)
        if key not in self._curves:
            self._curves[key] = find_curve(self.scene.traces[trace].counters, series)
        return self._curves[key]

    def chart(self, trace: int, number: int) -> StepCurve:
        """The curve of a chart of trace number ``trace``."""
        chart = self.scene.charts[trace][number]
        key = (trace, chart)
        if key not in self._charts:
            self._charts[key] = StepCurve(chart.function(), chart.kind, chart.top)
        return self._charts[key]

    def losses(self, trace: int) -> LossIndex:
        """The lost time of trace number ``trace``."""
        if trace not in self._losses:
            self._losses[trace] = LossIndex(self.scene.losses[trace])
        return self._losses[trace]

    def holds_step(self, trace: int, start: int, end: int) -> bool:
        """Whether ``[start, end)`` ns of the scene's clock contain a step of trace number ``trace``, or the scene."""
        if trace not in self._steps:
            shown = self.scene.traces[trace]
            parts = [
                slice(*shown.rows.offset[[lane.first_row, lane.first_row + lane.rows]])
                for lane in shown.lanes
                if lane.derived
            ]
            starts, ends = (
                np.sort(np.concatenate([*(times[part] for part in parts), np.zeros(0, np.int64)]))
                for times in (shown.rows.start, shown.rows.end)
            )
            self._steps[trace] = starts, ends
        starts, ends = self._steps[trace]
        first = int(np.searchsorted(starts, self.scene.to_trace(trace, start)))
        has_step = first < len(ends) and int(ends[first]) <= self.scene.to_trace(trace, end)
        return has_step or (start <= self.scene.start and end >= self.scene.end)

    def places(self, outline: list[ScreenRow]) -> RowIndex:
        """The index of slices in ``outline``, cached while the same list is drawn."""
        if self._places is None or self._places[0] is not outline or self._places[1] != len(outline):
            self._places = (outline, len(outline), RowIndex(self.scene, outline))
        return self._places[2]

    def selected_links(self, selection: Selected) -> I64:
        """Indices of the links of the selected slice, as ``links.links_of_slice`` gives them."""
        if self._selection is None or self._selection[0] != selection:
            links = links_of_slice(self.scene.traces[selection.trace], selection.item)
            self._selection = (selection, links)
        return self._selection[1]


def _counted(which: Bools) -> I32:
    before = np.zeros(len(which) + 1, np.int32)
    np.cumsum(which, out=before[1:])
    return before


def valid_selection(scene: Scene, selection: Selected | None) -> Selected | None:
    """``selection`` if the scene has that slice, else None."""
    if selection is None or not 0 <= selection.trace < len(scene.traces):
        return None
    return selection if 0 <= selection.item < len(scene.traces[selection.trace].slices) else None


_LOSSES_FROM = 26
"""From this height on lost time has its own row; below it takes the minimap's place while all is in view."""

TopRow = Literal["minimap", "findings", "losses"]


class Frame(Struct):
    """A drawn frame.

    ``gutter`` is its width left of the lanes, ``lanes_top`` the first row of the lanes, ``lane_rows`` the outline index
    of every row from there on (-1 without one), ``utilisation`` the busy share (0..1) of each row's lane in view (None
    for rows that do not open a lane), ``items`` (rows, columns) the slice under each cell of the lanes (-1: none),
    ``top`` the content of the first row.
    """

    grid: Grid
    gutter: int
    lanes_top: int
    lane_rows: list[int]
    utilisation: list[float | None]
    viewport: Viewport
    items: I32
    top: TopRow = "minimap"


def lanes_top(height: int) -> int:
    """Rows above the lanes in a frame of ``height`` rows: minimap, ruler, link strip, and lost time if it fits."""
    return 4 if height >= _LOSSES_FROM else 3
