"""Advice on communication follows what collectives are for: gradients, tensor parallelism, weights, experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cause import troubled
from cause_jobs import JOB
from device import COMMUNICATION_STREAM, COMPUTE_STREAM
from jobs import by_id, measured
from simulator import _Job
from situations import Situation, Trouble
from test_repetitions import Writer
from workload import CodeLine

from npu_tui.profile.profile import Profile
from npu_tui.rules.model import Finding
from npu_tui.rules.parallelism import BUCKET, PURPOSES, gathered_whole, purposes, unsplit
from npu_tui.strings import words

COMMUNICATION = 5003


class Layers(Writer):
    """Steps of layers, kernels and collectives one after another on the device, in µs."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.number = 0.0, 0
        names = ({"name": "process_name", "tid": 0, "args": {"name": "Communication"}},)
        self.events += [{"ph": "M", "pid": COMMUNICATION} | name for name in names]
        for tid in (1, 2):
            named = {"name": "thread_name", "args": {"name": f"Group {tid - 1} Communication"}}
            self.events.append({"ph": "M", "pid": COMMUNICATION, "tid": tid} | named)

    def compute(self, kind: str, length: float = 300) -> None:
        self.kernel(kind, self.now, length)
        self.now += length + 2

    def wait(self, kind: str, group: int = 1, length: float = 150) -> None:
        """A collective that the next kernel waits for."""
        self.number += 1
        self.slice(f"hcom_{kind}__50{group}_{self.number}_1", COMMUNICATION, group, self.now, length)
        self.now += length + 2

    def step(self, number: int, body: Callable[[Layers], None]) -> None:
        begun = self.now
        body(self)
        self.host(f"ProfilerStep#{number}", begun, self.now - begun - 1)
        self.launch("launch", begun, begun)


def tensor(run: Layers) -> None:
    for _ in range(4):
        run.compute("MatMulV2")
        run.wait("allReduce")
        run.compute("Add", 20)
        run.compute("Gelu", 20)
    for _ in range(4):
        run.compute("MatMulV2Grad")
        run.wait("allReduce")
    run.wait("allReduce", group=2)
    run.compute("ApplyAdam")


def data(run: Layers) -> None:
    """The gradients of every layer are reduced at once, and the next one waits for it."""
    for _ in range(4):
        run.compute("MatMulV2")
    for _ in range(4):
        run.compute("MatMulV2Grad")
        run.wait("allReduce")
    run.compute("ApplyAdam")


def last_bucket(run: Layers) -> None:
    """One bucket, behind the last product of the backward pass."""
    for kind in ("MatMulV2", "Gelu", "GeluGrad", "MatMulV2"):
        run.compute(kind)
    run.wait("allReduce", length=500)
    run.compute("ApplyAdam")


def weights(run: Layers) -> None:
    for kind in ("MatMulV2", "MatMulV2Grad"):
        for _ in range(4):
            run.wait("allGather")
            run.compute(kind)
    run.compute("ApplyAdam")


def sequence(run: Layers) -> None:
    """Sequence parallelism: what is gathered before a product is scattered behind it."""
    for kind in ("MatMulV2", "MatMulV2Grad"):
        for _ in range(4):
            run.wait("allGather")
            run.compute(kind)
            run.wait("reduceScatter")
            run.compute("LayerNorm", 20)


def pipeline(run: Layers) -> None:
    for kind in ("MatMulV2", "MatMulV2Grad"):
        for _ in range(4):
            run.wait("receive")
            run.compute(kind)


