"""The rows on the screen: their list with folds, pins and scrolling, and the row of every slice."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from npu_tui.native.cells import I64
from npu_tui.trace.folded_rows import lanes_row
from npu_tui.trace.model import Lane, Rows
from npu_tui.view.outline import (
    MOST_BANDS,
    Folds,
    default_folds,
    fold_to_fit,
    is_plane,
    lane_key,
    outline,
    workers_of,
)  # fmt: skip
from npu_tui.view.scene import Scene, ScreenRow, ViewState
from npu_tui.view.stacked import SharedLanes, Twins, is_stacked_row, paired_rows, stacked_rows
from npu_tui.view.viewport import Viewport

_MARGIN = 2  # rows kept visible above and below the cursor's row

RowKey = tuple[int, int, int, int, int, int]
"""The content of a row, independent of folds: trace, layer, lane, depth, series, chart."""


class RowList:
    """The outline of ``scene``; ``state.focus`` and ``state.top`` index its rows; ``height`` rows fit on screen.

    With ``idle_away`` rows and lanes without a slice in view are left out; unless ``only`` is None, it holds the
    (trace, lane, depth) that are shown, with as many rows ``around`` them.
    """

    def __init__(self, scene: Scene, state: ViewState, height: int) -> None:
        self.folds: Folds = default_folds(scene)
        self.heads = True
        self._own_folds = True
        self.rows: list[ScreenRow] = []
        self.idle_away = False
        self._restored: tuple[int | None, RowKey | None] | None = None
        """The first row and the focus that ``restore`` asked for: a resize applies them again until the user moves."""
        self._left: RowKey | None = None
        self.only: frozenset[tuple[int, int, int]] | None = None
        self.around = 0
        self._all: list[ScreenRow] = []
        self._scene = scene
        self._state = state
        self._height = max(height, 1)
        self._twins = Twins(scene) if scene.pair is not None else None
        self._shared = SharedLanes(scene) if scene.stacked and len(scene.traces) > 1 else None
        self._rebuild(None)

    def _leaf(self, trace: int, lanes: tuple[int, ...]) -> Rows:
        return lanes_row(self._scene.traces[trace], lanes)

    def _uncut_rows(self, trace: int, lanes: tuple[int, ...]) -> Rows:
        """In place of ``_leaf`` where rows are only counted: all rows of the trace, as those of ``lanes`` take time."""
        del lanes
        return self._scene.traces[trace].rows

    @property
    def height(self) -> int:
        """How many rows fit on screen."""
        return self._height

    @property
    def wanted(self) -> int:
        """How many rows there would be if stacked areas had all that they can use."""
        areas = sum(row.bands > 0 and not row.depth for row in self.rows) if self._own_folds else 0
        return len(self.rows) + areas * (MOST_BANDS - self.folds.bands)

    def wanted_in(self, height: int) -> int:
        """``wanted`` if ``height`` rows fit on screen, where more lanes may be open; chosen and paired rows stay.

        Folded to the fewer rows that there are now, lanes would never ask for others back.
        """
        if height <= self._height or not self._own_folds or self.idle_away or (self.only, self._twins) != (None, None):
            return self.wanted
        folds = self._folds_in(height)
        rows = [row for row in outline(self._scene, folds, self._uncut_rows, self.heads) if self._is_drawn(row)]
        return len(rows) + sum(row.bands > 0 and not row.depth for row in rows) * (MOST_BANDS - folds.bands)

    @property
    def focused(self) -> ScreenRow | None:
        """The row the cursor is on."""
        return self.rows[self._state.focus] if 0 <= self._state.focus < len(self.rows) else None

    @property
    def key(self) -> RowKey:
        """The key of the cursor's row."""
        row = self.focused
        return _row_key(row) if row else (0, -1, -1, 0, -1, -1)

    def resize(self, height: int, heads: bool) -> None:
        """Fit ``height`` rows; with ``heads`` layers have rows of their own."""
        self._height = max(height, 1)
        # The user has moved since: a resize no longer goes back to the restored place.
        if self.key != self._left:
            self._restored = None
        if heads != self.heads or self._own_folds:
            self.heads = heads
            self._fold_to_fit()
        self.reveal()
        if self._restored is not None:
            self._put(*self._restored)

    @property
    def own_folds(self) -> bool:
        """Whether the program still decides what is folded."""
        return self._own_folds

    def keep_folds(self) -> None:
        """Leave the folds to the user: nothing folds by itself any more."""
        self._own_folds = False

    def _fold_to_fit(self) -> None:
        """Fold the deepest lanes, then layers, until the rows fit, unless the user decides what is folded."""
        keep = self.focused
        if self._own_folds:
            self.folds = self._folds_in(self._height)
        self._rebuild(keep)

    def _folds_in(self, height: int) -> Folds:
        """What is folded where ``height`` rows fit on screen and the program decides."""
        folds = default_folds(self._scene)
        fold_to_fit(self._scene, folds, height, self.heads, self._uncut_rows, self._is_drawn)
        return folds

    def _is_drawn(self, row: ScreenRow) -> bool:
        return self._shared is None or is_stacked_row(self._shared, row)

    def toggle_fold(self) -> bool:
        """Fold or open the lane under the cursor, or its layer where the lane has nothing to fold."""
        row = self.focused
        if row is None or self.only is not None:
            return False
        self.keep_folds()
        self._restored = None
        if row.kind == "trace":
            self.folds.traces ^= {row.trace}
        elif row.kind == "hidden":
            self.show_hidden((row.trace, row.layer))
            return True
        elif row.kind in ("slices", "leaf") and self._is_worker(row):
            self.folds.workers ^= {(row.trace, row.layer)}
        elif row.kind in ("slices", "leaf") and (row.foldable or row.depth):
            self.folds.lanes ^= {(row.trace, row.lane)}
        elif self._is_memory(row):
            self.folds.charts ^= {(row.trace, row.layer)}
        elif self._layer_folds(row):
            self.folds.layers ^= {(row.trace, row.layer)}
        else:
            return False
        self._rebuild(row)
        return True

    def refit(self) -> None:
        """Fold again after rows were added, unless the user decides what is folded."""
        self._fold_to_fit()

    def take_in(self) -> None:
        """Show rows that were added; what was scrolled to stays where it is."""
        scrolled, count = self._state.top > self._state.pinned, len(self.rows)
        self._rebuild(self.focused)
        if self._restored is not None:
            self._put(*self._restored)
        elif scrolled:
            self._scroll(len(self.rows) - count)

    def _is_worker(self, row: ScreenRow) -> bool:
        """Whether a row shows a worker thread, or the workers of a layer together."""
        return row.lane in workers_of(self._scene, row.trace, self._scene.traces[row.trace].layers[row.layer])

    def _is_memory(self, row: ScreenRow) -> bool:
        """Whether a row is one of several curves of memory, which fold into the first of them."""
        charts = self._scene.charts[row.trace]
        of_layer = [chart for chart in charts if chart.kind == "memory" and chart.layer == row.layer]
        return row.kind == "chart" and len(of_layer) > 1 and charts[row.chart].kind == "memory"

    def refold(self) -> None:
        """Rebuild the rows after ``folds`` was changed."""
        self._rebuild(self.focused)

    def show_face(self, alike: bool) -> None:
        """Show the face that the pair has; with ``alike`` the rows take the places of those of the other side."""
        focus, top = self._state.focus, self._state.top
        keep = self.focused
        self._rebuild(None if alike else keep)
        if alike:
            self._state.focus, self._state.top = focus, top
            self.reveal()

    def _layer_folds(self, row: ScreenRow) -> bool:
        """Whether the layer of ``row`` can fold; Steps and single curves cannot."""
        trace = self._scene.traces[row.trace]
        if row.kind == "path":
            return False
        if row.lane >= 0:
            return not trace.lanes[row.lane].derived
        return row.kind == "chart" or row.foldable or len(trace.layers[row.layer].series) > 1

    def _rebuild(self, keep: ScreenRow | None) -> None:
        # What is folded in one trace is folded in all that are shown with it, so that rows can be compared.
        sides = self._twins or self._shared
        if sides is not None and keep is not None:
            sides.mirror(self.folds, keep.trace)
        self._all = outline(self._scene, self.folds, self._leaf, self.heads) if self.only is None else self._chosen()
        if self._twins is not None and self._scene.pair is not None:
            self._all = paired_rows(self._scene.pair, self._twins, self._all)
        elif self._shared is not None:
            self._all = stacked_rows(self._shared, self._all, self._scene.played_from)
        self._choose(None if keep is None else _row_key(keep))

    def _chosen(self) -> list[ScreenRow]:
        """The rows of ``only`` regardless of folds, each with the name of its lane, and ``around`` them others."""
        lanes: dict[tuple[int, int], list[int]] = {}
        for trace, lane, depth in self.only or ():
            lanes.setdefault((trace, lane), []).append(depth)
        rows = [row for row in outline(self._scene, Folds(), self._leaf, False) if row.rows is not None]

        def distance(row: ScreenRow) -> tuple[bool, int]:
            depths = lanes.get((row.trace, row.lane))
            return depths is None, row.depth if depths is None else min(abs(row.depth - depth) for depth in depths)

        apart = [distance(row) for row in rows]
        others = [at for at, row in enumerate(rows) if apart[at] > (False, 0) and self._in_use(row)]
        near = {*sorted(others, key=apart.__getitem__)[: self.around]}
        return [
            row if at in near else replace(row, opener=True, foldable=False)
            for at, row in enumerate(rows)
            if at in near or apart[at] == (False, 0)
        ]

    def show_only(self, rows: Iterable[tuple[int, int, int]] | None) -> None:
        """Show only some (trace, lane, depth); None shows everything that is not folded."""
        self.only, self.around = None if rows is None else frozenset(rows), 0
        self._rebuild(self.focused)

    def show_around(self, count: int) -> None:
        """Show ``count`` more rows with slices in view: the nearest of the lanes of those shown alone, then others."""
        self.around = count
        self._rebuild(self.focused)

    def _choose(self, keep: RowKey | None) -> None:
        """Set the visible rows, with the cursor on the one of ``keep``."""
        rows = [row for row in self._all if self._in_use(row)] if self.idle_away else self._all
        if rows != self.rows:  # drawing caches by the identity of the list
            self.rows = rows
        if keep is not None:
            self.focus_on(keep)
        self.reveal()

    def _in_use(self, row: ScreenRow) -> bool:
        if row.rows is None:
            return True
        view, rows = self._scene.local(row.trace, self._state.viewport), row.rows
        # The first row of a lane stays as long as any row of the lane is busy.
        last = row.row
        if row.opener and row.kind == "slices":
            last += self._scene.traces[row.trace].lanes[row.lane].rows - 1
        return any(self._is_busy(rows, number, view) for number in range(row.row, last + 1))

    @staticmethod
    def _is_busy(rows: Rows, row: int, view: Viewport) -> bool:
        low, high = int(rows.offset[row]), int(rows.offset[row + 1])
        begun = int(np.searchsorted(rows.start[low:high], view.end))
        return begun > int(np.searchsorted(rows.end[low:high], view.start))

    def look(self) -> None:
        """Choose the rows again after the view has moved, if idle rows are left out."""
        if self.idle_away:
            self._choose(self.key)

    def toggle_idle(self) -> bool:
        """Leave out rows without a slice in view, or show them again; returns whether they are left out."""
        self.idle_away = not self.idle_away
        self._choose(self.key)
        return self.idle_away

    def toggle_pin(self) -> bool | None:
        """Pin or unpin the lane or curve of the cursor; returns whether it is pinned, None without a lane or curve."""
        row = self.focused
        if row is None or row.kind in ("trace", "layer", "hidden"):
            return None
        self.keep_folds()
        key = lane_key(row)
        if key in self.folds.pinned:
            self.folds.pinned.remove(key)
        else:
            self.folds.pinned.append(key)
        self._rebuild(row)
        return key in self.folds.pinned

    def hide(self) -> bool:
        """Hide the lane or curve of the cursor; False without one, and for the last one."""
        row = self.focused
        if row is None or row.kind in ("trace", "layer", "hidden") or len({lane_key(other) for other in self._all}) < 2:
            return False
        self.keep_folds()
        key = lane_key(row)
        self.folds.hidden.add(key)
        if key in self.folds.pinned:
            self.folds.pinned.remove(key)
        at = self._state.focus
        self._rebuild(None)
        self._state.focus = at
        self.reveal()
        return True

    def restore(self, top: int | None, focus: RowKey | None) -> None:
        """Rebuild the rows after ``folds`` changed, with the cursor on ``focus`` and ``top`` as the first one."""
        self._rebuild(self.focused)
        self._restored = top, focus
        self._put(top, focus)

    def _put(self, top: int | None, focus: RowKey | None) -> None:
        if focus is not None:
            self.focus_on(focus)
        self.reveal()
        if top is not None:
            self._scroll(top - self._state.top)
        self._left = self.key

    def show_hidden(self, layer: tuple[int, int] | None = None) -> int:
        """Show the hidden lanes of (trace, layer), or of all layers if None; returns how many there were."""
        shown = {key for key in self.folds.hidden if layer is None or key[:2] == layer}
        self.folds.hidden -= shown
        if shown:
            self._rebuild(self.focused)
        return len(shown)

    def focus_on(self, key: RowKey) -> None:
        """Put the cursor on the row of ``key``, else on its lane, layer or trace, else on the first row."""
        trace, layer, lane, depth, series, chart = key
        # The layer counts 1, its lane, curve or chart 4, the depth 2: with all rows folded the layer's head is left.
        best, score = 0, -1
        for i, row in enumerate(self.rows):
            if (row.trace, row.layer) != (trace, layer) and (row.trace, row.kind) != (trace, "trace"):
                continue
            same = (row.lane, row.series, row.chart) == (lane, series, chart)
            near = (row.layer == layer) * (1 + 4 * same + 2 * (row.depth == depth) + row.opener)
            if near > score:
                best, score = i, near
        self._state.focus = best

    def reveal(self) -> None:
        """Scroll as little as possible to bring the cursor's row on screen."""
        state, last = self._state, max(len(self.rows) - 1, 0)
        state.focus = min(max(state.focus, 0), last)
        # Pinned rows take at most half of the screen; further ones scroll like any row.
        pinned = sum(row.pinned for row in self.rows)
        state.pinned = min(pinned, self._height // 2)
        height = self._height - state.pinned
        margin = min(_MARGIN, (height - 1) // 2)
        if state.focus >= state.pinned:
            low = state.focus - height + 1 + margin
            high = max(state.focus - margin, state.pinned)
            state.top = min(max(state.top, low), high)
        self._keep_top()

    def _keep_top(self) -> None:
        state = self._state
        last = max(len(self.rows) - (self._height - state.pinned), state.pinned)
        state.top = min(max(state.top, state.pinned), last)

    def scroll(self, rows: int) -> None:
        """Move the visible rows down by ``rows``; the cursor's row stays on screen."""
        self._restored = None
        self._scroll(rows)

    def _scroll(self, rows: int) -> None:
        state = self._state
        state.top += rows
        self._keep_top()
        if state.focus >= state.pinned:
            last = min(state.top + self._height - state.pinned, max(len(self.rows), 1)) - 1
            state.focus = min(max(state.focus, state.top), last)

    def to_top(self) -> None:
        """Scroll the cursor's row to the top, as far as there are rows below it."""
        if self._state.focus >= self._state.pinned:
            self.scroll(self._state.focus - self._state.top)

    def move(self, rows: int) -> None:
        """Move the cursor by ``rows`` rows."""
        self._restored = None
        self._state.focus = min(max(self._state.focus + rows, 0), max(len(self.rows) - 1, 0))
        self.reveal()

    def layer_start(self, direction: int) -> int:
        """The first row of the next (1) or of this or the previous (-1) layer."""
        firsts = [i for i, row in enumerate(self.rows) if i == 0 or _layer_of(row) != _layer_of(self.rows[i - 1])]
        focus = self._state.focus
        if direction > 0:
            return next((i for i in firsts if i > focus), len(self.rows) - 1)
        return next((i for i in reversed(firsts) if i < focus), 0)

    def open(self, index: int, lane: Lane) -> None:
        """Open what hides ``lane`` of trace ``index``: its layer, its group, or rows that are shown alone."""
        self._restored = None
        if self.only is not None and not any((index, lane.index) == shown[:2] for shown in self.only):
            self.show_only(None)
        trace = self._scene.traces[index]
        key = (index, lane.layer, lane.index, -1, -1)
        folded = index in self.folds.traces or (index, lane.layer) in self.folds.layers
        hidden = (folded and key not in self.folds.pinned) or key in self.folds.hidden
        if key not in self.folds.pinned:
            self.folds.layers.discard((index, lane.layer))
            self.folds.traces.discard(index)
        self.folds.hidden.discard(key)
        if is_plane(trace, lane):
            lanes = trace.layers[lane.layer].lanes
            groups = [other for other in lanes if other < lane.index and not is_plane(trace, trace.lanes[other])]
            if groups and (index, groups[-1]) in self.folds.lanes:
                self.folds.lanes.discard((index, groups[-1]))
                hidden = True
        if hidden:
            self.keep_folds()
            self._rebuild(self.focused)

    def show_item(self, index: int, lane: Lane, item: int) -> None:
        """Open ``lane`` of trace ``index`` if it is folded and its leaf row does not show slice ``item``."""
        depth = int(self._scene.traces[index].slices.depth[item])
        if self.only is not None and (index, lane.index, depth) not in self.only:
            self.show_only(None)
        folded = (index, lane.index) in self.folds.lanes and lane.rows > 1
        if folded and item not in self._leaf(index, (lane.index,)).item:
            self.keep_folds()
            self.folds.lanes.discard((index, lane.index))
            self._rebuild(self.focused)


def _row_key(row: ScreenRow) -> RowKey:
    return row.trace, row.layer, row.lane, row.depth, row.series, row.chart


def _layer_of(row: ScreenRow) -> tuple[int, int]:
    return row.trace, row.layer


class RowIndex:
    """Finds the rows of an outline by trace, lane and depth."""

    def __init__(self, scene: Scene, outline: list[ScreenRow]) -> None:
        lanes = [len(trace.lanes) for trace in scene.traces]
        self._base = np.cumsum([0, *lanes])
        # One entry more than lanes: lane -1 is looked up too, even in a trace without lanes.
        self._head = np.full(int(self._base[-1]) + 1, -1, np.int64)
        self._deep = max((row.depth for row in outline), default=0) + 2
        self._stands = np.arange(int(self._base[-1]) + 1)
        """The lane whose row shows a lane: workers share the row of the first one."""
        heads: dict[tuple[int, int], int] = {}
        keys: list[tuple[int, int]] = []
        for index, row in enumerate(outline):
            if row.kind in ("trace", "layer"):
                heads[row.trace, row.layer] = index
            elif row.lane >= 0:
                if row.lanes:
                    self._stands[np.array(row.lanes) + self._base[row.trace]] = row.lane + self._base[row.trace]
                keys.append(((int(self._base[row.trace]) + row.lane) * self._deep + row.depth, index))
        keys.sort()
        # One number per (lane, depth), sorted: a binary search finds the nearest shown row above any depth.
        self._key = np.array([key for key, _ in keys], np.int64)
        self._row = np.array([index for _, index in keys], np.int64)
        self._group = np.zeros(int(self._base[-1]) + 1, np.bool_)
        for number, trace in enumerate(scene.traces):
            for lane in trace.lanes:
                self._group[self._base[number] + lane.index] = trace.layer_of(lane.index).kind == "communication"
                head = heads.get((number, lane.layer), heads.get((number, -1), -1))
                self._head[self._base[number] + lane.index] = head

    def rows(self, trace: int, lanes: I64, depths: I64) -> I64:
        """The outline index for each (lane, depth) of ``trace``.

        A depth without a row is in the nearest row above it, a folded lane in its single row, a plane of a folded group
        in the group's row, a lane of a folded layer in the layer's head; -1 without any row, and for lane -1.
        """
        known = lanes >= 0
        lane = self._stands[np.where(known, lanes, 0) + self._base[trace]]
        if not len(self._key):
            return np.where(known, self._head[lane], -1)
        wanted = lane * self._deep + np.minimum(np.maximum(depths, 0), self._deep - 1)
        at = np.searchsorted(self._key, wanted, "right") - 1
        below = np.maximum(at, 0)
        above = np.minimum(at + 1, len(self._key) - 1)
        row = np.where((at >= 0) & (self._key[below] // self._deep == lane), self._row[below], -1)
        row = np.where((row < 0) & (self._key[above] // self._deep == lane), self._row[above], row)
        before = self._key[below] // self._deep
        group = (at >= 0) & self._group[lane] & self._group[before] & (self._head[before] == self._head[lane])
        row = np.where((row < 0) & group, self._row[below], row)
        return np.where(known, np.where(row < 0, self._head[lane], row), -1)
