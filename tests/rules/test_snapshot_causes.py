"""One seed of each simulated memory snapshot; ``tests/snapshots.py`` judges more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.snapshots import failures


@pytest.mark.parametrize("cause", ["healthy", "leak", "fragmentation", "peak"])
def test_what_ails_a_run_is_told_first_and_nothing_of_a_healthy_one(cause: str, tmp_path: Path):
    assert failures(cause, 7, tmp_path) == []
