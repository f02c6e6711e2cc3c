"""The report of a database is that of the text of the same run."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from causes import ALL
from same_answers import (
    UNLIKE,
    UNLIKE_AT_LEVEL_0,
    UNLIKE_SIMULATED,
    UNLIKE_SIMULATED_AT_LEVEL_0,
    answers,
    differences,
    exported,
    simulated,
    with_calls_as_sources,
)

PROFILES = ["level0/rank0", "level1/rank1"]
"""One of each level; ``python tests/same_answers.py`` asks all."""


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


@pytest.mark.parametrize(
    ("name", "unlike"),
    [
        ("host: slow fetch", UNLIKE_SIMULATED),
        ("peers: always late at Level0", UNLIKE_SIMULATED_AT_LEVEL_0),
        ("own: an older chip, tensor parallel, a late rank", UNLIKE_SIMULATED),
    ],
)
def test_text_and_database_of_a_simulated_run_give_the_same_report(
    name: str, unlike: tuple[str, ...], tmp_path: Path
) -> None:
    job = tuple(replace(rank, steps=2) for rank in ALL[name].job)
    text, database = map(answers, simulated(job, tmp_path))
    assert [each for each in differences(text, database) if not each.field.startswith(unlike)] == []
    gains = [{row["id"]: row["gain_us"] for row in found["findings"]} for found in (text, database)]
    assert max(gains[0].values(), default=0, key=lambda gain: gain or 0) > 1_000
    if unlike is UNLIKE_SIMULATED:
        assert gains[0] == pytest.approx(gains[1], rel=0.002)
