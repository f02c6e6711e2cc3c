"""Profiles of GPUs: what the device did, who launched it, and what is left out, against figures of TraceLens."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cause_jobs import CAUSES
from kineto_writer import build_gpus
from measured import profile_at

from npu_tui.analysis.code_lines import CodeLine, line_of
from npu_tui.analysis.launches import operation_of
from npu_tui.output.report import report
from npu_tui.output.whatif import whatif
from npu_tui.strings import words
from npu_tui.trace.recorder import launch_links, launched_before

_TRACES = os.environ.get("NPU_TUI_TRACES")


@pytest.mark.skipif(_TRACES is None, reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
@pytest.mark.parametrize(
    ("name", "earlier"), [("gaunernst_bert-small-uncased", 0), ("Falconsai_nsfw", 0), ("Qwen_Qwen1.5", 509)]
)
def test_published_figures(name: str, earlier: int) -> None:
    (path,) = (Path(str(_TRACES)) / "gpu").glob(f"{name}*.json.gz")
    found = profile_at(path)
    (sums,) = found.overlaps
    (published,) = path.parent.glob(f"{name}*.gpu_timeline.csv")
    with published.open() as file:
        ms = {row["type"]: float(row["time ms"]) for row in csv.DictReader(file)}
    assert found.kind == "kineto"
    assert sums.computing / 1e6 == pytest.approx(ms["computation_time"], abs=2e-5)
    assert sums.not_overlapped / 1e6 == pytest.approx(ms["exposed_comm_time"], abs=2e-5)
    assert sums.copies / 1e6 == pytest.approx(ms["exposed_memcpy_time"], abs=2e-5)
    assert (sums.total - sums.free) / 1e6 == pytest.approx(ms["busy_time"], abs=2e-5)
    assert sums.free / 1e6 == pytest.approx(ms["idle_time"], abs=2e-5)
    assert len(launched_before(found.trace)[0]) == earlier


def _slice(category: str, name: str, pid: int, tid: int, start: float, length: float, **args: Any) -> dict[str, Any]:
    head = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
    return head | {"ts": start, "dur": length, "args": args}


def _launched(call: str, made: float, correlation: int, *kernels: tuple[str, str, float, float]) -> Any:
    """A call of the runtime and what it launched; the launch of a graph has no link, as on ROCm."""
    events = [_slice("cuda_runtime", call, 70, 70, made, 4, correlation=correlation)]
    if "Graph" not in call:
        events.append({"ph": "s", "cat": "ac2g", "name": "ac2g", "id": correlation, "pid": 70, "tid": 70, "ts": made})
    for category, name, start, length in kernels:
        events.append(_slice(category, name, 1, 7, start, length, correlation=correlation))
        end = {"ph": "f", "bp": "e", "cat": "ac2g", "name": "ac2g", "id": correlation, "pid": 1, "tid": 7}
        events.append(end | {"ts": start})
    return events


@pytest.mark.parametrize("linked", [True, False])
def test_a_small_trace(tmp_path: Path, linked: bool) -> None:
    """Without links the correlation tells the launches."""
    events = [
        _slice("kernel", "earlier", 1, 7, 0, 20),
        *_launched("hipLaunchKernel", 50, 1, ("kernel", "void gemm<float>(int)", 60, 20)),
        *_launched("hipLaunchKernel", 52, 2, ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(Args<4>)", 70, 30)),
        *_launched("hipMemcpyAsync", 56, 3, ("gpu_memcpy", "Memcpy DtoH", 100, 10)),
        *_launched("hipStreamSynchronize", 60, 4),
        *_launched("hipGraphLaunch", 190, 5, *(("kernel", f"in_graph_{k}", 200 + 22 * k, 20) for k in range(5))),
        _slice("gpu_user_annotation", "range", 1, 7, 60, 250),
        _slice("kernel", "__amd_rocclr_copyBuffer", 1, 7, 310, 5),
    ]
    exchange = next(event for event in events if event["name"].startswith("nccl"))
    events = [event for event in events if linked or event["ph"] == "X"]
    exchange["args"] |= {"Collective name": "allreduce", "In msg nelems": 1024, "dtype": "Float"}
    info = {"rank": 5, "world_size": 8, "pg_config": [{"pg_name": "0", "pg_desc": "dp", "ranks": [1, 5]}]}
    path = tmp_path / "h_1.1.pt.trace.json"
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))
    found = profile_at(path)
    trace = found.trace
    (sums,) = found.overlaps
    assert (trace.rank, found.device) == (5, 1)
    assert found.setup.groups == {"dp": (1, 5)}
    figures = sums.computing, sums.communication, sums.not_overlapped, sums.copies, sums.free
    assert [ns / 1000 for ns in figures] == [120, 30, 20, 15, 100]
    assert sums.total / 1000 == 315 - 60
    assert [trace.name_of(int(item)) for item in launched_before(trace)[0]] == ["earlier"]
    (launches,) = found.dispatch
    assert len(launches.link) == 4, "a graph is one launch"
    (part,) = found.devices
    assert part.split is not None
    late, side, unknown = part.split.sums(found.window)
    floor = launches.floors[0].floor / 1000
    assert late / 1000 == pytest.approx(190 + floor - 110)
    assert (late + side) / 1000 == pytest.approx(98)
    assert unknown / 1000 == 2, "nothing tells what launched the last copy"
    assert np.count_nonzero(found.compute) == 6
    collective = report(found).communication[0]
    assert (collective.type, collective.elapsed_us) == ("ncclDevKernel_AllReduce", 30.0)
    assert found.collectives.size.tolist() == [4096]
    advice = " ".join(words(text) for finding in found.findings.findings for text in finding.advice)
    for npu_only in ("TASK_QUEUE_ENABLE", "torch_npu", "CPU_AFFINITY_CONF", "MINDIE", "torchair"):
        assert npu_only not in advice


@pytest.mark.parametrize("name", ["waits: many short ones", "host: an optimizer on the CPU", "device: copies"])
def test_gains_are_those_of_the_job_without_the_cause(tmp_path: Path, name: str) -> None:
    cause = CAUSES[name]
    profiles = []
    for number, job in enumerate((cause.job, cause.remedy(cause.job))):
        (text,) = build_gpus([replace(rank, paired=True) for rank in job]).values()
        (tmp_path / f"{number}.pt.trace.json").write_bytes(text)
        profiles.append(profile_at(tmp_path / f"{number}.pt.trace.json"))
    before, after = (profile.replays[0][1] for profile in profiles)
    assert before is not None
    assert after is not None
    assert before.trusted
    (lead, *_), steps = profiles[0].findings.findings, cause.job[0].steps
    assert lead.id in cause.leads
    assert lead.gain_ns == pytest.approx((before.recorded - after.recorded) / steps, rel=0.1)
    left = {finding.id for finding in profiles[1].findings.findings if finding.severity != "info"}
    assert left <= {*cause.others}


def test_a_host_that_waits_is_no_work_of_its_line(tmp_path: Path) -> None:
    """A stream holds a kernel back for 5 ms, for what is not recorded, and a copy that blocks the host waits for it."""
    events = [
        *_launched("hipLaunchKernel", 10, 1, ("kernel", "before", 20, 10)),
        *_launched("hipLaunchKernel", 100, 2, ("kernel", "held_back", 5000, 20)),
        _frame("runner.py(7): replay", 110, 5000),
        *_launched("hipMemcpyWithStream", 120, 3, ("gpu_memcpy", "Memcpy HtoD", 5020, 10)),
        *_launched("hipLaunchKernel", 5050, 4, ("kernel", "after", 5060, 20)),
    ]
    next(event for event in events if event["name"] == "hipMemcpyWithStream")["dur"] = 4915
    path = tmp_path / "h_1.1.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = whatif(profile_at(path), ["line runner.py:7 x0"])
    assert found.changes[0].gain_us < 50


@pytest.mark.parametrize("call", ["cuStreamSynchronize", "zeEventHostSynchronize", "cudaMalloc"])
def test_calls_of_other_runtimes(tmp_path: Path, call: str) -> None:
    """The host is in such a call until the kernel is done, or longer."""
    events: list[dict[str, Any]] = []
    for k in range(20):
        at = 2000.0 * k
        events += [*_launched("cudaLaunchKernel", at, 2 * k, ("kernel", "gemm", at + 10, 700))]
        events += [
            _slice("cuda_runtime", call, 70, 70, at + 5, 710 + 990 * (call == "cudaMalloc"), correlation=2 * k + 1)
        ]
    path = tmp_path / "h_1.1.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    wanted = "MEM.ALLOC" if call == "cudaMalloc" else "SYNC.HOST"
    finding = next(finding for finding in profile_at(path).findings.findings if finding.id == wanted)
    assert not any("npu" in words(text).lower() for text in finding.advice)


@pytest.mark.parametrize(
    ("call", "args", "expected"),
    [
        ("cudaStreamSynchronize", {"stream": 13}, "until short is done on Thread 13"),
        ("cudaEventSynchronize", {"stream": -1, "wait_on_stream": 13}, "until short is done on Thread 13"),
        ("cudaDeviceSynchronize", {"stream": -1}, "until short is done"),
    ],
)
def test_what_a_host_waits_for_ends_with_the_wait(tmp_path: Path, call: str, args: Any, expected: str) -> None:
    """A longer kernel of another stream runs on."""
    events: list[dict[str, Any]] = []
    for k in range(5):
        at = 4000.0 * k
        events += _launched("cudaLaunchKernel", at, 3 * k, ("kernel", "long", at + 10, 2500))
        events += _launched("cudaLaunchKernel", at + 20, 3 * k + 1, ("kernel", "short", at + 30, 900))
        events[-2]["tid"] = events[-1]["tid"] = 13
        events += [_slice("cuda_runtime", call, 70, 70, at + 40, 900, correlation=3 * k + 2)]
        events += [_slice("cuda_sync", "Synchronize", 1, args["stream"], at + 40, 899, **args)]
    path = tmp_path / "h_1.1.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    finding = next(finding for finding in profile_at(path).findings.findings if finding.id == "SYNC.HOST")
    assert words(finding.evidence[0].note) == f"the host is blocked, {expected}"


def test_launches_that_torch_npu_makes_up(tmp_path: Path) -> None:
    """Where it knows no call it writes one with the name and the start of the kernel: who was late is unknown."""
    events: list[dict[str, Any]] = []
    for k in range(30):
        made = _launched("Relu_1", 500.0 * k, k // 2, ("kernel", "Relu_1", 500.0 * k, 20))
        made[0] |= {"cat": "privateuse1_runtime", "dur": 0.0}
        events += made if k % 2 == 0 else made[2:]
    path = tmp_path / "msprof_1.1.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = profile_at(path)
    assert found.findings.findings[0].id == "DISPATCH.FREE"
    told = report(found)
    assert told.dispatch.links == 0
    assert "launches are not recorded" in told.verdict[0]
    assert "GPU" not in " ".join(told.verdict)
    assert told.operators[0].type == "Relu"


@pytest.mark.parametrize("category", ["kernel", "collective_comm"])
def test_collectives_that_mspti_records(category: str, tmp_path: Path) -> None:
    """They have a category of their own and names that tell nothing, on a stream that nothing names."""
    streams: dict[str, Any] = {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "NPU stream 7"}}
    events = [streams]
    for k in range(20):
        name = "hcom_allReduce_" if category == "kernel" else "sum over ranks"
        events.append(_slice("kernel", f"MatMulV2_{k}", 0, 7, 1000 * k, 300))
        events.append(_slice(category, f"{name}{k}", 0, 9, 1000 * k + 200, 600))
    path = tmp_path / "h_1.1.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = profile_at(path)
    overlap = report(found).overlap
    assert (overlap.communication_us, overlap.communication_not_overlapped_us) == (20 * 600, 20 * 500)
    assert overlap.computing_us == 20 * 300
    assert [lane.name for lane in found.trace.lanes] == ["NPU stream 7", "NPU stream 9"]


def test_a_graph_of_many_kernels_is_replayed(tmp_path: Path) -> None:
    """The first replay of a graph waits for the copy before it; its kernels follow each other."""
    kernels = [("kernel", f"layer_{k % 4}", 200.0 + 22 * k, 20.0) for k in range(300)]
    events = [
        *_launched("hipMemcpyWithStream", 20, 1, ("gpu_memcpy", "Memcpy HtoD", 24, 100)),
        *_launched("hipGraphLaunch", 150, 2, *kernels),
        *_launched("hipDeviceSynchronize", 7000, 3),
    ]
    events[0]["dur"] = 108
    path = tmp_path / "h_1.1.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    (_, replay), *_ = profile_at(path).replays
    assert replay is not None
    assert (replay.trusted, replay.error, replay.model.missed) == (True, 0.0, 0)
    halved = whatif(profile_at(path), ["kernel layer_1 x0.5"]).changes[0]
    assert (halved.matches, halved.gain_us) == (75, 750.0)


def test_a_trace_of_the_device_alone(tmp_path: Path) -> None:
    """Without any launch all that the device did counts, and who was late is unknown."""
    path = tmp_path / "gpu_only.pt.trace.json"
    kernels = [_slice("kernel", f"kernel_{k % 3}", 0, 7, 100 * k, 10 + k) for k in range(12)]
    path.write_text(json.dumps({"traceEvents": kernels}))
    found = profile_at(path)
    (sums,) = found.overlaps
    assert (sums.computing, sums.total) == (186_000, 1_121_000)
    assert len(launched_before(found.trace)[0]) == 0
    finding = next(finding for finding in found.findings.findings if finding.id == "DISPATCH.FREE")
    assert [words(text) for text in finding.advice] == [
        "Record the launches: ProfilerActivity.CPU among the activities of the profiler."
    ]


def _frame(name: str, start: float, length: float) -> dict[str, Any]:
    return _slice("python_function", name, 70, 70, start, length)


def test_frames_are_code_lines(tmp_path: Path) -> None:
    events = [
        _frame("train.py(9): main", 0, 900),
        _frame("torch/nn/modules/module.py(1743): _call_impl", 40, 700),
        _frame("nn.Module: Block_0", 41, 690),
        _frame("net/block.py(18): forward", 45, 600),
        _frame("enum.py(1266): __hash__", 47, 90),
        _slice("cpu_op", "aten::linear", 70, 70, 46, 100),
        _slice("cpu_op", "aten::addmm", 70, 70, 48, 90),
        *_launched("cudaLaunchKernel", 50, 1, ("kernel", "gemm", 60, 20)),
        *_launched("cudaLaunchKernel", 400, 2, ("kernel", "gemm", 420, 30)),
        *_launched("cudaLaunchKernel", 800, 3, ("kernel", "gemm", 820, 10)),
    ]
    path = tmp_path / "h_1.1.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = profile_at(path)
    trace, outer = found.trace, "train.py(9): main"
    assert trace.stacks == [outer, f"net/block.py(18): forward;\r\n{outer}"]
    kernels = np.flatnonzero(found.compute)
    operation = operation_of(trace, kernels)
    assert [trace.name_of(item) for item in operation] == ["aten::addmm", "cudaLaunchKernel", "cudaLaunchKernel"]
    lines = [line_of(trace, item) for item in kernels.tolist()]
    assert lines == [CodeLine("net/block.py", 18, "forward")] * 2 + [CodeLine("train.py", 9, "main")]
    assert "dispatch.call_lines" in {row.id for row in report(found).not_checked}


def test_the_operation_behind_a_call_that_is_made_up(tmp_path: Path) -> None:
    """The id of its link is that of an operation, which launched the kernel no earlier than it began."""
    events: list[dict[str, Any]] = []
    for k in range(40):
        at = 500.0 * k
        name = f"Relu_{k}"
        operation = {"External id": k + 1} if k % 4 else {}
        events.append(_slice("cpu_op", "aten::relu", 70, 70, at, 60, **operation))
        made = _launched(name, at + 90, k + 1, ("kernel", name, at + 90, 300))
        made[0] |= {"cat": "privateuse1_runtime", "dur": 0.0}
        events += made
    path = tmp_path / "msprof_1.1.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = profile_at(path)
    trace = found.trace
    link = launch_links(trace)
    assert len(link) == 30, "of three in four the operation is known"
    source, target = trace.links.source_slice[link], trace.links.target_slice[link]
    assert {trace.name_of(item) for item in source.tolist()} == {"aten::relu"}
    assert {trace.name_of(item) for item in target.tolist()} == {f"Relu_{k}" for k in range(40) if k % 4}
    assert set((trace.slices.start[target] - trace.slices.start[source]).tolist()) == {90_000}
    told = report(found)
    assert told.dispatch.links == 30
    assert "launches are not recorded" not in " ".join(told.verdict)
    assert not any("Record the launches" in words(advice) for one in found.findings.findings for advice in one.advice)
