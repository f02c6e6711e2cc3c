"""The questions of ``tests/agent_questions.py`` that need no simulation: right, small, and in few calls."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from agent_questions import MOST_CALLS, MOST_TOKENS, ask, questions  # noqa: E402

from npu_tui.mcp.session import OpenProfiles  # noqa: E402


def test_questions_about_fixtures_are_answered_in_few_calls_and_tokens(tmp_path: Path) -> None:
    every = list(questions(tmp_path, 3))
    assert len(every) >= 40
    here = [question for question in every if ":" not in question.text and "job" not in question.text]
    here = [question for question in here if question.text != "nothing in nothing"]
    outcomes = asyncio.run(ask(OpenProfiles([ROOT / "fixtures"]), here))
    assert [row.text for row in outcomes if not row.right] == []
    assert len(outcomes) == 10
    assert max(row.largest for row in outcomes) <= MOST_TOKENS
    assert sum(row.calls for row in outcomes) / len(outcomes) <= MOST_CALLS
    assert all(row.tokens < row.report / 1.5 for row in outcomes)
