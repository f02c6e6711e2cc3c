"""Which slice a time belongs to: equal to plain scans, whatever crosses, ties or ends there."""

from __future__ import annotations

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from reference import Slice, bound, innermost

from npu_tui.trace import binding
from npu_tui.trace.binding import LaneIndex
from npu_tui.trace.depth import sort_slices

Found = list[tuple[int, int, int, int]]
# (lane, start, duration, connection id or -1)
SLICES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 12), st.integers(-1, 3)), max_size=40)
QUERIES = st.lists(st.tuples(st.integers(-1, 4), st.integers(-2, 45), st.integers(-1, 3)), max_size=30)
LANES = 5  # the last one is always empty


@dataclass
class Columns:
    """Sorted columns with their index, and the same slices as the reference reader's."""

    index: LaneIndex
    connection: np.ndarray
    lanes: list[list[Slice]]
    first: list[int]


def columns(found: Found) -> Columns:
    lane = np.array([item[0] for item in found], np.int32)
    start = np.array([item[1] for item in found], np.int64)
    end = start + np.array([item[2] for item in found], np.int64)
    order = sort_slices(lane, start, end)
    lane, start, end = lane[order], start[order], end[order]
    connection = np.array([found[i][3] for i in order], np.int64)
    first = np.searchsorted(lane, np.arange(LANES))
    last = np.searchsorted(lane, np.arange(LANES), "right")
    plain = [
        [
            Slice(i, {"args": {"connection_id": int(connection[i])}}, (0, 0), int(start[i]), int(end[i]))
            for i in range(first[code], last[code])
        ]
        for code in range(LANES)
    ]
    index = LaneIndex(first.astype(np.int64), last.astype(np.int64), start, end)
    return Columns(index, connection, plain, first.tolist())


def asked(queries: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lane = np.array([lane for lane, _, _ in queries], np.int32)
    time = np.array([time for _, time, _ in queries], np.int64)
    return lane, time, np.array([connection for _, _, connection in queries], np.int64)


def ordinal(item: Slice | None) -> int:
    return item.ordinal if item else -1


@given(SLICES, QUERIES)
def test_exact_equals_a_plain_scan(found: Found, queries: list[tuple[int, int, int]]) -> None:
    sorted_slices = columns(found)
    lane, time, connection = asked(queries)
    answer = sorted_slices.index.exact(lane, time, connection, sorted_slices.connection)
    for (code, at, wanted), got in zip(queries, answer.tolist(), strict=True):
        starting = [item for item in sorted_slices.lanes[code] if item.start == at] if code >= 0 else []
        assert got == ordinal(bound(starting, at, wanted if wanted >= 0 else None))


@given(SLICES, QUERIES)
def test_innermost_equals_a_plain_scan(found: Found, queries: list[tuple[int, int, int]]) -> None:
    sorted_slices = columns(found)
    lane, time, _ = asked(queries)
    answer = sorted_slices.index.innermost(lane, time)
    for (code, at, _), got in zip(queries, answer.tolist(), strict=True):
        assert got == (ordinal(innermost(sorted_slices.lanes[code], at)) if code >= 0 else -1)


@given(SLICES, QUERIES)
def test_started_equals_a_plain_scan(found: Found, queries: list[tuple[int, int, int]]) -> None:
    sorted_slices = columns(found)
    lane, time, _ = asked(queries)
    answer = sorted_slices.index.started(lane, time)
    for (code, at, _), got in zip(queries, answer.tolist(), strict=True):
        begun = [item for item in sorted_slices.lanes[code] if item.start <= at] if code >= 0 else []
        assert got == ordinal(begun[-1] if begun else None)


@given(SLICES, QUERIES, st.integers(0, 9), st.integers(1, 5))
def test_enclosing_equals_a_plain_scan(
    found: Found, queries: list[tuple[int, int, int]], length: int, at_once: int
) -> None:
    sorted_slices = columns(found)
    lane, time, _ = asked(queries)
    with patch.object(binding, "_AT_ONCE", at_once):
        answer = sorted_slices.index.enclosing(lane, time, time + length)
    for (code, at, _), got in zip(queries, answer.tolist(), strict=True):
        around = [item for item in sorted_slices.lanes[code] if item.start <= at and item.end >= at + length]
        assert got == (ordinal(around[-1] if around else None) if code >= 0 else -1)


@given(SLICES, st.integers(1, 5))
def test_parents_equals_a_plain_scan(found: Found, at_once: int) -> None:
    sorted_slices = columns(found)
    lane = np.array([code for code, own in enumerate(sorted_slices.lanes) for _ in own], np.int32)
    with patch.object(binding, "_AT_ONCE", at_once):
        answer = sorted_slices.index.parents(lane).tolist()
    for own in sorted_slices.lanes:
        for number, item in enumerate(own):
            around = [each for each in own[:number] if each.end >= item.end]
            assert answer[item.ordinal] == ordinal(around[-1] if around else None)


def test_a_long_slice_is_found_behind_many_short_ones() -> None:
    sorted_slices = columns([(0, 0, 40, -1), *((0, 2 * i + 1, 1, -1) for i in range(15)), (1, 3, 1, -1)])
    lane, time = np.array([0, 0, 1], np.int32), np.array([38, 40, 38], np.int64)
    assert sorted_slices.index.innermost(lane, time).tolist() == [0, 0, -1]


def test_a_slice_that_ends_there_counts_only_where_no_other_is_open() -> None:
    sorted_slices = columns([(0, 0, 10, -1), (0, 2, 3, -1), (1, 2, 3, -1)])
    lane, time = np.array([0, 0, 1, 1], np.int32), np.array([4, 5, 5, 6], np.int64)
    assert sorted_slices.index.innermost(lane, time).tolist() == [1, 0, 2, -1]


def test_no_slices_and_no_queries() -> None:
    empty = columns([])
    none = np.zeros(0, np.int64)
    assert not len(empty.index.innermost(none.astype(np.int32), none))
    lane, time = np.array([-1, 2], np.int32), np.array([0, 5], np.int64)
    assert empty.index.innermost(lane, time).tolist() == [-1, -1]
    assert empty.index.exact(lane, time, time, none).tolist() == [-1, -1]
