"""A pass backward that a later one of the same step repeats."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cheaper import Training, passes

from npu_tui.strings import words


def backward(job: Training, number: int, layers: int, loss: str = "") -> None:
    """The pass backward through the first ``layers`` layers."""
    for layer in reversed(range(layers)):
        job.run("MatMulV3", 400, op="MmBackward0", trained=f"<{number}{layer}{loss}1")


@pytest.mark.parametrize(("shared", "told"), [(True, True), (False, False)])
def test_a_graph_that_two_losses_walk_backward_is_told_with_its_caller(
    tmp_path: Path, shared: bool, told: bool
) -> None:
    """Two micro batches have graphs of their own."""
    job = Training()

    def work(job: Training, number: int) -> None:
        for layer in range(4):
            for loss in ("",) if shared else ("", "aux"):
                job.run("MatMulV3", 400, trained=f"{number}{layer}{loss}1")
        begun = job.at
        backward(job, number, 2, "" if shared else "aux")
        job.trace.add(4001, 4001, "aux.py(15): backward_aux", begun, job.at - begun, cat="python_function", args={})
        backward(job, number, 4)

    for number in range(1, 4):
        job.step(number, work)
    found = [row for row in job.found(tmp_path) if row.id == "OP.BACKWARD"]
    assert len(found) == told
    if told:
        assert "aux.py:15 in backward_aux()" in words(found[0].title)
        assert (found[0].gain_ns or 0) / 1000 == pytest.approx(2 * 400, rel=0.02)


def test_a_single_pass_backward_is_not_told(tmp_path: Path) -> None:
    job = Training()
    for number in range(1, 4):
        job.step(number, passes)
    assert "OP.BACKWARD" not in {row.id for row in job.found(tmp_path)}


@pytest.mark.parametrize("nested", [True, False])
def test_what_nested_checkpoints_compute_once_more_is_told_with_its_caller(tmp_path: Path, nested: bool) -> None:
    """Each layer is computed again in the backward pass, and its part once more."""
    job = Training()

    def again(job: Training, around: str) -> None:
        begun = job.at
        job.run("MatMulV3", 400, op="aten::mm", trained="<")
        for frame in (around, "torch/utils/checkpoint.py(1060): recompute_fn"):
            job.trace.add(4001, 4002, frame, begun - 1, job.at - begun, cat="python_function", args={})

    def work(job: Training, number: int) -> None:
        for layer in range(4):
            job.run("MatMulV3", 400, trained=f"{number}{layer}1")
        for layer in reversed(range(4)):
            for _ in range(1 + nested):
                again(job, "wrap.py(37): run_part")
            job.run("MatMulV3", 900, "512,512;512,300", op="MmBackward0", trained=f"<{number}{layer}1")

    for number in range(1, 4):
        job.step(number, work)
    found = [row for row in job.found(tmp_path, "low") if row.id == "OP.RECOMPUTE"]
    assert [row.severity for row in found] == ["high", "low"][not nested :]
    if nested:
        assert "wrap.py:37 in run_part()" in words(found[0].title)
        assert (found[0].gain_ns or 0) / 1000 == pytest.approx(4 * 400, rel=0.05)


@pytest.mark.parametrize(("before", "told"), [(True, True), (False, False)])
def test_what_is_computed_between_the_passes_without_a_gradient_is_told(
    tmp_path: Path, before: bool, told: bool
) -> None:
    """Statistics of the logits before the pass backward; what is computed behind it belongs to the update."""
    job = Training()

    def entropy(job: Training) -> None:
        for kind in ("LogSoftmaxV2", "ArgMaxV2", "ReduceSum"):
            job.run(kind, 300, op="aten::softmax", stack="actor.py(75): entropy|train.py(2): step")

    def work(job: Training, number: int) -> None:
        for layer in range(4):
            job.run("MatMulV3", 400, trained=f"{number}{layer}1")
        if before:
            entropy(job)
        backward(job, number, 4)
        if not before:
            entropy(job)

    for number in range(1, 4):
        job.step(number, work)
    found = [row for row in job.found(tmp_path) if row.id == "OP.NOGRAD"]
    assert bool(found) == told
    if told:
        assert "actor.py:75 in entropy()" in words(found[0].title)
        assert (found[0].gain_ns or 0) / 1000 == pytest.approx(3 * 300, rel=0.05)
