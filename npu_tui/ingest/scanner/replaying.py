"""The compiled loops over the points and edges of a model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.scanner.library import Library, library

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_OPEN = 1 << 12
"""So many slices of a thread are open at once where they are nested as calls are."""
_MANY = 1 << 12
"""So many edges that contradict others are told at first."""


def replaying() -> Replaying | None:
    """The loops, None without a library."""
    found = library()
    return None if found is None else Replaying(found)


class Replaying:
    """The loops of ``library``; nodes, edges and rows are int32, times int64."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def passing(self, source: I32, edge: I32, other_source: I32, other_edge: I32, lag: I64) -> I64:
        """When each row of a model is passed, of its two sources and edges and of the lags of all edges."""
        time = np.empty(len(source), np.int64)
        columns = [np.ascontiguousarray(each, np.int32) for each in (source, edge, other_source, other_edge)]
        lag = np.ascontiguousarray(lag, np.int64)
        addresses = [each.ctypes.data for each in columns]
        self._library.passing(*addresses, len(source), lag.ctypes.data, len(lag), time.ctypes.data)
        return time

    def covered(
        self, start: I64, end: I64, low: I64, high: I64, thread: I64, number: int | None = None
    ) -> tuple[I64, I64]:
        """Which of ``[low, high)`` of the thread ``number`` the spans cover in part, and how much of each; (m,) each.

        The spans are disjoint and ascending; without ``number`` all threads count.
        """
        start, end, low, high, thread = (
            np.ascontiguousarray(each, np.int64) for each in (start, end, low, high, thread)
        )
        sums = np.cumsum(end - start) - (end - start)
        place, found = np.empty(len(low), np.int64), np.empty(len(low), np.int64)
        spans = start.ctypes.data, end.ctypes.data, sums.ctypes.data, len(start)
        asked = low.ctypes.data, high.ctypes.data, thread.ctypes.data, -1 if number is None else number, len(low)
        count = self._library.covered(*spans, *asked, place.ctypes.data, found.ctypes.data)
        return place[:count].copy(), found[:count].copy()

    def ascending_ends(self, start: I64, end: I64) -> I64:
        """The ends of slices, by start, in ascending order; (n,)."""
        start, end = np.ascontiguousarray(start, np.int64), np.ascontiguousarray(end, np.int64)
        found, opens = np.empty(len(end), np.int64), np.empty(_OPEN, np.int64)
        columns = start.ctypes.data, end.ctypes.data, len(end), found.ctypes.data
        return np.sort(end) if self._library.ascending_ends(*columns, opens.ctypes.data, _OPEN) else found

    def contradicting(self, source: I32, target: I32, key: I64) -> I64:
        """Which edges lead to a node whose ``key`` is not above that of their source; (m,)."""
        source, target = np.ascontiguousarray(source, np.int32), np.ascontiguousarray(target, np.int32)
        key = np.ascontiguousarray(key, np.int64)
        room = _MANY
        while True:
            found = np.empty(room, np.int64)
            edges = source.ctypes.data, target.ctypes.data, len(source)
            count = self._library.contradicting(*edges, key.ctypes.data, len(key), found.ctypes.data, room)
            if count <= room:
                return found[:count]
            room = count

    def ordered(self, source: I32, target: I32, where: I32) -> tuple[I32, I32, I64]:
        """The edges by target as ``where`` renumbers nodes: sources, targets, and where each edge went; (n,) each."""
        source, target, where = (np.ascontiguousarray(each, np.int32) for each in (source, target, where))
        new_source, new_target = np.empty(len(source), np.int32), np.empty(len(source), np.int32)
        place, begin = np.empty(len(source), np.int64), np.zeros(len(where) + 1, np.int32)
        edges = source.ctypes.data, target.ctypes.data, len(source)
        result = new_source.ctypes.data, new_target.ctypes.data, place.ctypes.data
        self._library.edge_order(*edges, where.ctypes.data, len(where), begin.ctypes.data, *result)
        return new_source, new_target, place

    def rows(self, source: I32, target: I32, nodes: int) -> tuple[I32, I32, I32, I32, I32]:
        """The rows of edges sorted by target: that of each node, then source, edge, other source and other edge."""
        source, target = np.ascontiguousarray(source, np.int32), np.ascontiguousarray(target, np.int32)
        count = len(source)
        row = np.empty(nodes, np.int32)
        # A node has a row for two edges and one more for each further one.
        columns = np.empty((4, nodes + int(np.count_nonzero(target[2:] == target[:-2]))), np.int32)
        room = columns.shape[1]
        edges = source.ctypes.data, target.ctypes.data, count, nodes
        made = self._library.edge_rows(*edges, row.ctypes.data, *(each.ctypes.data for each in columns), room)
        assert made == room
        return row, columns[0], columns[1], columns[2], columns[3]
