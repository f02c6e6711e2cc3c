"""What tests ask tables, and the files of the profiler as rows."""

from __future__ import annotations

import csv
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from measured import profile_at

from npu_tui.query.frames import ProfileTables, tables_of
from npu_tui.query.query import query

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"


@cache
def tables_at(path: Path) -> ProfileTables:
    return tables_of(profile_at(path))


def rows(tables: ProfileTables, sql: str) -> list[dict[str, Any]]:
    """The answer as one dict per row."""
    return query(tables, sql).to_dicts()


def cells(profile: Path, name: str) -> list[dict[str, str]]:
    """The rows of a CSV that the profiler wrote."""
    with (profile / "ASCEND_PROFILER_OUTPUT" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def ns(text: str) -> int:
    """Microseconds of a CSV as whole ns."""
    return round(Decimal(text.strip()) * 1000)
