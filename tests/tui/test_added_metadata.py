"""What a program adds to its profile stands in the summary."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from measured import answers, session_of

import npu_tui
from npu_tui.load.load import load
from npu_tui.tui.session import NO_HITS
from npu_tui.tui.tabs.summary import summary
from npu_tui.tui.tabs.table import Context, TabTable

HEALTHY = Path(__file__).resolve().parents[2] / "fixtures" / "healthy"


def test_added_metadata_is_in_the_summary_and_the_variables_are_not_told_twice(tmp_path: Path) -> None:
    folder = tmp_path / "one_ascend_pt"
    shutil.copytree(HEALTHY, folder)
    told = {"model": "small-7b", "ENV_VARIABLES": {"HCCL_ALGO": "ring"}, "sizes": [4, 8], "nested": {"lr": 0.1}}
    (folder / "profiler_metadata.json").write_text(json.dumps(told))
    session = session_of(load(folder))
    content = summary(Context(session, None, None, None, "HostToDevice", NO_HITS, 0))
    assert isinstance(content, TabTable)
    rows = [tuple(str(cell) for cell in row.cells) for row in content.rows]
    assert [row[1:3] for row in rows if row[0] == "metadata"] == [
        ("model", "small-7b"), ("nested", "lr 0.1"), ("sizes", "4, 8"),
    ]  # fmt: skip
    assert [row[1] for row in rows if row[0] == "variable"] == ["HCCL_ALGO"]


def test_json_and_sql_have_what_was_added(tmp_path: Path) -> None:
    folder = tmp_path / "one_ascend_pt"
    shutil.copytree(HEALTHY, folder)
    (folder / "profiler_metadata.json").write_text(json.dumps({"model": "small-7b", "sizes": [4, 8], "lr": {"w": 1}}))
    opened = npu_tui.open(folder)
    expected = [("lr", "w 1"), ("model", "small-7b"), ("sizes", "4, 8")]
    assert [(row["name"], row["value"]) for row in answers(load(folder))["metadata"]] == expected
    assert opened.sql("SELECT name, value FROM metadata").rows() == expected
