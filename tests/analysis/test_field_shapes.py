"""Further shapes of what people's files hold: graph launches alone, tables alone, cycles of marks, other runtimes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.output.report import report
from npu_tui.output.report_document import report_document
from npu_tui.profile.profile import Profile
from npu_tui.profile.step_tables import OVERLAP
from npu_tui.strings import words


def _advice(profile: Profile) -> str:
    return " ".join(words(text) for each in profile.findings.findings for text in each.advice)


@pytest.mark.parametrize(("gpu", "call"), [(True, "hipGraphLaunch"), (False, "AscendCL@aclmdlRIExecuteAsync")])
def test_a_host_that_only_launches_graphs_is_late_while_each_call_lasts(tmp_path: Path, gpu: bool, call: str) -> None:
    """No call is short, so that none shows what a launch usually takes; each graph starts as its launch returns."""
    trace, at = ByHand(gpu), 0.0
    for _ in range(12):
        trace.launch("gemm", at, at + 2504, 40, call=call, takes=2500)
        key = trace.events[-1]["id"]
        for n in range(1, 15):
            trace.kernel(f"gemm_{'abc'[n % 3]}", at + 2504 + 41 * n, 40, **({"correlation": key} if gpu else {}))
        at += 3200
    profile = profile_at(trace.write(tmp_path))
    (late,), (free,) = (OVERLAP.make(profile).values(name) for name in ("host_late", "free"))
    assert late == pytest.approx(free, rel=0.02)
    assert words(profile.findings.findings[0].title).startswith(call.rpartition("@")[2])


def test_collectives_on_the_ai_cpu_are_named(tmp_path: Path) -> None:
    trace = ByHand()
    for k in range(30):
        at = 1000.0 * k
        trace.launch("aclnnMm_MatMulV2_MatMulV2", at, at + 20, 400)
        trace.launch("hcom_allGather_AicpuKernel", at + 5, at + 425, 300, **{"Task Type": "AI_CPU"})
    profile = profile_at(trace.write(tmp_path))
    assert len(profile.collectives) == 30
    assert report(profile).overlap.communication_not_overlapped_us == 9000
    assert [row.type for row in report(profile).operators] == ["MatMulV2"]


def _summary_of_experts(folder: Path, device: int = 0) -> Path:
    """Twelve tokens of four layers in op_summary alone; the first exchange of each token waits 700 us."""
    out = folder / f"PROF_00000{device}_A" / "mindstudio_profiler_output"
    out.mkdir(parents=True)
    header = "Device_id,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Block Dim"
    rows, at = [], 1_790_000_000_000_000
    for k in range(48):
        wait = 0 if k % 4 else 700
        for name, length in (
            ("MoeDistributeDispatchV2", 50 + wait), ("GroupedMatmul", 90), ("MoeDistributeCombineV2", 50),
        ):  # fmt: skip
            core = "AI_CORE" if name == "GroupedMatmul" else "MIX_AIV"
            rows.append([device, len(rows), 2, f"{name}_{k}", name, core, f"{at}.000\t", length, 24])
            at += length + 1
    with (out / "op_summary_20261001.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return out


def test_kernels_that_wait_are_told_by_tables_alone(tmp_path: Path) -> None:
    profile = profile_at(_summary_of_experts(tmp_path).parents[1])
    verdict = words(profile.findings.verdict[0])
    assert "MoeDistributeDispatchV2" in verdict
    assert "8.400 ms is beyond" in verdict
    (computing,) = OVERLAP.make(profile).values("computing")
    assert computing == 48 * 90_000


def _tokens(marked: bool) -> ByHand:
    """Five passes of six layers, each of four launches; the host does nothing for 3 ms between them."""
    trace, at = ByHand(gpu=True), 0.0
    for _ in range(5):
        for layer in range(6):
            if marked:
                trace.host(f"layer_{layer}", at, 80, cat="user_annotation")
            for n in range(4):
                trace.launch("gemm" if n % 2 else "norm", at + 15 * n, at + 40 + 15 * n, 14)
            at += 85
        at += 3000
    return trace


@pytest.mark.parametrize("marked", [True, False])
def test_a_pass_of_layers_is_what_repeats(tmp_path: Path, marked: bool) -> None:
    (facts,) = profile_at(_tokens(marked).write(tmp_path)).facts
    assert facts.rhythm is not None
    assert facts.rhythm.count == 5


def test_pauses_are_those_that_count(tmp_path: Path) -> None:
    """Of 120 gaps four are pauses of the host; the others are a microsecond between two kernels."""
    profile = profile_at(_tokens(False).write(tmp_path))
    (pause,) = [each for each in profile.findings.findings if each.id == "HOST.PAUSE"]
    assert words(pause.detail).startswith("4 pauses")
    assert len(pause.evidence) == 4


def _of_runtime(category: str, launch: str, wait: str) -> list[dict[str, Any]]:
    """Operations that return before their kernel ends, in steps that end with a wait."""
    events: list[dict[str, Any]] = []
    host: dict[str, Any] = {"ph": "X", "pid": 7, "tid": 7}
    for k in range(80):
        at, key = 100.0 * k, {"correlation": k}
        if k % 20 == 0:
            events.append(host | {"cat": "user_annotation", "name": f"ProfilerStep#{k // 20}", "ts": at, "dur": 2000})
        events.append(host | {"cat": "cpu_op", "name": "aten::mm", "ts": at, "dur": 30})
        events.append(host | {"cat": category, "name": launch, "ts": at + 5, "dur": 10, "args": key})
        device = {"ph": "X", "pid": 0, "tid": 4, "cat": "kernel", "name": "gemm", "ts": at + 20, "dur": 60}
        events.append(device | {"args": key | {"device": 0, "stream": 4}})
        link = {"cat": "ac2g", "name": "ac2g", "id": k}
        events.append(link | {"ph": "s", "pid": 7, "tid": 7, "ts": at + 5})
        events.append(link | {"ph": "f", "pid": 0, "tid": 4, "ts": at + 20, "bp": "e"})
        if k % 20 == 19:
            wait_of = {"cat": category, "name": wait, "ts": at + 40, "dur": 42, "args": {"correlation": 1000 + k}}
            events.append(host | wait_of)
    return events


@pytest.mark.parametrize(
    ("category", "launch", "wait"),
    [
        ("xpu_runtime", "urEnqueueKernelLaunch", "urQueueFinish"),
        ("musa_runtime", "musaLaunchKernel", "musaDeviceSynchronize"),
    ],
)
def test_other_runtimes_get_no_setting_of_cuda(tmp_path: Path, category: str, launch: str, wait: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": _of_runtime(category, launch, wait)}))
    profile = profile_at(path)
    said = str(report_document(report(profile))) + _advice(profile)
    assert "CUDA_LAUNCH_BLOCKING" not in said
    assert "waits for every kernel" not in said
    assert not [each for each in profile.findings.findings if f"{wait} holds up" in words(each.title)]


def test_a_trace_of_the_host_alone_is_pytorchs(tmp_path: Path) -> None:
    trace = ByHand(gpu=True)
    for k in range(40):
        trace.host("aten::mm" if k % 2 else "aten::add", 50.0 * k, 45)
    profile = profile_at(trace.write(tmp_path))
    assert profile.kind == "kineto"
    assert "host alone" in words(profile.findings.verdict[0])
    assert [(row.name, row.total_us) for row in report(profile).names] == [("aten::add", 900), ("aten::mm", 900)]


def test_msprof_is_not_told_settings_of_torch(tmp_path: Path) -> None:
    profile = profile_at(_summary_of_experts(tmp_path).parents[1])
    said = str(report_document(report(profile)))
    assert "msprof --task-memory=on" in said
    assert "profile_memory=True)" not in said
    assert "activities" not in said


def test_mindspore_is_not_told_functions_of_torch(tmp_path: Path) -> None:
    trace = ByHand()
    for step in range(5):
        trace.step(step, 6000.0 * step, 6000)
        for k in range(10):
            trace.launch("MatMul", 6000.0 * step + 20 * k, 6000.0 * step + 20 + 100 * k, 95)
    path = trace.write(tmp_path)
    folder = path.rename(path.with_name("host_123_20260101_ascend_ms"))
    profile = profile_at(folder)
    assert profile.writer == "mindspore"
    assert "record_function" not in _advice(profile)
    assert "gc_detect_threshold" not in _advice(profile)


@pytest.mark.parametrize(("gpu", "call"), [(True, "hipDeviceSynchronize"), (False, "AscendCL@aclrtSynchronizeDevice")])
def test_a_wait_that_outlasts_the_device_is_named(tmp_path: Path, gpu: bool, call: str) -> None:
    """The device is done within half a millisecond, and each wait lasts for twelve."""
    trace, at = ByHand(gpu), 0.0
    for _ in range(6):
        for _ in range(12):
            trace.launch("gemm" if gpu else "aclnnMm_MatMulV2_MatMulV2", at, at + 8, 22)
            at += 30
        trace.call(call, at, 12_000)
        at += 12_050
    profile = profile_at(trace.write(tmp_path))
    first = profile.findings.findings[0]
    assert first.id == "SYNC.HOST"
    assert words(first.title).startswith(f"{call.rpartition('@')[2]} blocks the host while the device does nothing")
    assert first.gain_ns == pytest.approx(12_000_000 * 5 / 6, rel=0.01)


def test_a_capture_says_what_blocks_the_host(tmp_path: Path) -> None:
    """Work from before the recording: the first call waits for it, and nothing of it is in the trace."""
    trace = ByHand(gpu=True)
    trace.call("cudaDeviceSynchronize", 0, 30_000)
    trace.launch("gemm", 30_100, 30_110, 20)
    trace.call("cudaStreamBeginCapture", 30_200, 5)
    for k in range(400):
        trace.call("cudaLaunchKernel", 30_210 + 50 * k, 10)
    trace.call("cudaStreamEndCapture", 50_300, 50)
    lines = [words(line) for line in profile_at(trace.write(tmp_path)).findings.verdict]
    assert lines[0].startswith("A graph is captured")
    assert "blocked in cudaDeviceSynchronize for 30.00 ms" in lines[1]


@pytest.mark.parametrize("gpu", [True, False])
def test_what_is_known_of_kernels_far_from_their_launches(tmp_path: Path, gpu: bool) -> None:
    """On a GPU both have one clock: a file in which kernels of a graph come in one burst at the end tells no more."""
    trace = ByHand(gpu)
    call = "cudaGraphLaunch" if gpu else "AscendCL@aclmdlRIExecuteAsync"
    for step in range(8):
        begin = 10_000.0 * step
        start = begin + 260 if step < 3 else 80_000 + 1_500.0 * step
        trace.step(step, begin, 10_000)
        trace.launch("embed", begin + 5, begin + 20, 100)
        trace.launch("gemm", begin + 200, start, 50, call=call, takes=20)
        key = trace.events[-1]["id"]
        for n in range(1, 20):
            trace.kernel(f"g{n % 4}", start + 52 * n, 50, **({"correlation": key} if gpu else {}))
    jump = profile_at(trace.write(tmp_path)).clock_jump
    assert jump is not None
    assert ("or their times are wrong" in words(jump)) == gpu
