from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_tui.view.viewport import Viewport

viewports = st.builds(
    lambda first, width, scale, rest: Viewport(first, width * scale + rest % width, width),
    st.integers(-(10**6), 10**9),
    st.integers(1, 400),
    st.integers(1, 10**9),
    st.integers(0, 400),
)


def test_edges_of_a_whole_number_of_ns_per_column():
    viewport = Viewport.around(1000, 1800, 8)
    assert viewport.edges().tolist() == [1000, 1100, 1200, 1300, 1400, 1500, 1600, 1700, 1800]


def test_a_window_is_shown_exactly_at_any_width():
    for width in (8, 80, 117):
        viewport = Viewport.around(1050, 1850, width)
        assert (viewport.start, viewport.end) == (1050, 1850)


def test_span_is_at_least_one_ns_per_column():
    assert Viewport.around(7, 9, 100).edges().tolist() == list(range(7, 108))


def test_an_empty_window_of_one_column_still_has_a_length():
    viewport = Viewport.around(5, 5, 1)
    assert (viewport.start, viewport.end) == (5, 6)


def test_columns_outside_are_minus_one_and_width():
    viewport = Viewport.around(1000, 1800, 8)
    times = np.array([-5, 999, 1000, 1799, 1800, 10**9])
    assert viewport.columns(times).tolist() == [-1, -1, 0, 7, 8, 8]


def test_column_of_times_outside_goes_on_counting():
    viewport = Viewport.around(1000, 1800, 8)
    assert [viewport.column(time) for time in (900, 999, 1800, 1950)] == [-1, -1, 8, 9]


def test_resized_covers_the_same_times():
    viewport = Viewport.around(1000, 1800, 8).resized(16)
    assert (viewport.start, viewport.end, viewport.width) == (1000, 1800, 16)


@settings(max_examples=18, deadline=None)
@given(viewports)
def test_edges_ascend_strictly_and_agree_with_edge(viewport: Viewport):
    edges = viewport.edges()
    assert (np.diff(edges) > 0).all()
    assert edges.tolist() == [viewport.edge(column) for column in range(viewport.width + 1)]
    assert (edges[0], edges[-1]) == (viewport.start, viewport.end)


@settings(max_examples=18, deadline=None)
@given(viewports, st.integers(-500, 500))
def test_panning_by_columns_keeps_shared_edges(viewport: Viewport, columns: int):
    moved = viewport.panned(columns)
    assert [moved.edge(i) for i in range(5)] == [viewport.edge(columns + i) for i in range(5)]
    assert (moved.span, moved.width) == (viewport.span, viewport.width)


@settings(max_examples=18, deadline=None)
@given(viewports, st.lists(st.floats(-0.2, 1.2), min_size=1, max_size=20))
def test_a_time_lies_within_the_edges_of_its_column(viewport: Viewport, shares: list[float]):
    times = [viewport.start + round(share * viewport.span) for share in shares]
    found = viewport.columns(np.array(times, np.int64)).tolist()
    for time, column in zip(times, found, strict=True):
        exact = viewport.column(time)
        assert viewport.edge(exact) <= time < viewport.edge(exact + 1)
        assert column == min(max(exact, -1), viewport.width)


@settings(max_examples=18, deadline=None)
@given(st.integers(-(10**12), 10**15), st.integers(0, 10**12), st.integers(1, 400))
def test_around_begins_and_ends_where_it_is_told(start: int, length: int, width: int):
    viewport = Viewport.around(start, start + length, width)
    assert viewport.span == max(length, width)
    assert (viewport.start, viewport.end) == (start, start + viewport.span)


@settings(max_examples=18, deadline=None)
@given(viewports)
def test_a_viewport_comes_back_from_its_own_times(viewport: Viewport):
    again = Viewport.around(viewport.start, viewport.end, viewport.width)
    assert (again.start, again.end) == (viewport.start, viewport.end)
