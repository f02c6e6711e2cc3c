"""Paths, folders and streams that cannot be looked at."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from npu_tui.cli.main import main
from npu_tui.load import copy as cache
from npu_tui.load.errors import InputError
from npu_tui.load.find import find_source
from npu_tui.load.load import load, opening_of
from npu_tui.tui.flags import Flags
from npu_tui.tui.footer import FirstRun

NOWHERE = "a" * 300
"""A name that the system refuses to look up, as it does what lies below a folder that may not be searched."""


def test_a_fifo_is_no_file_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InputError, match=r"input\.stream"):
        find_source(tmp_path / "fifo")


def test_a_fifo_in_the_place_of_a_copy_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "LEAST_BYTES", 1)
    source = find_source(Path("fixtures/healthy"))
    key = cache.key_of(source) or ""
    cache.directory().mkdir(parents=True)
    os.mkfifo(cache.directory() / f"{key}.columns")
    assert cache.find(source, key) is None


def test_a_cache_that_cannot_be_searched_keeps_nothing_from_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / NOWHERE))
    monkeypatch.setattr(cache, "LEAST_BYTES", 1)
    opening = opening_of(Path("fixtures/healthy"))
    assert len(opening.trace().slices)


def test_notes_that_cannot_be_looked_for_are_a_line(tmp_path: Path) -> None:
    assert Flags(load(Path("fixtures/healthy")), tmp_path / NOWHERE / "flags").problem
    FirstRun(tmp_path / NOWHERE / "seen").used("escape")


def test_notes_in_a_fifo_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert Flags(load(Path("fixtures/healthy")), tmp_path / "fifo").all == []


@pytest.mark.parametrize("length", [300, 5_000])
def test_a_path_that_is_too_long_is_one_line(length: int) -> None:
    with pytest.raises(InputError) as refused:
        find_source(Path("a" * length))
    assert "\n" not in str(refused.value)


def test_the_name_of_a_folder_never_reaches_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a\x1b[2J\x07_ascend_pt"
    shutil.copytree("fixtures/dispatch_bound", folder)
    for words in (["query", str(folder)], ["report", str(folder)], ["check", str(folder), "--max-free", "99%"]):
        assert main([*words, "--no-cache"]) == 0
        assert not set("".join(capsys.readouterr())) & set("\x1b\x07")
