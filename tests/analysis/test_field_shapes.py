"""Further shapes of what people's files hold: graph launches alone, tables alone, cycles of marks, other runtimes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.cli.main import main
from npu_tui.output.report import report
from npu_tui.output.report_document import report_document
from npu_tui.profile.profile import Profile
from npu_tui.profile.work_tables import OVERLAP, STEPS
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


def test_numbers_of_batches_that_begin_anew_are_no_cycle(tmp_path: Path) -> None:
    """Three epochs of five batches are 15 iterations."""
    trace = ByHand(gpu=True)
    for k in range(15):
        trace.host(f"train batch {k % 5}", 500.0 * k, 400, cat="user_annotation")
        for n in range(6):
            trace.launch("gemm" if n % 2 else "norm", 500.0 * k + 15 * n, 500.0 * k + 40 + 50 * n, 48)
    (facts,) = profile_at(trace.write(tmp_path)).facts
    assert facts.rhythm is not None
    assert facts.rhythm.count == 15


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


def test_a_collective_across_steps_is_of_both(tmp_path: Path) -> None:
    """Of 2000 us, of which products hide the middle, 500 us lie in the step before: no step has it whole."""
    trace = ByHand()
    for step in range(4):
        begin = 4000.0 * step
        trace.step(step, begin, 4000)
        for k in range(20):
            trace.launch("aclnnMm_MatMulV2_MatMulV2", begin + 2 + 4 * k, begin + 30 + 150 * k, 150)
        trace.group(f"hcom_allReduce__9_{step}_1", begin + 3530, 2000)
    sheet = STEPS.make(profile_at(trace.write(tmp_path)))
    computing, exposed, hidden = (sheet.values(name) for name in ("computing", "not_overlapped", "overlapped"))
    assert set(computing) == {3_000_000}
    assert list(zip(exposed, hidden, strict=True))[:3] == [(500_000, 0), (500_000, 1_500_000), (500_000, 1_500_000)]
    assert sum(exposed) + sum(hidden) == 4 * 2_000_000


def test_steps_within_steps_share_their_time(tmp_path: Path) -> None:
    """Micro steps that the program marks lie within steps of the profiler, which are the unit."""
    trace = ByHand(gpu=True)
    for step in range(4):
        for micro in range(4):
            begin = 4000.0 * step + 1000 * micro
            trace.host(f"micro_step {micro}", begin, 990, cat="user_annotation")
            for k in range(10):
                trace.launch("gemm", begin + 5 + 6 * k, begin + 20 + 95 * k, 95)
        trace.step(step, 4000.0 * step, 4000)
    profile = profile_at(trace.write(tmp_path))
    assert [step.number for step in profile.steps] == [0, 1, 2, 3]
    sheet = STEPS.make(profile)
    assert sum(sheet.values("computing")) == 160 * 95_000
    assert max(sheet.values("computing")) == 40 * 95_000


@pytest.mark.parametrize("model", [False, True])
def test_gaps_within_a_graph_of_streams_or_a_model_lead(tmp_path: Path, model: bool) -> None:
    """The kernels of a graph take turns on two streams; those of a compiled model follow a single call."""
    trace, at = ByHand(), 100.0
    call = f"AscendCL@{'aclmdlExecuteAsync' if model else 'aclmdlRIExecuteAsync'}"
    for _ in range(20):
        trace.launch("Conv2D_0", at - 60, at, 20, call=call, takes=20)
        for n in range(1, 16):
            trace.kernel(f"Conv2D_{n % 3}", at + 50 * n, 20, stream=2 if model or n % 2 == 0 else 3)
        at += 16 * 50 + 10
    verdict = words(profile_at(trace.write(tmp_path)).findings.verdict[0])
    assert "within replayed graphs" in verdict
    assert f"{20 * 15} gaps of 30.00 µs" in verdict


def test_what_the_recording_cut_is_left_out(tmp_path: Path) -> None:
    """Kernels launched before it began, and one that lasts far beyond the next of its stream."""
    trace = ByHand(gpu=True)
    for k in range(50):
        trace.kernel("leftover", 10.0 * k, 9.5)
    for step in range(4):
        begin = 1000 + 2000.0 * step
        trace.step(step, begin, 2000)
        for k in range(20):
            trace.launch("gemm", begin + 5 * k, begin + 20 + 90 * k, 80)
    trace.kernel("broken", 3000, 5e6)
    profile = profile_at(trace.write(tmp_path))
    assert OVERLAP.make(profile).values("computing") == [80 * 80_000]
    assert "broken" in words(profile.findings.verdict[0])
    assert [row.count for row in report(profile).operators] == [80]


def _service(folder: Path) -> Path:
    """Batches of an early service, the last one first; some name no type, and one type is in small letters."""
    events = []
    for k in reversed(range(20)):
        args: dict[str, Any] = {"rid": "3"}
        if k % 5 != 4:
            args |= {"batch_type": "prefill" if k == 0 else "Decode", "batch_size": 2}
        start = 1_727_940_490_000_000 + 2000 * k
        for name, length in (("BatchSchedule", 100), ("modelExec", 800)):
            event = {"ph": "X", "name": name, "pid": 1, "tid": name, "cat": "Execute", "ts": start, "dur": length}
            events.append(event | {"args": args})
    folder.mkdir(exist_ok=True)
    (folder / "chrome_tracing.json").write_text(json.dumps({"traceEvents": events}))
    return folder


def test_batches_without_a_type_are_of_no_kind(tmp_path: Path) -> None:
    profile = profile_at(_service(tmp_path / "out"))
    (engine,) = report(profile).service_engines
    assert (engine.prefill_us, engine.decode_us, engine.unknown_us) == (800, 15 * 800, 4 * 800)


def test_changes_of_states_from_the_middle_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Columns and rows in another order; two requests ran before the first change, and one is never seen waiting."""
    changes = ((0, "", -1), (10, 1, ""), (20, -1, 1), (30, "", -1), (40, "", -1))
    rows = [f"{running},{1_727_940_490_000_000 + time}.0,{waiting}" for time, waiting, running in reversed(changes)]
    (tmp_path / "request_status.csv").write_text("\n".join(["+RUNNING,time,+WAITING", *rows, ""]))
    assert main(["query", str(tmp_path), "select waiting, running from request_status", "--format", "csv"]) == 0
    told = [tuple(line.split(",")) for line in capsys.readouterr().out.split()[1:]]
    assert told == [("0", "1"), ("1", "1"), ("0", "2"), ("0", "1"), ("0", "0")]


def test_a_number_of_a_request_is_one_whether_decimal_or_not(tmp_path: Path) -> None:
    """Tables of one service: where rows without a request stand between, its number is written as a decimal."""
    start = 1_727_940_490_000.0
    (tmp_path / "request.csv").write_text(
        f"http_rid,start_time(ms),execution_time(ms),recv_token_size,reply_token_size\n7,{start},90.0,12,20\n"
    )
    rows = [f"{start + 1},{start + 3},{rid},2000.0" for rid in ("7.0", "")]
    (tmp_path / "request_queue.csv").write_text("\n".join(["start_time(ms),end_time(ms),rid,during_time", *rows, ""]))
    assert [row.rid for row in report(profile_at(tmp_path)).requests] == ["7"]
