"""Work that crosses the boundary of steps, ranges and bubbles is split there; a launch lasts as long as its call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.analysis.device import Window
from npu_tui.cli.main import main
from npu_tui.output.report import report
from npu_tui.profile.parts import Selection
from npu_tui.profile.work_tables import OVERLAP, STEPS
from npu_tui.strings import words


def _steps(path: Path) -> list[tuple[float, ...]]:
    sheet = STEPS.make(profile_at(path))
    columns = [sheet.values(name) for name in ("computing", "not_overlapped", "free")]
    return [tuple(round((value or 0) / 1000, 1) for value in row) for row in zip(*columns, strict=True)]


def _bridged(gpu: bool) -> ByHand:
    """Four steps of 1 ms; two streams take turns, so that the device is busy without a gap."""
    trace = ByHand(gpu)
    for step in range(4):
        begin = 1000.0 * step
        trace.step(step, begin, 1000)
        for k in range(10):
            trace.launch("aclnnMul_Mul_Mul", begin + 2 + 4 * k, begin + 100 + 100 * k, 60)
            trace.launch("aclnnCast_Cast_Cast", begin + 4 + 4 * k, begin + 150 + 100 * k, 60, stream=3)
    return trace


@pytest.mark.parametrize("gpu", [False, True])
def test_computing_that_no_step_interrupts_is_of_all_of_them(tmp_path: Path, gpu: bool) -> None:
    rows = _steps(_bridged(gpu).write(tmp_path))
    assert [row[0] for row in rows] == [1010.0, 1000.0, 1000.0, 1000.0]
    assert {row[2] for row in rows} == {0.0}


def test_every_answer_about_a_step_has_its_own_time(tmp_path: Path) -> None:
    profile = profile_at(_bridged(False).write(tmp_path))
    for step in profile.steps:
        part = profile.part(Selection(step.window, step.number))
        (device,) = OVERLAP.make(part).values("computing")
        assert device == (1_000_000 if step.number else 1_010_000)
        assert report(part).overlap.computing_us == device / 1000


def test_a_long_kernel_is_split_where_the_next_step_begins(tmp_path: Path) -> None:
    trace = ByHand()
    for step in range(3):
        trace.step(step, 1000.0 * step, 1000)
        trace.launch("aclnnMm_MatMulV2_MatMulV2", 1000.0 * step + 2, 1000.0 * step + 10, 700)
    trace.launch("aclnnCast_Cast_Cast", 1500, 1600, 900, stream=3)  # of step 1, until 2500
    assert [row[0] for row in _steps(trace.write(tmp_path))] == [700.0, 1490.0, 210.0]


def test_a_range_within_a_kernel_computes_throughout(tmp_path: Path) -> None:
    path = _bridged(False).write(tmp_path)
    part = profile_at(path).part(Selection(Window(1_460_000, 1_480_000)))
    assert report(part).overlap.computing_us == pytest.approx(20, abs=0.1)


def _read_back(gpu: bool) -> ByHand:
    """After each product a copy to the host, which works for 2 ms; two steps, then the product of a third."""
    trace = ByHand(gpu)
    call = "cudaMemcpyAsync" if gpu else "Memcpy@launch"
    copy: dict[str, Any] = {"call": call} | ({"cat": "gpu_memcpy"} if gpu else {"Task Type": "PCIE_DMA_SQE"})
    names = ("Memcpy DtoH", "Memcpy HtoD") if gpu else ("MEMCPY_ASYNC",) * 2
    for begin in (0.0, 3000.0, 6000.0):
        trace.launch("aclnnMm_MatMulV2_MatMulV2", begin, begin + 10, 500)
        if begin < 6000:
            trace.launch(names[0], begin + 505, begin + 515, 20, **copy)
            trace.host("numpy::sort", begin + 600, 2000, cat="user_annotation")
            trace.launch(names[1], begin + 2700, begin + 2710, 20, **copy)
    return trace


@pytest.mark.parametrize("gpu", [False, True])
def test_a_bubble_around_a_copy_is_the_hosts(tmp_path: Path, gpu: bool) -> None:
    profile = profile_at(_read_back(gpu).write(tmp_path))
    (late,), (side,), (free,) = (OVERLAP.make(profile).values(name) for name in ("host_late", "device_side", "free"))
    assert late == pytest.approx(free, abs=100_000)
    assert late + side == pytest.approx(free)
    assert late > 4_800_000
    told = report(profile)
    assert told.overlap.free_host_late_us == pytest.approx(late / 1000)
    from npu_tui.profile.launch_tables import FREE

    table = FREE.make(profile)
    assert sum(table.values("host_late")) == pytest.approx(late, abs=2)


def _first_uses(gpu: bool, call: str = "", takes: float = 5000.0) -> ByHand:
    """Six launches that load their kernel for so long, then 30 short ones."""
    trace = ByHand(gpu)
    at = 0.0
    for k in range(6):
        trace.launch(f"aclnnOp{k}_Op{k}_Op{k}", at, at + takes + 4, 100, takes=takes, call=call)
        at += takes + 20
    for k in range(30):
        trace.launch("aclnnMul_Mul_Mul", at + 6 * k, at + 120 + 100 * k, 100)
    return trace


@pytest.mark.parametrize(
    ("gpu", "call", "takes"),
    [(False, "", 5000.0), (True, "", 2000.0), (False, "AscendCL@aclmdlRIExecuteAsync", 24000.0)],
)
def test_the_host_is_late_while_a_launch_lasts(tmp_path: Path, gpu: bool, call: str, takes: float) -> None:
    path = _first_uses(gpu, call, takes).write(tmp_path)
    profile = profile_at(path)
    (late,), (free,) = (OVERLAP.make(profile).values(name) for name in ("host_late", "free"))
    assert late == pytest.approx(free, rel=0.02)
    assert late > 5 * (takes - 200) * 1000
    findings = profile.findings.findings
    name = call or ("cudaLaunchKernel" if gpu else "Node@launch")
    assert words(findings[0].title).startswith(name.removeprefix("AscendCL@"))
    owner = _largest(profile)
    assert (owner.kind, owner.name) == ("host", name)
    assert [text.code for text in findings[0].advice] == ["finding.advice.warm_launches"]


def _largest(profile: Any) -> Any:
    (told,) = profile.critical_paths
    return told.owners.owners[0]


def test_a_launch_that_works_at_once_is_made_as_its_line_begins(tmp_path: Path) -> None:
    """A call that goes on for long after its kernel has started was not late."""
    trace = ByHand()
    for k in range(40):
        trace.launch("aclnnMul_Mul_Mul", 6000.0 * k, 6000.0 * k + 8, 5500, takes=5000.0 if k < 6 else 3.0)
    profile = profile_at(trace.write(tmp_path))
    starts = sorted(trace_start for trace_start in profile.trace.links.source_time.tolist())
    (part,) = profile.devices
    assert sorted((part.pairs.launch - profile.dispatch[0].floors[0].floor).tolist()) == pytest.approx(starts)


@pytest.mark.parametrize("high", ["41.3", "50", "75"])
def test_operators_of_a_range_add_up_to_its_computing(tmp_path: Path, high: str) -> None:
    """Kernels of 10 ms, one after the other: the range begins and ends within some of them."""
    trace = ByHand()
    for k in range(10):
        name = ("aclnnMm_MatMulV2_MatMulV2", "aclnnAdd_Add_Add")[k % 2]
        trace.launch(name, 100.0 + 10 * k, 1000.0 + 10_000 * k, 10_000)
    path = str(trace.write(tmp_path))
    out = tmp_path / "report.json"
    assert main(["report", path, "--range", f"4ms..{high}ms", "--format", "json", "-o", str(out)]) == 0
    sections = json.loads(out.read_text())["sections"]
    length = float(high) * 1000 - 4000
    assert sections["overlap"]["computing_us"] == length
    assert sum(row["total_us"] for row in sections["operators"]) == pytest.approx(length)
    assert sum(row["total_us"] for row in sections["kernel_groups"]) == pytest.approx(length)
    assert max(row["max_us"] for row in sections["operators"]) == 10_000
