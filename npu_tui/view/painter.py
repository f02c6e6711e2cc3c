"""Paints a frame: every part of the timeline in one grid; and finds what is under a cell."""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.native.cells import I8, I64, Bools, Cells
from npu_tui.strings import say
from npu_tui.trace.model import HOST_TO_DEVICE, UNFINISHED
from npu_tui.view.bars import BarStyle, Painted, draw_bars, draw_open_ends
from npu_tui.view.caches import Frame, SceneCache, lanes_top
from npu_tui.view.curves import DrawnArea, StepCurve, compact_memory, draw_curve, ink_of
from npu_tui.view.grid import SPACE, Attr, Grid, stacked
from npu_tui.view.levels import rasterise
from npu_tui.view.links import LaneArea, draw_lines, event_lines, joined_lines, path_lines, selection_lines, view_lines
from npu_tui.view.margins import Ticks, busy_text, find_ticks, gutter_width, offset_text, range_columns
from npu_tui.view.overview import TopRows, column_widths, draw_marks, mark_at
from npu_tui.view.palette import IS_GROUND, LAYER_INKS, Ink
from npu_tui.view.path_lane import PathLane
from npu_tui.view.scene import Scene, ScreenRow, Selected, ViewState, screen_line
from npu_tui.view.viewport import Viewport

__all__ = ["Frame", "Painter", "compose", "gutter_width", "lanes_top"]

_QUIET = 0.7  # share of free cells from which lines of time are drawn through a row
_GRID_LINE, _RULE = ord("┊"), ord("─")


def compose(scene: Scene, outline: list[ScreenRow], state: ViewState, width: int, height: int) -> Frame:
    """One frame without any cache; a ``Painter`` draws several frames of a scene faster."""
    return Painter(scene).compose(outline, state, width, height)


