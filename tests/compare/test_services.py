"""Two simulated services beside each other: what changed at like load, and that an unlike load is said first."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from written import fields_of

import npu_tui
from npu_tui.cli.explore import demos
from npu_tui.cli.main import main
from npu_tui.output.envelope import report_schema, side_by_side

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service_causes import write_service


def compared(capsys: pytest.CaptureFixture[str], base: Path, new: Path, *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["compare", str(base), str(new), "--format", "json", *words])
    return code, fields_of(capsys.readouterr().out)


def test_a_slow_scheduler_at_like_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for cause in ("healthy", "scheduler"):
        write_service(tmp_path / cause, cause, 1, 40)
    code, found = compared(capsys, tmp_path / "healthy", tmp_path / "scheduler", "--fail-on", "slower")
    assert code == 1
    assert found["unlike"] == []
    assert re.match(r"Most of it: schedule, (399\.\d|400\.0) µs → 12\.00 ms", found["verdict"][1])
    truth = [
        json.loads((tmp_path / cause / "truth.json").read_text())["latencies_ns"] for cause in ("healthy", "scheduler")
    ]
    means = [sum(side["ttft"]) / 40 / 1000 for side in truth]
    assert sum(row["delta_us"] for row in found["parts"] if row["metric"] == "ttft") == pytest.approx(
        means[1] - means[0], abs=1
    )
    assert [row["id"] for row in found["findings"]] == ["SERVICE.SCHEDULER"]
    assert found["forward_change"] == pytest.approx(0, abs=0.02)
    assert compared(capsys, tmp_path / "healthy", tmp_path / "healthy", "--fail-on", "slower")[0] == 0


def test_an_unlike_load_fails_a_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The API says the same; a service beside another kind of profile is refused by name."""
    for cause in ("healthy", "idle"):
        write_service(tmp_path / cause, cause, 1, 12)
    code, found = compared(capsys, tmp_path / "healthy", tmp_path / "idle", "--fail-on", "slower")
    assert code == 1
    assert found["unlike"] == ["rate"]
    assert found["verdict"][0].startswith("The loads differ (requests a second by more than 10%)")
    sides = [npu_tui.open(tmp_path / cause) for cause in ("healthy", "idle")]
    both = sides[0].compare(sides[1])
    Draft202012Validator(report_schema("compare_service")).validate(both.to_dict())
    assert side_by_side(both.to_dict()) == found
    assert both.verdict.splitlines() == found["verdict"]
    assert found["verdict"][1] in both.text()
    with pytest.raises(npu_tui.Error, match="is not the output of msServiceProfiler"):
        sides[0].compare(npu_tui.open(demos()["healthy"]))
