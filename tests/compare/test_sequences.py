"""Matching of operation sequences, held against the slow table of longest common subsequences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.analysis.alignment import matched
from npu_tui.compare.operations import Operations, match_operations, refined


def lcs(base, new):
    """The length of the longest common subsequence by dynamic programming."""
    row = np.zeros(len(new) + 1, np.int64)
    for value in base:
        best = np.maximum(row[1:], np.where(np.asarray(new) == value, row[:-1] + 1, 0))
        row[1:] = np.maximum.accumulate(best)
    return int(row[-1])


def check(base, new):
    left, right = matched(np.array(base, np.int64), np.array(new, np.int64))
    assert len(left) == len(right)
    assert (np.diff(left) > 0).all()
    assert (np.diff(right) > 0).all()
    assert (np.array(base)[left] == np.array(new)[right]).all() if len(left) else True
    return len(left)


@given(st.lists(st.integers(0, 5), max_size=120), st.lists(st.integers(0, 5), max_size=120))
def test_short_sequences_get_a_longest_common_subsequence(base, new):
    assert check(base, new) == lcs(base, new)


@pytest.mark.parametrize("seed", range(8))
def test_layers_with_edits_lose_at_most_two_percent(seed):
    rng = np.random.default_rng(seed)
    layer = rng.integers(0, 30, 60)
    base = np.tile(layer, int(rng.integers(5, 40)))
    new = base[rng.random(len(base)) > 0.02]
    places = rng.integers(0, len(new), len(new) // 50)
    new = np.insert(new, places, rng.integers(0, 40, len(places)))
    assert check(base, new) >= 0.98 * lcs(base, new)


def test_a_search_that_is_cut_still_matches_nearly_everything():
    rng = np.random.default_rng(3)
    base = np.tile(rng.integers(0, 30, 60), 100)
    new = np.where(rng.random(len(base)) < 0.2, rng.integers(0, 30, len(base)), base)
    assert check(base, new) >= 0.97 * lcs(base, new)


def test_equal_and_disjoint_sequences():
    same = np.arange(100_000) % 60
    left, right = matched(same, same)
    assert (left == right).all()
    assert len(left) == len(same)
    assert check(list(range(100)), list(range(100, 200))) == 0
    assert check([], [1, 2]) == 0


def layers(*shapes):
    """One matrix product for each of ``shapes``, in one thread."""
    count = len(shapes)
    none = np.full(count, -1)
    return Operations(
        np.arange(count), ["aten::mm"] * count, np.zeros(count, np.int64), none, np.zeros(count, np.int64)
    )


@pytest.mark.parametrize(
    ("base", "new", "pairs"),
    [
        ("ABAB", "BAB", {(1, 0), (2, 1), (3, 2)}),
        ("AABB", "ABB", {(1, 0), (2, 1), (3, 2)}),
        ("ABC", "XYZ", {(0, 0), (1, 1), (2, 2)}),
        ("ABCD", "ABXD", {(0, 0), (1, 1), (2, 2), (3, 3)}),
    ],
)
def test_shapes_tell_which_of_equal_names_is_gone(base, new, pairs):
    own, other = layers(*base), layers(*new)
    found = refined(match_operations(own, other), own, other, (base, new))
    told = set(zip(found.base.tolist(), found.new.tolist(), strict=True))
    assert told == pairs or (base, told) == ("AABB", {(0, 0), (2, 1), (3, 2)})
