"""Advice that fits the situation, and a list in the order of the verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from jobs import check, facts_of, job, measured
from msgspec import structs
from test_repetitions import Writer
from troubled import TROUBLED

from npu_tui.analysis.communication import transports_over
from npu_tui.analysis.kernels import Coded
from npu_tui.analysis.limits import Thresholds
from npu_tui.rules import affinity
from npu_tui.rules import find as finding
from npu_tui.rules.compute import computing_is
from npu_tui.rules.dispatch import stage_advice
from npu_tui.rules.facts import Facts
from npu_tui.rules.ladder import climb
from npu_tui.rules.rule import Draft
from npu_tui.strings import words
from npu_tui.trace.once import ValueCache

TYPES, MASKS, OTHERS = "Use types that", "Replace index", "The AI cores have no kernel for these operators"


def typed(trouble: str, types: list[str] | None = None, **texts: str) -> Facts:
    """The facts of a job whose first kernels are of ``types``, and all of them with other ``texts`` in their rows."""
    found = job(trouble)
    facts, table = facts_of(found), found.all_kernels
    names = [table.type.at(row) for row in range(len(table))]
    for item, name in zip(facts.kernels.tolist(), types or [], strict=False):
        names[int(np.flatnonzero(table.item == item)[0])] = name
    rows = {name: Coded.of([text] * len(table)) for name, text in texts.items()}
    return facts_of(found, all_kernels=structs.replace(table, type=Coded.of(names), **rows))


@pytest.mark.parametrize(
    ("kind", "dtypes", "advice"),
    [
        ("NonZero", "INT64", [TYPES, MASKS]),
        ("NonZero", "FLOAT", [MASKS]),
        ("Cumsum", "DOUBLE;INT32", [TYPES]),
        ("Cumsum", "FLOAT", [OTHERS]),
        ("Cumsum", "", [TYPES]),
    ],
)
def test_what_an_operator_on_the_ai_cpu_needs(kind: str, dtypes: str, advice: list[str]) -> None:
    facts = typed("ai_cpu", dtypes=dtypes)
    table = facts.kernel_table
    table.type.values[:] = [kind if name == "NonZero" else name for name in table.type.values]
    draft = check("KERNEL.BOUND", facts)
    assert isinstance(draft, Draft)
    told = [words(each) for each in draft.advice if not words(each).startswith("Use precompiled")]
    assert [text.startswith(start) for text, start in zip(told, advice, strict=True)] == [True] * len(advice)


@pytest.mark.parametrize(
    ("trouble", "starts"), [("healthy", "Compile the model into a graph"), ("compile", "Use precompiled")]
)
def test_dynamic_shapes_ask_for_a_graph_where_nothing_is_compiled(trouble: str, starts: str) -> None:
    row: dict[str, str | None] = {"Name": "k", "Type": "MatMulV2", "Duration(us)": "100", "OP State": "dynamic"}
    draft = check("KERNEL.BOUND", facts_of(job(trouble), kernels=[row]))
    assert isinstance(draft, Draft)
    assert words(draft.advice[-1]).startswith(starts)


def test_a_queue_that_is_off_is_set_first() -> None:
    found = measured(replace(TROUBLED["slow_python"], seed=3))
    assert any("TASK_QUEUE_ENABLE=2" in words(each) for each in stage_advice(facts_of(found)))
    trace = found.trace
    for name in ("enqueue", "dequeue"):
        code = trace.categories.index(name)
        trace.slices.category[trace.slices.category == code] = -1
    trace.known = ValueCache()
    advice = [words(each) for each in stage_advice(facts_of(found))]
    assert advice[0].startswith("Set TASK_QUEUE_ENABLE=1")
    assert not any("TASK_QUEUE_ENABLE=2 to move" in text for text in advice)


def kernel_runs(facts: Facts) -> str:
    draft = check("OP.AFFINITY_KERNEL", facts)
    return words(draft.detail) if isinstance(draft, Draft) else ""


def test_products_of_single_numbers() -> None:
    several = typed("healthy", ["BatchMatMulV2"], outputs="4,8,16")
    single = typed("healthy", ["BatchMatMulV2"], outputs="4,8,1,1")
    assert "[…,1,1]" not in kernel_runs(several)
    assert "[…,1,1]" in kernel_runs(single)
    draft = check("OP.AFFINITY_KERNEL", single)
    assert isinstance(draft, Draft)
    assert draft.severity == "info"  # one kernel of a step
    every = typed("healthy", ["BatchMatMulV2"] * len(single.kernels), outputs="4,8,1,1")
    draft = check("OP.AFFINITY_KERNEL", every)
    assert isinstance(draft, Draft)
    assert draft.severity == "medium"
    assert draft.weight >= every.sums.computing / 2
    assert "BatchMatMuls have an input or a result of shape […,1,1] and take" in words(draft.title)


@pytest.mark.parametrize(
    ("shapes", "fires"),
    [("256,64,1;256,1,1", True), ("256,1,1;256,1,64", True), ("256,64,1;256,1,64", False), ("256,11,1;4,1,12", False)],
)
def test_products_with_single_numbers(shapes: str, fires: bool) -> None:
    """As the backward pass of a product with a single number has them."""
    every = typed("healthy", ["BatchMatMulV2"] * 400, outputs="256,64,64", shapes=shapes)
    assert ("[…,1,1]" in kernel_runs(every)) is fires


@pytest.mark.parametrize(
    ("between", "linear"), [("", True), ("c10d::allreduce_", False), ("c10d::_allgather_base_", False)]
)
def test_a_collective_ends_a_run_of_operations(between: str, linear: bool, tmp_path: Path) -> None:
    writer, at = Writer(), 10.0
    for _ in range(12):
        for name in ("aten::matmul", between, "aten::add", "aten::gelu"):
            if name:
                writer.host(name, at, 8)
                at += 10
        writer.kernel("MatMulV2", at, 400)
        at += 500
    draft = check("OP.AFFINITY_API", facts_of(writer.profile(tmp_path)))
    assert isinstance(draft, Draft)
    said = words(draft.detail)
    assert ("torch.nn.functional.linear" in said) is linear
    assert "in-place" not in said  # GELU has no such form
    assert "fast_gelu" in said or linear


def test_nothing_runs_across_streams() -> None:
    facts = typed("healthy", ["OneHot", "ReduceSum"])
    lanes = facts.trace.slices.lane
    first = int(facts.kernels[0])
    assert "scatter_" in kernel_runs(facts)
    own = int(lanes[first])
    try:
        lanes[first] = next(k for k in range(len(facts.trace.lanes)) if k != own)
        assert "scatter_" not in kernel_runs(typed("healthy", ["OneHot", "ReduceSum"]))
    finally:
        lanes[first] = own


def test_a_linear_is_no_news_to_a_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    for inside, api in ((True, "torch.addmm"), (False, "torch.nn.functional.linear")):
        facts = typed("healthy", ["MatMulV2", "Add", "Relu"])
        launched = np.full(len(facts.trace.slices), inside)
        monkeypatch.setattr(affinity, "_in_linear", lambda facts, launched=launched: launched)
        assert api in kernel_runs(facts)


def test_a_bias_is_added_in_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    for inside, said in ((True, True), (False, False)):  # elsewhere the Add may be a residual
        facts = typed("healthy", ["MatMulV2", "Add", "Mul"])
        launched = np.full(len(facts.trace.slices), inside)
        monkeypatch.setattr(affinity, "_in_linear", lambda facts, launched=launched: launched)
        assert ("MatMulV2 → Add" in kernel_runs(facts)) == said
        assert ("torch.addmm" in kernel_runs(facts)) == said


@pytest.mark.parametrize("trouble", TROUBLED)
def test_no_low_finding_leads_a_high_one(trouble: str) -> None:
    facts = facts_of(job(trouble))
    candidates, _ = finding._candidates(facts)
    lowered = [
        structs.replace(each, draft=structs.replace(each.draft, severity="low"))
        if k % 2 and each.draft.severity != "info"
        else each
        for k, each in enumerate(candidates)
    ]
    for own in (candidates, lowered):
        shown = [each.severity for each in climb(own, facts) if each.verdict is not None]
        assert all("high" not in shown[k + 1 :] for k, each in enumerate(shown) if each == "low")


def test_the_start_of_a_step_is_no_zero() -> None:
    for trouble in TROUBLED:
        draft = check("STEP.START", facts_of(job(trouble)))
        if isinstance(draft, Draft):
            assert " 0 ms" not in words(draft.title) + words(draft.detail)
            assert draft.title.args["time"] > 0


def test_the_verdict_has_the_order_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two devices the finding that gains most leads in both, and each line says whose it is."""
    one, other = facts_of(job("slow_python")), facts_of(job("loader"))
    found = finding.find([one, other])
    leading = [each for each in found.findings if each.severity != "info" and not each.part_of]
    assert leading[0].id == "DATA.LOADER"
    assert words(found.verdict[0]).startswith("device 0: ")
    assert "batch" in words(found.verdict[0])
    assert words(found.verdict[1]).startswith("then device 0: ")
    alone = finding.find([one])
    assert [words(each) for each in alone.verdict] == [words(each) for each in job("slow_python").findings.verdict]


