"""Where an answer goes: ``-o FILE`` chooses the format, and a page never pours into a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npu_tui.cli.main import main
from npu_tui.cli.streams import DONE, USAGE, write_pages

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
HEALTHY = str(FIXTURES / "healthy")
ANSWERS = {
    "report": ["report", HEALTHY],
    "compare": ["compare", HEALTHY, HEALTHY],
    "ranks": ["ranks", HEALTHY],
    "explain": ["explain", "SYNC.HOST"],
}


@pytest.mark.parametrize("command", ANSWERS)
def test_the_extension_chooses_the_format(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, issue, data = (tmp_path / f"answer{end}" for end in (".HTML", ".md", ".json"))
    for path in (page, issue, data):
        assert main([*ANSWERS[command], "-o", str(path)]) == DONE
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert issue.read_text().startswith("## ")
    assert json.loads(data.read_bytes())["schema_version"] == 2
    assert capsys.readouterr().out == ""


def test_a_text_file_of_a_comparison_has_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "answer.txt"
    assert main([*ANSWERS["compare"], "-o", str(path)]) == DONE
    assert main([*ANSWERS["compare"], "--format", "text"]) == DONE
    assert path.read_text() == capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-o", "answer.xml"], "-o answer.xml: a name that ends in .html, .md, .json or .txt chooses the format"),
        (["--format", "html"], "HTML is not for a terminal: use -o FILE.html, or redirect it to a file"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with pytest.raises(SystemExit) as stop:
        main(["report", HEALTHY, *words])
    assert stop.value.code == USAGE
    assert told in capsys.readouterr().err


def test_a_format_that_is_given_wins_over_the_extension(tmp_path: Path) -> None:
    path = tmp_path / "answer"
    assert main(["report", HEALTHY, "--format", "markdown", "-o", str(path)]) == DONE
    assert path.read_text().startswith("## ")


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nowhere" / "answer.md"
    assert main(["report", HEALTHY, "-o", str(path)]) == 3
    assert capsys.readouterr().err == f"npu-tui: {path}: No such file or directory\n"


def test_a_long_page_goes_through_the_pager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paged = tmp_path / "paged"
    monkeypatch.setenv("PAGER", f"tee {paged}")
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    write_pages("short\n")
    assert not paged.exists()
    write_pages("a line\n" * 50)
    assert paged.read_text() == "a line\n" * 50