@pytest.mark.parametrize(
    ("body", "purpose", "advice", "fused"),
    [
        (tensor, "tensor", "MatmulAllReduce", True),
        (data, "gradients", "bucket_cap_mb", False),
        (last_bucket, "gradients", "bucket_cap_mb", False),
        (weights, "weights", "forward_prefetch", False),
        (sequence, "tensor", "MatmulAllReduce", False),
        (pipeline, "pipeline", "micro-batches", False),
    ],
)
def test_advice_is_about_the_kind_of_collective(
    tmp_path: Path, body: Callable[[Layers], None], purpose: str, advice: str, fused: bool
) -> None:
    run = Layers()
    for number in range(3):
        run.step(number, body)
    profile = run.profile(tmp_path)
    (facts,) = profile.facts
    group = facts.trace.slices.lane[facts.collectives.item]
    assert {PURPOSES[kind] for kind in purposes(facts)[group == group[0]].tolist()} == {purpose}
    found = by_id(profile.findings)
    first = words(found["COMM.EXPOSED"].advice[0])
    assert advice in (first if not found["COMM.EXPOSED"].leads else " ".join(map(words, found["COMM.EXPOSED"].advice)))
    kernels = words(found["OP.AFFINITY_KERNEL"].detail) if "OP.AFFINITY_KERNEL" in found else ""
    assert ("npu_mm_all_reduce_base" in kernels) is fused
    assert "functional.linear" not in kernels  # an all-reduce lies between product and bias


def test_inference_of_tensor_parallelism(tmp_path: Path) -> None:
    def body(run: Layers) -> None:
        for _ in range(4):
            run.compute("MatMulV2")
            run.wait("allReduce")

    run = Layers()
    for number in range(3):
        run.step(number, body)
    advice = " ".join(map(words, by_id(run.profile(tmp_path).findings)["COMM.EXPOSED"].advice))
    assert "MatmulAllReduce" in advice
    assert "bucket_cap_mb" not in advice


@pytest.mark.parametrize(("trained", "says"), [(False, "fuse_conv_bn_eval"), (True, "graph mode (training")])
def test_convolutions_are_folded_for_inference_only(tmp_path: Path, trained: bool, says: str) -> None:
    def body(run: Layers) -> None:
        for _ in range(4):
            run.compute("Conv2D")
            run.compute("BatchNorm")
        if trained:
            run.compute("Conv2DBackpropFilter")

    run = Layers()
    for number in range(3):
        run.step(number, body)
    assert says in words(by_id(run.profile(tmp_path).findings)["OP.AFFINITY_KERNEL"].detail)


def test_sums_behind_the_bias_of_a_product_are_no_gradients() -> None:
    tensor = replace(JOB, tensor_parallel=True, token_bytes=400_000, steps=2)
    (facts,) = measured(tensor).facts
    group = facts.trace.slices.lane[facts.collectives.item]
    purpose = [PURPOSES[kind] for kind in purposes(facts).tolist()]
    assert set(zip(group.tolist(), purpose, strict=True)) == {(10, "tensor"), (15, "gradients")}


def test_uneven_experts_are_balanced_and_a_late_rank_is_profiled() -> None:
    experts = replace(JOB, experts=True, token_bytes=2_000_000, layers=4, kernel_ns=150_000)
    hot = by_id(measured(replace(experts, trouble=Trouble(hot_expert=2, hot_percent=400))).findings)
    assert "tokens of each expert" in words(hot["COMM.STRAGGLER"].advice[0])
    assert not any("Profile rank" in words(text) for text in hot["COMM.STRAGGLER"].advice)
    late = by_id(measured(replace(experts, trouble=Trouble(late_peer=2, late_peer_ns=3_000_000))).findings)
    assert "Profile rank 2" in words(late["COMM.STRAGGLER"].advice[0])


def test_what_shows_in_every_step_is_not_said_of_the_first_places_only(tmp_path: Path) -> None:
    def body(run: Layers) -> None:
        for kind in ("MatMulV2", "Add", "TransData", "SoftmaxV2"):
            for _ in range(3):
                run.compute(kind)

    run = Layers()
    for number in range(7):
        run.step(number, body)
    found = by_id(run.profile(tmp_path).findings)
    for name in ("OP.DOMINANT", "OP.MOVES", "OP.AFFINITY_KERNEL"):
        if name in found:
            assert found[name].steps == tuple(range(7)), name
    assert "OP.MOVES" in found


def test_sums_of_tensor_parallelism_come_after_what_is_at_fault() -> None:
    sums = replace(JOB, tensor_parallel=True, token_bytes=40_000_000, layers=3)
    only, held = (climbing(job) for job in (sums, troubled(sums, setup_ns=4_000_000)))
    assert [each.id for each in only] == ["COMM.EXPOSED"]
    assert [each.id for each in held][:2] == ["HOST.WORK", "COMM.EXPOSED"]
    assert 0 < (held[0].gain_ns or 0) < (held[1].gain_ns or 0)
    assert (held[0].severity, held[1].severity, held[1].by_design) == ("high", "medium", True)