@pytest.mark.parametrize(
    ("link_type", "transport"),
    [("HCCS", "SDMA"), ("HCCS_SW", "SDMA"), ("PCIE", "SDMA"), ("SIO", "SDMA"), ("ROCE", "RDMA"), ("ON_CHIP", None)],
)
def test_what_moves_the_data_over_a_link(link_type: str, transport: str | None) -> None:
    assert transports_over([link_type])[0] == (transport or "")


@pytest.mark.parametrize(
    ("link_type", "limits", "said"),
    [
        ("HCCS", {"small_packet_sdma_mb": 1e6, "contention_gb_s": 1e6}, "SDMA packets"),
        ("ROCE", {"small_packet_rdma_mb": 1e6}, "RDMA packets"),
        ("ROCE", {"retransmission_ms": 1e-3}, "RDMA"),
    ],
)
def test_rules_of_links_ask_for_the_transport(
    link_type: str, limits: dict[str, float], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = job("transfers")
    facts = facts_of(found, thresholds=Thresholds(**limits))
    planes = facts.inputs.planes()
    assert planes is not None
    kinds = [link_type if each == "HCCS" else each for each in planes.links]
    collectives = replace(facts.collectives, moved=structs.replace(facts.collectives.moved, links=kinds))
    other = facts_of(found, thresholds=Thresholds(**limits), planes=structs.replace(planes, links=kinds))
    monkeypatch.setattr(Facts, "collectives", collectives)
    draft = check("COMM.LINK", other)
    assert isinstance(draft, Draft)
    assert said in words(draft.detail)


def test_slow_collectives_over_hccs_beside_products_are_in_contention() -> None:
    found = measured(replace(TROUBLED["transfers"], seed=3, layers=3))
    facts = facts_of(found, thresholds=Thresholds(contention_gb_s=1e6))
    slices, names = facts.trace.slices, facts.trace.names
    assert {row.link_type for each in facts.collectives for row in each.traffic or []} == {"HCCS"}
    products = [k for k in facts.kernels.tolist() if "MatMul" in names[slices.name[k]]]
    beside = [
        each.item
        for each in facts.collectives
        if any(slices.start[k] < slices.end[each.item] and slices.end[k] > slices.start[each.item] for k in products)
    ]
    assert 0 < len(beside) < len(facts.collectives)
    draft = check("COMM.LINK", facts)
    assert isinstance(draft, Draft)
    assert f"{len(beside)} SDMA collectives run below 1e+06 GB/s during a matrix product" in words(draft.detail)
    calm = check("COMM.LINK", facts_of(found, thresholds=Thresholds(contention_gb_s=1e-3)))
    assert not isinstance(calm, Draft) or "multiplication" not in words(calm.detail)


def test_a_product_before_a_collective_saves_no_more_than_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = facts_of(job("transfers"))
    slices = facts.trace.slices
    start = slices.start[[each.item for each in facts.collectives]]
    types = ["Add"] * len(facts.kernels)
    for k, end in enumerate(slices.end[facts.kernels].tolist()):
        if ((start - end >= 0) & (start - end <= 50_000)).any():
            types[k] = "MatMulV2"
    own = typed("transfers", types)
    monkeypatch.setattr(affinity, "is_for", lambda facts, purpose: np.ones(len(facts.collectives), np.bool_))
    found: dict[str, affinity.Saving] = {}
    affinity._all_reduces(own, found)
    (row,) = found.values()
    products = [int(slices.end[first] - slices.start[first]) for first, _, _ in row.places]
    assert row.places
    assert row.saves <= row.time == sum(products)


SQUARE, WIDE = "512,512;512,512", "512,2048;2048,512"


def mixed(dtypes: list[str], shapes: list[str], factors: list[float]) -> Facts:
    """The facts of a job of nothing but products, of these types and shapes by turns, ``factors`` times 100 µs long."""
    found = job("healthy")
    table = found.all_kernels
    count = len(table)
    turns = np.arange(count) % len(dtypes)
    length = (np.array(factors)[turns] * 100_000).astype(np.int64)
    size = np.array([2.0 * 3 * 512 * int(shape.split(",")[1].split(";")[0]) for shape in shapes])[turns]
    rows = {
        "dtypes": Coded.of([dtypes[turn] for turn in turns]),
        "shapes": Coded.of([shapes[turn] for turn in turns]),
        "outputs": Coded.of(["512,512"] * count),
        "type": Coded.of(["MatMulV3"] * count),
        "details": {"Input Shapes": Coded.of([shapes[turn] for turn in turns])},
    }
    return facts_of(found, all_kernels=structs.replace(table, duration=length, bytes=size, **rows))


@pytest.mark.parametrize(
    ("dtypes", "shapes", "factors", "share"),
    [
        (["FLOAT;FLOAT", "DT_BF16;DT_BF16", "DT_BF16;DT_BF16"], [SQUARE] * 3, [3.0, 1.0, 1.0], 1 / 3),
        (["FLOAT;FLOAT"] + ["DT_BF16;DT_BF16"] * 5, [WIDE] + [SQUARE] * 5, [8.0] + [1.0] * 5, 1 / 2),
    ],
)
def test_products_in_float_among_others_take_what_16_bits_take(
    dtypes: list[str], shapes: list[str], factors: list[float], share: float
) -> None:
    """By equal products, and of another shape by the FLOP/s of the others: four times the work, half the time."""
    facts = mixed(dtypes, shapes, factors)
    facts.limits = Thresholds(severity_medium=0.001)
    draft = check("DTYPE", facts)
    assert isinstance(draft, Draft)
    assert draft.title.code == "finding.dtype.title_mixed"
    assert draft.change is not None
    (cut,) = draft.change.tasks
    assert cut.keep == pytest.approx(share, rel=0.01)
    assert len(cut.items) == pytest.approx(len(facts.kernels) / len(dtypes), abs=1)


@pytest.mark.parametrize(
    ("dtypes", "shapes", "factors"),
    [
        (["DT_BF16;DT_BF16"], [SQUARE], [1.0]),
        (["FLOAT;FLOAT", "DT_BF16;DT_BF16"], [SQUARE, SQUARE], [1.0, 1.0]),  # no faster in 16 bits
    ],
)
def test_products_that_gain_nothing_in_16_bits_are_not_told(
    dtypes: list[str], shapes: list[str], factors: list[float]
) -> None:
    draft = check("DTYPE", mixed(dtypes, shapes, factors))
    assert not isinstance(draft, Draft) or draft.title.code == "finding.dtype.title"


def test_a_job_in_float_takes_a_quarter_in_16_bits_at_best() -> None:
    """What little is in 16 bits is no measure for it."""
    facts = mixed(["FLOAT;FLOAT", "FLOAT;FLOAT", "DT_BF16;DT_BF16"], [WIDE, WIDE, SQUARE], [8.0, 8.0, 1.0])
    draft = check("DTYPE", facts)
    assert isinstance(draft, Draft)
    assert draft.title.code == "finding.dtype.title_plain"
    assert draft.change is not None
    assert [cut.keep for cut in draft.change.tasks] == [pytest.approx(1 / 4)]


ODD = "512,510;510,512"


def test_products_of_odd_sides_take_what_others_of_their_type_take() -> None:
    """One side beyond a block: a quarter longer for the same work than the pace of the others."""
    facts = mixed(["DT_BF16;DT_BF16"] * 3, [ODD, SQUARE, SQUARE], [1.25, 1.0, 1.0])
    facts.limits = Thresholds(severity_medium=0.001, small_kernel_us=0.001)
    draft = check("KERNEL.SHAPE", facts)
    assert isinstance(draft, Draft)
    assert draft.change is not None
    (cut,) = draft.change.tasks
    assert cut.keep == pytest.approx(0.8, rel=0.01)
    even = mixed(["DT_BF16;DT_BF16"] * 3, [SQUARE] * 3, [1.25, 1.0, 1.0])
    even.limits = facts.limits
    assert check("KERNEL.SHAPE", even) is None


@pytest.mark.parametrize("around", ["autograd::engine::evaluate_function: ", ""])
def test_what_checkpointing_computes_again_is_told(around: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the function of a checkpoint launches in the backward pass, without what its own backward pass launches."""
    assert not isinstance(check("OP.RECOMPUTE", facts_of(job("healthy"))), Draft)
    found = measured(replace(TROUBLED["healthy"], seed=4))
    trace, prefix = found.trace, "autograd::engine::evaluate_function: "
    counts = np.bincount(trace.slices.name, minlength=len(trace.names))
    often = max((k for k, name in enumerate(trace.names) if name.startswith(prefix + "Addmm")), key=counts.__getitem__)
    trace.names[often] = around + "CheckpointFunctionBackward"
    trace.known = ValueCache()
    draft = check("OP.RECOMPUTE", facts_of(found))
    assert isinstance(draft, Draft)
    assert draft.severity == "low"
    assert "trade of time for memory" in words(draft.detail)
    assert 0 < draft.weight < found.facts[0].sums.computing
    facts = facts_of(found)
    for reserved, choice in ((10, False), (30, True)):  # of 32 GB, or more
        curve = SimpleNamespace(value=np.array([0, reserved << 30]))
        with_memory = SimpleNamespace(curve=lambda _, curve=curve: curve)
        monkeypatch.setattr(type(facts.inputs), "memory", lambda _, given=with_memory: given)
        draft = check("OP.RECOMPUTE", facts)
        assert isinstance(draft, Draft)
        assert (draft.choice, draft.severity == "low") == (choice, choice)
        assert ("half of its memory left" in words(draft.detail)) != choice


def test_a_template_that_dominates_is_told_by_what_launches_it_and_long_names_by_their_ends() -> None:
    """The name of such a kernel says nothing of the operator; two of them differ at their ends alone."""
    every = typed("healthy", ["at::native::elementwise_kernel"] * len(typed("healthy", []).kernels))
    draft = check("OP.DOMINANT", every)
    assert isinstance(draft, Draft)
    assert draft.verdict is not None
    assert words(draft.verdict) == (
        "COMPUTE: at::native::elementwise_kernel takes 100% of the compute time, mostly launched by "
        "aclnnForeachAddListV2."
    )
    long = [f"matmul_of_many_experts_in_four_bits_{number:02}_{'swiglu' * (number % 2)}" for number in range(2)]
    several = typed("healthy", (long * len(every.kernels))[: len(every.kernels)])
    (computing,) = computing_is(several)
    assert "matmul_of_many_exper…four_bits_01_swiglu (" in words(computing)
