"""The commands for people, in short: every row of the table is filled, and a few damaged traces are read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import flavours
import fuzz


def test_every_row_is_filled_and_keeps_its_share() -> None:
    rows = flavours.rows()
    assert len(rows) > 100
    for row in rows:
        assert row.what
        assert row.seen.isprintable(), row.name
        assert row.seen, row.name
        assert row.kept >= row.least, row.name


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(line.replace("\\|", "").count("|") == 5 for line in flavours.table().splitlines())


def test_fifteen_mutations() -> None:
    ended, problems = fuzz.run_cases(7, range(15))
    assert problems == []
    assert ended["passed"] + ended["packed"] == 15


def test_eight_mutations_read_by_several() -> None:
    ended, problems = fuzz.run_readers(7, range(8))
    assert problems == []
    assert ended["passed"] == 8


@pytest.mark.parametrize("fixture", ["healthy", "kineto", "chrome_generic"])
def test_every_hundredth_truncation(fixture: str) -> None:
    sample = fuzz.truncation_sample(fixture, 20_000)
    cuts = range(0, len(sample.data), 100)
    ended, problems = fuzz.run_truncations(sample, cuts, chunk_size=1 << 12)
    assert problems == []
    assert ended.total() == len(cuts)