def climbing(job: Situation) -> list[Finding]:
    """What shortens the step, in its order."""
    return [each for each in measured(job).findings.findings if each.gain_ns and each.severity in ("high", "medium")]


def test_gradients_summed_after_the_pass_as_well_go_along_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sums some gradients by hand when the pass is over loses as much, whatever the pass sums itself."""
    job = replace(JOB, layers=6, kernel_ns=900_000, gradient_bytes=8_000_000, steps=3)
    usual = measured(job)
    backward = _Job._backward

    def and_by_hand(run: _Job, reduce: bool) -> None:
        backward(run, reduce)
        for _ in range(6):
            run._collective(run.main, "c10d::allreduce_", "allReduce", 60_000_000)
        run._event(run.main, COMMUNICATION_STREAM, COMPUTE_STREAM)

    monkeypatch.setattr(_Job, "_backward", and_by_hand)
    late = measured(job)
    before, longer = (_step_of(profile) for profile in (usual, late))
    found = by_id(late.findings)["COMM.EXPOSED"]
    assert found.gain_ns == pytest.approx(longer - before, rel=0.2)  # but for the last bucket, which nothing hides
    assert "7 of 12 reductions of gradients a step begin only when the backward pass is over" in words(found.title)
    assert "7 of 12 reductions" in words(found.detail)  # the last bucket of the pass is one of them
    assert not unsplit(usual.facts[0])


def _step_of(profile: Profile) -> float:
    """How long a step is from the first kernel to the last one, ns."""
    starts = profile.facts[0].repetitions
    return float((starts[-1] - starts[0]) / (len(starts) - 1))


def test_gathers_that_nothing_goes_along_with_start_when_their_layer_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    gather = _Job._gather

    def asked_for(run: _Job, layer: int) -> None:
        with run._at(CodeLine("/work/zero.py", 12, "fetch")):
            gather(run, layer)

    monkeypatch.setattr(_Job, "_gather", asked_for)
    late, ahead = (
        by_id(measured(replace(JOB, layers=5, gradient_bytes=60_000_000, sharded=sharded)).findings).get("COMM.EXPOSED")
        for sharded in ("late", "ahead")
    )
    assert late is not None
    assert words(late.title).startswith("5 gathers of weights a step start only when their layer is due")
    assert "The pass forward gathers at zero.py:12 in fetch()." in words(late.detail)
    assert [line.line for line in late.code_lines] == [12]
    assert ahead is None or ahead.title.code == "finding.exposed.title"


def test_one_gather_of_all_weights_goes_along_with_the_next_pass_but_for_a_bucket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a distributed optimizer makes it after its step; a second one is a gather of layers."""
    job, backward = replace(JOB, layers=6, kernel_ns=900_000, gradient_bytes=8_000_000, steps=3), _Job._backward
    told = []
    for count in (1, 2):

        def and_gathers(run: _Job, reduce: bool, count: int = count) -> None:
            backward(run, reduce)
            for _ in range(count):
                run._collective(run.main, "c10d::_allgather_base_", "allGather", 200_000_000)
                run._event(run.main, COMMUNICATION_STREAM, COMPUTE_STREAM)

        monkeypatch.setattr(_Job, "_backward", and_gathers)
        profile = measured(job)
        facts, found = profile.facts[0], by_id(profile.findings)["COMM.EXPOSED"]
        told.append("All weights are gathered in 1 collective a step" in words(found.title))
        whole = gathered_whole(facts)
        assert len(whole) == (facts.count if count == 1 else 0)
        if count == 1:
            gathers = facts.length(facts.collectives.item[whole]).sum() / facts.count
            assert found.gain_ns is not None
            assert 0.5 * gathers < found.gain_ns < (1 - BUCKET / 200_000_000) * gathers * 1.1
            assert "gather_in_parts" in found.advice[0].code
    assert told == [True, False]
