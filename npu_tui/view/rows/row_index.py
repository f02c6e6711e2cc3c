"""Where a slice stands in the outline: the screen row of a lane and depth, however much of it is folded."""

from __future__ import annotations

import numpy as np

from npu_tui.view.scene import Scene, ScreenRow
from npu_tui.view.spans import I64


class RowIndex:
    """Looks up outline rows by trace, lane and depth for one outline."""

    def __init__(self, scene: Scene, outline: list[ScreenRow]) -> None:
        lanes = [len(trace.lanes) for trace in scene.traces]
        self._base = np.cumsum([0, *lanes])
        # One entry more than lanes: it is looked at for ends without a lane where there is none at all.
        self._head = np.full(int(self._base[-1]) + 1, -1, np.int64)
        self._deep = max((row.depth for row in outline), default=0) + 2
        self._stands = np.arange(int(self._base[-1]) + 1)
        """The lane in whose row a lane is shown: workers share one."""
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

        A depth that is not shown stands in the nearest shown one above it, a folded lane in its one row, a plane of a
        folded collective group in the group's row, a lane of a folded layer in the layer's head; -1 where nothing of
        it is on screen, and for lane -1.
        """
        if not len(self._head):
            return np.full(lanes.shape, -1, np.int64)  # a trace of counters alone has no lanes
        known = lanes >= 0
        if not len(self._head):
            return np.full(len(lanes), -1, np.int64)
        lane = self._stands[np.where(known, lanes, 0) + self._base[trace]]
        if not len(self._key):
            return np.where(known, self._head[lane], -1)
        wanted = lane * self._deep + np.minimum(np.maximum(depths, 0), self._deep - 1)
        at = np.searchsorted(self._key, wanted, "right") - 1
        below = np.maximum(at, 0)
        above = np.minimum(at + 1, len(self._key) - 1)
        found = np.where((at >= 0) & (self._key[below] // self._deep == lane), self._row[below], -1)
        found = np.where((found < 0) & (self._key[above] // self._deep == lane), self._row[above], found)
        before = self._key[below] // self._deep
        group = (at >= 0) & self._group[lane] & self._group[before] & (self._head[before] == self._head[lane])
        found = np.where((found < 0) & group, self._row[below], found)
        return np.where(known, np.where(found < 0, self._head[lane], found), -1)
