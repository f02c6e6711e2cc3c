"""The loops over the points and edges of a model; a compiled library has faster ones that give the same."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from npu_tui.trace.intervals import covered_within

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class Loops(Protocol):
    """The loops; nodes, edges and rows are int32, times int64."""

    def passing(self, source: I32, edge: I32, other_source: I32, other_edge: I32, lag: I64) -> I64:
        """When each row of a model is passed, of its two sources and edges and of the lags of all edges."""
        ...

    def covered(
        self, start: I64, end: I64, low: I64, high: I64, thread: I64, number: int | None = None
    ) -> tuple[I64, I64]:
        """Which of ``[low, high)`` of the thread ``number`` the spans cover in part, and how much of each; (m,) each.

        The spans are disjoint and ascending; without ``number`` all threads count.
        """
        ...

    def ascending_ends(self, start: I64, end: I64) -> I64:
        """The ends of slices, by start, in ascending order; (n,)."""
        ...

    def contradicting(self, source: I32, target: I32, key: I64) -> I64:
        """Which edges lead to a node whose ``key`` is not above that of their source; (m,)."""
        ...

    def ordered(self, source: I32, target: I32, where: I32) -> tuple[I32, I32, I64]:
        """The edges by target as ``where`` renumbers nodes: sources, targets, and where each edge went; (n,) each."""
        ...

    def rows(self, source: I32, target: I32, nodes: int) -> tuple[I32, I32, I32, I32, I32]:
        """The rows of edges sorted by target: that of each node, then source, edge, other source and other edge."""
        ...


class PlainLoops:
    """``Loops`` without a library."""

    def passing(self, source: I32, edge: I32, other_source: I32, other_edge: I32, lag: I64) -> I64:
        """See ``Loops``."""
        time: list[int] = []
        passed = time.append
        columns = source.tolist(), lag[edge].tolist(), other_source.tolist(), lag[other_edge].tolist()
        follows = zip(*columns, strict=True)
        next(follows)
        passed(0)  # the first row is the origin
        for own, first, other, second in follows:
            one, two = time[own] + first, time[other] + second
            passed(one if one > two else two)
        return np.array(time, np.int64)

    def covered(
        self, start: I64, end: I64, low: I64, high: I64, thread: I64, number: int | None = None
    ) -> tuple[I64, I64]:
        """See ``Loops``."""
        own = np.arange(len(low)) if number is None else np.flatnonzero(thread == number)
        found = covered_within(start, end, low[own], high[own])
        hit = np.flatnonzero(found)
        return own[hit], found[hit]

    def ascending_ends(self, start: I64, end: I64) -> I64:
        """See ``Loops``."""
        return np.sort(end)

    def contradicting(self, source: I32, target: I32, key: I64) -> I64:
        """See ``Loops``."""
        return np.flatnonzero(key[target] <= key[source])

    def ordered(self, source: I32, target: I32, where: I32) -> tuple[I32, I32, I64]:
        """See ``Loops``."""
        source, target = where[source], where[target]
        by_target = np.argsort(target, kind="stable")
        place = np.empty(len(target), np.int64)
        place[by_target] = np.arange(len(target))
        return source[by_target], target[by_target], place

    def rows(self, source: I32, target: I32, nodes: int) -> tuple[I32, I32, I32, I32, I32]:
        """See ``Loops``."""
        edges_to = np.bincount(target, minlength=nodes)
        rows_of = np.maximum(edges_to - 1, 1)
        row = (np.cumsum(rows_of) - 1).astype(np.int32)
        total = int(row[-1]) + 1
        nothing, no_time = len(source), len(source) + 1
        sources, numbers = np.zeros((2, total), np.int32), np.full((2, total), nothing, np.int32)
        # Of several edges the first two share a row; each further one follows that row.
        rank = np.arange(len(source)) - np.repeat(np.cumsum(edges_to) - edges_to, edges_to)
        at = np.repeat(row - rows_of + 1, edges_to) + np.maximum(rank - 1, 0)
        slot = (rank > 0).astype(np.int64)
        sources[slot, at], numbers[slot, at] = row[source], np.arange(len(source))
        further = at[rank > 1]
        sources[0, further], numbers[0, further] = further - 1, no_time
        return row, sources[0], numbers[0], sources[1], numbers[1]
