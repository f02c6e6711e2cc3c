"""The rows of the lane area as folded now, which of them are on screen, and the one the cursor is on."""

from __future__ import annotations

from functools import lru_cache

from npu_tui.trace.model import Lane
from npu_tui.trace.rows import Rows
from npu_tui.view.leaf import leaf_row
from npu_tui.view.outline import Folds, default_folds, is_plane, outline
from npu_tui.view.scene import Scene, ScreenRow, ViewState

_MARGIN = 2
"""Rows kept visible above and below the cursor's row."""

RowKey = tuple[int, int, int, int, int, int]
"""What a row shows, whatever is folded: trace, layer, lane, depth, series, chart."""


class RowList:
    """The outline of ``scene``; ``state.focus`` and ``state.top`` index its rows, ``height`` of which fit on screen."""

    def __init__(self, scene: Scene, state: ViewState, height: int) -> None:
        self.folds: Folds = default_folds(scene)
        self.heads = True
        self._own_folds = True
        self.rows: list[ScreenRow] = []
        self._scene = scene
        self._state = state
        self._height = max(height, 1)
        self._leaf = lru_cache(maxsize=None)(self._make_leaf)
        self._rebuild(None)

    def _make_leaf(self, trace: int, lane: int) -> Rows:
        return leaf_row(self._scene.traces[trace], self._scene.traces[trace].lanes[lane])

    def _unmade(self, trace: int, lane: int) -> Rows:
        """Stands for a leaf row where rows are only counted."""
        del lane
        return self._scene.traces[trace].rows

    @property
    def focused(self) -> ScreenRow | None:
        """The row the cursor is on."""
        return self.rows[self._state.focus] if 0 <= self._state.focus < len(self.rows) else None

    @property
    def key(self) -> RowKey:
        """What the cursor's row shows."""
        row = self.focused
        return _key(row) if row else (0, -1, -1, 0, -1, -1)

    def resize(self, height: int, heads: bool) -> None:
        """Fit ``height`` rows; with ``heads`` layers have rows of their own."""
        self._height = max(height, 1)
        if heads != self.heads or self._own_folds:
            self.heads = heads
            self._fold_to_fit()
        self.reveal()

    def keep_folds(self) -> None:
        """From now on the user says what is folded."""
        self._own_folds = False

    def _fold_to_fit(self) -> None:
        """Fold the deepest lanes until all of them fit on screen, unless the user has taken over."""
        keep = self.focused
        if self._own_folds:
            self.folds = default_folds(self._scene)
            count = len(outline(self._scene, self.folds, self._unmade, self.heads))
            deepest = sorted(
                (-lane.rows, index, lane.index)
                for index, trace in enumerate(self._scene.traces)
                for lane in trace.lanes
                if lane.rows > 1 and not lane.derived and (index, lane.index) not in self.folds.lanes
            )
            for depth, index, lane in deepest:
                if count <= self._height:
                    break
                self.folds.lanes.add((index, lane))
                count += depth + 1
        self._rebuild(keep)

    def toggle_fold(self) -> bool:
        """Fold or open the lane under the cursor, or its layer where the lane has nothing to fold."""
        row = self.focused
        if row is None:
            return False
        self.keep_folds()
        if row.kind in ("slices", "leaf") and (row.foldable or row.depth):
            self.folds.lanes ^= {(row.trace, row.lane)}
        elif self._layer_folds(row):
            self.folds.layers ^= {(row.trace, row.layer)}
        else:
            return False
        self._rebuild(row)
        return True

    def refold(self) -> None:
        """Make the rows again after ``folds`` was changed."""
        self._rebuild(self.focused)

    def _layer_folds(self, row: ScreenRow) -> bool:
        """Whether the layer of ``row`` can fold: Steps and single curves cannot."""
        trace = self._scene.traces[row.trace]
        if row.lane >= 0:
            return not trace.lanes[row.lane].derived
        return row.kind == "chart" or row.foldable or len(trace.layers[row.layer].series) > 1

    def _rebuild(self, keep: ScreenRow | None) -> None:
        self.rows = outline(self._scene, self.folds, self._leaf, self.heads)
        if keep is not None:
            self.focus_on(_key(keep))
        self.reveal()

    def focus_on(self, key: RowKey) -> None:
        """Put the cursor on the row that shows what ``key`` names, else its lane, else its layer, else the first."""
        trace, layer, lane, depth, series, chart = key
        best, score = 0, -1
        for i, row in enumerate(self.rows):
            if (row.trace, row.layer) != (trace, layer):
                continue
            same = (row.lane, row.series, row.chart) == (lane, series, chart)
            near = 1 + 4 * same + 2 * (row.depth == depth) + row.opener
            if near > score:
                best, score = i, near
        self._state.focus = best

    def reveal(self) -> None:
        """Scroll as little as brings the cursor's row on screen."""
        state, last = self._state, max(len(self.rows) - 1, 0)
        state.focus = min(max(state.focus, 0), last)
        margin = min(_MARGIN, (self._height - 1) // 2)
        low = state.focus - self._height + 1 + margin
        high = state.focus - margin
        state.top = min(max(state.top, low), high)
        state.top = min(max(state.top, 0), max(len(self.rows) - self._height, 0))

    def scroll(self, rows: int) -> None:
        """Move the visible rows down by ``rows``; the cursor's row stays on screen."""
        state = self._state
        state.top = min(max(state.top + rows, 0), max(len(self.rows) - self._height, 0))
        last = min(state.top + self._height, max(len(self.rows), 1)) - 1
        state.focus = min(max(state.focus, state.top), last)

    def move(self, rows: int) -> None:
        """Move the cursor by ``rows`` rows."""
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
        """Open the layer and the group that hide ``lane`` of trace ``index``."""
        trace = self._scene.traces[index]
        hidden = (index, lane.layer) in self.folds.layers
        self.folds.layers.discard((index, lane.layer))
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
        """Open ``lane`` of trace ``index`` where it is folded and its leaf row does not show slice ``item``."""
        if (index, lane.index) in self.folds.lanes and lane.rows > 1 and item not in self._leaf(index, lane.index).item:
            self.keep_folds()
            self.folds.lanes.discard((index, lane.index))
            self._rebuild(self.focused)


def _key(row: ScreenRow) -> RowKey:
    return row.trace, row.layer, row.lane, row.depth, row.series, row.chart


def _layer_of(row: ScreenRow) -> tuple[int, int]:
    return row.trace, row.layer
