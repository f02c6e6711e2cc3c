"""Trace health in words, one line each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from measured import part_of, profile_of
from written import text_report

from npu_tui.load.load import load
from npu_tui.output.report import report
from npu_tui.output.report_tables import health_lines


def lines_of(tmp_path: Path, *events: dict[str, Any], end: str = "]") -> list[str]:
    path = tmp_path / "trace_view.json"
    texts = [json.dumps({"ph": "X", "name": "op", "pid": 1, "tid": 1, "dur": 5} | event) for event in events]
    path.write_text("[" + ", ".join(texts) + end)
    return health_lines(profile_of(load(path)))


def test_a_clean_trace(tmp_path: Path) -> None:
    assert lines_of(tmp_path, {"ts": 0}) == [
        "1 event in the file, 1 of them shown as slices",
        "every event was placed",
    ]


def test_a_cut_trace(tmp_path: Path) -> None:
    assert "the file is cut off: 1 complete event is shown" in lines_of(tmp_path, {"ts": 0}, end=", {")


def test_what_is_skipped_is_said_with_its_reason(tmp_path: Path) -> None:
    assert "1 event skipped: slice without a usable time" in lines_of(tmp_path, {"ts": 0}, {"ts": "x"})


def test_two_names_of_one_process(tmp_path: Path) -> None:
    names = [{"ph": "M", "name": "process_name", "args": {"name": name}} for name in ("UB", "Python GC", "UB")]
    said = lines_of(tmp_path, {"ts": 0}, *names)
    assert said[1] == "process 1 is named UB and Python GC: both are shown under the first name"


def test_slices_without_a_process(tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json"
    path.write_text('[{"ph": "X", "name": "op", "ts": 1, "dur": 2}]')
    assert health_lines(profile_of(load(path)))[1] == "1 slice names no process: shown on a layer of their own"


def test_the_report_says_that_a_file_is_cut_off(tmp_path: Path) -> None:
    lines_of(tmp_path, {"ts": 0, "name": "x" * 10_000}, end="")
    text = text_report(report(part_of(load(tmp_path / "trace_view.json"))))
    assert "Health\n" in text
    assert "the file is cut off" in text
