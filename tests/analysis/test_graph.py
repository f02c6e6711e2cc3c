"""Graphs of any shape are passed as by the definition, and the walk back adds up to when a row is passed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.analysis.graph import NEVER, Graph


@st.composite
def _edges(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]]]:
    """The number of nodes, and edges (source, target, lag) that lead forward, by target."""
    nodes = draw(st.integers(1, 12))
    edges = [
        (
            draw(st.integers(0, target - 1)),
            target,
            NEVER if turn and draw(st.booleans()) else draw(st.integers(-20, 99)),
        )
        for target in range(1, nodes)
        for turn in range(draw(st.integers(1, 4)))
    ]
    return nodes, edges


@given(_edges(), st.randoms())
def test_a_node_is_passed_when_every_edge_allows_it(made: tuple[int, list[tuple[int, int, int]]], draw) -> None:
    nodes, edges = made
    source, target, lag = np.array(edges, np.int64).reshape(-1, 3).T
    graph = Graph.of(source, target, lag, nodes)
    some = np.array([draw.randrange(30) for _ in edges], np.int64)
    changed = graph.less(np.arange(len(edges)), some)
    times = [0]
    for node in range(1, nodes):
        times.append(
            max(times[s] + n - less for (s, t, n), less in zip(edges, some.tolist(), strict=True) if t == node)
        )
    passed = graph.passed(changed)
    assert passed[graph.node].tolist() == graph.times(changed).tolist() == times
    for node in range(nodes):
        rows, way = graph.walk(changed, passed, int(graph.node[node]), until=-(10**6))
        assert not len(way) or np.searchsorted(graph.node, rows[0]) == node
        assert sum(changed[way].tolist()) == times[node]
        ends = [node, *(edges[edge][0] for edge in way)]
        assert [edges[edge][1] for edge in way] == ends[:-1]
