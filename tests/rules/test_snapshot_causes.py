"""One seed of each simulated memory snapshot; ``tests/snapshots.py`` judges more."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from npu_tui.analysis.allocator_replay import Settings, recorded, replay
from npu_tui.analysis.snapshot import held_in
from npu_tui.load.snapshot import load_snapshot
from npu_tui.output.memory_report import memory_report
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
    was, now = recorded(snapshot.devices[0]), replay(snapshot.devices[0], Settings(expandable=True))
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
