"""Rows of overlapping slices: the order, the plain rule, and no two slices in one place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import example, given
from hypothesis import strategies as st
from reference import rows

from npu_tui.native.rows import slow_first_fit as first_fit
from npu_tui.trace.arrays import sort_slices

# (lane, start, duration): few distinct values, so that ties, touching and crossing slices are common.
SMALL = st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(0, 6))
FAR = st.tuples(st.integers(0, 9), st.sampled_from([0, 1, 5, 2**60, 2**62]), st.sampled_from([0, 1, 7, 2**61]))
MANY_LANES = st.tuples(st.integers(0, 3) | st.integers(1 << 17, (1 << 17) + 3), st.integers(0, 12), st.integers(0, 6))
SLICES = st.lists(SMALL, max_size=40) | st.lists(FAR, max_size=12)


def columns(found: list[tuple[int, int, int]]) -> tuple[npt.NDArray[np.int32], ...]:
    lane = np.array([lane for lane, _, _ in found], np.int32)
    start = np.array([start for _, start, _ in found], np.int64)
    end = np.array([start + length for _, start, length in found], np.int64)
    return lane, start, end


@given(SLICES | st.lists(MANY_LANES, max_size=20))
def test_order_is_lane_start_longest_first_then_file(found: list[tuple[int, int, int]]) -> None:
    order = sort_slices(*columns(found))
    plain = sorted(range(len(found)), key=lambda i: (found[i][0], found[i][1], -found[i][2], i))
    assert order.tolist() == plain


@given(SLICES)
@example([(lane, 0, 1) for lane in range(8)] + [(lane, 2**61, 1) for lane in range(8)])
def test_first_fit_equals_the_plain_rule(found: list[tuple[int, int, int]]) -> None:
    lane, start, end = columns(found)
    order = sort_slices(lane, start, end)
    lane, start, end = lane[order], start[order], end[order]
    expected = [
        row
        for code in np.unique(lane)
        for row in rows(list(zip(start[lane == code].tolist(), end[lane == code].tolist(), strict=True)))
    ]
    assert first_fit(lane, start, end).tolist() == expected


@given(SLICES)
def test_no_two_slices_share_a_place(found: list[tuple[int, int, int]]) -> None:
    lane, start, end = columns(found)
    order = sort_slices(lane, start, end)
    lane, start, end = lane[order], start[order], end[order]
    depth = first_fit(lane, start, end)
    last: dict[tuple[int, int], int] = {}
    for place, begin, until in zip(zip(lane.tolist(), depth.tolist(), strict=True), start, end, strict=True):
        assert begin >= last.get(place, begin)
        last[place] = max(until, begin + 1)


@given(st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=3), max_leaves=20))
def test_depth_of_nested_slices_is_their_nesting(tree: list[object]) -> None:
    spans: list[tuple[int, int, int]] = []

    def place(node: list[object], level: int, at: int) -> int:
        begin, at = at, at + 1
        for child in node:
            at = place(child, level + 1, at)  # type: ignore[arg-type]
        spans.append((begin, at, level))
        return at + 1

    place(tree, 0, 0)
    spans.sort()
    lane = np.zeros(len(spans), np.int32)
    start = np.array([begin for begin, _, _ in spans], np.int64)
    end = np.array([until for _, until, _ in spans], np.int64)
    assert first_fit(lane, start, end).tolist() == [level for _, _, level in spans]


def test_nothing() -> None:
    none = np.zeros(0, np.int64)
    assert not len(first_fit(none.astype(np.int32), none, none))
    assert not len(sort_slices(none.astype(np.int32), none, none))


def test_zero_length_slices_at_one_time_get_rows_of_their_own() -> None:
    lane, start, end = columns([(0, 5, 0), (0, 5, 0), (0, 6, 0)])
    assert first_fit(lane, start, end).tolist() == [0, 1, 0]
