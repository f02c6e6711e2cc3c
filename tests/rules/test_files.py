"""Rules that read the files beside a trace: where each speaks and where it keeps silent."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from jobs import Cells, check, facts_of, job, measured
from measured import profile_at
from msgspec.structs import replace
from troubled import TROUBLED

from npu_tui.analysis.collectives import Preprocessing, Transfer
from npu_tui.analysis.kernels import Coded, grouped_flops, product_flops
from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.memory import NEVER, Allocations, MemoryUse, memory_curve
from npu_tui.rules.inputs import Setup, length_of
from npu_tui.rules.ladder import scale_of
from npu_tui.rules.rule import Draft
from npu_tui.strings import words
from npu_tui.trace.once import ValueCache

MB = 1 << 20


def kernel(**cells: str) -> Cells:
    plain = {
        "Name": "k", "Type": "MatMulV2", "Accelerator Core": "AI_CORE", "Duration(us)": "100.0", "Block Dim": "20",
        "Input Shapes": '"128,256;256,512"', "Input Data Types": "FLOAT;FLOAT", "Input Formats": "ND;ND",
        "Output Shapes": '"128,512"', "Output Data Types": "FLOAT", "Output Formats": "ND",
    }  # fmt: skip
    return {**plain, **{key.replace("_", " "): value for key, value in cells.items()}}


def vector(duration: str, **cells: str) -> Cells:
    return kernel(Accelerator_Core="AI_VECTOR_CORE", **{"Duration(us)": duration, "Type": "Add", **cells})


def said(wanted: str, rows: list[Cells], limits: Thresholds | None = None) -> Draft | None:
    draft = check(wanted, facts_of(job("healthy"), thresholds=limits, kernels=rows))
    assert draft is None or isinstance(draft, Draft)
    return draft


def test_blocks_that_do_not_fill_the_cores() -> None:
    full, part = kernel(), kernel(Block_Dim="8")
    draft = said("KERNEL.CORES", [full, part])
    assert draft is not None
    assert draft.severity == "info"
    assert draft.title.args["share"] == pytest.approx(0.5 * (1 - 8 / 20))
    assert said("KERNEL.CORES", [full, full]) is None


def test_cores_by_cycles() -> None:
    cycles = {"aicore_time(us)": "100.0", "aic_total_cycles": str(100 * 1800 * 20)}
    rows = [kernel(**cycles), kernel(**{**cycles, "Block_Dim": "40"}), kernel(**{**cycles, "Block_Dim": "30"})]
    draft = said("KERNEL.CORES", rows, Thresholds(kernel_share=0.05))
    assert draft is not None
    assert draft.title.args["share"] == pytest.approx(0.25 / 3)


def test_64_bit_types_on_the_ai_cpu() -> None:
    slow = kernel(Type="Cumsum", Accelerator_Core="AI_CPU", Input_Data_Types="INT64;FLOAT")
    draft = said("KERNEL.BOUND", [slow, kernel()])
    assert draft is not None
    assert "Cumsum (INT64, FLOAT)" in words(draft.detail)
    draft = said("KERNEL.BOUND", [{**slow, "Input Data Types": "FLOAT"}, kernel(Input_Data_Types="INT64")])
    assert draft is not None
    assert "INT64" not in words(draft.detail)


@pytest.mark.parametrize(
    ("cells", "pipe"),
    [
        ({"aic_mac_ratio": "0.9", "aic_mte2_ratio": "0.5"}, "MAC"),
        ({"aic_mac_ratio": "0.3", "aic_mte2_ratio": "0.5"}, "no pipe"),
    ],
)
def test_what_a_kernel_is_bound_by(cells: dict[str, str], pipe: str) -> None:
    draft = check("KERNEL.PIPE", facts_of(job("healthy"), kernels=[{**kernel(), **cells}]))
    assert isinstance(draft, Draft)
    assert f"{pipe} 100" in words(draft.detail)
    assert "128,256;256,512" in words(draft.detail)


def test_kernels_that_read_are_told_once() -> None:
    facts = facts_of(job("healthy"), kernels=[{**kernel(), "aic_mac_ratio": "0.3", "aic_mte2_ratio": "0.97"}])
    assert check("KERNEL.PIPE", facts) is None
    assert isinstance(check("MEM.BW", facts), Draft)


def test_kernels_without_counters_or_of_many_pipes_are_not_named() -> None:
    assert not facts_of(job("healthy"), kernels=[kernel()]).has("pmu")
    ratios = (("0.9", "0.1"), ("0.1", "0.97"), ("0.1", "0.1"))
    cube = [{**kernel(), "aic_mac_ratio": mac, "aic_mte2_ratio": mte2} for mac, mte2 in ratios]
    mixed = [*cube, {**vector("100.0"), "aiv_vec_ratio": "0.9", "aiv_mte2_ratio": "0.1"}]
    limits = Thresholds(kernel_share=0.3)
    assert check("KERNEL.PIPE", facts_of(job("healthy"), thresholds=limits, kernels=mixed)) is None


def test_vector_kernels_bound_by_the_vector_unit() -> None:
    rows = [{**vector("10.0"), "aiv_vec_ratio": ratio, "aiv_mte2_ratio": "0.2"} for ratio in ("0.9", "0.8")]
    draft = check("KERNEL.PIPE", facts_of(job("healthy"), kernels=rows))
    assert isinstance(draft, Draft)
    assert draft.title.code == "finding.pipes.title.vec"


def test_l2_hits() -> None:
    facts = facts_of(job("healthy"), kernels=[kernel(), kernel()])
    assert not facts.has("l2_cache")
    table = facts.kernel_table
    for rates, speaks in (([30.0, 90.0], True), ([0.9, 0.8], False)):
        found = facts_of(job("healthy"), all_kernels=replace(table, hit_rate=np.array(rates)))
        draft = check("MEM.L2", found)
        assert isinstance(draft, Draft) == speaks


def test_mfu_needs_the_peak() -> None:
    assert not facts_of(job("healthy"), kernels=[kernel()]).has("peak")
    draft = said("MFU", [kernel()], Thresholds(peak_tflops=100.0))
    assert draft is not None
    assert draft.detail.args["share"] == pytest.approx(2 * 128 * 256 * 512 / 100e-6 / 100e12)


@pytest.mark.parametrize(
    ("chip", "kinds", "peak"),
    [
        ("Ascend910B3", "FLOAT16;FLOAT16", 294.912),
        ("ascend910b4-1", "DT_BF16;DT_BF16", 245.76),
        ("Ascend910_9392", "FLOAT16;FLOAT16", 353.8944),
        ("Ascend910B3", "FLOAT;FLOAT", None),
        ("Ascend910B", "FLOAT16;FLOAT16", None),
        ("Ascend910B33", "FLOAT16;FLOAT16", None),
        (None, "FLOAT16;FLOAT16", None),
    ],
)
def test_the_peak_of_a_chip_counts_for_its_type(chip: str | None, kinds: str, peak: float | None) -> None:
    products = [kernel(Input_Data_Types=kinds), kernel(Input_Data_Types="FLOAT;FLOAT")]
    facts = facts_of(job("healthy"), kernels=products, setup=Setup(chip=chip))
    draft = check("MFU", facts) if facts.has("peak") else None
    if peak is None:
        assert draft is None
        return
    assert isinstance(draft, Draft)
    assert draft.detail.args["count"] == 1
    assert draft.detail.args["peak"] == peak
    assert draft.detail.args["share"] == pytest.approx(2 * 128 * 256 * 512 / 100e-6 / (peak * 1e12))


@pytest.mark.parametrize(
    ("inputs", "output", "expected"),
    [
        ("32,64;64,16", "32,16", 2 * 32 * 64 * 16),
        ("64,32;16,64", "32,16", 2 * 32 * 64 * 16),
        ("8,32,64;8,64,16", "8,32,16", 2 * 8 * 32 * 64 * 16),
        ("8,32,64;64,16;16", "8,32,16", 2 * 8 * 32 * 64 * 16),
        ("32;64", "32", math.nan),
        ("a,b;c,d", "32,16", math.nan),
        ("0,64;64,16", "0,16", 0.0),
    ],
)
def test_operations_of_a_product(inputs: str, output: str, expected: float) -> None:
    assert product_flops(inputs, output) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("inputs", "output", "expected"),
    [
        ("96,64;4,64,32;4", "96,32", 2 * 96 * 64 * 32),
        ("10,64;20,64;6,64;64,32;64,32;64,32", "10,32;20,32;6,32", 2 * 36 * 64 * 32),
        ("10,64;20,48;64,32;48,16", "10,32;20,16", 2 * 10 * 64 * 32 + 2 * 20 * 48 * 16),
        ("10,64;20,64;6,64;3,64,32", "36,32", 2 * 36 * 64 * 32),
        ("64,96;96,32;4", "4,64,32", 2 * 96 * 64 * 32),
        ("", "36,32", math.nan),
        ("10,64", "", math.nan),
    ],
)
def test_operations_of_a_grouped_product(inputs: str, output: str, expected: float) -> None:
    assert grouped_flops(inputs, output) == pytest.approx(expected, nan_ok=True)


def test_conversions_by_their_neighbours() -> None:
    there = kernel(Type="TransData", Input_Formats="NCHW", Output_Formats="NC1HWC0", **{"Duration(us)": "50.0"})
    rows = [kernel(Type="Conv2D"), there, there, kernel(Type="Relu")]
    draft = said("OP.FORMAT", rows)
    assert draft is not None
    assert "NCHW → NC1HWC0 between Conv2D and Relu 2× 100" in words(draft.detail)
    assert draft.removes is None  # without a trace it is not known when
    assert said("OP.FORMAT", [kernel(), {**there, "Duration(us)": "2.0"}]) is None


def test_conversions_that_are_not_needed() -> None:
    found = job("healthy")
    (device,) = found.devices
    assert device.slices is not None
    own = np.flatnonzero(device.slices.compute)
    there = kernel(Type="TransData", Input_Formats="NCHW", Output_Formats="NC1HWC0")
    rows = [there if k % 4 == 1 else kernel() for k in range(len(own))]
    table = facts_of(found, kernels=rows).kernel_table
    facts = facts_of(
        found,
        all_kernels=replace(table, item=own, duration=found.trace.slices.end[own] - found.trace.slices.start[own]),
    )
    draft = check("OP.FORMAT", facts)
    assert isinstance(draft, Draft)
    time = facts.length(own[1::4]).sum()
    assert length_of(draft.removes) == time
    assert draft.severity == "high"
    assert scale_of(facts).removed(draft) == pytest.approx(time, rel=0.05)


def test_slow_vector_kernels() -> None:
    large = {"Input Shapes": '"1024,1024"', "Input Data Types": "FLOAT", "Output Shapes": '"1024,1024"'}
    fast, slow = {**vector("10.0"), **large}, {**vector("100.0"), **large}
    draft = said("MEM.VECTOR", [fast] * 8 + [slow])
    assert draft is not None
    assert draft.title.args["count"] == 1
    assert said("MEM.VECTOR", [fast] * 9) is None
    # What seems to move 20 TB/s takes rows of a cache: no memory is so fast, and the others are not slow beside it.
    shapes = {"Input Shapes": '"51200,1024;1024,1024"', "Input Data Types": "FLOAT;FLOAT"}
    cached = {**vector("10.0"), **large, **shapes}
    assert said("MEM.VECTOR", [cached] * 9 + [slow] * 9) is None


def transfer(transport: str, size: float, gb_s: float, packets: tuple[tuple[float, int], ...] = ()) -> Transfer:
    return Transfer(f"hcom_allReduce__{transport}", -1, 0, 10**6, transport, size, round(size / gb_s), 1.0, packets)


def test_packets_and_bandwidth() -> None:
    found = job("healthy")
    nothing = replace(found.inputs.planes(), item=found.inputs.planes().item[:0])
    small = transfer("HCCS", 4e6, 20.0, ((1e6, 4),))
    odd = transfer("SDMA", 40e6 + 4, 20.0, ((40e6 + 4, 1),))
    slow = transfer("RDMA", 64e6, 3.0, ((64e6, 1),))
    draft = check("COMM.PACKETS", facts_of(found, transfers=[small, odd], planes=nothing))
    assert isinstance(draft, Draft)
    assert "SDMA packets" in words(draft.detail)
    assert check("COMM.PACKETS", facts_of(found, transfers=[slow], planes=nothing)) is None
    assert check("COMM.PACKETS", facts_of(found, transfers=[small, odd])) is None  # the plane tasks tell
    draft = check("COMM.BANDWIDTH", facts_of(found, transfers=[odd, slow]))
    assert isinstance(draft, Draft)
    assert "RDMA at 3.0 GB/s" in words(draft.detail)
    assert check("COMM.BANDWIDTH", facts_of(found, transfers=[small, odd])) is None


@pytest.mark.parametrize(("kind", "contended"), [("MatMulV2", True), ("Add", False)])
def test_slow_transfers_beside_products_are_in_contention(kind: str, contended: bool) -> None:
    facts = facts_of(job("healthy"), kernels=[kernel(Type=kind)])
    start = int(facts.kernel_table.start[0])
    slow = replace(transfer("HCCS", 64e6, 3.0, ((64e6, 1),)), start=start, end=start + 1000)
    draft = check("COMM.BANDWIDTH", facts_of(job("healthy"), kernels=[kernel(Type=kind)], transfers=[slow]))
    assert isinstance(draft, Draft)
    assert (draft.title.args["first"].code == "finding.slow_link.contended") == contended


@pytest.mark.parametrize(("size", "speaks"), [(40e6 + 4, True), (512 * 80_000.0, False)])
def test_packets_off_the_grid(size: float, speaks: bool) -> None:
    found = job("healthy")
    nothing = replace(found.inputs.planes(), item=found.inputs.planes().item[:0])
    own = transfer("HCCS", size, 20.0, ((size, 1),))
    assert isinstance(check("COMM.PACKETS", facts_of(found, transfers=[own], planes=nothing)), Draft) == speaks


def test_preprocessing() -> None:
    rows = [Preprocessing("GetNext", 1000, 20_000_000), Preprocessing("Map", None, 5_000_000)]
    draft = check("DATA.PREPROCESS", facts_of(job("healthy"), preprocessing=rows))
    assert isinstance(draft, Draft)
    assert words(draft.title) == "Data preprocessing takes 8.333 ms per step, most of it in GetNext"
    assert len(draft.evidence) == 1
    assert check("DATA.PREPROCESS", facts_of(job("healthy"), preprocessing=rows[1:])) is None
    assert not facts_of(job("healthy")).has("preprocess")


def memory_at_step_ends(held: list[int], reserved: list[int]) -> MemoryUse:
    facts = facts_of(job("healthy"))
    ends = [int(facts.trace.slices.end[each.item]) for each in facts.steps]
    time = np.array(ends[: len(held)], np.int64) - 10
    return MemoryUse(
        (
            memory_curve("PTA", "allocated", time, np.array(held, np.int64) * MB),
            memory_curve("PTA", "reserved", time, np.array(reserved, np.int64) * MB),
        ),
        Allocations(Coded(["aten::cat"], np.zeros(1, np.int64)), np.array([3 * MB]), time[1:2], np.array([NEVER])),
        (),
    )


def test_memory_from_step_to_step() -> None:
    steps = len(facts_of(job("healthy")).steps)
    grows = list(range(100, 100 + 5 * steps, 5))
    limits = Thresholds(growth_fewest=1)
    leaking = memory_at_step_ends(grows, [50 * (k + 1) for k in range(steps)])
    facts = facts_of(job("healthy"), thresholds=limits, memory=leaking)
    draft = check("MEM.LEAK", facts)
    assert isinstance(draft, Draft)
    assert draft.title.args["size"] == 5 * MB
    assert "aten::cat 3.0 MiB" in words(draft.detail)
    draft = check("MEM.GROWTH", facts)
    assert isinstance(draft, Draft)
    assert draft.title.args["size"] == 50 * MB * (steps - 1)
    steady = facts_of(job("healthy"), thresholds=limits, memory=memory_at_step_ends([100] * steps, [100] * steps))
    assert check("MEM.LEAK", steady) is None
    assert check("MEM.GROWTH", steady) is None


def test_not_checked_without_files() -> None:
    missing = dict(job("healthy").findings.not_checked)
    wanted = ("KERNEL.CORES", "KERNEL.PIPE", "MEM.L2", "MFU", "OP.FORMAT", "MEM.VECTOR")
    wanted += ("COMM.PACKETS", "COMM.BANDWIDTH", "DATA.PREPROCESS", "MEM.PRESSURE", "MEM.GROWTH", "MEM.LEAK")
    assert set(wanted) <= set(missing)
    assert "peak_tflops" in words(missing["MFU"])


def test_an_activation_in_place_saves_the_memory_of_its_results_and_no_time() -> None:
    found = measured(TROUBLED["healthy"])
    names = found.trace.names
    names[names.index("aten::gelu")] = "aten::relu"
    found.trace.known = ValueCache()
    begin = int(found.trace.slices.start[found.steps[0].item]) + 1
    made = Coded(["aten::relu", "aten::add"], np.array([0, 0, 1]))
    times = np.full(3, begin, np.int64)
    memory = MemoryUse((), Allocations(made, np.array([3 * MB, 5 * MB, 7 * MB]), times, times + 10), ())
    draft = check("OP.AFFINITY_API", facts_of(found, memory=memory))
    assert isinstance(draft, Draft)
    assert "in place" in words(draft.title)
    assert "saves memory, 8.0 MiB allocated for their results, not time" in words(draft.detail)
    assert "One call can replace" not in words(draft.detail)
    plain = check("OP.AFFINITY_API", facts_of(found))
    assert isinstance(plain, Draft)
    assert "saves memory, not time" in words(plain.detail)


def test_time_before_the_first_kernels_is_told_without_a_trace(tmp_path: Path) -> None:
    """A step that waits for data is 99 % computing by the other columns."""
    header = "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Preparing"
    for preparing, told in ((9_000, True), (700, False)):
        (tmp_path / "step_trace_time.csv").write_text(f"{header}\n0,5,9900,0,0,0,100,{preparing}\n")
        verdict = " ".join(map(words, profile_at(tmp_path).findings.verdict))
        assert "99.0% computing" in verdict
        assert ("the steps take 9.000 ms up to their first kernel" in verdict) is told
        assert ("47.4% of 19.00 ms with it" in verdict) is told


def test_kernels_on_the_ai_cpu_weigh_by_their_time_without_a_trace(tmp_path: Path) -> None:
    header = "Name,Type,Accelerator Core,Start Time(us),Duration(us)"
    rows = [f"k{k},MatMulV2,AI_CORE,{1_000 * k}.0,600" for k in range(9)]
    (tmp_path / "kernel_details.csv").write_text("\n".join([header, *rows, "n,NonZero,AI_CPU,9000.0,4000"]) + "\n")
    lead = profile_at(tmp_path).findings.findings[0]
    assert (lead.id, lead.severity) == ("KERNEL.BOUND", "high")
