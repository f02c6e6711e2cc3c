"""Which slice a point in time on a lane belongs to.

The rule binds every link end of the profiler's own files: a slice that starts exactly there (ties: the one with the
same connection id, then the deeper), else the innermost slice around the time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.arrays import I64
from npu_tui.trace.once import once

_AT_ONCE = 1 << 16  # queries per block: the temporary arrays of a block stay in the cache of the processor


class LaneIndex(Struct, dict=True, eq=False):
    """Finds slices by lane and time in the sorted columns of slices; queries are arrays.

    ``first`` and ``last`` bound each lane's slices; ``start`` and ``end`` are those of all slices, ns.
    """

    first: I64
    last: I64
    start: I64
    end: I64

    @once
    def _latest_end(self) -> list[I64]:
        """The maximum end of each slice, of each pair, of each four and so on: a segment tree, its leaves first."""
        levels = [self.end]
        while len(right_children := levels[-1][1::2]):
            levels.append(np.maximum(levels[-1][:-1:2], right_children))
        return levels

    def started(self, lane: npt.NDArray[np.int32], time: I64) -> I64:
        """The last slice of ``lane`` that starts at or before ``time``, -1 without one; (n,)."""
        items = np.full_like(time, -1)
        if not len(time):
            return items
        # Sorted by lane alone: times mostly ascend already, and NumPy sorts 16-bit numbers with a radix sort.
        short = lane.astype(np.int16) if int(lane.max()) < 1 << 15 else lane
        order = np.argsort(short, kind="stable")
        bounds = np.flatnonzero(np.diff(lane[order])) + 1
        for run in np.split(order, bounds):
            code = int(lane[run[0]])
            if code < 0:
                continue
            first, last = int(self.first[code]), int(self.last[code])
            at = first + np.searchsorted(self.start[first:last], time[run], "right") - 1
            items[run] = np.where(at >= first, at, -1)
        return items

    def exact(self, lane: npt.NDArray[np.int32], time: I64, connection: I64, connections: I64) -> I64:
        """The slice of ``lane`` that starts exactly at ``time``, else -1; (n,).

        Among several it prefers the one whose ``connections`` entry equals the query's ``connection`` (-1: any), then
        the deepest, which is the last in order.
        """
        items = self.started(lane, time)
        hit = items >= 0
        hit[hit] = self.start[items[hit]] == time[hit]
        items[~hit] = -1
        # Step back through slices that start together until one has the connection id of the query.
        query = np.flatnonzero(hit & (connection >= 0))
        at = items[query]
        while len(query):
            same = connections[at] == connection[query]
            items[query[same]] = at[same]
            query, at = query[~same], at[~same] - 1
            tied = at >= self.first[lane[query]]
            tied[tied] = self.start[at[tied]] == time[query[tied]]
            query, at = query[tied], at[tied]
        return items

    def innermost(self, lane: npt.NDArray[np.int32], time: I64) -> I64:
        """The slice of ``lane`` that started last among those open at ``time``, -1 without one; (n,).

        A slice that ends exactly at ``time`` counts only if no other is open.
        """
        begun = self.started(lane, time)
        # Open at ``time`` means to end after it, so at ``time + 1`` or later.
        items = self._last_reaching(begun, lane, time + 1)
        missing = np.flatnonzero(items < 0)
        items[missing] = self._last_reaching(begun[missing], lane[missing], time[missing])
        return items

    def enclosing(self, lane: npt.NDArray[np.int32], start: I64, end: I64) -> I64:
        """The slice of ``lane`` that started last among those that contain ``[start, end]``, -1 without one; (n,)."""
        return self._last_reaching(self.started(lane, start), lane, end)

    def parents(self, lane: npt.NDArray[np.int32]) -> I64:
        """The innermost slice around every slice of the index, -1 without one; (slices,).

        ``lane`` is the lane of every slice of the index.
        """
        return self._last_reaching(np.arange(-1, len(lane) - 1), lane, self.end)

    def _last_reaching(self, begun: I64, lane: npt.NDArray[np.int32], until: I64) -> I64:
        """The last slice at or before ``begun`` on its lane whose end is at least ``until``, else -1.

        Climbs the tree of latest ends to the left until a node reaches far enough, then descends into that node.
        """
        items = np.full_like(begun, -1)
        for low in range(0, len(begun), _AT_ONCE):
            active = low + np.flatnonzero(begun[low : low + _AT_ONCE] >= 0)
            node, goal = begun[active], until[active]
            for level, ends in enumerate(self._latest_end):
                if not len(active):
                    break
                enough = ends[node] >= goal
                leaf, far = node[enough], goal[enough]
                for below in reversed(self._latest_end[:level]):
                    right = leaf * 2 + 1
                    leaf = np.where(below[right] >= far, right, right - 1)
                items[active[enough]] = leaf
                # Next: the parent of the left neighbour; for a right child that is its own, with the sibling in it.
                node = (node - 1) >> 1
                rest = ~enough & (node >= 0)
                active, node, goal = active[rest], node[rest], goal[rest]
        # The tree spans all lanes: a slice of an earlier lane may reach far enough.
        items[items < self.first[lane]] = -1
        return items
