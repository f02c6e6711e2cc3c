"""The picture of memory beside its table, and what the Summary tab tells of the device."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from measured import profile_at

from npu_tui.analysis.memory import MemoryCurve
from npu_tui.output.report import report
from npu_tui.trace.model import HOST_TO_DEVICE
from npu_tui.trace.text import read_in
from npu_tui.tui.session import NO_HITS, make_session
from npu_tui.tui.tabs.device import communication
from npu_tui.tui.tabs.lines import calls
from npu_tui.tui.tabs.memory import curve_picture, memory
from npu_tui.tui.tabs.summary import summary
from npu_tui.tui.tabs.table import Context, Stretch, TabTable

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def curve(amount: str, *steps: tuple[int, int]) -> MemoryCurve:
    time, value = (np.array([step[k] for step in steps], np.int64) for k in (0, 1))
    return MemoryCurve("PTA", amount, time, value)  # type: ignore[arg-type]


def test_a_column_shows_the_most_of_its_time_and_what_is_reserved_behind_it():
    allocated = curve("allocated", (0, 25), (100, 100), (110, 50), (300, 0))
    reserved = curve("reserved", (0, 50), (100, 100))
    lines = curve_picture([("allocated", allocated), ("reserved", reserved)], 210, 400, 4, 6).plain.split("\n")
    assert lines[1:5] == [" █░░", " █░░", "░██░", "███░"]
    assert len(lines) == 6
    assert lines[5][2] == "▲"
    wide = curve_picture([("allocated", allocated), ("reserved", reserved)], None, 400, 60, 4).plain
    assert wide.startswith("█ allocated  ░ reserved  ≤ 100 B")
    assert wide.endswith("0.000 ms")


def test_a_curve_without_room_or_bytes_is_a_title():
    empty = curve("allocated", (0, 0))
    assert curve_picture([("allocated", empty)], None, 10, 40, 6).plain.count("\n") == 0
    assert curve_picture([("allocated", curve("allocated", (0, 8)))], None, 10, 40, 1).plain.count("\n") == 0


def beside(folder: Path) -> Path:
    """The folder of a profile with the trace of a fixture, without the files beside that."""
    output = folder / "run_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    trace = next((FIXTURES / "healthy").rglob("trace_view.json"))
    (output / "trace_view.json").write_bytes(trace.read_bytes())
    return output


def looked_at(folder: Path, turn: int = 0) -> Context:
    return Context(make_session([profile_at(folder)]), None, None, None, HOST_TO_DEVICE, NO_HITS, 0, turn)


def test_rows_of_the_tab_have_the_curve_beside_them(tmp_path: Path):
    output = beside(tmp_path)
    start = profile_at(output.parent).tables.start_ns // 1000
    rows = [f"PTA,{start + 100 * k},{size},600,500,1,NPU:0" for k, size in enumerate((100, 400, 200))]
    header = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type"
    (output / "memory_record.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    header = "Component,Timestamp(us),Total Reserved(MB),Device"
    modules = [f"HCCL,{start + 50},200,NPU:0", f"RUNTIME,{start + 60},50,NPU:0"]
    (output / "npu_module_mem.csv").write_text("\n".join([header, *modules]) + "\n", encoding="utf-8")
    shown = memory(looked_at(output.parent))
    assert isinstance(shown, TabTable)
    aside = shown.rows[0].aside
    assert aside is not None
    lines = aside(60, 8).plain.split("\n")
    assert lines[0] == "█ allocated  ░ reserved  ≤ 600.0 MiB"
    assert len(lines) == 8
    assert "▲" in lines[-1]
    components = memory(looked_at(output.parent, 3))
    assert isinstance(components, TabTable)
    assert [row.values[1] for row in components.rows] == ["HCCL", "RUNTIME"]
    pictures = [row.aside(60, 8).plain.split("\n")[0] for row in components.rows if row.aside is not None]
    assert pictures == ["█ HCCL  ≤ 200.0 MiB", "█ RUNTIME  ≤ 50.0 MiB"]


def snapshot_of(start_ns: int | None) -> dict[str, Any]:
    """A leak of 1 MiB in each of five steps of 2 ms, from ``start_ns`` on if there are times."""
    frames = [{"name": "step", "filename": "/home/me/train.py", "line": 9}]
    base = 1 << 44
    blocks = [{"address": base + (k << 20), "size": 1 << 20, "state": "active_allocated"} for k in range(5)]
    events: list[dict[str, Any]] = [{"action": "segment_alloc", "addr": base, "size": 16 << 20, "stream": 0}]
    for number, block in enumerate(blocks):
        events.append({"action": "alloc", "addr": block["address"], "size": 1 << 20, "stream": 0, "frames": frames})
        for action in ("alloc", "free_completed"):
            events.append({"action": action, "addr": base + (9 << 20), "size": 40 + number, "stream": 0})
    for number, event in enumerate(events):
        event.update({} if start_ns is None else {"time_us": start_ns // 1000 + 700 * number})
    segment = {"device": 0, "address": base, "total_size": 16 << 20, "stream": 0, "segment_type": "large"}
    return {"segments": [{**segment, "blocks": blocks}], "device_traces": [events]}


def test_a_snapshot_without_times_beside_a_profile_has_the_same_views_in_events(tmp_path: Path):
    output = beside(tmp_path)
    (output / "snapshot.pkl").write_bytes(pickle.dumps(snapshot_of(None)))
    held = memory(looked_at(output.parent))
    assert isinstance(held, TabTable)
    assert held.note.startswith("peak allocated 5.0 MiB at event 14   reserved 16.0 MiB at event 0")
    assert "the snapshot has no times" in held.note
    assert [(row.values[0], row.values[4], len(row.places)) for row in held.rows] == [
        (5 << 20, "train.py:9", 0),
        (44, None, 0),
    ]
    assert str(held.rows[1].cells[3]) == "no stack"
    assert held.rows[0].aside is not None
    axis = held.rows[0].aside(60, 8).plain.split("\n")[-1]
    assert axis.startswith("event 0")
    assert axis.count("╷") + axis.count("▲") == 5  # a mark for a step, one of them under the peak or the words
    grown = memory(looked_at(output.parent, 2))
    assert isinstance(grown, TabTable)
    assert "5 steps, by allocations that recur" in grown.note
    assert [row.values[:5] for row in grown.rows] == [(4 << 20, 4, 5 << 20, 5, "train.py:9")]


def test_a_snapshot_with_times_beside_a_profile_lies_on_its_timeline(tmp_path: Path):
    output = beside(tmp_path)
    profile = profile_at(output.parent)
    start = (profile.trace.start_ns + 1_000_000) // 1000 * 1000
    begun = start - profile.trace.start_ns
    (output.parent / "memory.pickle").write_bytes(pickle.dumps(snapshot_of(start)))
    held = memory(looked_at(output.parent))
    assert isinstance(held, TabTable)
    assert "the snapshot has no times" not in held.note
    assert next(place.start for place in held.rows[0].places if isinstance(place, Stretch)) == begun + 700_000
    curve = profile_at(output.parent).memory.curve("allocated")
    assert curve is not None
    assert curve.peak == (begun + 700_000 * 14, (5 << 20) + 44)


def test_the_snapshot_of_another_process_is_not_beside_a_profile(tmp_path: Path):
    output = beside(tmp_path)
    profile = output.parent.rename(tmp_path / "host_4711_20250101000000000_ascend_pt")
    for name in ("oom_snapshot_4712_20250101000000.pickle", "other.pkl"):
        (tmp_path / name).write_bytes(pickle.dumps(snapshot_of(None)))
    assert profile_at(profile).beside is None
    (tmp_path / "oom_snapshot_4711_20250101000000.pickle").write_bytes(pickle.dumps(snapshot_of(None)))
    assert profile_at(profile).beside is not None


def test_each_device_of_a_snapshot_has_its_turn(tmp_path: Path):
    content = snapshot_of(None)
    content["segments"].append({**content["segments"][0], "device": 3, "blocks": content["segments"][0]["blocks"][:2]})
    (tmp_path / "snapshot.pkl").write_bytes(pickle.dumps(content))
    session = make_session([profile_at(tmp_path / "snapshot.pkl")])
    views = [memory(Context(session, None, None, None, HOST_TO_DEVICE, NO_HITS, 0, turn)) for turn in (0, 3, 4)]
    tables = [view for view in views if isinstance(view, TabTable)]
    assert [table.note.split("   ")[0] for table in tables if "Device" in table.note] == ["Device 0", "Device 3"]
    assert tables[1].again.endswith("snapshot, at the peak, Device 3")
    assert [row.values[0] for row in tables[2].rows] == [2 << 20]
    read_in(None)


def test_of_several_snapshots_that_of_the_process_then_that_of_the_time_is_taken(tmp_path: Path):
    output = beside(tmp_path)
    profile = output.parent.rename(tmp_path / "host_4711_20250101000000000_ascend_pt")
    names = ["oom_snapshot_4712_20250101000000.pickle", "a.pkl", "b.pkl"]
    for number, name in enumerate(names):
        (profile / name).write_bytes(pickle.dumps(snapshot_of(None)))
        os.utime(profile / name, (9 - number, 9 - number))
    taken = profile_at(profile).beside
    assert taken is not None
    assert (Path(taken.snapshot.path).name, sorted(taken.left)) == ("a.pkl", ["b.pkl", names[0]])
    trace = profile_at(profile).trace
    for number, name in enumerate(("a.pkl", "b.pkl")):  # b is the first one that is written after the profile ends
        os.utime(profile / name, ns=(trace.start_ns, trace.start_ns + trace.end + 10**9 * (2 - number)))
    taken = profile_at(profile).beside
    assert taken is not None
    assert Path(taken.snapshot.path).name == "b.pkl"
    (profile / "b.pkl").write_bytes(pickle.dumps(snapshot_of(trace.start_ns - 10**12)))  # of a time before the profile
    os.utime(profile / "b.pkl", ns=(trace.start_ns, trace.start_ns + trace.end))
    taken = profile_at(profile).beside
    assert taken is not None
    assert Path(taken.snapshot.path).name == "a.pkl"
    (profile / names[0]).rename(profile / "oom_snapshot_4711_20250101000000.pickle")
    shown = memory(looked_at(profile))
    assert isinstance(shown, TabTable)
    assert "snapshot oom_snapshot_4711_20250101000000.pickle, not " in shown.note


def test_a_profile_of_pytorch_itself_is_not_told_to_record_as_torch_npu_does():
    now = looked_at(FIXTURES / "kineto", turn=1)
    assert all(str(make(now)).startswith("PyTorch's own profiler") for make in (memory, communication))
    assert {str(row.cells[1]) for row in summary(now).rows if str(row.cells[0]) == "file"} == set()  # type: ignore[union-attr]


def test_calls_of_the_runtime_of_a_device_that_is_no_npu_of_cann():
    """PyTorch's own profiler records them between the operations of the host: where CANN has lanes of its own."""
    now = looked_at(FIXTURES / "kineto")
    trace, shown = now.profile.trace, calls(now)
    assert isinstance(shown, TabTable)
    made = np.count_nonzero(trace.slices.category == trace.categories.index("privateuse1_runtime"))
    assert shown.note.startswith(f"{made} calls of the runtime")
    assert sum(row.count for row in report(now.profile).apis) == made


def test_the_summary_names_the_device_where_files_tell(tmp_path: Path):
    output = beside(tmp_path)
    device = output.parent / "PROF_000001_20250101000000000_ABC" / "device_3"
    device.mkdir(parents=True)
    info = {"DeviceInfo": [{"id": 3, "ai_core_num": 24, "aiv_num": 48, "aic_frequency": "1800"}], "drvVersion": 467732}
    (device / "info.json.3").write_text(json.dumps({**info, "hostname": "node-7"}), encoding="utf-8")
    shown = summary(looked_at(output.parent))
    assert isinstance(shown, TabTable)
    rows = {str(row.cells[1]): str(row.cells[2]) for row in shown.rows if str(row.cells[0]) == "device"}
    told = {"cores": "24 AI cores   48 vector cores   1800 MHz", "driver": "467732", "host": "node-7"}
    assert rows == {"chip": "unknown", **told}
