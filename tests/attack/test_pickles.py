"""Memory snapshots that refer to the same lists and texts again and again: refused before they take memory or time."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from npu_tui.cli.main import main
from npu_tui.load.errors import InputError
from npu_tui.load.snapshot import load_snapshot

EVENTS = [{"action": "alloc", "addr": 512 * k, "size": 512, "stream": 0, "frames": []} for k in range(500)]
BLOCKS = [{"address": 512 * k, "size": 512, "state": "active_allocated", "frames": []} for k in range(500)]
SEGMENT = {"device": 0, "address": 0, "total_size": 1 << 20, "blocks": BLOCKS}
FRAMES = [{"name": "n" * 50_000, "filename": "f" * 50_000, "line": k} for k in range(8)]
STACKS = [[FRAMES[(k >> shift) % 8] for shift in range(0, 9, 3)] * 100 for k in range(100)]
BOMBS: dict[str, dict[str, Any]] = {
    "events of many devices": {"segments": [], "device_traces": [EVENTS] * 5_000},
    "blocks of many segments": {"segments": [SEGMENT] * 5_000, "device_traces": []},
    "long stacks": {"device_traces": [[EVENTS[k] | {"frames": stack} for k, stack in enumerate(STACKS)]]},
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_is_shared_is_bounded(name: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb.pickle"
    file.write_bytes(pickle.dumps(BOMBS[name], 4))
    with pytest.raises(InputError) as refusal:
        load_snapshot(file)
    assert refusal.value.message.code == "input.pickle_bomb"


def test_the_same_without_sharing_is_read(tmp_path: Path) -> None:
    file = tmp_path / "plain.pickle"
    file.write_bytes(pickle.dumps({"segments": [SEGMENT], "device_traces": [EVENTS]}, 4))
    assert [len(device.events.size) for device in load_snapshot(file).devices] == [500]


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "snapshot.pickle")
    assert main(["report", str(tmp_path / "snapshot.pickle")]) == 3
