"""Which steps stand out, and which of their kernels do."""

from __future__ import annotations

import numpy as np
import pytest

from npu_tui.analysis.code_lines import common_lines, user_lines
from npu_tui.analysis.steps import odd_steps, standing_out


@pytest.mark.parametrize(
    ("times", "odd"),
    [
        ((100, 101, 99, 180), [3]),
        ((100, 101, 99, 100, 160, 240), [4, 5]),
        ((100, 100, 180), []),  # two agree by chance
        ((100, 101, 102, 99), []),
        ((100, 180, 100, 180, 100, 180), []),  # every other one
        ((100, 100, 100, 180, 100, 100, 100, 180), []),  # every fourth one
        ((100, 60, 190, 140, 80, 100), []),  # all differ
        ((100, 80, 120, 100, 190), []),
        ((0, 0, 0, 50), []),
        ((), []),
    ],
)
def test_which_steps_stand_out(times: tuple[int, ...], odd: list[int]) -> None:
    assert np.flatnonzero(standing_out(np.array(times, np.int64))).tolist() == odd


def steps_of(*kinds: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    step = np.repeat(np.arange(len(kinds)), [len(each) for each in kinds])
    kind = np.array([ord(one) - ord("a") for each in kinds for one in each], np.int64)
    return step, kind, np.full(len(step), 10, np.int64)


@pytest.mark.parametrize(
    ("own", "first", "last", "count"),
    [
        ("abcdxyxy", 4, 4, 4),  # behind the step
        ("xyabcd", 0, 0, 2),  # before it
        ("abxycd", 2, 2, 2),
        ("ababcd", 0, 2, 2),  # the first or the second pair of two
    ],
)
def test_a_run_of_kernels_of_their_own(own: str, first: int, last: int, count: int) -> None:
    (found,) = odd_steps(*steps_of("abcd", "abcd", own, "abcd"), 4)
    assert (found.step, found.first, found.last, found.count) == (2, first, last, count)
    assert len(found.kernels) == len(own)


def test_kernels_that_take_longer_keep_what_their_equals_take() -> None:
    step, kind, length = steps_of("abab", "abab", "abab", "abab")
    length[(step == 1) & (kind == 1)] = 40
    (found,) = odd_steps(step, kind, length, 4)
    assert (found.step, found.count) == (1, 0)
    assert found.keep.tolist() == [1, 0.25, 1, 0.25]
    # More of them, here and there, go as far as the others have none.
    (found,) = odd_steps(*steps_of("abab", "abab", "bbbaaaaa", "abab"), 4)
    assert found.count == 0
    assert found.keep.sum() == pytest.approx(4)


def test_what_call_stacks_have_in_common() -> None:
    outer = "/job/train.py(20): main;\r\n/job/train.py(9): <module>"
    stacks = [f"/job/model.py({line}): forward;\r\n/job/report.py(31): evaluate;\r\n{outer}" for line in (5, 6)]
    assert [(each.file, each.line) for each in common_lines(map(user_lines, stacks))] == [
        ("/job/train.py", 9),
        ("/job/train.py", 20),
        ("/job/report.py", 31),
    ]
    assert common_lines(map(user_lines, [*stacks, "/other/tool.py(3): run"])) == []
