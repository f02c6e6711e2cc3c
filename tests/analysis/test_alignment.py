"""Places of one sequence in another against a table of all lengths, written down without any of the shortcuts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.analysis.alignment import placement


def lengths(first: list[int], second: list[int]) -> list[list[int]]:
    """The longest common subsequence of every two beginnings."""
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, one in enumerate(first):
        for j, other in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if one == other else max(table[i][j + 1], table[i + 1][j])
    return table


@given(st.lists(st.integers(0, 3), max_size=11), st.lists(st.integers(0, 4), max_size=11))
def test_places_are_those_of_all_longest_alignments(here: list[int], there: list[int]) -> None:
    before, after = lengths(here, there), lengths(here[::-1], there[::-1])
    n, m, longest = len(here), len(there), before[-1][-1]
    choices = [
        [j for j in range(m) if one == there[j] and before[i][j] + 1 + after[n - i - 1][m - j - 1] == longest]
        for i, one in enumerate(here)
    ]
    labels = np.arange(m).reshape(1, m) % 3
    found = placement(np.array(here, np.int64), np.array(there, np.int64), labels)
    assert found.placed.sum() == longest
    assert found.choices.tolist() == list(map(len, choices))
    for i, places in enumerate(choices):
        named = {j % 3 for j in places}
        assert found.common[0, i] == (named.pop() if len(named) == 1 else -1)
        alone = len(places) == 1 and sum(places[0] in others for others in choices) == 1 and found.placed[i]
        assert found.at[i] == (places[0] if alone else -1)


MODEL = np.array([0, *[1, 2, 3, 4, 2, 5, 4, 6] * 24, 7, 8], np.int64)
"""Kernels of a decode step: layers of equal kernels between an embedding and the sampling."""


@pytest.mark.parametrize("damage", ["delete 5%", "delete 20%", "rename 10%", "one layer", "half"])
def test_what_is_unique_is_right_after_damage(damage: str) -> None:
    rng = np.random.default_rng(3)
    kept, names = np.arange(len(MODEL)), MODEL.copy()
    if damage.startswith("delete"):
        share = 0.05 if "5%" in damage else 0.2
        kept = np.sort(rng.choice(kept, round(len(kept) * (1 - share)), replace=False))
    elif damage == "rename 10%":
        names[rng.choice(kept, len(kept) // 10, replace=False)] = 99
    else:
        kept = np.delete(kept, np.arange(81, 89)) if damage == "one layer" else kept[len(kept) // 2 :]
    found = placement(names[kept], MODEL, np.zeros((1, len(MODEL)), np.int64))
    sure = found.at >= 0
    assert (found.at[sure] == kept[sure]).all()
    assert found.placed.mean() >= 0.8
    if damage in ("one layer", "half"):
        assert sure.sum() <= 4  # any of the layers may be the missing one
    else:
        assert sure.sum() >= 0.9 * found.placed.sum()
