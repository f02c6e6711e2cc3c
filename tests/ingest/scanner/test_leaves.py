"""The compiled loop over slices that lie above each other finds the pieces of the slower way."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from npu_tui.ingest.scanner.leaves import flatten
from npu_tui.ingest.scanner.library import library
from npu_tui.trace.depth import first_fit, sort_slices
from npu_tui.trace.leaf import pieces_of

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
    for one, other in zip(flatten()(*given_columns), pieces_of(*given_columns), strict=True):
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
    addresses = [each.ctypes.data for each in (*given_columns, *results)]
    active, marks = np.zeros(2, np.int64), np.zeros(1, np.int64)
    assert found.leaves(*addresses[:3], 2, *addresses[3:], room, active.ctypes.data, 1, marks.ctypes.data) < 0
