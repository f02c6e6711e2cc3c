"""The report of a database is that of the text of the same run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from same_answers import UNLIKE, UNLIKE_AT_LEVEL_0, answers, differences, exported, with_calls_as_sources

PROFILES = [f"level{level}/rank{rank}" for level in (0, 1) for rank in (0, 1)]


@pytest.mark.parametrize("name", PROFILES)
def test_text_and_database_give_the_same_report(name: str, tmp_path: Path) -> None:
    traces = os.environ.get("NPU_TUI_TRACES")
    if not traces:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    profile = Path(traces) / "text" / f"{name}_ascend_pt"
    text = answers(with_calls_as_sources(profile, tmp_path))
    database = answers(exported(profile, tmp_path, int(name[-1])))
    unlike = UNLIKE_AT_LEVEL_0 if name.startswith("level0") else UNLIKE
    assert [each for each in differences(text, database) if not each.field.startswith(unlike)] == []
    assert len(list(differences(text, {**text, "trace": {**text["trace"], "links": 0}}))) == 1
