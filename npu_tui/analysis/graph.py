"""When the nodes of a graph are passed: the one replay, of a rank, of a job's collectives, of a pipeline and of roles.

A node is passed when every edge to it allows it, each a lag after the node it comes from. A change of a run is another
lag on some edges. Whoever builds a graph says what its nodes and edges are; here is only time.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.native.replay import passing, walking
from npu_tui.trace.arrays import I32, I64

NEVER = -(2**61)
"""The lag of an edge that allows its target at any time, ns."""


class Graph(Struct, frozen=True, eq=False):
    """The edges in pairs, which makes a run one short loop; ``node`` is the row of each node.

    A row is passed when both ``edge`` from row ``source`` and ``other_edge`` from row ``other_source`` allow it. A node
    with more than two edges gets extra rows before its own: with edges a, b, c the rows are (a, b) and (row before, c).
    ``lag`` (edges + 2,) is that of each edge in the unchanged run, ns; two are added after the last one: one that never
    delays and one that takes no time.
    """

    node: I32
    source: I32
    edge: I32
    other_source: I32
    other_edge: I32
    lag: I64

    @staticmethod
    def of(source: I32 | I64, target: I32 | I64, lag: I64, nodes: int) -> Graph:
        """The graph of edges sorted by target; (edges,) each. Nodes are in topological order, 0 is the origin."""
        edges_to = np.bincount(target, minlength=nodes)
        rows_of = np.maximum(edges_to - 1, 1)
        row = (np.cumsum(rows_of) - 1).astype(np.int32)
        total = int(row[-1]) + 1
        nothing, no_time = len(source), len(source) + 1
        sources, numbers = np.zeros((2, total), np.int32), np.full((2, total), nothing, np.int32)
        # A run is a loop over rows with two maxima each, which is short enough to be compiled (native/replay.c).
        # Of several edges the first two share a row; each further one follows that row.
        number, come_from = np.arange(len(source), dtype=np.int32), row[source]
        rank = number - (np.cumsum(edges_to) - edges_to).astype(np.int32)[target]
        first, other = np.flatnonzero(rank == 0), np.flatnonzero(rank)
        at = (row - rows_of.astype(np.int32) + 1)[target]
        sources[0, at[first]], numbers[0, at[first]] = come_from[first], number[first]
        at = at[other] + rank[other] - 1
        sources[1, at], numbers[1, at] = come_from[other], number[other]
        further = at[rank[other] > 1]
        sources[0, further], numbers[0, further] = further - 1, no_time
        return Graph(row, sources[0], numbers[0], sources[1], numbers[1], np.append(lag, (NEVER, 0)))

    def less(self, edge: I64, less: I64) -> I64:
        """A change: the lags of all edges where each ``edge`` takes so much ``less``, ns."""
        lag: I64 = self.lag.copy()
        lag[edge] -= less
        return lag

    def passed(self, lag: I64) -> I64:
        """When each row is passed with the lags ``lag``, ns after the origin."""
        return passing(self.source, self.edge, self.other_source, self.other_edge, lag)

    def times(self, lag: I64) -> I64:
        """When each node is passed, ns after the origin."""
        return self.passed(lag)[self.node]

    def walk(self, lag: I64, passed: I64, last: int, until: int = 0) -> tuple[I32, I32]:
        """What held up row ``last`` of the run that ``passed`` with ``lag``: rows and the edges to them, backwards.

        It ends at the first row that is passed at ``until`` (ns) or before; (n,) each.
        """
        return walking(self.source, self.edge, self.other_source, self.other_edge, lag, passed, last, until)
