from __future__ import annotations

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.rules.rule import advise, line_of, lines_of, runs_of, sentences, timed
from npu_tui.strings import words
from npu_tui.trace.message import message


def test_runs() -> None:
    assert runs_of([7, 0, 1, 2, 3, 4, 6]) == ["0–4", "6", "7"]
    assert runs_of([3]) == ["3"]
    assert words(lines_of("/w/main.py", [361, 358, 360, 401])) == "main.py:358–361 and 401"


def test_lines_of_code() -> None:
    assert words(line_of(CodeLine("/src/a/main.py", 354, "train"))) == "main.py:354 in train()"
    assert words(line_of(CodeLine("C:\\a\\main.py", 3, "<module>"))) == "main.py:3"
    assert words(line_of(CodeLine("/w/\x1b[31m.py", 3, "f\x07"))) == "?[31m.py:3 in f?()"


def test_sentences_leave_out_what_is_empty() -> None:
    told = sentences(message("finding.outlook.part", wholes=["UTIL"]), "", *advise("rdma"))
    assert words(told) == "Part of UTIL. Check the RDMA links and the switches."
    assert words(sentences()) == ""


def test_a_name_with_its_time() -> None:
    assert words(timed("a\x1bb", 62_000)) == "a?b 62.00 µs"
