"""What numbers stand for, asked once for each distinct one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.load.database_columns import numbered, per_value

NUMBERS = st.lists(st.one_of(st.integers(-3, 40), st.integers(0, 1 << 18), st.integers(-(1 << 60), 1 << 60)))


@given(NUMBERS)
def test_each_value_is_computed_once_and_in_order(values: list[int]) -> None:
    asked: list[list[int]] = []

    def compute(distinct: np.ndarray) -> np.ndarray:
        asked.append(distinct.tolist())
        return distinct % 1000

    found = per_value(np.array(values, np.int64), compute)
    assert found.tolist() == [value % 1000 for value in values]
    assert asked == [sorted(set(values))]


@given(NUMBERS)
def test_numbers_of_the_distinct_values(values: list[int]) -> None:
    distinct, place = numbered(np.array(values, np.int64))
    assert distinct.tolist() == sorted(set(values))
    assert distinct[place].tolist() == values if values else len(place) == 0


def test_more_values_than_a_block() -> None:
    values = np.arange(200_000) % 977 - 5
    distinct, place = numbered(values)
    assert np.array_equal(distinct[place], values)
    assert np.array_equal(per_value(values, lambda distinct: distinct.astype(np.int32) * 2), values * 2)
