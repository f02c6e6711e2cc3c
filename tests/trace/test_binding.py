"""Which slice a time belongs to: equal to plain scans, whatever crosses, ties or ends there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product, starmap
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from reference import Slice, bound, innermost

from npu_tui.trace import arrays
from npu_tui.trace.arrays import LaneIndex, sort_slices

Found = list[tuple[int, int, int, int]]
EPOCH = 1_700_000_000_000_000_001  # ns, which no float64 holds
# (lane, start, duration, connection id or -1): so few of each that most slices tie, touch, cross or last no time
SLICE = st.sampled_from(list(product(range(3), range(EPOCH, EPOCH + 7), (0, 1, 2, 9), (-1, 0, 1))))
SLICES = st.integers(0, 24).flatmap(lambda count: st.lists(SLICE, min_size=count, max_size=count))
LANES = 4  # the last one is always empty
# Every lane, -1 for none, at every time from before the first slice to after the last, with every connection.
PLAIN_TIMES = list(product(range(-1, LANES), range(EPOCH - 1, EPOCH + 17)))
ASKED = np.array([(*each, connection) for each in PLAIN_TIMES for connection in range(-1, 3)])
TIMES = np.array([code for code, _ in PLAIN_TIMES], np.int32), np.array([time for _, time in PLAIN_TIMES], np.int64)


@dataclass
class Columns:
    """Sorted columns with their index, and the same slices as the reference reader's."""

    index: LaneIndex
    connection: np.ndarray
    lanes: list[list[Slice]]

    def of(self, lane: int) -> list[Slice]:
        return self.lanes[lane] if lane >= 0 else []


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
    return Columns(index, connection, plain)


def ordinal(item: Slice | None) -> int:
    return item.ordinal if item else -1


def last_of(items: Iterable[Slice]) -> Slice | None:
    return max(items, key=ordinal, default=None)


def equals(answer: np.ndarray, plain: Iterable[Slice | None]) -> bool:
    return answer.tolist() == [ordinal(item) for item in plain]


@given(SLICES)
def test_exact_equals_a_plain_scan(found: Found) -> None:
    have = columns(found)
    lane, time, connection = ASKED.T
    answer = have.index.exact(lane.astype(np.int32), time, connection, have.connection)

    def plain(code: int, at: int, wanted: int) -> Slice | None:
        starting = [item for item in have.of(code) if item.start == at]
        return bound(starting, at, wanted if wanted >= 0 else None)

    assert equals(answer, starmap(plain, ASKED.tolist()))


@given(SLICES)
def test_innermost_equals_a_plain_scan(found: Found) -> None:
    have = columns(found)
    answer = have.index.innermost(*TIMES)
    assert equals(answer, (innermost(have.of(code), at) for code, at in PLAIN_TIMES))


@given(SLICES)
def test_started_equals_a_plain_scan(found: Found) -> None:
    have = columns(found)

    def plain(code: int, at: int) -> Slice | None:
        return last_of(item for item in have.of(code) if item.start <= at)

    assert equals(have.index.started(*TIMES), starmap(plain, PLAIN_TIMES))


@given(SLICES, st.integers(0, 5))
def test_enclosing_equals_a_plain_scan(found: Found, length: int) -> None:
    have = columns(found)
    lane, time = TIMES

    def plain(code: int, at: int) -> Slice | None:
        return last_of(item for item in have.of(code) if item.start <= at and item.end >= at + length)

    assert equals(have.index.enclosing(lane, time, time + length), starmap(plain, PLAIN_TIMES))


@given(SLICES)
def test_parents_equals_a_plain_scan(found: Found) -> None:
    have = columns(found)
    lane = np.repeat(np.arange(LANES, dtype=np.int32), [len(own) for own in have.lanes])
    plain = (
        last_of(each for each in own[:number] if each.end >= item.end)
        for own in have.lanes
        for number, item in enumerate(own)
    )
    assert equals(have.index.parents(lane), plain)


@given(SLICES, st.integers(1, 100))
def test_every_query_is_looked_for_once_and_so_many_at_a_time(found: Found, at_once: int) -> None:
    have = columns(found)
    lane, time = TIMES
    whole = have.index.enclosing(lane, time, time)
    with (
        patch.object(arrays, "_AT_ONCE", at_once),
        patch.object(np, "flatnonzero", side_effect=np.flatnonzero) as looked_for,
    ):
        assert have.index.enclosing(lane, time, time).tolist() == whole.tolist()
    sizes = [len(call.args[0]) for call in looked_for.call_args_list[1:]]  # the first one parts the lanes
    assert sum(sizes) == len(time)
    assert set(sizes[:-1]) <= {at_once}


@given(SLICES, st.lists(st.integers(0, len(ASKED) - 1), max_size=4))
def test_each_query_is_answered_by_itself(found: Found, few: list[int]) -> None:
    have = columns(found)
    lane, time, connection = ASKED[:, 0].astype(np.int32), ASKED[:, 1], ASKED[:, 2]

    def answers(which: slice | list[int]) -> list[np.ndarray]:
        own = lane[which], time[which]
        exact = have.index.exact(*own, connection[which], have.connection)
        return [exact, have.index.innermost(*own), have.index.started(*own), have.index.enclosing(*own, time[which])]

    for own, among_all in zip(answers(few), answers(slice(None)), strict=True):
        assert own.dtype == np.int64
        assert own.tolist() == among_all[few].tolist()
