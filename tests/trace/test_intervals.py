from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.trace.intervals import (
    clipped,
    covered,
    covered_before,
    covered_within,
    difference,
    intersection,
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


def test_cover_of_times_since_the_epoch_is_exact():
    """A float has steps of 256 ns there."""
    epoch = 1_764_000_000_000_000_000
    start, end = np.array([epoch + 3, epoch + 101]), np.array([epoch + 50, epoch + 104])
    low, high = np.array([epoch + 10, epoch, epoch + 60]), np.array([epoch + 103, epoch + 4, epoch + 70])
    assert covered_within(start, end, low, high).tolist() == [42, 1, 0]
    assert covered_within(start[:0], end[:0], low, high).tolist() == [0, 0, 0]
