"""Collectives by any executor: kernels that exchange with other ranks wait for them, and compute nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.opening import open_job
from npu_tui.output.report import report
from npu_tui.strings import words
from npu_tui.trace.kineto import exchanges, is_collective

_AIV = "aiv_all_gather_910b_half"


@pytest.mark.parametrize(
    "name",
    [
        "reduce_scatterAivKernel", "AllReduceAicpuKernel", "aiv_all_reduce_910b_bfloat16_t", "MoeDistributeDispatchV3",
        "aclnnMoeDistributeCombine_MoeDistributeCombine_MoeDistributeCombine", "LcclAllReduce", "shmem_all_to_all",
        "void vllm::cross_device_reduce_1stage<__half, 2>(vllm::RankData*)", "deep_ep::internode::dispatch<8>",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<4>",
    ],
)  # fmt: skip
def test_a_kernel_that_waits_for_ranks_is_a_collective(name: str) -> None:
    assert exchanges(name)
    assert is_collective(name)


@pytest.mark.parametrize(
    "name",
    [
        "aclnnMatmulAllReduce_MatmulAllReduceAicpu_MatmulAllReduce", "AllGatherMatmul", "ReduceSumD", "ScatterUpdate",
        "triton_red_fused_all_reduce_mean_wait_tensor_3", "DispatchFFNCombine", "BroadcastTo", "MoeGatingTopK",
    ],
)  # fmt: skip
def test_what_computes_as_well_is_none(name: str) -> None:
    assert not exchanges(name)


def _beside_hccl(gpu: bool) -> ByHand:
    """Twenty tokens of three layers; the first exchange of each waits 600 us for a rank. Another group has lanes."""
    trace = ByHand(gpu)
    dispatch = "deep_ep::internode_ll::dispatch<true>" if gpu else "aclnnMoeDistributeDispatch_MoeDistributeDispatch"
    at = 100.0
    for token in range(20):
        for layer in range(3):
            wait = 600 if not layer else 0
            trace.launch(dispatch, at - 50, at, 30 + wait)
            trace.launch("aclnnGroupedMatmulV4_GroupedMatmul", at - 40, at + wait + 32, 100)
            at += wait + 140
        if not gpu and token in (0, 10):
            trace.group(f"hcom_allReduce__017_{token}_1", at - 4, 2)
    return trace


@pytest.mark.parametrize("gpu", [False, True])
def test_exchanges_of_tokens_are_communication(tmp_path: Path, gpu: bool) -> None:
    profile = profile_at(_beside_hccl(gpu).write(tmp_path))
    told = report(profile)
    assert told.overlap.computing_us == pytest.approx(60 * 100)
    assert told.overlap.communication_not_overlapped_us == pytest.approx(60 * 30 + 20 * 600, rel=0.01)
    assert {row.type for row in told.operators} == {"aclnnGroupedMatmulV4_GroupedMatmul" if gpu else "GroupedMatmul"}
    exposed = next(each for each in profile.findings.findings if each.id == "COMM.EXPOSED")
    assert "12.00 ms of it is waiting" in words(exposed.detail)
    assert "COMMUNICATION" in words(profile.findings.verdict[0])
    assert "OP.DOMINANT" not in {each.id for each in profile.findings.findings if each.severity != "info"}


def _aiv_alone(slow: bool) -> ByHand:
    """Collectives by kernels on the vector cores, without a lane of their group; a slow rank computes 2 ms more."""
    trace = ByHand()
    at = 100.0
    for _ in range(30):
        work = 2100.0 if slow else 100.0
        trace.launch("aclnnMm_MatMulV2_MatMulV2", at - 50, at, work)
        trace.launch(_AIV, at - 40, at + work + 2, 2130.0 - work)
        at += 2200
    return trace


def test_the_slow_rank_is_told_by_kernels_alone(tmp_path: Path) -> None:
    for rank in range(2):
        _aiv_alone(rank == 1).write(tmp_path, rank)
    job = open_job(tmp_path)
    assert [sum(step.computing for step in rank.steps) for rank in job.ranks] == [3_000_000, 63_000_000]
    first = job_findings(job)[0]
    assert (first.id, first.ranks) == ("RANK.SLOW", (1,))
    assert first.gain_ns == pytest.approx(60_000_000, rel=0.05)
