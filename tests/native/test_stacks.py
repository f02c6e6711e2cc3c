"""The innermost slices by the compiled loop are those of its slower twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.native.library import library
from npu_tui.native.spans import OWN, StackParts, Stretches, innermost, slow_innermost

pytestmark = pytest.mark.skipif(library() is None, reason="there is no compiled library for this machine")

_NAMES, _STACKS = 5, 3
_CHAINS = np.array([(0, _NAMES), (1, _NAMES + 1), (0, _NAMES + 2)], np.int32)
"""Frames of call stacks: two in one another, and one beside them."""
_CLEAR = np.array([False, False, True, False, False, True], np.uint8)
"""One of the names is no call, and what has no name is none."""

Slice = tuple[int, int, int, int]
SLICES = st.lists(
    st.tuples(
        st.integers(0, 60), st.sampled_from([0, 0, 1, 2, 5, 30]), st.integers(-1, _NAMES - 1),
        st.sampled_from([OWN, -1, -1, 0, 1, 2]),
    ),
    max_size=30,
)  # fmt: skip
"""Start, length, name and call stack of each."""
CUTS = st.lists(st.integers(0, 100), max_size=12, unique=True)
THREADS = st.lists(st.tuples(st.lists(SLICES, max_size=3), CUTS, st.booleans()), max_size=3)


def nested(slices: list[Slice]) -> list[Slice]:
    """Those of ``slices`` that lie in one another, as the slices of a lane do."""
    kept: list[Slice] = []
    for one in sorted(slices, key=lambda each: (each[0], -each[1])):
        around = [each for each in kept if one[0] < each[0] + each[1]]
        if all(one[0] + one[1] <= each[0] + each[1] for each in around):
            kept.append(one)
    return kept


def given_columns(threads: list[tuple[list[list[Slice]], list[int], bool]]) -> tuple[object, ...]:
    """The arguments of ``innermost`` for threads of several lanes each."""
    rows: list[Slice] = []
    made: list[Stretches] = []
    for lanes, cuts, chained in threads:
        ends = []
        for lane in lanes:
            own = nested(lane)
            ends.append((len(rows), len(rows) + len(own)))
            rows += own
        edges = sorted(cuts)[: len(cuts) // 2 * 2]
        bounds = np.array(edges, np.int64).reshape(-1, 2)
        made.append(Stretches(bounds, np.array(ends, np.int64).reshape(-1, 2), chained))
    start, length, name, stack = (np.array([row[k] for row in rows], np.int64) for k in range(4))
    of_stack = np.array([2, 3, -1, -1], np.int32)
    return (
        made, start, start + length, name.astype(np.int32), stack.astype(np.int32), _CLEAR, _CHAINS, of_stack,
    )  # fmt: skip


@given(THREADS)
def test_parts_are_those_of_the_twin(threads: list[tuple[list[list[Slice]], list[int], bool]]) -> None:
    columns = given_columns(threads)
    mine, twin = innermost(*columns), slow_innermost(*columns)  # type: ignore[arg-type]
    for field in StackParts.__struct_fields__:
        one, other = getattr(mine, field), getattr(twin, field)
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist(), field


@given(THREADS)
def test_parts_tile_the_stretches(threads: list[tuple[list[list[Slice]], list[int], bool]]) -> None:
    columns = given_columns(threads)
    parts = innermost(*columns)  # type: ignore[arg-type]
    made, start, end = columns[:3]
    for number, thread in enumerate(made):  # type: ignore[var-annotated,arg-type]
        for piece, (low, high) in enumerate(thread.bounds.tolist()):
            own = np.flatnonzero((parts.thread == number) & (parts.stretch == piece))
            assert parts.low[own].tolist() == [low, *parts.high[own][:-1].tolist()]
            assert parts.high[own][-1] == high
            for at in own.tolist():
                items = [item for lane in thread.lanes.tolist() for item in range(*lane)]
                open_then = [item for item in items if start[item] <= parts.low[at] < end[item]]  # type: ignore[index]
                assert (int(parts.item[at]) in open_then) or (parts.item[at] == -1 and not open_then)


def test_a_tree_larger_than_the_first_room_for_it() -> None:
    count = 20_000
    start = np.arange(0, 2 * count, 2)
    name = np.arange(count, dtype=np.int32)
    whole = Stretches(np.array([(0, 2 * count)]), np.array([(0, count)]), False)
    none = np.zeros((0, 2), np.int32)
    columns = (
        [whole], start, start + 1, name, np.full(count, -1, np.int32), np.zeros(count + 1, np.uint8), none,
        np.full(1, -1, np.int32),
    )  # fmt: skip
    mine, twin = innermost(*columns), slow_innermost(*columns)
    assert len(mine.above) == count + 1
    assert mine.node.tolist() == twin.node.tolist()
    assert mine.name.tolist() == twin.name.tolist()


def test_slices_in_one_another_however_deep() -> None:
    count = 100_000
    start, end = np.arange(count), 3 * count - np.arange(count)
    whole = Stretches(np.array([(0, 3 * count)]), np.array([(0, count)]), False)
    none = np.full(count, -1, np.int32)
    columns = (
        [whole], start, end, none, none, np.zeros(1, np.uint8), np.zeros((0, 2), np.int32), np.full(1, -1, np.int32),
    )  # fmt: skip
    parts = innermost(*columns)
    assert parts.item.tolist() == [*range(count), *range(count - 2, -1, -1)]
    assert len(parts.above) == count + 1
