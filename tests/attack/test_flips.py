"""Flipped bits in parsed copies, and copies that are cut short while they are open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from flips import run_flips

SHORTENED = """
import os
from pathlib import Path
from npu_tui.load import copy as cache
from npu_tui.load.errors import Watcher
from npu_tui.load.find import find_source
from npu_tui.load.load import load
from npu_tui.output.report_document import report_document
from npu_tui.output.text import text

cache.LEAST_BYTES = 1
cache._LEFT_FREE = 0
source = find_source(Path("fixtures/healthy"))
key = cache.key_of(source)
cache.keep(load(source), key, lambda: True)
path = cache.copies()[0].path
trace = cache.find(source, key)
os.truncate(path, 4096)
assert int(trace.slices.end.max()) == trace.end
assert int(trace.rows.busy[-1]) > 0
cache.keep(load(source), key, lambda: True)
path = cache.copies()[0].path
assert cache.find(source, key, Watcher(lambda *figures: os.truncate(path, 4096) is None)) is None
print("alive")
"""


def test_no_flipped_bit_changes_an_answer():
    ended, problems = run_flips(seed=7, count=80)
    assert problems == []
    assert ended["refused by its checksums"]
    assert ended["refused at the opening"]


def test_a_copy_that_is_cut_short_while_it_is_open_or_checked_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", SHORTENED], capture_output=True, text=True, check=False)
    assert done.stdout == "alive\n", done.stderr[-500:] + str(done.returncode)
