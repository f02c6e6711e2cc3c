"""A gate that cannot see does not pass."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from written import fields_of

from npu_tui.cli import check
from npu_tui.cli.main import main
from npu_tui.output import report

PROFILE = Path("fixtures/dispatch_bound/ASCEND_PROFILER_OUTPUT/trace_view.json")


def answer(path: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, object]]]:
    code = main(["check", str(path), "--format", "json", "--no-cache", *words])
    return code, fields_of(capsys.readouterr().out)["checks"]


def damaged(folder: Path, pattern: str, key: str, value: object = "soon") -> Path:
    """The profile in which ``key`` has a ``value`` of no use in all events that hold ``pattern``."""
    events = json.loads(PROFILE.read_text())
    for event in events:
        if re.search(pattern, f"{event['ph']} {event['name']}"):
            event[key] = value
    path = folder / "trace_view.json"
    path.write_text(json.dumps(events))
    return path


@pytest.mark.parametrize(
    ("pattern", "words", "unknown"),
    [
        ("[sf] HostToDevice", ["--max-lost", "5ms"], "lost"),
        ("X Free", ["--max-free", "10%"], "free"),
        ("X Free", ["--fail-on", "high", "--only", "FREQ"], "findings"),
    ],
)
def test_what_could_not_be_read_is_not_measured(
    pattern: str, words: list[str], unknown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, checks = answer(damaged(tmp_path, pattern, "ts"), *words, capsys=capsys)
    assert code == 1
    assert {"id": unknown, "status": "not_measured"}.items() <= next(
        each for each in checks if each["id"] == unknown
    ).items()


@pytest.mark.parametrize(
    ("pattern", "key", "value", "measure"),
    [
        ("X Free", "ph", 5, "free"),
        ("X Free", "pid", [1], "free"),
        ("X Free", "tid", {}, "free"),
        ("X Free", "dur", None, "free"),
        ("X Mat", "args", "none", "lost"),
        ("X Profiler", "name", None, "step"),
        ("s HostToDevice", "id", None, "lost"),
        ("s HostToDevice", "ph", "w", "lost"),
        ("s HostToDevice", "cat", 5, "lost"),
    ],
)
def test_events_of_a_wrong_form_are_not_measured(
    pattern: str, key: str, value: object, measure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, checks = answer(damaged(tmp_path, pattern, key, value), f"--max-{measure}", "1000s", capsys=capsys)
    assert (code, [each["status"] for each in checks]) == (1, ["not_measured"])


def test_no_time_of_a_device_is_no_pass(capsys: pytest.CaptureFixture[str]) -> None:
    code, checks = answer(PROFILE, "--range", "0..1us", "--fail-on", "low", capsys=capsys)
    assert (code, [each["status"] for each in checks]) == (1, ["not_measured"])


def test_measures_that_a_baseline_does_not_know_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "baseline.json"
    assert main(["check", str(PROFILE), "--no-cache", "--write-baseline", str(file)]) == 0
    content = json.loads(file.read_text())
    measured = content["sections"]["measures_us"]
    measured["free"] = None
    file.write_text(json.dumps(content))
    capsys.readouterr()
    assert main(["check", str(PROFILE), "--no-cache", "--baseline", str(file)]) == 0
    assert "unknown in the baseline" in capsys.readouterr().out
    measured["free"] = 1e308
    file.write_text(json.dumps(content))
    assert main(["check", str(PROFILE), "--no-cache", "--baseline", str(file)]) == 3
    assert "damaged baseline" in capsys.readouterr().err


def test_a_reader_that_has_gone_changes_no_answer() -> None:
    command = [sys.executable, "-m", "npu_tui", "check", str(PROFILE), "--no-cache", "--max-free", "0%"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 1


def test_an_error_of_the_program_is_70_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(report, "report", broken)
    monkeypatch.setattr(check, "part_of", broken)
    assert main(["check", str(PROFILE), "--max-free", "10%"]) == 70
    assert capsys.readouterr().err.count("\n") == 1
