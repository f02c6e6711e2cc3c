"""The edge of a recording is not the run: lengths that cannot be, a first step of which a part is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.profile.profile import Profile
from npu_tui.profile.step_tables import OVERLAP
from npu_tui.strings import words

_STEPS, _KERNELS = 5, 40


def _run(gpu: bool, lengths: dict[tuple[int, int], float], kernels: dict[int, int] | None = None) -> ByHand:
    """Steps of 40 kernels of 600 us each, one every ms; those at ``lengths`` are written longer."""
    trace, at = ByHand(gpu), 100.0
    for step in range(_STEPS):
        count = (kernels or {}).get(step, _KERNELS)
        trace.step(step, at, 1000 * count + 500)
        for k in range(count):
            begin = at + 1000 * k + 20
            trace.host("aten::mm", begin, 60)
            length = lengths.get((step, k), 600)
            trace.launch("gemm" if gpu else "aclnnMm_MatMulV2_MatMulV2", begin + 10, begin + 80, length)
        at += 1000 * count + 500
    return trace


def _told(profile: Profile) -> str:
    return " ".join(words(line) for line in profile.findings.verdict)


def _computing(profile: Profile) -> int:
    return int(sum(OVERLAP.make(profile).values("computing")))


@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize("excess", [5_000, 3_000_000])
def test_a_kernel_that_outlasts_the_next_ones_is_left_out(tmp_path: Path, gpu: bool, excess: float) -> None:
    profile = profile_at(_run(gpu, {(2, 7): excess}).write(tmp_path))
    assert _computing(profile) == (_STEPS * _KERNELS - 1) * 600_000
    assert "1 kernel is left out that would last beyond the end of the next one" in _told(profile)
    assert "OP.OUTLIER" not in {finding.id for finding in profile.findings.findings}


@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize("length", [990, 1_300])
def test_a_kernel_that_ends_before_the_next_one_does_counts(tmp_path: Path, gpu: bool, length: float) -> None:
    """It is slow, or the next one was launched before its end, as GPUs do."""
    profile = profile_at(_run(gpu, {(2, 7): length}).write(tmp_path))
    together = max(length + 600, 1_600) if length < 1_000 else 1_600
    assert _computing(profile) == (_STEPS * _KERNELS - 2) * 600_000 + min(together, length + 600) * 1_000
    assert "left out" not in _told(profile)


def test_branches_of_a_graph_may_run_at_once(tmp_path: Path) -> None:
    """The kernels of one launch have its stream, whatever branch they are of."""
    trace = ByHand(gpu=True)
    for k in range(20):
        at = 5000.0 * k + 100
        trace.launch("gemm", at, at + 50, 3000, call="cudaGraphLaunch")
        trace.kernel("norm", at + 200, 500, 2, correlation=k + 1)
        moment = (trace.began + round((at + 200) * 1000)) / 1000
        trace.events.append(
            {"ph": "f", "bp": "e", "cat": "ac2g", "name": "ac2g", "id": k + 1, "pid": 0, "tid": 2, "ts": moment}
        )
    profile = profile_at(trace.write(tmp_path))
    assert not len(profile.device_slices[0].overruns)
    assert _computing(profile) == 20 * 3_000_000


@pytest.mark.parametrize("gpu", [True, False])
def test_a_first_step_of_which_a_part_is_there_is_left_out(tmp_path: Path, gpu: bool) -> None:
    profile = profile_at(_run(gpu, {}, {0: 13}).write(tmp_path))
    assert "Step 0 is left out: it has 13 kernels where the others have 40 or more" in _told(profile)
    facts = profile.facts[0]
    assert [step.number for step in facts.steps] == [1, 2, 3, 4]
    assert facts.sums.computing == 4 * _KERNELS * 600_000


@pytest.mark.parametrize("kernels", [{0: 34}, {0: 13, 3: 15}])
def test_steps_that_differ_are_all_there(tmp_path: Path, kernels: dict[int, int]) -> None:
    profile = profile_at(_run(False, {}, kernels).write(tmp_path))
    assert "left out" not in _told(profile)
    assert len(profile.facts[0].steps) == _STEPS
