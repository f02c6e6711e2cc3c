"""Sums over ranks that a step could do without: of what is then added, of weights, of what each rank uses a part of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from test_cheaper import Training, passes

from npu_tui.strings import words

Work = Callable[[Training, int], None]


def linears(sums: int) -> Work:
    """Tensor parallelism whose layers sum the gradient of their input ``sums`` times, each after two products."""

    def work(job: Training, number: int) -> None:
        job.ranks = [0, 1]
        for layer in range(4):
            job.run("MatMulV3", 400, trained=f"{number}{layer}1")
            job.collective("hcom_allReduce_", 100, "FP16", 512 * 512)
            job.run("Swish", 20, op="aten::silu", trained=f"{number}{layer}2")
        for layer in reversed(range(4)):
            job.run("SwishGrad", 20, op="SiluBackward0", trained=f"<{number}{layer}2")
            for _ in range(sums):
                for _ in range(2):
                    job.run("MatMulV3", 200, op="MmBackward0", trained=f"<{number}{layer}1")
                job.collective("hcom_allReduce_", 100, "FP16", 512 * 512)

    return work


def after_optimizer(name: str, length: float, count: int) -> Work:
    """Two reductions of gradients, an optimizer, and two collectives of ``count`` numbers after it."""

    def work(job: Training, number: int) -> None:
        job.ranks = [0, 1]
        passes(job, number)
        for _ in range(2):
            job.collective("hcom_allReduce_", 600, "FP16", 1 << 20)
        begin = job.at
        job.run("ApplyAdamWV2", 200, "65536", "65536", "FLOAT", op="aten::adamw", stack="train.py(5): step")
        job.trace.host("Optimizer.step#AdamW.step", begin - 1, job.at - begin + 1)
        for _ in range(2):
            job.collective(name, length, "FP16", count)

    return work


@pytest.mark.parametrize(
    ("work", "gain", "said"),
    [
        (linears(3), 4 * 2 * 100, "8 sums over a tensor-parallel group a step could be joined with the next one"),
        (after_optimizer("hcom_allReduce_", 500, 1 << 20), 2 * 500, "2 sums over ranks a step follow the optimizer"),
        (after_optimizer("hcom_allGather_", 300, 1 << 20), 2 * 300, "a reduce-scatter in place of 2 reductions"),
        (linears(1), 0, ""),
        (after_optimizer("hcom_allReduce_", 500, 1 << 10), 0, ""),
        (after_optimizer("hcom_allGather_", 300, 1 << 10), 0, ""),
    ],
)
def test_sums_that_a_step_does_without_are_told_with_their_gain(
    work: Work, gain: float, said: str, tmp_path: Path
) -> None:
    job = Training()
    for number in range(1, 4):
        job.step(number, work)
    told = [row for row in job.found(tmp_path) if row.id == "COMM.NEEDLESS"]
    assert bool(told) == bool(gain)
    for row in told:
        assert said in words(row.title)
        assert (row.gain_ns or 0) / 1000 == pytest.approx(gain, rel=0.05)
