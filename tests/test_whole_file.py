"""What is written is whole, and nothing but a file is ever replaced."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from npu_tui.cli.main import main
from npu_tui.whole_file import write_file


def test_a_file_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to("file")
    write_file(link, b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_a_link_to_nothing_names_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    before = os.stat("/dev/null")
    (tmp_path / "link").symlink_to("/dev/null")
    write_file(Path("/dev/null"), b"gone")
    write_file(tmp_path / "link", b"gone")
    assert os.stat("/dev/null").st_rdev == before.st_rdev
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_fifo_is_written_to(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="fifo"):
        write_file(fifo, b"nobody reads")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    write_file(fifo, b"somebody reads")
    assert os.read(reader, 99) == b"somebody reads"
    os.close(reader)
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(OSError, match="No space left") as failed:
        write_file(file, b"new")
    assert failed.value.filename == str(file)
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "words",
    [["check", "fixtures/healthy", "--write-baseline"], ["screenshot", "fixtures/healthy", "-o"]],
    ids=["baseline", "picture"],
)
def test_a_full_device_is_named(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "full.svg"
    path.symlink_to("/dev/full")
    assert main([*words, str(path), "--no-cache"]) == 3
    assert f"npu-tui: {path}: No space left on device" in capsys.readouterr().err
