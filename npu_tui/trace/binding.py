"""Which slice a point in time on a lane belongs to.

The rule binds every link end of the profiler's own files: a slice that starts exactly there (ties: the one with the
same connection id, then the deeper), else the innermost slice around the time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.trace.once import once

I64 = npt.NDArray[np.int64]

_AT_ONCE = 1 << 16
"""So many are looked for at a time: what is computed of them stays in the cache."""


class LaneIndex:
    """Finds slices by lane and time over the sorted columns of slices, all queries at once."""

    def __init__(self, first: I64, last: I64, start: I64, end: I64) -> None:
        """``first`` and ``last`` bound each lane's slices; ``start`` and ``end`` are those of all slices, ns."""
        self._first = first
        self._last = last
        self._start = start
        self._end = end

    @once
    def _latest_end(self) -> list[I64]:
        """The latest end of every slice, of every two, every four and so on, as long as there are as many."""
        found = [self._end]
        while len(second := found[-1][1::2]):
            found.append(np.maximum(found[-1][:-1:2], second))
        return found

    def started(self, lane: npt.NDArray[np.int32], time: I64) -> I64:
        """The last slice of ``lane`` that starts at or before ``time``, -1 without one; (n,)."""
        found = np.full_like(time, -1)
        if not len(time):
            return found
        # By lane alone: mostly times ascend already, and short numbers are sorted digit by digit.
        short = lane.astype(np.int16) if int(lane.max()) < 1 << 15 else lane
        order = np.argsort(short, kind="stable")
        bounds = np.flatnonzero(np.diff(lane[order])) + 1
        for run in np.split(order, bounds):
            code = int(lane[run[0]])
            if code < 0:
                continue
            first, last = int(self._first[code]), int(self._last[code])
            at = first + np.searchsorted(self._start[first:last], time[run], "right") - 1
            found[run] = np.where(at >= first, at, -1)
        return found

    def exact(self, lane: npt.NDArray[np.int32], time: I64, connection: I64, connections: I64) -> I64:
        """The slice of ``lane`` that starts exactly at ``time``, else -1; (n,).

        Among several, one whose ``connections`` entry equals the query's ``connection`` (-1: none wanted) is preferred,
        then the deepest, which is the last in order.
        """
        found = self.started(lane, time)
        hit = found >= 0
        hit[hit] = self._start[found[hit]] == time[hit]
        found[~hit] = -1
        query = np.flatnonzero(hit & (connection >= 0))
        at = found[query]
        while len(query):
            same = connections[at] == connection[query]
            found[query[same]] = at[same]
            query, at = query[~same], at[~same] - 1
            tied = at >= self._first[lane[query]]
            tied[tied] = self._start[at[tied]] == time[query[tied]]
            query, at = query[tied], at[tied]
        return found

    def innermost(self, lane: npt.NDArray[np.int32], time: I64) -> I64:
        """The slice of ``lane`` that started last of those around ``time``, else -1; (n,).

        A slice that ends exactly at ``time`` counts only if no other is open.
        """
        begun = self.started(lane, time)
        found = self._last_reaching(begun, lane, time + 1)
        missing = np.flatnonzero(found < 0)
        found[missing] = self._last_reaching(begun[missing], lane[missing], time[missing])
        return found

    def enclosing(self, lane: npt.NDArray[np.int32], start: I64, end: I64) -> I64:
        """The slice of ``lane`` that started last of those that hold all of ``[start, end]``, else -1; (n,)."""
        return self._last_reaching(self.started(lane, start), lane, end)

    def parents(self, lane: npt.NDArray[np.int32]) -> I64:
        """For every slice of the index the nearest one before it that holds all of it, else -1; (slices,).

        ``lane`` is the lane of every slice of the index.
        """
        return self._last_reaching(np.arange(-1, len(lane) - 1), lane, self._end)

    def _last_reaching(self, begun: I64, lane: npt.NDArray[np.int32], until: I64) -> I64:
        """The last slice at or before ``begun`` on its lane whose end is at least ``until``, else -1."""
        found = np.empty_like(begun)
        for low in range(0, len(begun), _AT_ONCE):
            own = slice(low, low + _AT_ONCE)
            found[own] = self._climb(begun[own], lane[own], until[own])
        return found

    def _climb(self, begun: I64, lane: npt.NDArray[np.int32], until: I64) -> I64:
        """``_last_reaching`` of few.

        Climbs a binary tree over the latest ends to the left until a node reaches far enough, then descends into it.
        """
        found = np.full_like(begun, -1)
        active = np.flatnonzero(begun >= 0)
        node, goal = begun[active], until[active]
        for level, ends in enumerate(self._latest_end):
            if not len(active):
                break
            enough = ends[node] >= goal
            found[active[enough]] = self._descend(node[enough], level, goal[enough])
            node = (node - 1) >> 1  # over what lies left of a left child; over both children after a right one
            rest = ~enough & (node >= 0)
            active, node, goal = active[rest], node[rest], goal[rest]
        found[found < self._first[lane]] = -1
        return found

    def _descend(self, position: I64, level: int, goal: I64) -> I64:
        while level:
            level -= 1
            right = position * 2 + 1
            position = np.where(self._latest_end[level][right] >= goal, right, right - 1)
        return position
