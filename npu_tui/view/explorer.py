"""The explorer: the state of one screen over a scene, and every motion of the user as a method; no terminal needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.trace.model import bulk_of
from npu_tui.view.moves import slice_at, slice_beside, snapped
from npu_tui.view.outline import Folds
from npu_tui.view.rows import RowKey, RowList
from npu_tui.view.scene import LinkMode, Scene, ScreenRow, Selected, ViewState
from npu_tui.view.viewport import ViewHistory, Viewport

_LEAD = 0.3  # where a time that was off screen appears, as a share of the width

_MODES: tuple[LinkMode, ...] = ("off", "selection", "all")


class View(Struct, frozen=True):
    """A view to return to, with the ``offsets`` of the traces."""

    start: int
    end: int
    cursor: int
    focus: RowKey
    top: int
    selection: Selected | None
    offsets: tuple[int, ...] = (0,)


class Explorer:
    """The state of one screen over ``scene`` and all its motions.

    ``width`` is the number of columns right of the gutter, ``height`` the number of lane rows. ``rows`` is the outline
    as folded now. Times are ns of the scene's clock. ``base`` is the slice that other traces are aligned with.
    """

    def __init__(self, scene: Scene, width: int, height: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.scene = scene
        self.history: ViewHistory[View] = ViewHistory()
        self.anchor: int | None = None
        self.base: Selected | None = None
        self._clock = clock
        self._whole = self._fitted = scene.whole
        self.state = ViewState(Viewport.around(*self._fitted, max(width, 1)))
        self.list = RowList(scene, self.state, height)
        low, high = self.home_bounds()
        self._show(low, high)
        self._put_cursor((low + high) // 2)
        self.state.focus = next((i for i, row in enumerate(self.rows) if self._is_lane(row)), 0)
        self._opening, self._opening_row = self._fitted, self.list.key

    def _is_lane(self, row: ScreenRow) -> bool:
        return row.lane >= 0 and not self.scene.traces[row.trace].lanes[row.lane].derived

    # --- the clock

    @property
    def trace(self) -> int:
        """The index of the trace of the cursor's row."""
        return self.focused.trace if self.focused is not None else 0

    def _local(self, row: ScreenRow | None) -> tuple[Viewport, int]:
        """The viewport and the cursor on the clock of the trace of ``row``."""
        if row is None:
            return self.state.viewport, self.state.cursor
        return self.scene.local(row.trace, self.state.viewport), self.scene.to_trace(row.trace, self.state.cursor)

    def shift(self, trace: int, by: int) -> None:
        """Move trace number ``trace`` by ``by`` ns against the others."""
        self.leave()
        self.set_offsets([offset + by * (i == trace) for i, offset in enumerate(self.scene.offsets)])

    def set_offsets(self, offsets: Sequence[int]) -> None:
        """Put the traces ``offsets`` ns ahead of their own clocks."""
        if [*offsets] != self.scene.offsets:
            self.scene.set_offsets(offsets)
            self.list.look()

    # --- size, rows and folds

    @property
    def folds(self) -> Folds:
        """Which layers and lanes are folded."""
        return self.list.folds

    @property
    def rows(self) -> list[ScreenRow]:
        """All rows from top to bottom."""
        return self.list.rows

    @property
    def focused(self) -> ScreenRow | None:
        """The row the cursor is on."""
        return self.list.focused

    def resize(self, width: int, height: int, heads: bool) -> None:
        """Fit the same times into ``width`` columns and ``height`` rows; ``heads``: layers have rows of their own."""
        if width != self.state.viewport.width:
            self.state.viewport = Viewport.around(*self._fitted, max(width, 1))
            self._put_cursor(self.state.cursor)
            self.list.look()
        self.list.resize(height, heads)

    def toggle_fold(self) -> bool:
        """Fold or open the lane under the cursor, or its layer where the lane has nothing to fold."""
        return self.list.toggle_fold()

    def scroll(self, rows: int) -> None:
        """Move the visible rows down by ``rows``; the cursor's row stays on screen."""
        self.list.scroll(rows)

    def widen(self) -> None:
        """Take in new curves; an empty scene then shows all of its time."""
        before, self._whole = self._whole, self.scene.whole
        self.list.refit()
        if self._whole != before and before[1] - before[0] <= 1:
            self._show(*self._whole)
            self._put_cursor(sum(self._whole) // 2)

    def take_in(self) -> None:
        """Show rows that came later; once the user has moved, nothing folds for them and what is seen stays there."""
        if self.moved or self.state.top > self.state.pinned:
            self.list.take_in()
        else:
            self.list.refit()

    # --- time

    def place(self) -> View:
        """The present view."""
        state = self.state
        view = state.viewport
        offsets = tuple(self.scene.offsets)
        return View(view.start, view.end, state.cursor, self.list.key, state.top, state.selection, offsets)

    @property
    def fitted(self) -> tuple[int, int]:
        """The times that the view fits, ns; the view itself is rounded to its column grid."""
        return self._fitted

    @property
    def moved(self) -> bool:
        """Whether the user has changed the opening view, the row or the selection."""
        return self._fitted != self._opening or self.list.key != self._opening_row or self.state.selection is not None

    def return_to(self, place: View) -> None:
        """Show ``place``."""
        self._go(place)

    def leave(self) -> None:
        """Remember the present view for undo."""
        self.history.leave(self.place(), self._clock())

    def undo(self) -> bool:
        """Back to the view before the last burst of moves."""
        return self._go(self.history.undo(self.place()))

    def redo(self) -> bool:
        """Forward again after ``undo``."""
        return self._go(self.history.redo(self.place()))

    def _go(self, place: View | None) -> bool:
        if place is None:
            return False
        state = self.state
        self.set_offsets(place.offsets)
        state.viewport = Viewport.around(place.start, place.end, state.viewport.width)
        self.list.look()
        self._fitted = (place.start, place.end)
        self._put_cursor(place.cursor)
        state.top, state.selection = place.top, place.selection
        self.list.focus_on(place.focus)
        self.list.reveal()
        return True

    def zoom(self, factor: float, at: int | None = None) -> None:
        """Show ``1 / factor`` of the visible time; the cursor (or ``at``) keeps its column."""
        self.leave()
        viewport = self.state.viewport
        point = self.state.cursor if at is None else at
        if not viewport.start <= point < viewport.end:
            point = (viewport.start + viewport.end) // 2
        # A column is one ns at least.
        span = max(round(viewport.span / factor), viewport.width)
        # Rounding must not swallow a zoom out of the closest view.
        if span == viewport.span and factor < 1:
            span += viewport.width
        low, high = self.scene.limits
        span = max(min(span, high - low), viewport.width)
        start = point - viewport.column(point) * span // viewport.width
        self._show(start, start + span)
        if not self.state.viewport.start <= self.state.cursor < self.state.viewport.end:
            self._put_cursor(point)

    def pan(self, share: float) -> None:
        """Move by ``share`` of the visible time; the cursor keeps its column, or moves where the view is at its end."""
        columns = round(self.state.viewport.width * share) or (1 if share > 0 else -1)
        self.pan_columns(columns)

    def pan_columns(self, columns: int) -> None:
        """Move by whole columns; see ``pan``."""
        self.leave()
        state = self.state
        column = min(max(state.viewport.column(state.cursor), 0), state.viewport.width - 1)
        before = state.viewport
        moved, (low, high) = before.panned(columns), self.scene.limits
        self._show(moved.start, moved.start + moved.span)
        if low <= moved.start and moved.end <= high:
            state.viewport = moved  # on the same grid, so that nothing shimmers
        # At the end of the trace the view stops, and the cursor takes the columns that are left.
        unpanned = columns - state.viewport.panned_from(before)
        column = min(max(column + unpanned, 0), state.viewport.width - 1)
        state.cursor = state.viewport.edge(column)
        self._drag_range()

    def move_cursor(self, columns: int) -> None:
        """Move the cursor by whole columns, and the view with it at the edge."""
        state = self.state
        column = min(max(state.viewport.column(state.cursor), 0), state.viewport.width - 1) + columns
        if 0 <= column < state.viewport.width:
            state.cursor = state.viewport.edge(column)
            self._drag_range()
        else:
            self.pan_columns(columns)

    def _show(self, start: int, end: int) -> None:
        """Make ``[start, end)`` the viewport, clipped to the limits of the scene."""
        width = self.state.viewport.width
        low, high = self.scene.limits
        span = min(max(end - start, width), max(high - low, width))
        last = max(high - span, low)
        start = min(max(start, low), last)
        self._fitted = (start, start + min(max(end - start, 1), span))
        self.state.viewport = Viewport.around(start, start + span, width)
        self.list.look()

    def _put_cursor(self, when: int) -> None:
        """Put the cursor at ``when``, or at the nearest edge of the view."""
        viewport = self.state.viewport
        self.state.cursor = min(max(when, viewport.start), viewport.end - 1)

    def show(self, start: int, end: int, margin: float = 0.0) -> None:
        """Fit ``[start, end)`` with ``margin`` of its length on either side; a cursor out of view moves in."""
        self.leave()
        extra = round(max(end - start, 1) * margin)
        self._show(start - extra, end + extra)
        viewport = self.state.viewport
        if not viewport.start <= self.state.cursor < viewport.end:
            self._put_cursor((start + end) // 2)

    def go_to(self, when: int) -> None:
        """Put the cursor at ``when``, clipped to the scene, and bring it on screen."""
        self.leave()
        when = min(max(when, self.scene.start), self.scene.end)
        self.bring(when)
        self._put_cursor(when)
        self._drag_range()

    def jump(self, when: int) -> None:
        """Go to ``when``; a selected slice elsewhere is deselected."""
        self.go_to(when)
        selected = self.state.selection
        if selected is not None:
            start, end = self.scene.times(selected)
            if not start <= self.state.cursor <= end:
                self.state.selection = None

    def bring(self, when: int) -> None:
        """Pan if necessary until ``when`` is on screen."""
        viewport = self.state.viewport
        if not viewport.start <= when < viewport.end:
            # After the last slice there is nothing to see: the view then ends where the trace does.
            start = min(when - round(viewport.span * _LEAD), max(self.scene.whole[1] - viewport.span, self.scene.start))
            self._show(start, start + viewport.span)

    def home_bounds(self) -> tuple[int, int]:
        """The times of the opening view: the first step, or the trace without steps.

        Also an inference service, a memory snapshot, and the trace where no work of the device begins in that step,
        such as one call of an inference engine, whose kernels run after it. What a wrong clock puts far away is no
        part of it.
        """
        # Steps of an NPU beside a service are a part of it, those of a snapshot are what it compares.
        as_whole = not all(trace.nature.has_steps for trace in self.scene.traces)
        bulk = bulk_of(self.scene.traces[0]) if len(self.scene.traces) == 1 else None
        whole = self.scene.whole if bulk is None else (bulk.start, max(bulk.end, bulk.start + 1))
        step = None if as_whole else self.scene.step_at(0 if bulk is None else bulk.start, 0)
        return whole if step is None or self._is_idle(step) else step

    def _is_idle(self, times: tuple[int, int]) -> bool:
        """Whether the first trace has work of a device, but none that begins between ``times``."""
        trace, offset = self.scene.traces[0], self.scene.offsets[0]
        starts = []
        for number, lane in enumerate(trace.lanes):
            if trace.layers[lane.layer].kind == "hardware":
                first, last = np.searchsorted(trace.slices.lane, [number, number + 1])
                starts.append(trace.slices.start[first:last])
        inside = [np.diff(np.searchsorted(column, np.array(times) - offset))[0] for column in starts]
        return any(map(len, starts)) and not any(inside)

    def home(self) -> None:
        """Fit the step around the cursor; if it is fitted already, the scene."""
        step = self.scene.step_at(self.state.cursor, self.trace)
        before = self.state.viewport
        step_view = replace(before)
        if step is not None:
            self.show(*step)
            step_view = self.state.viewport
        if step is None or step_view == before:
            self.show(*self.scene.whole)

    # --- rows and slices

    def move_row(self, rows: int) -> None:
        """Move the cursor by ``rows`` rows and select what is under it."""
        self.list.move(rows)
        self.select_under_cursor()

    def go_to_lane(self, index: int, lane: int) -> None:
        """Move to the first row of lane ``lane`` of trace ``index``, opening what hides it."""
        home = self.scene.traces[index].lanes[lane]
        self.list.open(index, home)
        self.list.focus_on((index, home.layer, lane, 0, -1, -1))
        self.list.reveal()

    def go_to_chart(self, index: int, chart: int) -> None:
        """Move to the row of chart number ``chart`` of trace ``index``."""
        self.list.focus_on((index, self.scene.charts[index][chart].layer, -1, 0, -1, chart))
        self.list.reveal()

    def move_layer(self, direction: int) -> None:
        """Move to the first row of the next (1) or of this or the previous (-1) layer, and scroll it to the top."""
        self.move_row(self.list.layer_start(direction) - self.state.focus)
        self.list.to_top()

    def select_under_cursor(self) -> bool:
        """Select the slice of the cursor's row at the cursor, or the nearest one within its column."""
        selected = slice_at(self.focused, *self._local(self.focused))
        if selected is None:
            return False
        self.state.selection = selected
        return True

    def move_slice(self, direction: int) -> bool:
        """Select the next (1) or previous (-1) slice that starts in the cursor's row; the cursor goes to its start."""
        row, state = self.focused, self.state
        beside = state.selection if row is not None and row.kind != "path" else None  # a slice can be there many times
        at = slice_beside(row, self._local(row)[1], beside, direction)
        if at is None or row is None or row.rows is None:
            return False
        # What goes on after a call within it has begun before: the next slice is the next one that begins.
        starts = self.scene.traces[row.trace].slices.start
        low, high = int(row.rows.offset[row.row]), int(row.rows.offset[row.row + 1])
        while row.kind == "leaf" and row.rows.start[at] > starts[row.rows.item[at]]:
            at += direction
            if not low <= at < high:
                return False
        self.leave()
        item = int(row.rows.item[at])
        state.selection = Selected(row.trace, item) if item >= 0 else None
        state.cursor = self.scene.to_scene(row.trace, int(row.rows.start[at]))
        self.bring(state.cursor)
        self._put_cursor(state.cursor)
        self._drag_range()
        return True

    def select(self, selected: Selected) -> None:
        """Select a slice, open its layer, and bring it on screen."""
        self.leave()
        trace = self.scene.traces[selected.trace]
        lane = trace.lanes[int(trace.slices.lane[selected.item])]
        self.list.open(selected.trace, lane)
        self.state.selection = selected
        self.state.cursor = self.scene.times(selected)[0]
        depth = int(trace.slices.depth[selected.item])
        self.list.show_item(selected.trace, lane, selected.item)
        self.list.focus_on((selected.trace, lane.layer, lane.index, depth, -1, -1))
        self.list.reveal()
        self.bring(self.state.cursor)
        self._put_cursor(self.state.cursor)

    def show_alone(self, chosen: Iterable[Selected]) -> None:
        """Show only the rows of the ``chosen`` slices."""
        rows = []
        for selected in chosen:
            slices = self.scene.traces[selected.trace].slices
            rows.append((selected.trace, int(slices.lane[selected.item]), int(slices.depth[selected.item])))
        self.list.show_only(rows)

    def fit(self, ends: tuple[int, int] | None) -> bool:
        """Fit the selection; if it is fitted already, also ``ends``, the span of its links."""
        selected = self.state.selection
        if selected is None:
            return False
        start, end = self.scene.times(selected)
        shown = self.state.viewport
        self.show(start, max(end, start + 1), 0.05)
        if self.state.viewport == shown and ends is not None:
            self.show(min(start, ends[0]), max(end, ends[1]), 0.05)
        return True

    def deselect(self) -> bool:
        """Drop, one per call: the unfinished range, the range, the hits, rows shown alone, the selection."""
        state = self.state
        # From the most recent intention to the oldest: Esc gives up one thing at a time.
        if self.anchor is not None:
            self.anchor = None
            state.range = None
        elif state.range is not None:
            state.range = None
        elif len(state.hits):
            state.hits, state.hit_masks = state.hits[:0], []
        elif self.list.only is not None:
            self.list.show_only(None)
        elif state.selection is not None:
            state.selection = None
        else:
            return False
        return True

    # --- range and link mode

    def mark_selection(self) -> bool:
        """Make the selected slice the range; clear the range if it is that already."""
        selected, state = self.state.selection, self.state
        if selected is None:
            return False
        marked = self.scene.times(selected)
        state.range, state.over = None if state.range == marked else marked, selected
        self.anchor = None
        return True

    def mark(self) -> None:
        """Begin a range at the cursor, or end the unfinished one; both ends snap to a slice edge nearby."""
        view, cursor = self._local(self.focused)
        at = snapped(self.focused, view, cursor) + self.state.cursor - cursor
        if self.anchor is None:
            self.anchor = at
            self.state.range = (at, at)
        else:
            self.set_range(self.anchor, at)

    def set_range(self, start: int, end: int) -> None:
        """Make ``[start, end)`` (in either order) the range."""
        self.anchor = None
        self.state.range, self.state.over = (min(start, end), max(start, end)), self.state.selection

    def clear_range(self) -> None:
        """Drop the range, finished or not."""
        self.anchor = self.state.range = None

    def zoom_to_range(self) -> bool:
        """Show exactly the range."""
        if self.state.range is None or self.state.range[0] == self.state.range[1]:
            return False
        self.show(*self.state.range)
        return True

    def _drag_range(self) -> None:
        if self.anchor is not None:
            at = self.state.cursor
            self.state.range = (min(self.anchor, at), max(self.anchor, at))

    def cycle_links(self) -> LinkMode:
        """Switch to the next mode of links: off, those of the selection, all in view."""
        self.state.link_mode = _MODES[(_MODES.index(self.state.link_mode) + 1) % len(_MODES)]
        return self.state.link_mode
