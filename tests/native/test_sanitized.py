"""The library with gcc's address sanitizer reads, packs, draws and refuses without an access outside of its memory."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from npu_tui.native.library import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = """
import numpy as np
from npu_tui.native.library import library
column = np.zeros(64, np.int64)
library().crossing(column, column, 65, column, 64)
"""


def runtime() -> str:
    """The sanitizer's own library, empty where gcc has none."""
    if sys.platform != "linux" or shutil.which("gcc") is None:
        return ""
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    return found if os.path.isabs(found) else ""


pytestmark = [
    pytest.mark.skipif(
        not runtime() or platform.libc_ver()[0] != "glibc", reason="there is no gcc with an address sanitizer"
    ),
    pytest.mark.of_files(
        "npu_tui/native",
        "npu_tui/load",
        "npu_tui/trace",
        "tests/native",
        "tests/load/scanner",
        "tests/attack/scanner.py",
    ),
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("sanitized")
    command = [sys.executable, "-m", "npu_tui.native.build", "--sanitize", "-o", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    library = str(folder / "sanitized.so")
    return os.environ | {"LD_PRELOAD": runtime(), "ASAN_OPTIONS": "detect_leaks=0", VARIABLE: library}


def test_the_sanitizer_sees_an_access_outside(environment: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", OUTSIDE], env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["tests/attack/scanner.py", "--mutants", "5"],
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/native/test_rows.py", "tests/native/test_replay.py",
         "tests/native/test_spans.py", "tests/native/test_columns.py",
         "tests/native/test_cells.py", "tests/load/scanner/test_chosen.py"],
    ],
    ids=["mutants", "loops"],
)  # fmt: skip
def test_nothing_else_is_seen(environment: dict[str, str], words: list[str]) -> None:
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
