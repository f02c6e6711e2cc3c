"""The edge of a recording is not the run: lengths that cannot be, a first step of which a part is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.profile.profile import Profile
from npu_tui.profile.work_tables import OVERLAP
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


@pytest.mark.parametrize("early", [0, 3])
def test_kernels_that_begin_before_their_launch_set_no_clock(tmp_path: Path, early: int) -> None:
    """A GPU has the clock of its host: what begins before its launch has a wrong time, and others came no sooner."""
    trace = ByHand(gpu=True)
    for k in range(120):
        at = 1000.0 * k + 100_000
        trace.host("aten::mm", at, 30)
        trace.launch("gemm", at + 5, at + 40 - (6000 if k < early else 0), 300)
    profile = profile_at(trace.write(tmp_path))
    sums = OVERLAP.make(profile)
    free, late = (int(sum(sums.values(column))) for column in ("free", "host_late"))
    assert late > 0.9 * free
    assert profile.facts[0].floor <= 35_000


def test_a_wait_on_an_idle_gpu_moves_no_clock(tmp_path: Path) -> None:
    """Each step ends with a wait of 1.8 ms that begins when the device has long been done."""
    trace = ByHand(gpu=True)
    for step in range(5):
        at = 10_000.0 * step + 100
        trace.step(step, at, 9_900)
        for k in range(8):
            trace.host("aten::mm", at + 1000 * k, 50)
            trace.launch("gemm", at + 1000 * k + 5, at + 1000 * k + 60, 300)
        trace.call("cudaDeviceSynchronize", at + 8_000, 1_800)
    profile = profile_at(trace.write(tmp_path))
    assert profile.facts[0].floor <= 55_000
    assert "waits for every kernel" not in _told(profile)


@pytest.mark.parametrize("gpu", [True, False])
def test_whose_setting_makes_a_host_wait(tmp_path: Path, gpu: bool) -> None:
    """Operations return when their kernel ends, whatever its length: the variable is that of the device."""
    trace, at = ByHand(gpu), 100.0
    for k in range(200):
        length = (50, 900, 120, 400)[k * k % 4 if k % 3 else k % 4]
        trace.host("aten::mm", at, 20 + length)
        trace.launch("gemm" if gpu else "aclnnMm_MatMulV2_MatMulV2", at + 5, at + 12, length)
        if not gpu:
            ns = [trace.began + round(time * 1000) for time in (at, at + 12)]
            link = {"cat": "async_npu", "name": "torch_to_npu", "id": str(k), "bp": "e"}
            for phase, (pid, tid), moment in (("s", (4001, 4001), ns[0]), ("f", (3, 2), ns[1])):
                moment_text = f"{moment // 1000}.{moment % 1000:03d}"
                trace.events.append(link | {"ph": phase, "pid": pid, "tid": tid, "ts": moment_text})
        at += length + 60
    profile = profile_at(trace.write(tmp_path))
    said = _told(profile) + " ".join(words(text) for each in profile.findings.findings for text in each.advice)
    assert "as with CUDA_LAUNCH_BLOCKING=1" in said if gpu else "as with ASCEND_LAUNCH_BLOCKING=1" in said
    assert ("ASCEND" in said) != gpu
    assert ("Unset what makes launches wait" in said) == gpu
