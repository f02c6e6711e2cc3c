import numpy as np
import pytest
from builders import one_row
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_tui.view.frame.levels import Levels


def slow(durations: list[int], first: int, last: int) -> int:
    return max(range(first, last), key=lambda k: (durations[k], -k))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3000), st.integers(1, 6), st.integers(0, 2**32))
def test_the_longest_slice_of_any_range_is_named(count: int, most: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    durations = random.integers(0, most, count)
    end = np.cumsum(durations + 1)
    rows = one_row(*zip((end - durations).tolist(), end.tolist(), strict=True))
    first = random.integers(0, count, 20)
    last = np.array([random.integers(low + 1, count + 1) for low in first])
    found = Levels(rows).longest(first, last)
    assert found.tolist() == [slow(durations.tolist(), a, b) for a, b in zip(first, last, strict=True)]


def test_a_range_over_several_levels_of_blocks() -> None:
    durations = np.ones(20_000, np.int64)
    durations[[777, 15_000]] = 9
    end = np.cumsum(durations)
    levels = Levels(one_row(*zip((end - durations).tolist(), end.tolist(), strict=True)))
    first, last = np.array([0, 778, 777, 15_001]), np.array([20_000, 20_000, 778, 20_000])
    assert levels.longest(first, last).tolist() == [777, 15_000, 777, 15_001]


def test_no_slices_have_no_keys() -> None:
    (keys, begins, marks), _, _ = Levels(one_row()).packed()
    assert [(each.tolist(), each.dtype) for each in (keys, begins, marks)] == [([], "i8"), ([0], "i8"), ([], "i8")]


def test_huge_durations_keep_their_order() -> None:
    rows = one_row((0, 1 << 61), (1 << 61, (1 << 61) + 5), ((1 << 61) + 5, (1 << 62) + (1 << 61)))
    assert Levels(rows).longest(np.array([0, 0]), np.array([2, 3])).tolist() == [0, 2]


@pytest.mark.parametrize("longest", [700, 703, 704], ids=["within a piece", "its last", "its first"])
def test_positions_count_on_from_one_piece_to_the_next(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first level is made in pieces; a piece of a real trace is a million slices long."""
    monkeypatch.setattr("npu_tui.view.frame.levels._BUILD", 64)
    end = np.cumsum(np.ones(1000, np.int64) + (np.arange(1000) == longest))
    levels = Levels(one_row(*zip([0, *end[:-1].tolist()], end.tolist(), strict=True)))
    first, last = np.array([0, 130, longest + 1]), np.array([1000, longest, 1000])
    assert levels.longest(first, last).tolist() == [longest, 130, longest + 1]
