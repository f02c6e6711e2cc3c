"""Rows, pieces and crossings by the compiled loops are those of their slower twins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from npu_tui.native.library import VARIABLE, library
from npu_tui.native.rows import crossing, first_fit, pieces_of, slow_crossing, slow_first_fit, slow_pieces
from npu_tui.trace.arrays import sort_slices

pytestmark = pytest.mark.skipif(library() is None, reason="there is no compiled library for this machine")

Columns = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], int]
SPANS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from([0, 0, 1, 2, 5, 30]), st.booleans()), max_size=60)


def columns(spans: list[tuple[int, int, bool]]) -> Columns:
    """Slices of one lane by start; some give way to all others."""
    start, length, low = (np.array([span[k] for span in spans], np.int64) for k in range(3))
    end, lane = start + length, np.zeros(len(spans), np.int32)
    order = sort_slices(lane, start, end)
    start, end = start[order], end[order]
    depth = first_fit(lane, start, end).astype(np.int64)
    rows = int(depth.max(initial=0)) + 1
    return start, end, np.where(low[order] == 1, depth, depth + rows), 2 * rows


def assert_same(given_columns: Columns) -> None:
    for one, other in zip(pieces_of(*given_columns), slow_pieces(*given_columns), strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


@given(SPANS)
@example([])
@example([(k, 2 * (200 - k), False) for k in range(200)])
@example([(0, 0, False), (0, 0, True), (0, 3, True), (3, 0, False)])
def test_pieces_are_those_of_the_slower_way(spans: list[tuple[int, int, bool]]) -> None:
    assert_same(columns(spans))


@pytest.mark.parametrize("levels", [1, 63, 64, 65, 700])
def test_levels_of_many_lanes(levels: int) -> None:
    random = np.random.default_rng(levels)
    level = random.integers(0, levels, 5000)
    start, end = np.zeros(5000, np.int64), np.zeros(5000, np.int64)
    for each in range(levels):
        own = np.flatnonzero(level == each)
        edges = np.sort(random.integers(0, 40_000, 2 * len(own)))
        start[own], end[own] = edges[::2], edges[1::2]
    order = np.lexsort((level, start))
    assert_same((start[order], end[order], level[order], levels))


@pytest.mark.parametrize(("start", "level", "room"), [([9, 0], [0, 0], 4), ([0, 1], [0, 7], 4), ([0, 9], [0, 0], 1)])
def test_the_loop_refuses_what_it_was_not_promised(start: list[int], level: list[int], room: int) -> None:
    found = library()
    assert found is not None
    given_columns = np.array(start), np.array(start) + 3, np.array(level, np.int32)
    results = np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    active, marks = np.zeros(2, np.int64), np.zeros(1, np.int64)
    assert found.leaves(*given_columns, 2, *results, room, active, 1, marks) < 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 25)), min_size=1, max_size=200))
def test_rows_are_those_of_first_fit(found: list[tuple[int, int, int]]) -> None:
    columns = np.array(found, np.int64)
    lane, start, end = columns[:, 0].astype(np.int32), columns[:, 1], columns[:, 1] + columns[:, 2]
    order = sort_slices(lane, start, end)
    lane, start, end = lane[order], start[order], end[order]
    assert first_fit(lane, start, end).tolist() == slow_first_fit(lane, start, end).tolist()


@pytest.mark.parametrize("longest", [200, 20_000])
def test_thousands_of_rows_are_those_of_first_fit(longest: int) -> None:
    rng = np.random.default_rng(5)
    start = np.sort(rng.integers(0, 20_000, 9_000))
    end = start + rng.integers(0, longest, 9_000)
    lane = np.zeros(9_000, np.int32)
    order = sort_slices(lane, start, end)
    start, end = start[order], end[order]
    expected = slow_first_fit(lane, start, end)
    assert expected.max() > 60
    assert np.array_equal(first_fit(lane, start, end), expected)


def test_crossings_are_counted_as_in_python() -> None:
    random = np.random.default_rng(5)
    for _ in range(300):
        start = np.sort(random.integers(0, 30, int(random.integers(0, 40))))
        end = start + random.integers(0, 12, len(start))
        order = np.lexsort((-end, start))
        assert crossing(start[order], end[order]) == slow_crossing(start[order], end[order])


def test_without_a_library_rows_are_found_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    given_columns = columns([(0, 9, False), (1, 3, False), (2, 5, True)])
    quick = [*pieces_of(*given_columns), crossing(*given_columns[:2])]
    lane = np.zeros(3, np.int32)
    depth = first_fit(lane, *given_columns[:2])
    monkeypatch.setenv(VARIABLE, "off")
    slow = [*pieces_of(*given_columns), crossing(*given_columns[:2])]
    assert [np.asarray(column).tolist() for column in quick] == [np.asarray(column).tolist() for column in slow]
    assert first_fit(lane, *given_columns[:2]).tolist() == depth.tolist()
