"""What each owner of the critical paths adds to a step or takes from it: all of them sum to the step's difference."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import opened
from pairs import BASE, compared, profile, replace

from npu_tui.compare.comparison import OwnersUnknown, _rounded
from npu_tui.output.compare_report import Compared, _owners_table
from npu_tui.output.compare_report import compared as typed

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ["dispatch_bound", "healthy", "communication_bound", "kineto", "level0", "msprof_two_devices", "older_chip"]
REAL = [
    "single_card", "text/level1/rank0_ascend_pt", "text/level1/rank1_ascend_pt", "db/level1/rank0_ascend_pt",
    "inference/vllm_decode_full", "gpu/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
]  # fmt: skip


def adds_up(found: Compared) -> None:
    assert found.owners
    assert round(sum(row.delta_us for row in found.owners), 3) == found.step.delta_us
    assert sum(row.delta_ns_times_nm for row in found.owners) == sum(row.delta_ns_times_nm or 0 for row in found.parts)
    for side, steps in (("base_us", found.step.base_us), ("new_us", found.step.new_us)):
        mean = sum(steps) / len(steps)
        assert sum(getattr(row, side) for row in found.owners) == pytest.approx(mean, abs=0.0015)
    for row in found.owners:
        assert round(row.new_us - row.base_us, 3) == row.delta_us
        assert min(row.base_us, row.new_us) >= 0


@pytest.mark.few(4)
@pytest.mark.parametrize(("base", "new"), [*permutations(FIXTURES, 2), *permutations(REAL, 2)])
def test_differences_sum_to_that_of_the_step(base: str, new: str) -> None:
    found = opened(base).compare(opened(new)).data
    assert isinstance(found, Compared)
    adds_up(found)


def test_what_became_slower_is_named() -> None:
    usual = replace(BASE, kernel_ns=18_000, host_op_ns=90_000)
    found = typed(compared(profile(usual), profile(replace(usual, host_op_ns=120_000))))
    adds_up(found)
    assert found.step.delta_us > 0
    first = found.owners[0]
    assert (first.kind, first.doing) == ("host", "launch")
    assert first.delta_us > 0.5 * found.step.delta_us


def test_a_profile_and_itself_differ_in_nothing() -> None:
    found = opened("dispatch_bound").compare(opened("dispatch_bound")).data
    assert isinstance(found, Compared)
    assert [row.delta_us for row in found.owners] == [0] * len(found.owners)
    assert all(row.base_us == row.new_us for row in found.owners)


def test_a_collective_is_the_same_in_every_run() -> None:
    found = opened("communication_bound").compare(opened("level0")).data
    assert isinstance(found, Compared)
    transfers = [row for row in found.owners if row.kind == "transfer"]
    assert [row.name.partition(" ")[0] for row in transfers] == ["hcom_allReduce"]
    assert all(row.base_us and row.new_us for row in transfers)


def test_where_a_side_has_no_path_the_reason_is_told() -> None:
    found = opened("healthy").compare(opened("job4/rank_0_ascend_pt")).data
    assert isinstance(found, Compared)
    assert found.owners == []
    (note,) = [note for note in found.not_checked if note.id == "owners"]
    assert note.reason.startswith("whose the step is: no critical path of new: No launch leads to the device")


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_page_has_the_owners(form: str) -> None:
    found = opened("healthy").compare(opened("dispatch_bound"))
    assert "Whose the step is (critical path)" in getattr(found, form)()
    assert isinstance(found.data, Compared)
    table = _owners_table(found.data)
    *rows, total = table.rows
    assert len(rows) <= 9
    assert round(sum(row.delta_us for row in rows), 3) == round(total.delta_us, 3) == found.data.step.delta_us


def test_owners_of_a_comparison_are_computed_when_they_are_asked_for() -> None:
    found = compared(profile(BASE), profile(replace(BASE, seed=9)))
    assert "owners" not in found.__dict__
    assert not isinstance(found.owners, OwnersUnknown)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=30), st.integers(1, 50), st.integers(-1, 1))
def test_whole_numbers_sum_to_the_mean(times: list[int], count: int, off: int) -> None:
    total = round(sum(times) / count) + off
    whole = _rounded(times, count, total)
    assert sum(whole) == total
    assert all(abs(each - time / count) <= 2 for each, time in zip(whole, times, strict=True))
