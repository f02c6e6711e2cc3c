"""Memory snapshots: what the safe reader makes of pickles, against pickle itself; hostile ones; real files."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.memory import AllocatorSettings, recorded, replay
from npu_tui.analysis.snapshot import free_blocks, growth, live_bytes, named_at, nameless, owners, pieces
from npu_tui.cli.main import main
from npu_tui.cli.options import opened_profile, start_of
from npu_tui.cli.parser import parser_of
from npu_tui.load.errors import InputError
from npu_tui.load.pickles import EntryRun, PickleError, Unpickler, unframed
from npu_tui.load.snapshot import load_snapshot
from npu_tui.output.memory_report import memory_report
from npu_tui.strings import words
from npu_tui.trace.model import HOST_TO_DEVICE
from npu_tui.trace.text import duration_text, exact_text, parse_duration, read_in
from npu_tui.tui.head import headline
from npu_tui.tui.session import NO_HITS, make_session
from npu_tui.tui.tabs.memory import memory
from npu_tui.tui.tabs.table import Context, TabTable
from npu_tui.view.explorer import Explorer
from npu_tui.view.margins import find_ticks
from npu_tui.view.scene import Selected
from npu_tui.view.viewport import Viewport
from tests.attack.pickles import NEVER, crafted
from tests.conftest import WITHOUT_TRACES

MB = 1 << 20
MODEL = [{"name": "main", "filename": "/home/me/train.py", "line": 5}]
LOSS = [{"name": "step", "filename": "/home/me/train.py", "line": 8}]
LEAK = [{"name": "step", "filename": "/home/me/train.py", "line": 9}]
INNER = {"name": "forward", "filename": "/usr/lib/python3.11/site-packages/torch/nn/linear.py", "line": 3}
STEP = [INNER, {"name": "step", "filename": "/home/me/train.py", "line": 7}]


def simulated(steps: int = 4, leak: int = 0, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """A run of ``steps``: weights of 64 MiB before them, 200 activations of 1 MiB in each, a state of 32 MiB.

    With ``leak`` so many bytes of each step stay.
    """
    events: list[dict[str, Any]] = []
    live: dict[int, tuple[int, list[Any]]] = {}

    def entry(action: str, address: int, size: int, frames: list[Any]) -> None:
        events.append({"action": action, "addr": address, "size": size, "stream": 0, "frames": frames, **(extra or {})})

    def take(address: int, size: int, frames: list[Any]) -> None:
        entry("alloc", address, size, frames)
        live[address] = size, frames

    base = 1 << 44
    entry("segment_alloc", base, 512 * MB, MODEL)
    take(base, 64 * MB, MODEL)
    for step in range(steps):
        entry("alloc", base + 90 * MB, 40, LOSS)
        entry("free_completed", base + 90 * MB, 40, LOSS)
        for number in range(200):
            take(base + (100 + number) * MB, MB, list(STEP) if number else [])
        if not step:
            take(base + 64 * MB, 32 * MB, STEP[1:])
        if leak:
            take(base + 400 * MB + step * leak, leak, LEAK)
        for number in range(200):
            size, frames = live.pop(base + (100 + number) * MB)
            for action in ("free_requested", "free_completed"):
                entry(action, base + (100 + number) * MB, size, frames)
    blocks = [
        {"address": at, "size": size + 512, "requested_size": size, "state": "active_allocated", "frames": frames}
        for at, (size, frames) in live.items()
    ]
    blocks.append({"address": base + 500 * MB, "size": 8 * MB, "requested_size": 3, "state": "inactive", "frames": []})
    segment = {
        "device": 0, "address": base, "total_size": 512 * MB, "stream": 0, "segment_pool_id": (0, 0),
        "segment_type": "large", "is_expandable": False, "blocks": blocks,
    }  # fmt: skip
    return {"segments": [segment], "device_traces": [events, []]}


def written(folder: Path, content: Any, protocol: int = 4) -> Path:
    path = folder / "snapshot.pkl"
    path.write_bytes(pickle.dumps(content, protocol))
    return path


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize(
    "extra", [{}, {"pool_id": (0, 0)}, {"time_us": 1 << 50, "note": None, "flag": True}, {"frames": None}], ids=str
)
def test_runs_of_entries_are_what_pickle_reads(protocol: int, extra: dict[str, Any]):
    plain = simulated(leak=MB, extra=extra)
    for entry in plain["device_traces"][0] if extra == {"frames": None} else []:
        # ``context="alloc"``: only allocations have a stack.
        entry |= {"frames": STEP} if entry["action"] == "alloc" else {}
        if entry["action"] != "alloc":
            del entry["frames"]
        entry["time_us"] = 1 << 50
    data = pickle.dumps(plain, protocol)
    unpickler = Unpickler(unframed(io.BytesIO(data), len(data)))
    entries: list[Any] = []
    in_runs = 0
    for entry in unpickler.load()["device_traces"][0]:
        if isinstance(entry, EntryRun):
            in_runs += len(entry)
            rows = zip(entry.value.T.tolist(), entry.is_object.T.tolist(), strict=True)
            entries += [
                {
                    key: unpickler.objects[value] if is_object else value
                    for key, value, is_object in zip(entry.keys, values, objects, strict=True)
                }
                for values, objects in rows
            ]
        else:
            entries.append(entry)
    lacking = [{key: entry[key] for key in entry if key != "frames" or entry[key] is not None} for entry in entries]
    assert lacking == plain["device_traces"][0]
    assert in_runs > 0.9 * len(entries)


def test_figures_of_a_simulated_run(tmp_path: Path):
    snapshot = load_snapshot(written(tmp_path, simulated(steps=5)))
    (device,) = snapshot.devices
    assert device.peak == (204, (64 + 200 + 32) * MB)
    assert device.before == 0
    assert device.fullest == (0, 512 * MB)
    assert live_bytes(device) == (2, 96 * MB, 96 * MB + 1024)
    assert pieces(device).largest == 8 * MB
    first = owners(snapshot, device, named_at(device, device.peak[0]))[0]
    assert (first.code.line if first.code else None, first.size, len(first.members)) == (7, (199 + 32) * MB, 200)
    grown = growth(snapshot, device)
    assert grown is not None
    assert grown.per_step == 0
    assert not grown.leaks
    assert not snapshot.odd


def test_the_peak_by_size_of_the_block_and_by_stream(tmp_path: Path):
    content = simulated()
    for entry in content["device_traces"][0]:
        entry["stream"] = 7 if entry["size"] == MB else 0
    row = memory_report(load_snapshot(written(tmp_path, content))).devices[0]
    assert [(one.above_bytes, one.up_to_bytes, one.bytes, one.blocks) for one in row.at_peak.sizes] == [
        (0, MB, 200 * MB, 200), (10 * MB, 100 * MB, 96 * MB, 2),
    ]  # fmt: skip
    assert [(one.stream, one.bytes, one.blocks) for one in row.at_peak.streams] == [(7, 200 * MB, 200), (0, 96 * MB, 2)]


def test_what_was_allocated_when_an_allocation_failed(tmp_path: Path):
    content = simulated(steps=1)
    events = content["device_traces"][0]
    events.append({"action": "oom", "device_free": 0, "size": 1 << 30, "stream": 0, "frames": STEP})
    report = memory_report(load_snapshot(written(tmp_path, content)))
    failure = report.devices[0].failure
    assert failure is not None
    assert (failure.event, failure.request_bytes) == (len(events) - 1, 1 << 30)
    assert [(row.line, row.bytes) for row in failure.stacks] == [(5, 64 * MB), (7, 32 * MB)]
    # STEP runs the forward of a module, STEP[1:] does not
    assert [(row.line, row.function, row.bytes) for row in failure.held.modules] == [(None, None, 96 * MB)]
    peak = report.devices[0].at_peak
    assert [(row.line, row.function, row.bytes) for row in peak.modules] == [
        (3, "forward", 199 * MB), (None, None, 97 * MB),
    ]  # fmt: skip
    assert (failure.held.sizes[0].bytes, peak.sizes[0].bytes) == (96 * MB, 200 * MB)


def test_stacks_of_lines_in_one_function_and_of_c_are_whole(tmp_path: Path):
    content = simulated(steps=1)
    native = [
        {"name": "alloc", "filename": file, "line": 3} for file in ("??", "/src/Empty.cpp", "/usr/bin/python3.11")
    ]
    outer = [{"name": name, "filename": "/home/me/train.py", "line": line} for name, line in (("step", 7), ("main", 5))]
    inner = [{"name": "step", "filename": "/home/me/train.py", "line": line} for line in (21, 22, 23)]
    for number, entry in enumerate(content["device_traces"][0]):
        entry["frames"] = [*native, *(inner if number % 2 else inner[1:]), *outer]
    snapshot = load_snapshot(written(tmp_path, content))
    assert sorted(stack.count("\n") for stack in snapshot.stacks) == [0, 0, 6, 7]  # two stand with blocks at the end
    rows = memory_report(snapshot).devices[0].stacks_at_peak
    assert [(row.line, row.function) for row in rows] == [(21, "step"), (22, "step")]


def test_blocks_of_the_first_writers_follow_each_other_and_have_a_history(tmp_path: Path):
    content = simulated()
    blocks = content["segments"][0]["blocks"]
    for block in blocks:
        del block["address"]
        block["history"] = [{"real_size": block.pop("requested_size"), "frames": block.pop("frames")}]
    blocks[0]["size"] = 64 * MB
    device = load_snapshot(written(tmp_path, content)).devices[0]
    assert live_bytes(device)[:2] == (2, 96 * MB)
    assert device.before == 0


def test_what_is_given_back_before_the_history_is_not_in_its_peak_and_a_history_alone_tells_no_segments(tmp_path: Path):
    content = simulated()
    content["device_traces"][0] = content["device_traces"][0][-1:]  # completes a release that was requested before
    content["segments"][0]["blocks"].append({"address": 9, "size": 512, "state": "active_pending_free"})
    content["host_segments"] = [{}]
    report = memory_report(load_snapshot(written(tmp_path, content)))
    assert report.devices[0].before_history_bytes == 97 * MB  # the release may have been of the last event too
    assert "host" in {row.id for row in report.not_checked}
    content = simulated()
    content["segments"] = []
    report = memory_report(load_snapshot(written(tmp_path, content)))
    assert (report.devices[0].requested_end_bytes, report.devices[0].reserved_end_bytes) == (96 * MB, None)
    assert "segments" in {row.id for row in report.not_checked}


def test_private_pools_are_told_apart(tmp_path: Path):
    content = simulated(steps=1)
    for number, entry in enumerate(content["device_traces"][0]):
        entry["pool_id"] = (0, 7) if 2 < number < 50 else (0, 0)
    oom = {"action": "oom", "device_free": 0, "size": 30 * MB, "stream": 0, "frames": STEP}
    content["device_traces"][0].append({**oom, "pool_id": (0, 7)})
    report = memory_report(load_snapshot(written(tmp_path, content)))
    pools = {row.pool: row.blocks for row in report.devices[0].at_peak.pools}
    assert sum(pools.values()) == 202
    assert pools["0, 7"] == 46  # events 4 to 49 allocate
    assert "but only 0 B in the pool and on the stream of the request" in report.findings[0].detail


def test_steps_that_the_program_annotates(tmp_path: Path):
    content = simulated(leak=4 * MB)
    events = content["device_traces"][0]
    for number, entry in enumerate(events):
        entry["time_us"] = 1_700_000_000_000_000 + number
    events.insert(5, {"action": "annotate", "time_us": events[5]["time_us"], "user_metadata": "x"})
    notes = []
    for step in range(4):
        for stage, at in (("START", 3 + 602 * step), ("END", 600 + 602 * step)):
            note = {"name": f"ProfilerStep#{step + 8}", "stage": stage, "time_us": 1_700_000_000_000_000 + at}
            notes.append({"device": 0, **note})
    content["external_annotations"] = [*notes, {"device": 0, "stage": "END"}]
    path = written(tmp_path, content)
    snapshot = load_snapshot(path)
    assert {said.code: count for said, count in snapshot.odd.items()} == {"odd.memory_annotation": 1}
    assert snapshot.devices[0].step_starts.tolist() == [3, 606, 1208, 1810]
    trace = opened_profile(str(path), True, Thresholds()).trace
    steps = next(lane for lane in trace.lanes if lane.derived)
    first = trace.rows.item[trace.rows.offset[steps.first_row]]
    assert trace.name_of(int(first)) == "ProfilerStep#8"
    assert trace.lanes[int(trace.slices.lane[first])].name == "annotations"


def test_what_cannot_be_placed_of_annotations_is_counted(tmp_path: Path):
    """A range is open when the snapshot is written; one began before, one has no device, one is of another kind."""
    time = 1_700_000_000_000_000
    events = [{"action": "alloc", "addr": 1 << 44, "size": 1024, "stream": 0, "time_us": time + at} for at in (0, 90)]
    marks = [("open", 0, "START", 10), ("old", 0, "END", 20), ("far", 7, "START", 30), ("odd", 0, "PAUSE", 40)]
    marks += [("whole", 0, "START", 50), ("whole", 0, "END", 60), ("listed", [0], "END", 70)]
    notes = [{"name": name, "device": of, "stage": stage, "time_us": time + at} for name, of, stage, at in marks]
    snapshot = load_snapshot(written(tmp_path, {"device_traces": [events], "external_annotations": notes}))
    ranges = snapshot.devices[0].annotations
    found = [(one.name, one.start // 1000 - time, one.end // 1000 - time) for one in ranges]
    assert found == [("open", 10, 90), ("whole", 50, 60)]
    assert {said.code: count for said, count in snapshot.odd.items()} == {"odd.memory_annotation": 4}


@pytest.mark.parametrize("time", [1 << 53, 1 << 61, 1 << 63])
def test_a_time_beyond_what_fits_is_none(time: int, tmp_path: Path):
    events = [{"action": "alloc", "addr": 1 << 44, "size": 1024, "stream": 0, "time_us": at} for at in (5, time)]
    device = load_snapshot(written(tmp_path, {"device_traces": [events]})).devices[0]
    assert device.events.time is None


def test_devices_that_no_host_has_are_counted(tmp_path: Path):
    """Each has one event that is none: the first thousand are read, the time grows with their number alone."""
    snapshot = load_snapshot(written(tmp_path, {"device_traces": [[None] for _ in range(5000)]}))
    assert len(snapshot.devices) == 1024
    assert sum(snapshot.odd.values()) == 5000


def test_a_state_without_a_history_tells_who_holds_it(tmp_path: Path):
    content = simulated(leak=4 * MB)
    content["device_traces"] = [[]]
    report = memory_report(load_snapshot(written(tmp_path, content)))
    assert report.verdict == ["112.0 MiB is allocated; train.py:5 main holds most: 64.0 MiB (57.1%)"]
    assert [(row.line, row.bytes, row.blocks) for row in report.devices[0].stacks_at_peak] == [
        (5, 64 * MB, 1), (7, 32 * MB, 1), (9, 16 * MB, 4),
    ]  # fmt: skip
    assert [row.id for row in report.not_checked] == ["time", "steps", "history"]


def test_blocks_older_than_a_ring_have_the_stack_that_they_carry_to_the_end(tmp_path: Path):
    content = simulated()
    content["device_traces"][0] = content["device_traces"][0][60:]  # weights, and 56 activations that are freed later
    snapshot = load_snapshot(written(tmp_path, content))
    (device,) = snapshot.devices
    report = memory_report(snapshot)
    assert [(row.line, row.bytes, row.blocks) for row in report.devices[0].stacks_at_peak] == [
        (7, (144 + 32) * MB, 145), (5, 64 * MB, 1),
    ]  # fmt: skip
    assert np.count_nonzero(nameless(device)[device.lives.alive(device.peak[0])]) == 56
    assert "before" in {row.id for row in report.not_checked}


def test_a_leak_is_told_by_its_line_and_the_state_of_an_optimizer_is_none(tmp_path: Path):
    report = memory_report(load_snapshot(written(tmp_path, simulated(leak=4 * MB))))
    (leak,) = [finding for finding in report.findings if finding.id == "SNAPSHOT.LEAK"]
    assert leak.where is not None
    assert (leak.where.line, leak.where.bytes, leak.where.blocks) == (9, 16 * MB, 4)
    assert leak.title == "train.py:9 step keeps 4.0 MiB more in every step"
    assert report.devices[0].growth_bytes_per_step == 4 * MB
    assert not [
        row for row in memory_report(load_snapshot(written(tmp_path, simulated()))).findings if row.id == leak.id
    ]


def test_damaged_entries_are_counted_and_nothing_else_is_lost(tmp_path: Path):
    content = simulated()
    content["device_traces"][0][5] = {"action": "alloc", "addr": "x", "size": -3, "frames": 7}
    content["device_traces"][0].append("nonsense")
    content["segments"][0]["blocks"].append({"address": 1, "state": "gone"})
    content["segments"].append(3)
    report = memory_report(load_snapshot(written(tmp_path, content)))
    assert {row.count for row in report.health.skipped} == {1}
    assert report.health.events == len(content["device_traces"][0]) - 2


def test_hostile_pickles_are_refused_or_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "snapshot.pkl"
    refused = []
    everything = {name: data for name, data in crafted().items() if len(data) < 100_000}
    for name, data in everything.items():
        path.write_bytes(data)
        try:
            load_snapshot(path)
        except InputError as error:
            refused.append((name, words(error.message)))
    assert len(refused) > 50
    assert [name for name, said in refused if not said.startswith(f"{path}: ") or "\n" in said] == []
    assert not Path(NEVER).exists()
    path.write_bytes(everything["STACK_GLOBAL runs"])
    assert main(["report", str(path)]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_every_cut_is_refused_or_read():
    whole = pickle.dumps(simulated(steps=1))
    for end in range(2, len(whole), 997):
        with pytest.raises(PickleError):
            Unpickler(io.BytesIO(whole[:end])).load()


def test_report_as_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = written(tmp_path, simulated(leak=4 * MB))
    assert main(["report", str(path)]) == 0
    said = capsys.readouterr().out
    assert "keeps 4.0 MiB more in every step" in said
    lines = said.splitlines()
    top = lines.index("Device 0: allocated (bars) and reserved (shaded) over the events") + 1
    assert lines[top] == "  512.0 MiB " + "░" * 72  # half of what is reserved is ever allocated
    assert lines[top + 5] == "            " + "█" * 72
    assert lines[top + 6] == f"            0{'2,414':>71}"
    for form in ("markdown", "html"):
        assert main(["report", str(path), "--format", form]) == 0
        said = capsys.readouterr().out
        assert "train.py" in said
        assert ("from event 0: " in said) == (form == "html")


def test_the_curve_loses_no_peak(tmp_path: Path):
    row = memory_report(load_snapshot(written(tmp_path, simulated()))).devices[0]
    assert len(row.curve) == 144
    assert max(point.requested_bytes for point in row.curve) == row.peak_requested_bytes
    highest = max(row.curve, key=lambda point: point.requested_bytes)
    assert row.peak_event is not None
    assert highest.event <= row.peak_event < highest.event + row.events / 144 + 1
    assert {point.reserved_bytes for point in row.curve} == {512 * MB}


FIGURES = {
    "snapshot_1768383987920985470": (9700, 52, 551550976, 0, 0, 471498368, 2599, 517996544, 551550976, 5141, 0, 0),
    "snapshot_expandable": (
        8092, 2, 643825664, 408384288, 408698880, 597327488, 7430, 643825664, 643825664, 7388, 94326992, 41943040,
    ),
    "snapshot_with_empty_cache": (
        8180, 34, 509607936, 408384288, 416417792, 597327488, 7498, 662700032, 662700032, 7453, 94326992, 41943040,
    ),
}  # fmt: skip
"""Events, segments, reserved, requested and allocated at the end; the peaks with their events; before; per step."""


REPLAYED = {
    "snapshot_1768383987920985470": [551550976, 517996544],
    "snapshot_expandable": [643825664, None],
    "snapshot_with_empty_cache": [666894336, 643825664],
}
"""What a replay reserves at most with the settings of the run, and with expandable segments."""


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_real_snapshots(name: str):
    folder = os.environ.get("NPU_TUI_TRACES")
    path = Path(folder or "") / "memory" / f"{name}.pkl"
    if not folder or not path.exists():
        pytest.skip(reason=WITHOUT_TRACES)
    snapshot = load_snapshot(path)
    row, device = memory_report(snapshot).devices[0], snapshot.devices[0]
    assert FIGURES[name] == (
        row.events, row.segments, row.reserved_end_bytes, row.requested_end_bytes, row.allocated_end_bytes,
        row.peak_requested_bytes, row.peak_event, row.reserved_at_peak_bytes, row.peak_reserved_bytes,
        row.peak_reserved_event, row.before_history_bytes, row.growth_bytes_per_step,
    )  # fmt: skip
    assert (row.stacks_at_peak[0].bytes, row.stacks_at_peak[0].blocks) == (282342776, 484)
    free = free_blocks(device, row.events - 1, 30 * MB, int(device.segments.stream[0]))
    assert (free.unused, free.largest) == (row.inactive_bytes, row.largest_inactive_bytes)
    # The same program ran with expandable segments and without: each run is what the replay of the other one tells.
    was = recorded(device)
    other = None if device.is_expandable else replay(device, AllocatorSettings(expandable=True)).peak
    assert [was and was.peak, other] == REPLAYED[name]


def test_the_explorer_has_blocks_in_segments_curves_and_findings(tmp_path: Path):
    profile = opened_profile(str(written(tmp_path, simulated(leak=4 * MB))), True, Thresholds())
    trace = profile.trace
    assert [lane.name for lane in trace.lanes] == [
        "history", "never released", "released after the peak", "0x100000000000 512.0 MiB large", "Steps",
    ]  # fmt: skip
    by_address = np.flatnonzero(trace.slices.lane == 3)
    assert len(by_address) == 1 + 4 * 202 + 1
    by_age = [int((trace.slices.lane == lane).sum()) for lane in (1, 2)]
    assert by_age == [1 + 1 + 4, 200]
    steps = [trace.name_of(item) for item in np.flatnonzero(trace.slices.lane == 0).tolist()]
    assert steps == ["before the first step", "step 1", "step 2", "step 3", "step 4"]
    leak = profile.findings.findings[0]
    assert leak.id == "SNAPSHOT.LEAK"
    item = leak.evidence[0].slice
    assert item is not None
    assert trace.name_of(item) == "4.0 MiB step"
    assert "/home/me/train.py(9): step;" in trace.stacks[int(trace.slices.stack[item])]
    args = trace.args.one(int(trace.slices.event[item]))
    assert args["requested bytes"] == 4 * MB
    assert trace.slices.start[item] == args["allocated at event"] * 1000  # an event is 1 us of the axis
    assert trace.lanes[int(trace.slices.lane[item])].name == "never released"
    session = make_session([profile])
    try:
        assert [chart.name for chart in session.scene.charts[0]] == [
            "Held by", "Memory allocated", "reserved", "active", "unused",
        ]  # fmt: skip
        assert Explorer(session.scene, 80, 20).state.viewport.span == trace.end  # all of it, not its first step
        panel = memory(Context(session, None, None, None, HOST_TO_DEVICE, NO_HITS, 0))
    finally:
        read_in(None)
    assert isinstance(panel, TabTable)
    assert [row.values[:5] for row in panel.rows[:3]] == [
        (199 * MB, 199 / 312, 199, "forward", "train.py:7"), (64 * MB, 64 / 312, 1, "main", "train.py:5"),
        (32 * MB, 32 / 312, 1, "step", "train.py:7"),
    ]  # fmt: skip
    leaking = next(row for row in panel.rows if row.values[4] == "train.py:9")
    assert next(place.item for place in leaking.places if isinstance(place, Selected)) == item


@pytest.mark.parametrize("command", [["check", "--fail-on", "high"], ["whatif"], ["ranks"]])
def test_other_commands_say_one_line(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = written(tmp_path, simulated())
    main([command[0], str(path), *command[1:]])
    assert "Traceback" not in capsys.readouterr().err


def test_times_of_a_snapshot_read_in_events(tmp_path: Path):
    profile = opened_profile(str(written(tmp_path, simulated())), True, Thresholds())
    try:
        session = make_session([profile])
        assert (duration_text(4_000_000), exact_text(4_000_000)) == ("4,000 events", "event 4,000")
        assert (duration_text(1000), duration_text(1000, gap="")) == ("1 event", "1ev")
        assert {parse_duration(text) for text in ("4000", "event 4,000", "4,000 events", "4ms")} == {4_000_000}
        assert find_ticks(Viewport(0, 5000, 100)).labels == ["0", "1", "2", "3", "4"]
        assert find_ticks(Viewport(0, 2_000_000, 100)).labels[:3] == ["0", "500", "1,000"]
        head = "".join(part[0].plain for part in headline(session, 0, True))
        assert head.startswith("memory snapshot: 2,411 events, 1 device")
        assert "HostToDevice" not in head
        timed = opened_profile(str(written(tmp_path, simulated(extra={"time_us": 1 << 50}))), False, Thresholds())
        make_session([timed])
        assert exact_text(4_000_000) == "4.000000 ms"
    finally:
        read_in(None)


def test_a_place_in_a_snapshot_is_named_in_events(tmp_path: Path):
    path, parser = written(tmp_path, simulated()), parser_of("screenshot")
    try:
        options = parser.parse_args([str(path), "-o", "x.svg", "--range", "40..event 1,000", "--at", "50ev"])
        start = start_of(parser, options)
        assert start is not None
        assert (start.range, start.at) == ((40_000, 1_000_000), 50_000)
        timed = written(tmp_path, simulated(extra={"time_us": 1 << 50}))
        options = parser.parse_args([str(timed), "-o", "x.svg", "--at", "50"])
        start = start_of(parser, options)
        assert start is not None
        assert start.at == 50_000_000
    finally:
        read_in(None)


def test_a_snapshot_cannot_be_cropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        main(["crop", str(written(tmp_path, simulated())), "-o", str(tmp_path / "out.json")])
    assert "is a memory snapshot, which has no JSON events to crop" in capsys.readouterr().err
