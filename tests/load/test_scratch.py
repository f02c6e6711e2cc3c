"""Plain bytes that lie nowhere else: on a disk, with room left on it, and gone whatever ends the program."""

from __future__ import annotations

import errno
import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from refusals import refused

from npu_tui.load import unpack
from npu_tui.load import unpack as scratch
from npu_tui.load.load import load
from npu_tui.load.unpack import Scratch, scratch_folder

TRACE = Path("fixtures/healthy/ASCEND_PROFILER_OUTPUT/trace_view.json")


def disk_of(free: int, size: int = 1 << 40) -> SimpleNamespace:
    return SimpleNamespace(f_blocks=size, f_frsize=1, f_bavail=free)


def test_a_temporary_directory_in_memory_is_left_for_one_on_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, disk, mounts = tmp_path / "memory", tmp_path / "disk", tmp_path / "mounts"
    disk.mkdir()
    mounts.write_text(f"disk / ext4 rw 0 0\nmemory {memory} tmpfs rw 0 0\n")
    monkeypatch.setattr(scratch, "_MOUNTS", mounts)
    monkeypatch.setattr(scratch, "_ON_DISK", str(disk))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(memory))
    for name in scratch._NAMED:
        monkeypatch.delenv(name, raising=False)
    assert scratch_folder() == str(disk)
    monkeypatch.setenv("TMPDIR", str(memory))  # the user has chosen
    assert scratch_folder() == str(memory)
    monkeypatch.delenv("TMPDIR")
    disk.rmdir()
    assert scratch_folder() == str(memory)
    disk.mkdir()
    mounts.unlink()  # a system that tells nothing
    assert scratch_folder() == str(memory)


def test_what_is_sure_not_to_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace_view.json.gz"
    path.write_bytes(gzip.compress(TRACE.read_bytes()))
    size = TRACE.stat().st_size
    monkeypatch.setattr(scratch.os, "statvfs", lambda folder: disk_of(scratch._LEFT_FREE + size))
    assert len(load(path).slices)
    monkeypatch.setattr(scratch.os, "statvfs", lambda folder: disk_of(scratch._LEFT_FREE + size - 1))
    with refused(r"no room in .* to unpack it; set TMPDIR to a larger disk"):
        load(path)


def test_room_is_left_while_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_ROOM_EVERY", 1000)
    free = [10**9]
    monkeypatch.setattr(scratch.os, "statvfs", lambda folder: disk_of(free[0]))
    copy = Scratch()
    for _ in range(3):
        copy.write(bytes(1000))
    free[0] = scratch._LEFT_FREE - 1
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as full:
        copy.write(bytes(1000))
    assert full.value.filename == scratch_folder()
    copy.stream.close()


def test_on_a_small_disk_a_share_of_it_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch.os, "statvfs", lambda folder: disk_of(1000, 10_000))
    Scratch(500).stream.close()
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        Scratch(501)


def test_a_killed_program_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import os, signal; from npu_tui.load.unpack import Scratch; s = Scratch(); s.write(bytes(9000));"
        "s.finish(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | {"TMPDIR": str(tmp_path)})
    assert done.returncode < 0
    assert list(tmp_path.iterdir()) == []


def test_what_a_gzip_tells_of_its_length(tmp_path: Path) -> None:
    path = tmp_path / "any"
    for data, told in (
        (b"[1, 2]", 6),
        (b"", 0),
        (gzip.compress(bytes(200)), 200),
        (gzip.compress(b"") + b"\xff" * 4, 24),
    ):
        path.write_bytes(data)
        with path.open("rb") as file:
            assert unpack.plain_bytes(file.fileno()) == told
