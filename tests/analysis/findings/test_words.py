from __future__ import annotations

import pytest

from npu_tui.analysis.findings.words import line_text, lines_text, list_text, runs_text, share_text, span_text
from npu_tui.analysis.launches.code_lines import CodeLine


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ms"),
        (20, "20 ns"),
        (62_000, "62 µs"),
        (949_999, "950 µs"),
        (950_000, "0.9 ms"),
        (93_541_000, "93.5 ms"),
        (12_340_000_000, "12.3 s"),
    ],
)
def test_lengths(ns: int, text: str) -> None:
    assert span_text(ns) == text


def test_shares() -> None:
    assert [share_text(share) for share in (0.065, 0.0995, 0.68, 1.0)] == ["6.5 %", "10 %", "68 %", "100 %"]


def test_lists_and_runs() -> None:
    assert [list_text(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert runs_text([7, 0, 1, 2, 3, 4, 6]) == "0–4, 6 and 7"
    assert runs_text([3]) == "3"
    assert lines_text("/w/main.py", [361, 358, 360, 401]) == "main.py:358–361 and 401"


def test_lines_of_code() -> None:
    assert line_text(CodeLine("/src/a/main.py", 354, "train")) == "main.py:354 in train()"
    assert line_text(CodeLine("C:\\a\\main.py", 3, "<module>")) == "main.py:3"
    assert line_text(CodeLine("/w/\x1b[31m.py", 3, "f\x07")) == "?[31m.py:3 in f?()"
