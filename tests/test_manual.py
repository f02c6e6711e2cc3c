"""The pages of the manual and the README: complete, linked, and every command in them as the program takes it."""

from __future__ import annotations

import re
import shlex
import sys
from functools import cache
from itertools import chain, takewhile
from pathlib import Path

import pytest

from npu_tui.cli.main import main
from npu_tui.cli.parser import given, parser_of
from npu_tui.manual import TOPICS, TUTORIALS, drawn, page, title
from npu_tui.strings import LANGUAGES
from npu_tui.trace.text import cell_count
from npu_tui.tui.commands import markdown_table
from npu_tui.tui.picture import unknown_keys

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "screenshots"))

from render import MADE  # noqa: E402 - its folder is no package

FOLDER = ROOT / "npu_tui" / "manual"
TEXTS = [ROOT / "README.md", ROOT / "README.zh.md", *sorted(FOLDER.rglob("*.md"))]


def commands_in(text: str) -> list[list[str]]:
    """The words after each ``npu-tui`` in the blocks of shell and in the code of ``text``."""
    blocks = re.findall(r"^```(?:sh|yaml)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()] + re.findall(r"`(npu-tui\s[^`]+)`", text)
    found = []
    for line in lines:
        words = shlex.split(line, comments=True) if line.count("'") % 2 == 0 else []
        for at, word in enumerate(words):
            if word.rpartition("/")[2] == "npu-tui":
                own = list(takewhile(lambda word: word not in ("|", "&&", ">", ">>"), words[at + 1 :]))
                cut = own.index("--check") if own[:1] == ["record"] and "--check" in own else len(own)
                found += [own[:cut], *([["check", *own[cut + 1 :]]] if cut < len(own) else [])]
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_is_there(language: str, capsys: pytest.CaptureFixture[str]) -> None:
    for topic in TOPICS:
        assert title(topic, language), topic
        assert main(["help", topic, "--lang", language]) == 0, topic
        said = capsys.readouterr().out
        head, body = ("", said) if topic != "skill" else said.removeprefix("---\n").split("\n---\n\n")
        assert body.startswith(f"# {title(topic, language)}\n"), topic
        assert not head or [line.partition(": ")[0] for line in head.splitlines()] == ["name", "description"]
        assert "{" + "keys}" not in said, topic


def test_no_page_is_left_over() -> None:
    for language in LANGUAGES:
        assert {file.stem.lower() for file in (FOLDER / language).glob("*.md")} == set(TOPICS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_answer_of_the_readme_has_a_picture_of_a_profile(language: str) -> None:
    pattern = re.compile(r"^```(screen|job|run) (.+)\n((?:(?!```).*\n)+)```$", re.MULTILINE)
    pictures = [pattern.findall(page(topic, language)) for topic in (*TUTORIALS, "ci", "query", "report", "history")]
    assert all(pictures)
    for kind, words, told in chain.from_iterable(pictures):
        named = shlex.split(words)
        found = [word for word in named if word.startswith("fixtures/") or word in MADE]
        fixtures = [f"fixtures/{word.removeprefix('fixtures/')}" for word in (found if kind == "run" else named[:1])]
        assert fixtures
        assert all((ROOT / fixture).is_dir() or fixture.partition("/")[2] in MADE for fixture in fixtures)
        assert len(told.splitlines()) > 5
        if kind != "run":
            assert not unknown_keys(named[2:])


@pytest.mark.parametrize("file", sorted(FOLDER.rglob("*.md")), ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_line_of_prose_is_no_wider_than_100_cells(file: Path) -> None:
    """Code and tables are as wide as they are, and the head of a skill has one line a field."""
    text = file.read_text(encoding="utf-8")
    prose = re.sub(r"\A---\n.*?\n---\n|^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE).splitlines()
    assert [line for line in prose if not line.lstrip().startswith("|") and cell_count(line) > 100] == []


def test_the_page_about_keys_has_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "keys"]) == 0
    said = capsys.readouterr().out
    assert markdown_table("lanes") in said
    assert markdown_table("job") in said


def test_commands_are_the_program_s() -> None:
    options = cache(lambda name: parser_of(name)._option_string_actions)
    for file in TEXTS:
        for words in commands_in(file.read_text(encoding="utf-8")):
            words = [word for word in words if word != "--lang" and word not in LANGUAGES]
            name, rest, _, _ = given(words)
            for word in rest:
                if word.startswith("-") and len(word) > 1:
                    assert word.partition("=")[0] in options(name), f"{file}: npu-tui {' '.join(words)}"


def test_links_lead_somewhere() -> None:
    for file in TEXTS:
        for target in re.findall(r"\]\(([^)#]+)\)", file.read_text(encoding="utf-8")):
            assert target.startswith("https://") or (file.parent / target).exists(), f"{file}: {target}"


def test_on_a_terminal_a_page_is_no_wider_than_it() -> None:
    lines = re.sub(r"\x1b\[[0-9;]*m", "", drawn(page("search", "en"), 60)).splitlines()
    assert max(map(len, lines)) <= 60
    assert not any("```" in line for line in lines)


def test_the_end_of_a_line_is_no_space_between_chinese_words() -> None:
    text = "# 名\n\n一，\n二\n* 三；\n  四\n\n    七\n    八\n\n```\n五\n六\n```\n"
    said = re.sub(r"\x1b\[[0-9;]*m", "", drawn(text, 60))
    assert "一，二" in said
    assert "三；四" in said
    assert "五六" not in said
    assert "七八" not in said


@pytest.mark.parametrize(
    ("topic", "nearest"), [("serch", "help search"), ("bandwidth", "explain bandwidth"), ("绑核", "explain 绑核")]
)
def test_an_unknown_topic_names_the_nearest(topic: str, nearest: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["help", topic])
    assert f"did you mean npu-tui {nearest}?" in capsys.readouterr().err
