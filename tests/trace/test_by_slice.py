"""Numbers of few slices of many, and what is computed of a trace once."""

from dataclasses import dataclass, field

import numpy as np

from npu_tui.trace.arrays import BySlice
from npu_tui.trace.once import ValueCache, of_trace


def test_a_slice_without_a_number_has_none_and_the_first_of_several_counts() -> None:
    found = BySlice(np.array([4, 2, 4]), np.array([7, 0, 9]))
    assert found.of(np.array([0, 2, 3, 4, 5, -1])).tolist() == [-1, 0, -1, 7, -1, -1]
    assert BySlice(np.zeros(0, np.int64), np.zeros(0, np.int64)).of(np.array([0, 3, -1])).tolist() == [-1, -1, -1]


@dataclass
class _Kept:
    known: ValueCache = field(default_factory=ValueCache)


def test_each_trace_is_asked_once() -> None:
    asked: list[_Kept] = []

    @of_trace
    def size(trace: _Kept) -> int:
        asked.append(trace)
        return len(asked)

    one, other = _Kept(), _Kept()
    assert [size(one), size(one), size(other), size(one)] == [1, 1, 2, 1]
    assert asked == [one, other]
