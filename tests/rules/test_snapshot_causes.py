"""One seed of each simulated memory snapshot; ``tests/snapshots.py`` judges more."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from npu_tui.analysis.memory import AllocatorSettings, recorded, replay
from npu_tui.analysis.snapshot import held_in
from npu_tui.load.snapshot import load_snapshot
from npu_tui.output.memory_report import MemoryReport, memory_report
from npu_tui.rules.snapshot import findings_of
from tests.snapshots import CAUSES, failures, simulate, write_snapshot


@pytest.mark.parametrize("cause", ["healthy", "leak", "fragmentation", "oom", "peak"])
def test_what_ails_a_run_is_told_first_and_nothing_of_a_healthy_one(cause: str, tmp_path: Path):
    assert failures(cause, 7, tmp_path) == []


@pytest.mark.parametrize("layers", [12, 80])
def test_a_small_pool_that_grows_beside_an_unused_large_one_is_no_fragmentation(layers: int, tmp_path: Path):
    run = replace(CAUSES["healthy"], layers=layers, activation=1 << 20, steps=3)
    path = tmp_path / "snapshot.pkl"
    path.write_bytes(pickle.dumps(simulate(run, 7).snapshot()))
    assert {finding.severity for _, finding in findings_of(held_in(load_snapshot(path)))} == {"info"}


def test_what_a_setting_would_gain_is_told_where_a_replay_of_the_run_reserves_what_it_did(tmp_path: Path):
    path = tmp_path / "snapshot.pkl"
    write_snapshot(path, "fragmentation", 7)
    snapshot = load_snapshot(path)
    report = memory_report(snapshot)
    finding = report.findings[0]
    was, now = recorded(snapshot.devices[0]), replay(snapshot.devices[0], AllocatorSettings(expandable=True))
    assert was is not None
    assert was.peak == report.devices[0].peak_reserved_bytes  # the simulator knows nothing of the replay
    assert (finding.id, finding.gain_bytes) == ("SNAPSHOT.PIECES", was.peak - now.peak)
    assert now.peak >= report.devices[0].peak_requested_bytes
    assert "with expandable_segments:True" in finding.detail
    content = pickle.loads(path.read_bytes())
    content["segments"].append({"device": 0, "address": 1 << 50, "total_size": 1 << 30, "stream": 0, "blocks": []})
    path.write_bytes(pickle.dumps(content))
    other = load_snapshot(path).devices[0]
    assert recorded(other) is None


def test_empty_cache_in_a_step_is_told_by_its_line(tmp_path: Path):
    frames = [{"name": name, "filename": f"/home/me/{name}.py", "line": 5} for name in ("empty_cache", "train")]
    frames[0]["filename"] = "/usr/lib/python3.11/site-packages/torch_npu/npu/memory.py"
    events = []
    for _ in range(3):
        for action, size in (("segment_alloc", 62), ("alloc", 60), ("free_completed", 60), ("segment_free", 62)):
            entry = {"action": action, "addr": 1 << 44, "size": size << 20, "stream": 0}
            events.append({**entry, "frames": frames if action == "segment_free" else []})
    path = tmp_path / "snapshot.pkl"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [events]}))
    finding = next(one for one in memory_report(load_snapshot(path)).findings if one.id == "SNAPSHOT.RETURNED")
    assert finding.detail.startswith(
        "empty_cache() at train.py:5 train, 3 times: 3 segments given back, 2 segments taken"
    )
    assert "takes memory from the device 1 time instead of 3, and reserves 62.0 MiB at most" in finding.detail
    assert [proof.event for proof in finding.evidence] == [3, 7, 11]


@pytest.mark.parametrize("fits", [True, False])
def test_whether_a_setting_would_have_served_what_failed(fits: bool, tmp_path: Path):
    content = simulate(CAUSES["oom"], 7).snapshot()
    failed = content["device_traces"][0][-1]
    if not fits:  # all but 1 MiB of what is free, which pages of 20 MiB do not leave
        blocks = [
            block for segment in content["segments"] for block in segment["blocks"] if segment["total_size"] > 2 << 20
        ]
        failed |= {"size": sum(block["size"] for block in blocks if block["state"] == "inactive") - (1 << 20)}
        failed |= {"device_free": 0}
    path = tmp_path / "snapshot.pkl"
    path.write_bytes(pickle.dumps(content))
    finding = memory_report(load_snapshot(path)).findings[0]
    assert finding.id == "SNAPSHOT.OOM"
    assert ("it would have been served" in finding.detail, "it would have failed too" in finding.detail) == (
        fits,
        not fits,
    )
    assert ("expandable_segments" in finding.advice[0]) == fits


def _history(
    rows: list[tuple[str, int, int]], frames: list[dict[str, object]] | None = None
) -> list[dict[str, object]]:
    """Events of ``rows``: an action, MiB of its address and of its size."""
    return [
        {"action": action, "addr": at << 20, "size": size << 20, "stream": 0, "frames": frames or []}
        for action, at, size in rows
    ]


def _segment(at: int, size: int, *held: tuple[int, int]) -> dict[str, object]:
    """A segment of ``size`` MiB with the blocks ``held``: their addresses and sizes; the rest is free."""
    blocks, end = [], at
    for begin, length in (*held, (at + size, 0)):
        if begin > end:
            blocks.append({"address": end << 20, "size": begin - end << 20, "requested_size": 0, "state": "inactive"})
        if length:
            told = {"requested_size": length << 20, "state": "active_allocated"}
            blocks.append({"address": begin << 20, "size": length << 20, **told})
        end = begin + length
    return {"device": 0, "address": at << 20, "total_size": size << 20, "stream": 0, "blocks": blocks}


def _reported(tmp_path: Path, events: list[dict[str, object]], *segments: dict[str, object]) -> MemoryReport:
    path = tmp_path / "snapshot.pkl"
    path.write_bytes(pickle.dumps({"segments": list(segments), "device_traces": [events]}))
    return memory_report(load_snapshot(path))


def test_a_segment_that_almost_fits_is_a_waste(tmp_path: Path):
    """What stays in the first segment for good makes it too small for the next block of 400 MiB: 800 for 440."""
    rows = [("segment_alloc", 1000, 400), ("alloc", 1000, 399), ("free_completed", 1000, 399), ("alloc", 1000, 40)]
    rows += [("segment_alloc", 3000, 400), ("alloc", 3000, 399)]
    report = _reported(tmp_path, _history(rows), _segment(1000, 400, (1000, 40)), _segment(3000, 400, (3000, 399)))
    first = report.findings[0]
    assert first.id == "SNAPSHOT.PIECES"
    assert first.gain_bytes is not None
    assert first.gain_bytes > 300 << 20
    assert report.verdict[0].startswith("800.0 MiB was reserved for a peak of 439.0 MiB")
    assert "the largest block 360.0 MiB: too small" in first.detail


@pytest.mark.parametrize("rows", [
    [("alloc", 1000, 24), ("free_completed", 1000, 24)] * 6,
    [("alloc", 1000, 24)] * 1,
])  # fmt: skip
def test_nothing_is_taken_where_no_event_takes(rows: list[tuple[str, int, int]], tmp_path: Path):
    """All that is reserved was so before the history: the first sentence is who holds the peak."""
    held = [(1000, 24)] if rows[-1][0] == "alloc" else []
    report = _reported(tmp_path, _history(rows), _segment(1000, 60, *held), _segment(3000, 400, (3000, 20)))
    assert "SNAPSHOT.PIECES" not in [finding.id for finding in report.findings]
    assert report.verdict[0].startswith("Peak 44.0 MiB")


def test_who_holds_is_looked_for_above_frames_without_a_file(tmp_path: Path):
    """C++ frames have no file, or none of Python; the step of an optimizer in a file of the user is one."""

    def stack(file: str, line: int, name: str) -> list[dict[str, object]]:
        names = [
            ("", 0, "allocator::malloc(void**)"),
            ("??", 0, "PyNumber_Add"),
            (file, line, name),
            ("", 0, "_PyEval"),
        ]
        return [{"filename": one, "line": at, "name": of} for one, at, of in names]

    layer, adam = stack("/home/me/net.py", 12, "forward"), stack("/home/me/my_optim.py", 30, "step")
    events = _history([("segment_alloc", 1000, 100)]) + _history([("alloc", 1000, 30)], layer)
    events += _history([("alloc", 1030, 50)], adam)
    report = _reported(tmp_path, events, _segment(1000, 100, (1000, 30), (1030, 50)))
    (device,) = report.devices
    lines = [(row.where, row.line, row.bytes >> 20) for row in device.stacks_at_peak]
    assert lines == [("/home/me/my_optim.py", 30, 50), ("/home/me/net.py", 12, 30)]
    assert [(row.function, row.bytes >> 20) for row in device.at_peak.modules] == [("step", 50), ("forward", 30)]


def _taken(stream: int, size: int, line: int, address: int) -> list[dict[str, object]]:
    """The events of a block that takes a segment of its own, from line ``line`` of a module."""
    about = {"addr": address << 32, "size": size << 20, "stream": stream}
    frames = [{"name": f"part{line}", "filename": "/home/me/parts.py", "line": line}]
    return [{"action": action, **about, "frames": frames} for action in ("segment_alloc", "alloc")]


def _report(path: Path, events: list[dict[str, object]], segments: list[dict[str, object]]) -> MemoryReport:
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [events]}))
    return memory_report(load_snapshot(path))


def _cached(stream: int, size: int, address: int) -> dict[str, object]:
    block = {"address": address << 32, "size": size << 20, "requested_size": 0, "state": "inactive"}
    about = {"device": 0, "address": address << 32, "total_size": size << 20, "stream": stream}
    return {**about, "segment_type": "large", "segment_pool_id": (0, 0), "blocks": [block]}


def test_lines_that_hold_about_as_much_are_all_named(tmp_path: Path):
    """Three lines hold a third each, and one of them a little more; of two unlike ones only the larger is named."""
    alike = [event for at, line in enumerate((3, 5, 7)) for event in _taken(0, 100 + 2 * at, line, at + 1)]
    unlike = _taken(0, 100, 3, 1) + _taken(0, 50, 5, 2)
    told = [_report(tmp_path / "snapshot.pkl", events, []).findings[-1].title for events in (alike, unlike)]
    assert told[0].endswith(
        "most is held by parts.py:7 part7 (34.0%), parts.py:5 part5 (33.3%), parts.py:3 part3 (32.7%)"
    )
    assert told[1].endswith("parts.py:3 part3 holds most: 100.0 MiB (66.7%)")


@pytest.mark.parametrize("streams", [1, 2])
def test_caches_of_streams_that_are_used_in_turn_are_told(streams: int, tmp_path: Path):
    """Ten blocks are used on one stream and given back, then ten on another: nothing is used by both."""
    events: list[dict[str, object]] = []
    for stream in range(streams):
        blocks = [_taken(stream, 40, 9, 1 + stream * 100 + at) for at in range(10)]
        events += [event for block in blocks for event in block]
        for block in blocks:
            events += [block[1] | {"action": action} for action in ("free_requested", "free_completed")]
    segments = [_cached(stream, 40, 1 + stream * 100 + at) for stream in range(streams) for at in range(10)]
    findings = _report(tmp_path / "snapshot.pkl", events, segments).findings
    pieces = [finding for finding in findings if finding.id == "SNAPSHOT.PIECES"]
    assert bool(pieces) == (streams == 2)
    for finding in pieces:
        assert "2 streams held up to 800.0 MiB, each in its own time, 400.0 MiB more than all at once" in finding.detail
        assert "record_stream" in finding.advice[-1]
