from unittest.mock import patch

import numpy as np
import pytest
from builders import levels_of, one_row
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npu_tui.native.cells import Levels
from npu_tui.trace.model import Rows

EPOCH = 1 << 60  # ns that leave no bit to spare


def slow(durations: list[int], first: int, last: int) -> int:
    return max(range(first, last), key=lambda k: (durations[k], -k))


def rows_of(durations: np.ndarray) -> Rows:
    end = EPOCH + np.cumsum(durations + 1)
    return one_row(*zip((end - durations).tolist(), end.tolist(), strict=True))


COUNT, SEED = st.integers(1, 3000), st.integers(0, 2**32)
MOST = st.sampled_from((1, 6, 1_000_000))  # few durations tie, many name one slice


@settings(max_examples=18)
@example(512, 6, False, 0)  # as many blocks as are looked at without blocks of their own
@given(COUNT, MOST, st.booleans(), SEED)
def test_the_longest_slice_of_any_range_is_named(count: int, most: int, ascending: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    durations = random.integers(0, most, count)
    if ascending:
        durations.sort()
    levels = levels_of(rows_of(durations))
    near_edges = random.integers(0, count // 16 + 1, (20, 2)) * 16 + random.integers(-1, 2, (20, 2))
    anywhere = random.integers(0, count + 1, (20, 2))
    first, last = np.sort(np.concatenate((near_edges, anywhere, [[0, count]])).clip(0, count)).T
    first, last = first[first < last], last[first < last]
    expected = [slow(durations.tolist(), a, b) for a, b in zip(first, last, strict=True)]
    assert levels.longest(first, last).tolist() == expected
    assert levels._exactly(first, last).tolist() == expected


@settings(max_examples=10)
@given(COUNT, MOST, SEED)
def test_a_range_of_few_slices_or_whole_blocks_is_looked_at_once(count: int, most: int, seed: int) -> None:
    durations = np.random.default_rng(seed).integers(0, most, count)
    levels = levels_of(rows_of(durations))
    ranges = [(low, low + length) for low in range(0, count, 7) for length in (1, 31, 32)]
    ranges += [(low, low + 16 * length) for low in range(0, count, 16) for length in (3, 63, 64)]
    ranges += [(low, low + 256 * length) for low in range(0, count, 256) for length in (5, 9)]
    ranges = [(low, high) for low, high in ranges if high <= count]
    with patch.object(Levels, "_exactly", side_effect=AssertionError):
        found = levels.longest(*np.array(ranges, np.int64).reshape(-1, 2).T)
    assert found.tolist() == [slow(durations.tolist(), low, high) for low, high in ranges]


@settings(max_examples=12)
@given(COUNT, MOST, SEED)
def test_a_key_is_that_of_16_below(count: int, most: int, seed: int) -> None:
    durations = np.random.default_rng(seed).integers(0, most, count)
    rows = rows_of(durations)
    levels = levels_of(rows)
    bits = levels.bits
    expected, level = [], [(duration << bits) + (1 << bits) - 1 - k for k, duration in enumerate(durations.tolist())]
    assert (bits, levels.drop, levels.marks.tolist()) == (count.bit_length(), 0, rows.start[::64].tolist())
    for begin in levels.begins.tolist():
        assert begin == len(expected)
        level = [max(level[low : low + 16]) for low in range(0, len(level), 16)]
        expected += level
    assert levels.keys.tolist() == expected
    assert len(level) <= 32


def test_a_range_over_several_levels_of_blocks() -> None:
    durations = np.ones(20_000, np.int64)
    durations[[777, 15_000]] = 9
    end = np.cumsum(durations)
    levels = levels_of(one_row(*zip((end - durations).tolist(), end.tolist(), strict=True)))
    first, last = np.array([0, 778, 777, 15_001]), np.array([20_000, 20_000, 778, 20_000])
    assert levels.longest(first, last).tolist() == [777, 15_000, 777, 15_001]


def test_no_slices_have_no_keys() -> None:
    levels = levels_of(one_row())
    columns = levels.keys, levels.begins, levels.marks
    assert [(column.tolist(), column.dtype) for column in columns] == [([], "i8"), ([0], "i8"), ([], "i8")]


def test_huge_durations_keep_their_order() -> None:
    rows = one_row((0, 1 << 61), (1 << 61, (1 << 61) + 5), ((1 << 61) + 5, (1 << 62) + (1 << 61)))
    assert levels_of(rows).longest(np.array([0, 0]), np.array([2, 3])).tolist() == [0, 2]


@pytest.mark.parametrize("longest", [700, 703, 704], ids=["within a piece", "its last", "its first"])
def test_positions_count_on_from_one_piece_to_the_next(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first level is made in pieces; a piece of a real trace is a million slices long."""
    monkeypatch.setattr("npu_tui.native.cells._BUILD", 64)
    end = np.cumsum(np.ones(1000, np.int64) + (np.arange(1000) == longest))
    levels = levels_of(one_row(*zip([0, *end[:-1].tolist()], end.tolist(), strict=True)))
    first, last = np.array([0, 130, longest + 1]), np.array([1000, longest, 1000])
    assert levels.longest(first, last).tolist() == [longest, 130, longest + 1]
