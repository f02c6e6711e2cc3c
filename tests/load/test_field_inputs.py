"""Inputs as they are passed on: tables under any name, one operator, old Kineto, times that do not fit."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.cli.main import main
from npu_tui.load.load import load
from npu_tui.profile.work_tables import OVERLAP
from npu_tui.strings import words
from npu_tui.trace.model import Trace

_HEADER = (
    "Device_id,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Task Wait Time(us)"
)


def _summary(file: Path, devices: tuple[int, ...] = (0,)) -> Path:
    rows = [
        f"{device},{k},7,Add_{k},Add,AI_VECTOR_CORE,{1_790_000_000_000_000 + 500 * k}.25\t,120.5,0"
        for device in devices
        for k in range(8)
    ]
    file.write_text("\n".join([_HEADER, *rows, ""]))
    return file


@pytest.mark.parametrize(
    ("name", "devices"), [("op_summary.csv", (0,)), ("kernels of monday.csv", (3,)), ("op_summary_all.csv", (0, 1))]
)
def test_a_table_of_kernels_is_read_under_any_name(tmp_path: Path, name: str, devices: tuple[int, ...]) -> None:
    file = _summary(tmp_path / name, devices)
    for path in (file, tmp_path):
        assert sum(OVERLAP.make(profile_at(path)).values("computing")) == 8 * 120_500 * len(devices)


def _of_2020(extra: bool) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for k in range(20):
        at = 1_600_000_000_000_000 + 200 * k
        names = {"Operator": "aten::add", "Runtime": "cudaLaunchKernel", "Kernel": "vectorized_add"}
        for n, (cat, name) in enumerate(names.items()):
            pid, tid = (0, "stream 7") if cat == "Kernel" else (99, "99")
            length = 80 if cat == "Kernel" else 20 - 8 * n
            args = {"correlation": k, "device": 0, "stream": 7}
            event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": at + 5 * n}
            events.append(event | {"dur": length, "args": args})
        link = {"cat": "async", "name": "launch", "id": k}
        events.append(link | {"ph": "s", "pid": 99, "tid": 99, "ts": at + 5})
        events.append(link | {"ph": "f", "pid": 0, "tid": "stream 7", "ts": at + 10, "bp": "e"})
        if extra:
            copy = {"ph": "X", "cat": "Memcpy", "name": "Memcpy DtoH", "pid": 0, "tid": "stream 7"}
            events.append(copy | {"ts": at + 100, "dur": 10, "args": {"device": 0}})
    return events


@pytest.mark.parametrize("extra", [False, True])
def test_kineto_before_its_categories_were_renamed(tmp_path: Path, extra: bool) -> None:
    path = tmp_path / "old.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": _of_2020(extra)}))
    profile = profile_at(path)
    assert profile.kind == "kineto"
    assert OVERLAP.make(profile).values("computing") == [20 * 80_000]
    assert len(profile.dispatch[0].link) == 20
    assert sum(int(device.copy.sum()) for device in profile.device_slices) == (20 if extra else 0)


def _drawn(path: Path, times: list[str], lengths: list[str]) -> Trace:
    """What is read of slices, each of a beginning and an end unless it has a length."""
    slices = [
        f'{{"ph":"X","name":"draw","pid":1,"tid":1,"ts":{time},"dur":{length}}}'
        for time, length in zip(times, lengths, strict=True)
    ]
    marks = [f'{{"ph":"{"BE"[k % 2]}","name":"draw","pid":1,"tid":1,"ts":{time}}}' for k, time in enumerate(times)]
    path.write_text(f"[{','.join(slices if any(lengths) else marks)}]")
    return load(path)


@pytest.mark.parametrize("form", ["{}", '"{}"', "{}.25"])
def test_times_beyond_what_fits_count_from_the_first(tmp_path: Path, form: str) -> None:
    times = [form.format(77_000_000_000_000_000 + 300 * k + 50 * (k % 2)) for k in range(10)]
    trace = _drawn(tmp_path / "trace.json", times, [""] * 10)
    assert trace.slices.start.tolist() == [600_000 * k for k in range(5)]
    assert (trace.slices.end - trace.slices.start).tolist() == [350_000] * 5
    assert [warning.code for warning in trace.health.warnings] == ["odd.far_times"]
    with pytest.raises(SystemExit):
        main(["crop", str(tmp_path / "trace.json"), "-o", str(tmp_path / "small.json")])


def test_times_of_a_calendar_in_nanoseconds(tmp_path: Path) -> None:
    times = [str(1_790_000_000_123_456_789 + 2_500 * k) for k in range(8)]
    trace = _drawn(tmp_path / "trace.json", times, ["1234"] * 8)
    assert trace.start_ns == 1_790_000_000_123_456_789
    assert trace.slices.start.tolist() == [2_500 * k for k in range(8)]
    assert set((trace.slices.end - trace.slices.start).tolist()) == {1_234}


@pytest.mark.parametrize("below", ["0.0004", "0.00062", "0.0005555555690079927"])
def test_instructions_below_a_nanosecond_are_exact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], below: str
) -> None:
    """A cycle each, one after the other; those of two pipes take turns, so that none nests."""
    path, cycle = tmp_path / "trace.json", Decimal(below)
    events = [
        f'{{"ph":"X","name":"MOV{k % 2}","pid":"core0","tid":"SCALAR","ts":{k * cycle:f},"dur":{below}}}'
        for k in range(1, 401)
    ]
    path.write_text(f"[{','.join(events)}]")
    trace = load(path)
    assert trace.is_fine
    assert trace.slices.depth.max() == 0
    whole = float(400 * cycle * 1000)
    assert main(["query", str(path), "select sum(duration), max(start) from slices", "--format", "csv"]) == 0
    row = [float(value) for value in capsys.readouterr().out.splitlines()[1].split(",")]
    assert row == pytest.approx([whole, float(399 * cycle * 1000)], abs=0.001)
    assert main(["report", str(path), "--format", "json"]) == 0
    (lane,) = json.loads(capsys.readouterr().out)["sections"]["lanes"]
    assert lane["busy_us"] == pytest.approx(whole / 1000, abs=1e-6)
    assert main(["report", str(path)]) == 0
    assert f"{whole:.{4 - len(str(int(whole)))}f} ns" in capsys.readouterr().out
    slow = path.with_name("plain.json")
    slow.write_text('[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":2.5}]')
    assert main(["report", str(slow)]) == 0
    assert "2.500 µs" in capsys.readouterr().out


def test_short_durations_of_a_calendar_are_rounded(tmp_path: Path) -> None:
    """Picoseconds since 1970 leave int64: such a trace keeps its calendar and its nanoseconds."""
    trace = _drawn(tmp_path / "trace.json", [f'"{1_790_000_000_000_000 + k}.000"' for k in range(4)], ["0.0625"] * 4)
    assert not trace.is_fine
    assert trace.start_ns == 1_790_000_000_000_000_000
    assert trace.slices.start.tolist() == [0, 1_000, 2_000, 3_000]
    assert set((trace.slices.end - trace.slices.start).tolist()) <= {62, 63}


def test_kernels_without_a_time_are_counted(tmp_path: Path) -> None:
    """Kineto of 2021 writes 0 for those whose record it has lost; the others are all there is."""
    events = _of_2020(False)
    for event in events[80:]:
        if event["pid"] == 0:
            event |= {"ts": 0, "dur": 0}
    path = tmp_path / "old.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    profile = profile_at(path)
    lost = sum(event.get("ph") == "X" and event["ts"] == 0 for event in events)
    assert lost == 4
    assert OVERLAP.make(profile).values("computing") == [16 * 80_000]
    assert [count for reason, count in profile.trace.health.skipped.items() if reason.code == "skip.slice_time"] == [4]


def test_memory_of_kineto_is_a_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = ByHand(gpu=True)
    for k in range(10):
        trace.launch("gemm", 20.0 * k, 20.0 * k + 6, 10)
        args = {
            "Device Type": 1,
            "Device Id": 2,
            "Bytes": 512,
            "Total Allocated": 1000 * (k + 1),
            "Total Reserved": 20_000,
        }
        event = {
            "ph": "i",
            "s": "t",
            "name": "[memory]",
            "pid": 4001,
            "tid": 4001,
            "ts": trace.began / 1000 + 20 * k + 1,
        }
        trace.events.append(event | {"args": args})
        host = {"Device Type": 0, "Device Id": -1, "Total Allocated": 7, "Total Reserved": 0}
        trace.events.append(event | {"args": host})
    path = trace.write(tmp_path)
    curves = {curve.amount: curve for curve in profile_at(path).memory.curves}
    assert curves["allocated"].value.tolist() == [1000 * (k + 1) for k in range(10)]
    assert curves["reserved"].peak[1] == 20_000
    assert curves["allocated"].time[3] == 61_000
    assert main(["query", str(path), "select count(*) from memory"]) == 0
    assert "20" in capsys.readouterr().out


def _measured(folder: Path, name: str) -> Path:
    """What ``msprof op`` leaves of one operator."""
    folder.mkdir(parents=True)
    basic = "Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current Freq,Rated Freq,"
    (folder / "OpBasicInfo.csv").write_text(f"{basic}\n{name},vector,12.25,24,0,0,77,1800,1800,\n")
    pipes = "block_id,sub_block_id,aiv_time(us),aiv_total_cycles,aiv_vec_time(us),aiv_vec_ratio,aiv_mte2_time(us)"
    rows = [f"{k},vector0,{10 + k % 3},18000,4.0,0.4,6.5,0.65," for k in range(24)]
    (folder / "PipeUtilization.csv").write_text("\n".join([f"{pipes},aiv_mte2_ratio,", *rows, ""]))
    return folder


def test_a_folder_around_one_operator_is_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _measured(tmp_path / "runs" / "OPPROF_20261001120000_QWERTYUIOPASDFGH", "softmax_custom")
    for path in (tmp_path / "runs", folder, folder / "PipeUtilization.csv"):
        profile = profile_at(path)
        assert profile.kind == "opprof"
        assert "softmax_custom, 12.25 µs" in words(profile.findings.verdict[0])
    _measured(tmp_path / "runs" / "OPPROF_20261001130000_QWERTYUIOPASDFGH", "other")
    assert main(["report", str(tmp_path / "runs")]) == 3
    assert "holds 2 operators" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["memory_snapshot.pickle", "rank0.pkl"])
def test_a_folder_around_one_snapshot_is_that(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """A snapshot without a history; its stack begins with frames that are of no file."""
    stack = [("", 0, "c10::malloc"), ("??", 0, "at::empty"), ("/home/a/job/layers.py", 31, "attend")]
    frames = [{"filename": file, "line": line, "name": name} for file, line, name in stack]
    held = {"address": 4096, "size": 3 << 20, "requested_size": 3 << 20, "state": "active_allocated", "frames": frames}
    free = {"address": 4096 + (3 << 20), "size": 1 << 20, "requested_size": 0, "state": "inactive", "frames": []}
    segment = {
        "device": 0, "address": 4096, "total_size": 4 << 20, "allocated_size": 3 << 20, "active_size": 3 << 20,
        "stream": 0, "segment_type": "large", "blocks": [held, free],
    }  # fmt: skip
    (tmp_path / name).write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[]]}))
    (tmp_path / "notes.txt").write_text("why")
    assert main(["report", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "3.00 MiB is allocated; layers.py:31 attend holds most" in said.replace("3.0 MiB", "3.00 MiB")
    assert "The snapshot has no history" in said
