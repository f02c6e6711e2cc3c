"""What repeats in a run without steps."""

from __future__ import annotations

import numpy as np
import pytest

from npu_tui.analysis.rhythm import _starts_by_names, _starts_by_period


def test_the_rarest_even_kernels_split_the_run() -> None:
    layer = [1, 2, 3, 2]
    names = np.array(([7] + layer * 6 + [8]) * 9)
    found = _starts_by_names(names)
    assert found is not None
    assert found.tolist() == list(range(0, len(names), 26))


@pytest.mark.parametrize(
    "names",
    [
        [1, 2, 3],
        [1, 1, 2, 1, 2, 2, 2, 3, 1, 3, 3, 3, 3, 2, 1, 1, 1, 2, 3, 3, 1],
        [5, *[1] * 30, 5, 5, *[1] * 11, 5],
    ],
)
def test_what_has_no_rhythm(names: list[int]) -> None:
    assert _starts_by_names(np.array(names)) is None


FORWARD, BACKWARD, UPDATE = [1, 2, 3, 2], [11, 12, 13], [21, 22]


@pytest.mark.parametrize(
    ("iteration", "count", "left_over"),
    [
        (FORWARD * 4 + BACKWARD * 4 + UPDATE * 5, 3, 0),
        (FORWARD * 4 + BACKWARD * 4 + UPDATE * 5, 2, 3),
        ((FORWARD * 3 + BACKWARD * 3) * 4 + UPDATE * 2, 3, 0),
        ([7] + FORWARD * 4 + BACKWARD * 4, 6, 5),
    ],
    ids=["three", "two", "accumulated", "cut off"],
)
def test_an_iteration_of_training_is_what_comes_again(iteration: list[int], count: int, left_over: int) -> None:
    names = np.array(iteration * count + iteration[:left_over])
    found = _starts_by_period(names, (names > 10) & (names < 20))
    assert found is not None
    assert found.tolist() == [k * len(iteration) for k in range(count)]


def test_layers_of_one_iteration_are_no_iterations() -> None:
    names = np.array(FORWARD * 4 + BACKWARD * 4 + UPDATE * 5)
    assert _starts_by_period(names, (names > 10) & (names < 20)) is None
    names = np.array(FORWARD * 12)
    assert _starts_by_period(names, names > 10) is None
