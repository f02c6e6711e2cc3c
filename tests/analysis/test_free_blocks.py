"""Free blocks at a moment, and what they tell of a request that failed or that took more from the device."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from npu_tui.analysis.snapshot import free_blocks
from npu_tui.load.snapshot import load_snapshot
from npu_tui.output.memory_report import memory_report
from npu_tui.trace.snapshot import MemorySnapshot

MB = 1 << 20
BASE = 1 << 44

Row = tuple[str, int, int]
"""Action, address and size in MiB."""


def taken(folder: Path, rows: list[Row], *, stream_of: dict[int, int] | None = None, left: int = 0, expandable=False):
    """The snapshot of a run that does ``rows``; segments are on the streams ``stream_of`` by address, else 0."""
    streams = stream_of or {}
    segments: dict[int, int] = {}
    live: dict[int, int] = {}
    events: list[dict[str, Any]] = []
    for action, at, size in rows:
        entry = {"action": action, "size": size * MB, "stream": 0, "frames": []}
        owner = max((start for start in segments if start <= at), default=at)
        entry["stream"] = streams.get(at if action.startswith("segment") else owner, 0)
        entry |= {"device_free": left * MB} if action == "oom" else {"addr": BASE + at * MB}
        events.append(entry)
        if action in ("segment_alloc", "segment_map"):
            segments[at] = size
        elif action == "segment_free":
            del segments[at]
        elif action == "alloc":
            live[at] = size
        elif action == "free_completed":
            del live[at]
    listed = [
        {
            "device": 0, "address": BASE + start * MB, "total_size": size * MB, "stream": streams.get(start, 0),
            "segment_type": "large", "is_expandable": expandable, "segment_pool_id": (0, 0),
            "blocks": [
                {"address": BASE + at * MB, "size": length * MB, "requested_size": length * MB,
                 "state": "active_allocated", "frames": []}
                for at, length in live.items() if start <= at < start + size
            ],
        }
        for start, size in segments.items()
    ]  # fmt: skip
    path = folder / "snapshot.pkl"
    path.write_bytes(pickle.dumps({"segments": listed, "device_traces": [events]}))
    return load_snapshot(path)


def found(snapshot: MemorySnapshot) -> dict[str, tuple[str, list[str]]]:
    return {row.id: (row.detail, row.advice) for row in memory_report(snapshot).findings if row.severity != "info"}


CHECKERED = [
    ("segment_alloc", 0, 200), *(("alloc", at, 20) for at in range(0, 200, 20)),
    *(("free_completed", at, 20) for at in range(0, 200, 40)),
]  # fmt: skip
"""Every other block of 20 MiB is free: 100 MiB in five blocks."""


def test_free_blocks_at_a_moment(tmp_path: Path):
    (device,) = taken(tmp_path, [*CHECKERED, ("segment_alloc", 200, 40), ("alloc", 200, 40)]).devices
    end = len(device.events) - 1
    assert free_blocks(device, end, 30 * MB, 0) == free_blocks(device, end - 2, 30 * MB, 0)
    free = free_blocks(device, end, 30 * MB, 0)
    assert (free.unused, free.here, free.largest) == (100 * MB, 100 * MB, 20 * MB)
    free = free_blocks(device, 5, 30 * MB, 0)  # five blocks are there
    assert (free.unused, free.largest) == (100 * MB, 100 * MB)
    assert free_blocks(device, end, 30 * MB, 7).largest == 0
    assert free_blocks(device, end, MB, 0).here == 0  # the small pool has no segment


def test_segments_that_touch_are_not_one_block(tmp_path: Path):
    rows = [("segment_alloc", 0, 20), ("segment_alloc", 20, 20), ("oom", 0, 30)]
    (device,) = taken(tmp_path, rows).devices
    assert free_blocks(device, 2, 30 * MB, 0).largest == 20 * MB
    (device,) = taken(tmp_path, [("segment_map", *row[1:]) for row in rows[:2]], expandable=True).devices
    assert free_blocks(device, 1, 30 * MB, 0).largest == 40 * MB
    given_back = [("segment_alloc", 0, 40), ("oom", 0, 60), ("segment_free", 0, 40)]
    (device,) = taken(tmp_path, given_back).devices
    assert [free_blocks(device, at, 30 * MB, 0).largest for at in (-1, 0, 1, 2)] == [0, 40 * MB, 40 * MB, 0]


OTHER = [("segment_alloc", 0, 200), ("segment_alloc", 300, 100), ("alloc", 0, 200)]
FULL = [("segment_alloc", 0, 200), ("alloc", 0, 190), ("oom", 0, 30)]
CASES = {
    "pieces": ([*CHECKERED, ("oom", 0, 30)], {}, "the largest free block was 20.0 MiB: fragmentation", "expandable"),
    "shortage": (FULL, {}, "10.0 MiB of it free: less than", ""),
    "another stream": ([*OTHER, ("oom", 0, 30)], {300: 5}, "100.0 MiB of it free, but only 0 B in the pool", ""),
    "a limit": (FULL, {}, "may be the reason", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_request_that_failed_is_held_against_free_blocks(name: str, tmp_path: Path):
    rows, streams, said, advice = CASES[name]
    snapshot = taken(tmp_path, rows, stream_of=streams, left=1000 if name == "a limit" else 5)
    detail, advised = found(snapshot)["SNAPSHOT.OOM"]
    assert said in detail
    assert ("1,000.0 MiB" if name == "a limit" else "the device had 5.0 MiB left") in detail
    assert any("expandable" in line for line in advised) == bool(advice)


def test_memory_taken_beside_free_memory_says_why(tmp_path: Path):
    # A segment of another stream that nobody uses: no replay takes it, so none tells what another setting would do.
    rows = [*CHECKERED, ("segment_alloc", 600, 100), ("segment_alloc", 200, 40), ("alloc", 200, 40)]
    detail, _ = found(taken(tmp_path, rows, stream_of={600: 9}))["SNAPSHOT.PIECES"]
    assert "100.0 MiB were free in its pool and on its stream, the largest block 20.0 MiB" in detail
    rows = [*OTHER, ("segment_alloc", 500, 40), ("alloc", 500, 40)]
    detail, _ = found(taken(tmp_path, rows, stream_of={300: 5}))["SNAPSHOT.PIECES"]
    assert "Only 0 B were free in its pool and on its stream" in detail


def test_a_healthy_run_says_nothing(tmp_path: Path):
    rows = [("segment_alloc", 0, 200), *(("alloc", at, 20) for at in range(0, 200, 20))]
    rows += [("segment_alloc", 200, 40), ("alloc", 200, 40)]
    assert not found(taken(tmp_path, rows))
