"""Little memory: what needs more than the process or its container may have is refused before it ends the process."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from npu_tui.load import polars_door
from npu_tui.load.errors import InputError
from npu_tui.trace import memory

MB = 1 << 20


@pytest.mark.parametrize("room", [500, 1_200])
def test_a_query_under_a_limit_is_one_line(room: int) -> None:
    limit = (resource.RLIMIT_AS, (room * MB, room * MB))
    words = [sys.executable, "-m", "npu_tui", "query", "fixtures/healthy", "SELECT count(*) FROM slices", "--no-cache"]
    ran = subprocess.run(
        words, capture_output=True, text=True, check=False, preexec_fn=lambda: resource.setrlimit(*limit), timeout=60
    )
    assert ran.returncode == 3
    assert len(ran.stderr.splitlines()) == 1
    assert "ulimit -v" in ran.stderr


@pytest.mark.parametrize(("room", "threads"), [(1_410, "1"), (1_600, "25"), (90_000, None)])
def test_polars_has_the_threads_there_is_room_for(
    room: int, threads: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 192)
    monkeypatch.setattr(polars_door, "free_addresses", lambda: room * MB)
    polars_door.make_room()
    assert os.environ.pop("POLARS_MAX_THREADS", None) == threads


@pytest.mark.parametrize(("addresses", "left"), [(1_400, 4_000), (memory.UNLIMITED, 100), (-5, -5)])
def test_too_little_is_an_error_of_the_input(addresses: int, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polars_door, "free_addresses", lambda: addresses * MB)
    monkeypatch.setattr(polars_door, "free_memory", lambda: left * MB)
    with pytest.raises(InputError):
        polars_door.make_room()


def _written(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("_", ".", 1)).write_text(content)


def test_the_smallest_of_the_groups_around_counts_without_copies_of_files(tmp_path: Path) -> None:
    listing = tmp_path / "cgroup"
    listing.write_text("0::/pod/box\n12:cpu,memory:/old\n3:freezer:/x\nnonsense\n")
    top = tmp_path / "sys"
    _written(top / "pod" / "box", memory_max="max\n", memory_current="5\n")
    _written(top / "pod", memory_max="1000\n", memory_current="900\n", memory_stat="anon 700\nfile 200\n")
    old = top / "memory" / "old"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text("5000")
    (old / "memory.usage_in_bytes").write_text("1000")
    assert sorted(memory._left_in_groups(listing, top)) == [300, 4000]
    assert list(memory._left_in_groups(tmp_path / "none", top)) == []
