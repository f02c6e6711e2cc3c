"""What the frames of a scene share: levels, labels and indexes, computed once; and the record of a drawn frame."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.native.cells import I64, Levels
from npu_tui.trace.arrays import I32
from npu_tui.trace.model import Rows, Trace
from npu_tui.view.bars import NameLadders
from npu_tui.view.curves import DrawnArea, StepCurve, counter_curve, curve_value
from npu_tui.view.grid import Grid
from npu_tui.view.levels import Cover, LossIndex, Minimap
from npu_tui.view.links import LinkIndex, links_of_slice
from npu_tui.view.margins import gutter_row
from npu_tui.view.path_lane import PathLane, RowMarks
from npu_tui.view.rows import RowIndex
from npu_tui.view.scene import Chart, Scene, ScreenRow
from npu_tui.view.viewport import Viewport

_MOST_ROWS = 512  # folded rows that keep their index; a trace with more lanes makes them again now and then
_MOST_GUTTER_ROWS = 4096


class SceneCache:
    """Everything about a scene that drawing computes once, at its first use."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        traces = scene.traces
        self.labels = NameLadders()
        """The labels of the names of all traces and critical paths."""
        self.path_marks = cache(lambda path: RowMarks(path.marks))
        """Where a critical path runs through other lanes."""
        self.path_links = cache(lambda path, trace: _by_target(traces[trace], path))
        """The links of a trace that a critical path takes, by their target."""
        self.levels = lru_cache(_MOST_ROWS)(
            lambda rows: Levels(rows.offset, rows.item, rows.start, rows.end, rows.busy)
        )
        """The longest-slice queries of a ``Rows``."""
        self.cover = cache(lambda trace, lane: Cover(traces[trace], lane))
        """The union of the slices of a lane."""
        self.links = cache(lambda trace, category: LinkIndex(traces[trace], scene.link_classes[trace], category))
        """The index of the links of a category in a trace."""
        self.selected_links = lru_cache(1)(lambda selected: links_of_slice(traces[selected.trace], selected.item))
        """Indices of the links of the selected slice."""
        self.minimap = cache(lambda trace, view: Minimap(traces[trace], view, self.levels))
        """The minimap of a trace over a viewport of its clock."""
        self.losses = cache(lambda trace: LossIndex(scene.losses[trace]))
        """The lost time of a trace."""
        self.classed = cache(lambda trace: bool(scene.link_classes[trace].shape.any()))
        """Whether any launch of a trace could be judged: without one its lost time is unknown, not 0."""
        self.gutter_row = lru_cache(_MOST_GUTTER_ROWS)(gutter_row)
        self.curve_value = lru_cache(_MOST_ROWS)(curve_value)
        self._curve = cache(self._make_curve)
        self._area = cache(lambda chart: DrawnArea(chart.area()))
        self._steps = cache(self._times_of_steps)
        self._places: tuple[list[ScreenRow], int, RowIndex] | None = None
        self._counts: dict[tuple[Rows, object, int], tuple[npt.NDArray[Any], I32]] = {}

    def curve(self, row: ScreenRow) -> StepCurve:
        """The curve of ``row``, a counter or a chart."""
        source = row.series if row.kind == "counter" else self.scene.charts[row.trace][row.chart]
        return self._curve(row.trace, source)

    def area(self, row: ScreenRow) -> DrawnArea:
        """The stacked area that ``row`` is a band of."""
        return self._area(self.scene.charts[row.trace][row.chart])

    def _make_curve(self, trace: int, source: int | Chart) -> StepCurve:
        if isinstance(source, Chart):
            return StepCurve(source.function(), source.kind, source.top)
        return counter_curve(self.scene.traces[trace].counters, source, self.scene.lengths[trace])

    def counts(self, rows: Rows, marks: npt.NDArray[Any], mark: int) -> I32:
        """How many of the slices with ``mark`` lie before each position of ``rows``; ``marks`` has one per slice."""
        # Hits are booleans, changes of a comparison integers: neither displaces the other.
        key = (rows, marks.dtype, mark)
        if key not in self._counts or self._counts[key][0] is not marks:
            if len(self._counts) >= _MOST_ROWS:
                self._counts.clear()
            before = np.zeros(len(rows.item) + 1, np.int32)
            np.cumsum(marks[rows.item] == mark, out=before[1:])
            self._counts[key] = (marks, before)
        return self._counts[key][1]

    def _times_of_steps(self, trace: int) -> tuple[I64, I64]:
        """The starts and the ends of the steps of trace number ``trace``, ns on its clock, ascending."""
        rows, lanes = self.scene.traces[trace].rows, self.scene.traces[trace].lanes
        steps = [slice(*rows.offset[[lane.first_row, lane.first_row + lane.rows]]) for lane in lanes if lane.derived]
        starts, ends = (
            np.sort(np.concatenate([np.zeros(0, np.int64), *(times[step] for step in steps)]))
            for times in (rows.start, rows.end)
        )
        return starts, ends

    def holds_step(self, trace: int, start: int, end: int) -> bool:
        """Whether ``[start, end)`` ns of the scene's clock contain a step of trace number ``trace``, or the scene."""
        starts, ends = self._steps(trace)
        first = int(np.searchsorted(starts, self.scene.to_trace(trace, start)))
        has_step = first < len(ends) and int(ends[first]) <= self.scene.to_trace(trace, end)
        return has_step or (start <= self.scene.start and end >= self.scene.end)

    def places(self, outline: list[ScreenRow]) -> RowIndex:
        """The index of slices in ``outline``, cached while the same list is drawn."""
        if self._places is None or self._places[0] is not outline or self._places[1] != len(outline):
            self._places = (outline, len(outline), RowIndex(self.scene, outline))
        return self._places[2]


def _by_target(trace: Trace, path: PathLane) -> I64:
    links = np.flatnonzero(path.links)
    return links[np.argsort(trace.links.target_time[links], kind="stable")]


# From this height on lost time has its own row; below it takes the minimap's place while all is in view.
_LOSSES_FROM = 26

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


def lanes_top(height: int, scene: Scene | None = None) -> int:
    """Rows above the lanes in a frame of ``height`` rows: minimap, ruler, link strip, and lost time if it fits.

    Where nothing in the ``scene`` launches anything, as in a service, there is neither of the last two.
    """
    if scene is not None and scene.traces and not any(trace.nature.launches for trace in scene.traces):
        return 2
    return 4 if height >= _LOSSES_FROM else 3
