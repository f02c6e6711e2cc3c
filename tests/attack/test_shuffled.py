"""The order of events in a file is no property of a run: shuffled, it gives the same figures and sentences."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from npu_tui.load.load import Opening
from npu_tui.mcp.answers import plain
from npu_tui.output.json_document import document
from npu_tui.output.statement import profile_statement
from npu_tui.profile.profile import Profile
from npu_tui.profile.selection import part_of
from tests.conftest import ROOT


def differing(before: Any, after: Any, place: str = "") -> list[str]:
    """Where two documents differ, the first ten places."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [*before, *(key for key in after if key not in before)]
        return [one for key in keys for one in differing(before.get(key), after.get(key), f"{place}.{key}")][:10]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [one for number, pair in pairs for one in differing(*pair, f"{place}[{number}]")][:10]
    return [] if before == after else [f"{place}: {before!r:.120} -> {after!r:.120}"]


FIXTURES = [
    "healthy", "dispatch_bound", "communication_bound", "interrupted", "level0", "older_chip", "newest_torch_npu",
    "mindspore", "kineto", "decimal_pids",
]  # fmt: skip


def told(path: Path) -> dict[str, Any]:
    opening = Opening(path)
    statement = profile_statement(part_of(Profile(opening.trace(), opening.source), None, None))
    found: dict[str, Any] = plain(document(statement.data, statement.verdict))
    found["sections"]["links"].sort(key=lambda row: row["category"])  # in the order in which the file names them
    return found


def content_of(name: str) -> tuple[Path, list[dict[str, Any]]]:
    file = max((ROOT / "fixtures" / name).rglob("*.json"), key=lambda file: file.stat().st_size)
    content = json.loads(file.read_text())
    return file, content if isinstance(content, list) else content["traceEvents"]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", FIXTURES)
def test_a_shuffled_file_says_the_same(tmp_path, name, seed):
    file, events = content_of(name)
    path = tmp_path / file.name
    names = [event for event in events if event["ph"] == "M"]
    others = [event for event in events if event["ph"] != "M"]
    path.write_text(json.dumps(names + others))
    alone = told(path)
    random.Random(seed).shuffle(others)
    path.write_text(json.dumps(names + others))
    assert differing(alone, told(path)) == []
