from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.trace.intervals import (
    clipped,
    covered,
    covered_before,
    covered_within,
    difference,
    inside,
    intersection,
    outermost,
    parted,
    quiet,
    touches,
    union,
)

pairs = st.lists(st.tuples(st.integers(-20, 40), st.integers(0, 15)), max_size=12)


def arrays(intervals: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    start = np.array([start for start, _ in intervals], np.int64)
    return start, start + np.array([length for _, length in intervals], np.int64)


def test_touching_intervals_merge_and_empty_ones_vanish():
    start, end = union(np.array([5, 0, 3, 9]), np.array([7, 3, 5, 9]))
    assert (start.tolist(), end.tolist()) == ([0], [7])


def test_touching_intervals_merge_in_order_too():
    start, end = union(np.array([0, 5]), np.array([5, 9]))
    assert (start.tolist(), end.tolist()) == ([0], [9])


def test_clipped_leaves_nothing_outside():
    start, end = clipped(np.array([0, 4, 8]), np.array([2, 6, 9]), 3, 5)
    assert (end - start).tolist() == [0, 1, 0]


@given(pairs)
def test_union_covers_the_same_instants(intervals: list[tuple[int, int]]):
    start, end = arrays(intervals)
    first, last = union(start, end)
    instants = {at for low, high in zip(start, end, strict=True) for at in range(low, high)}
    assert {at for low, high in zip(first, last, strict=True) for at in range(low, high)} == instants
    assert (first[1:] > last[:-1]).all()
    assert (last > first).all()
    assert covered(start, end) == len(instants)


@given(pairs, st.integers(-20, 40), st.integers(0, 20))
def test_clipped_keeps_the_instants_within(intervals: list[tuple[int, int]], low: int, length: int):
    start, end = arrays(intervals)
    first, last = clipped(start, end, low, low + length)
    assert ((low <= first) & (first <= last) & (last <= low + length)).all()
    kept = [set(range(a, b)) & set(range(low, low + length)) for a, b in zip(start, end, strict=True)]
    assert [set(range(a, b)) for a, b in zip(first, last, strict=True)] == kept


def instants(start: np.ndarray, end: np.ndarray) -> set[int]:
    return {at for low, high in zip(start.tolist(), end.tolist(), strict=True) for at in range(low, high)}


@given(pairs, pairs)
def test_difference_and_intersection_hold_the_instants_they_name(
    intervals: list[tuple[int, int]], others: list[tuple[int, int]]
):
    first, second = arrays(intervals), arrays(others)
    for found, expected in (
        (difference(*first, *second), instants(*first) - instants(*second)),
        (intersection(*first, *second), instants(*first) & instants(*second)),
    ):
        start, end = found
        assert instants(start, end) == expected
        assert (end > start).all()
        assert (start[1:] > end[:-1]).all()


@given(pairs, st.lists(st.integers(-25, 60), max_size=5))
def test_covered_before_counts_the_instants(intervals: list[tuple[int, int]], times: list[int]):
    before = covered_before(*arrays(intervals), np.array(times, np.float64))
    assert before.tolist() == [sum(at < time for at in instants(*arrays(intervals))) for time in times]


@given(pairs, pairs)
def test_what_touches_shares_an_instant(intervals: list[tuple[int, int]], asked: list[tuple[int, int]]):
    """Nothing is asked for an empty stretch."""
    asked = [each for each in asked if each[1]]
    low, high = arrays(asked)
    lasting = [each for each in intervals if each[1]]
    shared = touches(*arrays(lasting), low.astype(np.float64), high.astype(np.float64))
    assert shared.tolist() == [bool(instants(*arrays(lasting)) & instants(*arrays([each]))) for each in asked]


def test_what_ends_where_another_begins_shares_nothing_with_it():
    start, end = np.array([0, 10]), np.array([5, 20])
    low, high = np.array([5.0, 20.0, -4.0, 4.0, 19.0]), np.array([10.0, 30.0, 0.0, 5.0, 21.0])
    assert touches(start, end, low, high).tolist() == [False, False, False, True, True]
    assert touches(start, end, np.array([7.0]), np.array([8.0])).tolist() == [False]  # the later one is not asked for
    assert touches(start[:1], end[:1], low, high).tolist() == [False, False, False, True, False]
    none = touches(start[:0], end[:0], low, high)
    assert (none.dtype, none.any()) == (np.bool_, False)


@given(pairs, st.lists(st.integers(-25, 60), max_size=8))
def test_inside_is_from_the_start_until_before_the_end(intervals: list[tuple[int, int]], times: list[int]):
    start, end = union(*arrays(intervals))
    found = inside(start, end, np.array([*times, *start, *end], np.int64))
    assert found.dtype == np.bool_
    assert found.tolist() == [at in instants(start, end) for at in [*times, *start.tolist(), *end.tolist()]]


@given(st.lists(st.integers(-200, 400), max_size=25), st.integers(1, 70))
def test_quiet_times_lie_between_neighbours_that_far_apart(moments: list[int], least: int):
    start, end = quiet(np.array(moments, np.int64), least)
    expected = [(low, high) for low, high in pairwise(sorted(moments)) if high - low >= least]
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == expected


@given(pairs, st.lists(st.integers(-25, 60), unique=True, max_size=6).map(sorted))
def test_parts_hold_the_instants_and_no_cut(intervals: list[tuple[int, int]], cuts: list[int]):
    start, end = arrays(sorted(intervals))
    low, high = parted(start, end, np.array(cuts, np.int64))
    expected = []
    for first, last in zip(start.tolist(), end.tolist(), strict=True):
        bounds = [first, *(cut for cut in cuts if first < cut < last), last]
        expected += list(pairwise(bounds))
    assert sorted(zip(low.tolist(), high.tolist(), strict=True)) == sorted(expected)
    assert (np.diff(low) >= 0).all()


def test_outermost_begins_once_all_earlier_ones_have_ended():
    start, end = np.array([0, 2, 0, 10, 12, 9]), np.array([10, 4, 3, 12, 13, 11])
    assert outermost(start, end, np.array([1, 2, 0, 3, 4])).tolist() == [0, 3, 4]
    assert outermost(start, end, np.array([5, 3, 1])).tolist() == [1, 5]
    assert outermost(start, end, np.array([], np.int64)).tolist() == []


def test_cover_of_times_since_the_epoch_is_exact():
    """A float has steps of 256 ns there."""
    epoch = 1_764_000_000_000_000_000
    start, end = np.array([epoch + 3, epoch + 101]), np.array([epoch + 50, epoch + 104])
    low, high = np.array([epoch + 10, epoch, epoch + 60]), np.array([epoch + 103, epoch + 4, epoch + 70])
    assert covered_within(start, end, low, high).tolist() == [42, 1, 0]
    assert covered_within(start[:0], end[:0], low, high).tolist() == [0, 0, 0]


@pytest.mark.parametrize("far", [0, 1 << 62])
def test_what_lies_years_away_is_quiet_without_a_table_of_all_years(far: int) -> None:
    moments = np.array([7, 4, 9_000, 9_001, far], np.int64)
    start, end = quiet(moments, 1_000)
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == [(7, 9_000), *([(9_001, far)] if far else [])]
