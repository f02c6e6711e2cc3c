"""Traces of a wrong structure end in an answer or one line, and a failing one shrinks to its cause."""

from __future__ import annotations

from pathlib import Path

import structures


def test_a_few_mutants_withstand():
    ended, problems = structures.run_mutants(seed=3, numbers=range(6), drawn=3)
    assert problems == []
    assert ended["withstood"] == 6


def test_a_failing_case_shrinks_to_the_event_that_fails(monkeypatch, tmp_path: Path) -> None:
    def problem(texts: list[str], companions: dict[str, bytes], folder: Path, drawn: bool) -> str:
        return "report json: it fails" if "7" in texts else ""

    monkeypatch.setattr(structures, "problem", problem)
    assert structures.shrunk([str(n) for n in range(20)], {"a": b""}, tmp_path, False) == (["7"], {})


def test_what_was_found_stays_fixed(tmp_path: Path) -> None:
    for found in sorted((Path(__file__).parent / "found").glob("*.json")):
        assert structures.problem([found.read_text().strip()[1:-1]], {}, tmp_path, False) == "", found.name
