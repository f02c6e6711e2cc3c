"""Tests run in forked processes: each one once, and a process that dies is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from forks import stretches

TESTS = """
import os, pytest, tempfile

here = tempfile.TemporaryDirectory(dir=os.getcwd(), prefix="shared")

@pytest.mark.parametrize("number", range(5))
def test_shared(number):
    assert os.path.isdir(here.name)

@pytest.mark.parametrize("number", range(9))
def test_number(number, capfd):
    os.write(1, b"heard")
    assert number != 7
    assert capfd.readouterr().out == "heard"

def test_folder(tmp_path):
    global kept
    kept = tempfile.TemporaryDirectory(dir=tmp_path.parent.parent, prefix="kept")


def test_end():
    os._exit(3)
"""


@pytest.mark.parametrize("processes", [1, 2, 4, 16])
@pytest.mark.parametrize("lengths", [[], [1], [300, 2, 40, 1, 1, 9], [5] * 50])
def test_stretches_are_all_tests_once_and_short_at_the_end(processes: int, lengths: list[int]) -> None:
    files = [Path(str(file)) for file, length in enumerate(lengths) for _ in range(length)]
    found = list(stretches(files, processes))
    assert [at for each in found for at in each] == list(range(len(files)))
    assert all(len(each) == 1 for each in found[-1:])
    assert max(map(len, found), default=0) <= max(len(files) / processes, 1)


def test_a_stretch_ends_with_a_file_where_one_ends_soon() -> None:
    files = [Path("a")] * 17 + [Path("b")] * 31
    assert next(stretches(files, 1)) == range(8)
    assert next(stretches(files[8:], 1)) == range(9)


def run_forked(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``TESTS`` in two processes."""
    (folder / "test_these.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "forks", "-p", "no:cacheprovider", "--forks", "2", "-ra", "-v"]
    return subprocess.run(
        [*command, f"--basetemp={folder / 'base'}", "test_these.py", *words], cwd=folder, capture_output=True,
        text=True, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parent)},
    )  # fmt: skip


def test_failures_and_ends_of_processes_are_told(tmp_path: Path) -> None:
    done = run_forked(tmp_path, "-k", "number or end")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 failed, 8 passed" in done.stdout
    assert "FAILED test_these.py::test_number[7] - assert 7 != 7" in done.stdout
    assert "the process that ran it ended with 3" in done.stdout
    assert "heard" not in done.stderr


def test_folders_of_a_process_are_removed_when_it_ends_and_no_others(tmp_path: Path) -> None:
    done = run_forked(tmp_path, "-k", "folder or shared")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout
    assert not [*tmp_path.glob("shared*"), *tmp_path.rglob("kept*")]
