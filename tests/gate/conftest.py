"""A bundled profile, the same one slower, and their reports."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from measured import profile_at
from msgspec import to_builtins

from npu_tui.output.report import report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
PROFILE = FIXTURES / "communication_bound"


def slower(factor: str, folder: Path) -> Path:
    """The trace of ``PROFILE`` with every time ``factor`` times as long."""
    trace = next(PROFILE.rglob("trace_view.json"))
    events = json.loads(trace.read_text(encoding="utf-8"))
    times = [Decimal(str(event["ts"])) for event in events if "ts" in event]
    first, by = min(times), Decimal(factor)
    for event in events:
        if "ts" in event:
            event["ts"] = str((first + (Decimal(str(event["ts"])) - first) * by).quantize(Decimal("0.001")))
        if "dur" in event:
            event["dur"] = float((Decimal(str(event["dur"])) * by).quantize(Decimal("0.001")))
    file = folder / f"trace_view_{factor}.json"
    file.write_text(json.dumps(events), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def found() -> dict[str, Any]:
    """The report of ``PROFILE``; whoever changes it copies it first."""
    return to_builtins(report(profile_at(PROFILE)))


@pytest.fixture(scope="session")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The trace as it is, 4 % slower and 6 % slower."""
    folder = tmp_path_factory.mktemp("slower")
    return {factor: slower(factor, folder) for factor in ("1", "1.04", "1.06")}