class Painter:
    """Draws frames of one scene and keeps what they share."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.cache = SceneCache(scene)

    def compose(self, outline: list[ScreenRow], state: ViewState, width: int, height: int) -> Frame:
        """The frame of ``width`` x ``height`` cells; a viewport of another width is fitted to the same times."""
        scene, top = self._scene, lanes_top(height, self._scene)
        gutter = gutter_width(width, scene.has_holders)
        columns, rows = max(width - gutter, 1), max(height - top, 0)
        view = state.viewport if state.viewport.width == columns else state.viewport.resized(columns)
        # Pinned rows come first and do not scroll.
        below = range(state.top, state.top + max(rows - state.pinned, 0))
        shown = [index if 0 <= index < len(outline) else -1 for index in (*range(min(state.pinned, rows)), *below)]
        # A screen that is too small for its parts is drawn in full and then cut: no part checks for room.
        grid = Grid.blank(max(height, top), gutter + columns, Ink.TEXT, Ink.LANE)
        frame = Frame(grid, gutter, top, shown, [None] * rows, view, np.full((rows, columns), -1, np.int32))
        lines = [outline[index] if index >= 0 else None for index in shown]
        cursor, focus_y = view.column(state.cursor), int(screen_line(state, np.array(state.focus)))
        _Drawing(
            scene=scene,
            cache=self.cache,
            outline=outline,
            state=state,
            frame=frame,
            view=view,
            local=[scene.local(index, view) for index in range(len(scene.traces))],
            rows=lines,
            paths={
                y: path
                for y, row in enumerate(lines)
                if row is not None and row.kind == "path"
                if (path := scene.charts[row.trace][row.chart].path) is not None
            },
            lanes=grid.part(top, gutter, rows, columns),
            selection=state.selection if state.selection is not None and state.selection in scene else None,
            trace=outline[state.focus].trace if 0 <= state.focus < len(outline) else 0,
            cursor=cursor if 0 <= cursor < columns else None,
            focus_y=focus_y if 0 <= focus_y < rows else None,
            ticks=find_ticks(view),
        ).draw()
        frame.grid = grid.part(0, 0, height, width)
        return frame


class _Drawing(Struct):
    """Draws one frame, layer by layer: backgrounds, bars, time lines, curves, links, gutter, top rows.

    ``local`` is the view on the clock of each trace, ``rows`` what each line of the lanes shows, ``trace`` that of the
    cursor's row. ``cursor`` is a column and ``focus_y`` a line of the ``lanes``, None off screen. ``curves`` and
    critical ``paths`` are those on screen, by line.
    """

    scene: Scene
    cache: SceneCache
    outline: list[ScreenRow]
    state: ViewState
    frame: Frame
    view: Viewport
    local: list[Viewport]
    rows: list[ScreenRow | None]
    paths: dict[int, PathLane]
    lanes: Grid
    selection: Selected | None
    trace: int
    cursor: int | None
    focus_y: int | None
    ticks: Ticks
    curves: dict[int, StepCurve] = {}

    def draw(self) -> None:
        self._ground()
        cells = rasterise(
            [(row.rows, row.row, self.local[row.trace]) if row else (None, -1, self.view) for row in self.rows],
            self.view.width,
            self.cache.levels,
        )
        # What the mouse finds under a cell is what was drawn there.
        self.frame.items = cells.item.copy() if self.paths else cells.item
        painted = self._bars(cells)
        self._background_lines(painted)
        self._curves(painted)
        mode = self.state.link_mode
        if self.rows and (mode == "all" or (mode == "selection" and self.selection is not None)):
            self._links(painted)
        if self.cache.labels.wide:
            self.lanes.mend(self.cursor)
        self._gutter(cells)
        local = self.local[self.trace] if self.local else self.view
        TopRows(self.scene, self.cache, self.state, self.frame, self.trace, local, self.ticks, self.cursor).draw()

    def _ground(self) -> None:
        """Fill the backgrounds, which show wherever no bar fills a cell."""
        bg, view = self.lanes.bg, self.view
        edges = view.edges()
        bg[:, (edges[1:] <= self.scene.start) | (edges[:-1] >= max(self.scene.end, self.scene.start + 1))] = Ink.VOID
        if len(self.scene.traces) > 1:
            number = np.array([-1 if row is None else row.trace for row in self.rows])
            for trace, (local, length) in enumerate(zip(self.local, self.scene.lengths, strict=True)):
                trace_edges = local.edges()
                beyond = (trace_edges[1:] <= 0) | (trace_edges[:-1] >= max(length, 1))
                if beyond.any():
                    bg[(number == trace)[:, None] & beyond] = Ink.VOID
        if self.focus_y is not None:
            bg[self.focus_y] = Ink.FOCUS
        if self.state.range is not None:
            first, last = range_columns(view, self.state.range)
            bg[:, first : last + 1] = Ink.RANGE
            if self.focus_y is not None:
                bg[self.focus_y, first : last + 1] = Ink.RANGE_FOCUS
        if self.cursor is not None:
            bg[:, self.cursor] = Ink.CURSOR

    def _bars(self, cells: Cells) -> Painted:
        traces, labels = np.array([row.trace if row else 0 for row in self.rows], np.int64), self.cache.labels
        shape = cells.item.shape
        kind, other_kind = np.zeros(shape, np.int8), np.zeros(shape, np.int8)
        selected, other_selected, hit = (np.zeros(shape, np.bool_) for _ in range(3))
        if self.state.hit_masks:
            self._find_hits(cells, hit)
        for number, trace in enumerate(self.scene.traces):
            of_trace = np.flatnonzero(traces == number) if len(self.scene.traces) > 1 else slice(None)
            if not len(trace.slices):
                continue
            item, other = cells.item[of_trace], cells.other[of_trace]
            kind[of_trace], other_kind[of_trace] = trace.slices.op_class[item], trace.slices.op_class[other]
            if self.selection is not None and self.selection.trace == number:
                selected[of_trace], other_selected[of_trace] = item == self.selection.item, other == self.selection.item
        for number, (y, path) in enumerate(self.paths.items(), len(self.scene.traces)):
            self._look_up_path(y, path, cells, kind, other_kind)
            traces[y] = number
        look = BarStyle(
            kind=kind,
            other_kind=other_kind,
            trace=traces,
            shade=np.array([row.depth & 1 if row else 0 for row in self.rows], np.uint8),
            names=[
                *((trace.slices.name, labels.add(trace.names)) for trace in self.scene.traces),
                *((path.owner, labels.add(path.names, str.splitlines)) for path in self.paths.values()),
            ],
            labels=labels,
            selected=selected,
            other_selected=other_selected,
            hit=hit,
            hits_only=self.state.hits_only and bool(self.state.hit_masks),
            cursor=self.cursor,
        )
        widths = np.diff(self.view.edges())
        if self.scene.pair is not None:
            widths = column_widths(self.view, self.local, traces)
        painted = draw_bars(cells, look, widths, self.lanes)
        if not self.state.hit_masks:  # what is underlined then are the hits
            self._mark_paths(cells)
        if any(UNFINISHED in trace.categories for trace in self.scene.traces):
            draw_open_ends(self._open_ends(cells, traces), look, painted, self.lanes)
        if self.scene.pair is not None:
            draw_marks(self.scene.pair, self.rows, cells, self.cache, painted, self.lanes)
        if self.selection is not None:
            shown = selected | other_selected
            shown[[*self.paths]] = False
            self._mark_selected(self.selection, shown, painted)
        return painted

    def _look_up_path(self, y: int, path: PathLane, cells: Cells, kind: I8, other_kind: I8) -> None:
        """Let line ``y`` be drawn by the stretches of ``path`` instead of their slices."""
        position = np.maximum(cells.position[y], 0)
        beside = np.clip(position + np.where(cells.leads[y], 1, -1), 0, len(path.owner) - 1)
        kind[y], other_kind[y] = path.op_class[position], path.op_class[beside]
        cells.item[y] = position

    def _paths_of(self, trace: int) -> list[PathLane]:
        return [chart.path for chart in self.scene.charts[trace] if chart.path is not None]

    def _mark_paths(self, cells: Cells) -> None:
        """Underline what is on a critical path in its own lane."""
        known = [self._paths_of(number) for number in range(len(self.scene.traces))]
        if not any(known):
            return
        edges = [view.edges() for view in self.local]
        for y, row in enumerate(self.rows):
            if row is None or row.rows is None or row.kind == "path":
                continue
            lanes = row.lanes or ((row.lane,) if row.kind == "leaf" else ())
            for path in known[row.trace]:
                on_path = self.cache.path_marks(path).columns(edges[row.trace], row.row, lanes)
                if on_path.any():
                    marked = on_path & (cells.count[y] > 0)
                    self.lanes.attr[y, marked] |= int(Attr.UNDERLINE)
                    # A bar is underlined in the ink of its name all along: another one costs a change of colour.
                    inside = marked & (self.lanes.char[y] == SPACE) & ~IS_GROUND[self.lanes.bg[y]]
                    self.lanes.fg[y, inside] = Ink.LABEL

    def _open_ends(self, cells: Cells, traces: I64) -> Bools:
        """The last cells of slices that began and never ended; (rows, columns)."""
        ends = np.zeros(cells.item.shape, np.bool_)
        for number, trace in enumerate(self.scene.traces):
            if UNFINISHED not in trace.categories:
                continue
            of_trace = np.flatnonzero(traces == number)
            item, slices = cells.item[of_trace], trace.slices
            is_open = slices.category[item] == trace.categories.index(UNFINISHED)
            is_open &= (cells.count[of_trace] > 0) & (slices.end[item] <= self.local[number].end)
            same = np.zeros_like(is_open)
            same[:, :-1] = is_open[:, 1:] & (item[:, 1:] == item[:, :-1])
            ends[of_trace] = is_open & ~same
        return ends

    def _find_hits(self, cells: Cells, hit: Bools) -> None:
        """Set ``hit`` in the cells with a search hit."""
        for y, row in enumerate(self.rows):
            if row is not None and row.rows is not None and len(row.rows.item) and row.kind != "path":
                before = self.cache.counts(row.rows, self.state.hit_masks[row.trace], True)
                first = cells.first[y]
                hit[y] = before[first + cells.count[y]] > before[first]

    def _mark_selected(self, selection: Selected, selected: Bools, painted: Painted) -> None:
        """Draw a diamond for a selected slice that fills no cell: inside one cell, or where a folded row hides it.

        ``selected`` are the cells it shows in. A folded row shows what runs inside a call in its place, for example
        kernels of a few ns; the diamond then stands at the cursor, which is where the walk along the row stopped.
        """
        start, end = self.scene.times(selection)
        inside = self.view.column(start) == self.view.column(max(end - 1, start))
        if not inside and selected.any():
            return
        column = self.view.column(start if inside or not start <= self.state.cursor < end else self.state.cursor)
        if not 0 <= column < self.view.width:
            return
        slices = self.scene.traces[selection.trace].slices
        lane, depth = (np.array([values[selection.item]], np.int64) for values in (slices.lane, slices.depth))
        row = self.cache.places(self.outline).rows(selection.trace, lane, depth)
        y = int(screen_line(self.state, row)[0])
        if 0 <= y < len(self.rows):
            self.lanes.char[y, column] = ord("◆")
            self.lanes.fg[y, column] = Ink.SELECTED
            self.lanes.attr[y, column] = int(Attr.BOLD)
            painted.free[y, column] = painted.plain[y, column] = False

    def _background_lines(self, painted: Painted) -> None:
        # In a busy row a time line would be cut to pieces, and each piece costs two colour changes.
        quiet = np.count_nonzero(painted.free, axis=1) > _QUIET * self.view.width
        columns = self.ticks.columns
        mask = np.zeros_like(painted.free)
        mask[:, columns] = painted.free[:, columns] & quiet[:, None]
        self.lanes.char[mask], self.lanes.fg[mask] = _GRID_LINE, Ink.GRID
        for y, row in enumerate(self.rows):
            if row is not None and row.kind in ("trace", "layer", "hidden") and row.rows is None:
                free = painted.free[y]
                self.lanes.char[y, free], self.lanes.fg[y, free] = _RULE, Ink.RULE

    def _curves(self, painted: Painted) -> None:
        areas: dict[int, list[tuple[int, int]]] = {}
        for y, row in enumerate(self.rows):
            if row is None or row.kind not in ("counter", "chart"):
                continue
            self.curves[y] = curve = self.cache.curve(row)
            if not row.bands:
                painted.free[y, draw_curve(self.lanes, y, curve, self.local[row.trace])] = False
            else:
                painted.free[y] = False
                areas.setdefault(row.chart, []).append((y, row.depth))
                if row.depth == row.bands - 1 or y == len(self.rows) - 1:
                    self.cache.area(row).draw(self.lanes, areas.pop(row.chart), row.bands, self.local[row.trace])

    def _links(self, painted: Painted) -> None:
        parts, places = [], self.cache.places(self.outline)
        if self.state.link_mode == "all":
            for number, trace in enumerate(self.scene.traces):
                index = self.cache.links(number, self.state.link_category)
                if len(index):
                    area = LaneArea(self.local[number], self.state, len(self.rows), places)
                    classes = self.scene.link_classes[number]
                    parts.append(view_lines(trace, number, classes, index, area))
                    for path in self._paths_of(number) if self.state.link_category == HOST_TO_DEVICE else ():
                        parts.append(path_lines(trace, number, classes, self.cache.path_links(path, number), area))
        if self.selection is not None:
            number = self.selection.trace
            link = self.cache.selected_links(self.selection)
            area = LaneArea(self.local[number], self.state, len(self.rows), places)
            trace, classes = self.scene.traces[number], self.scene.link_classes[number]
            parts.append(selection_lines(trace, number, classes, link, area))
            parts.append(event_lines(trace, number, self.scene.events[number], self.selection.item, area))
        if parts:
            draw_lines(joined_lines(parts), self.lanes, painted)

    def _gutter(self, cells: Cells) -> None:
        drawn = []
        busy, width, shorter = cells.busy.sum(axis=1), self.frame.gutter, say("lane.short")
        for y, row in enumerate(self.rows):
            if row is None:
                continue
            derived = row.layer < 0 or row.kind == "path"
            layer = None if derived else self.scene.traces[row.trace].layers[row.layer].kind
            ink = Ink.ACCENT if layer is None else LAYER_INKS[layer]
            value = ""
            if row.kind == "trace":
                value = offset_text(self.scene.offsets[row.trace])
            elif row.bands and row.depth:
                row, ink, value = self._holder(row, self.cache.area(row))
            elif y in self.curves:
                value = self.cache.curve_value(self.curves[y], self.scene.to_trace(row.trace, self.state.cursor))
            elif row.opener and row.rows is not None and row.kind != "path":
                share = self._share(row, int(busy[y]))
                self.frame.utilisation[y] = share
                # What the run computes and where it is free has its shares of a step in the head, and no others here.
                value = "" if layer == "overlap" else busy_text(share)
            # The head of a layer stands once for the lanes of all traces that are stacked.
            shared = self.scene.stacked and row.kind == "layer" and row.rows is None
            focused, label = y == self.focus_y, "" if shared else self.scene.labels[row.trace]
            drawn.append(self.cache.gutter_row(row, ink, value, focused, width, label, shorter))
        if drawn:  # lines without a row are the last ones
            self.frame.grid.part(self.frame.lanes_top, 0, len(drawn), width).put(0, stacked(drawn))

    def _holder(self, row: ScreenRow, area: DrawnArea) -> tuple[ScreenRow, int, str]:
        """A band of an area with the name, the ink and, at the cursor, the bytes of the holder that has its place."""
        holder = row.bands - 1 - row.depth
        if holder >= len(area.area.names):
            return replace(row, name=""), int(Ink.LANE), ""
        held = area.held(holder, self.scene.to_trace(row.trace, self.state.cursor))
        value = "" if held is None else compact_memory(held)
        return replace(row, name=area.area.names[holder]), ink_of(area.area, holder), value

    def _share(self, row: ScreenRow, busy: int) -> float:
        """The busy share (0..1) of the lane in the visible part of the trace; ``busy`` ns is that of this row alone."""
        view = self.local[row.trace]
        low, high = max(view.start, 0), min(view.end, max(self.scene.lengths[row.trace], 1))
        if high <= low:
            return 0.0
        # The row shows one depth; the share is that of the lane, which is the union of its depths.
        if row.kind == "slices" and self.scene.traces[row.trace].lanes[row.lane].rows > 1:
            busy = self.cache.cover(row.trace, row.lane).busy(low, high)
        return busy / (high - low)


Part = Literal["minimap", "findings", "losses", "ruler", "strip", "gutter", "lanes", "outside"]


class Spot(Struct, frozen=True):
    """A place on screen: ``part`` of the frame, ``time`` ns (left edge of the column; None in the gutter), row, slice.

    ``row`` indexes the outline; ``finding`` is the label of the finding there.
    """

    part: Part
    time: int | None = None
    row: int | None = None
    slice: Selected | None = None
    finding: str = ""


def spot_at(frame: Frame, outline: list[ScreenRow], state: ViewState, scene: Scene, x: int, y: int) -> Spot:
    """The spot at column ``x`` and row ``y`` of ``frame``; times on the minimap span the scene."""
    column, line = x - frame.gutter, y - frame.lanes_top
    if x < 0 or y < 0 or column >= frame.viewport.width or line >= len(frame.lane_rows):
        return Spot("outside")
    index = frame.lane_rows[line] if line >= 0 else -1
    row = index if 0 <= index < len(outline) else None
    if column < 0:
        return Spot("gutter", None, row)
    if y == 0 and frame.top == "minimap":
        return Spot("minimap", scene.overview(frame.viewport.width).edge(column))
    time = state.viewport.edge(column) if state.viewport.width == frame.viewport.width else frame.viewport.edge(column)
    if y == 0:
        focus = outline[state.focus].trace if 0 <= state.focus < len(outline) else 0
        local = scene.local(focus, frame.viewport)
        mark = mark_at(scene.findings[focus], local, column) if frame.top == "findings" else None
        return Spot(frame.top, time, finding="" if mark is None else mark.label)
    if line < 0:
        return Spot("ruler" if y == 1 else "strip", time)
    item = int(frame.items[line, column])
    selected = Selected(outline[row].trace, item) if row is not None and item >= 0 else None
    return Spot("lanes", time, row, selected)
