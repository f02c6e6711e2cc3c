"""One seed of each simulated memory snapshot; ``tests/snapshots.py`` judges more."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from npu_tui.load.snapshot import load_snapshot
from npu_tui.rules.snapshot import judge
from tests.snapshots import CAUSES, failures, simulate


@pytest.mark.parametrize("cause", ["healthy", "leak", "fragmentation", "peak"])
def test_what_ails_a_run_is_told_first_and_nothing_of_a_healthy_one(cause: str, tmp_path: Path):
    assert failures(cause, 7, tmp_path) == []


@pytest.mark.parametrize("layers", [12, 80])
def test_a_small_pool_that_grows_beside_an_unused_large_one_is_no_fragmentation(layers: int, tmp_path: Path):
    run = replace(CAUSES["healthy"], layers=layers, activation=1 << 20, steps=3)
    path = tmp_path / "snapshot.pkl"
    path.write_bytes(pickle.dumps(simulate(run, 7).snapshot()))
    assert {finding.severity for finding in judge(load_snapshot(path))[0].findings} == {"info"}
