"""What the shells complete, and that their scripts pass it on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from npu_tui.cli import main
from npu_tui.commands.completion import completed
from npu_tui.commands.tree import COMMANDS
from npu_tui.manual.pages import TOPICS
from npu_tui.report.explain import finding_ids
from npu_tui.strings import LANGUAGES, say
from npu_tui.tables.schema import TABLES


def words(line: str) -> list[str]:
    return [each.partition("\t")[0] for each in completed(line.split(" "))]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", [*COMMANDS, ":files"]),
        ("rep", ["report", ":files"]),
        ("--no-cache rep", ["report", ":files"]),
        ("report --fo", ["--format"]),
        ("report --format ", ["text", "markdown", "html", "json"]),
        ("report --format=j", ["--format=json"]),
        ("report --format json --config ", [":files"]),
        ("report --config=x", [":files"]),
        ("report ", [":files"]),
        ("report x ", []),
        ("compare a ", [":files"]),
        ("compare a b ", []),
        ("explain DISPATCH.V", ["DISPATCH.VERTICAL"]),
        ("explain dispatch.v", ["DISPATCH.VERTICAL"]),
        ("explain ", finding_ids()),
        ("check p --only UTIL,DISPATCH.V", ["UTIL,DISPATCH.VERTICAL"]),
        ("check p --fail-on high,slo", ["high,slower"]),
        ("query p ", list(TABLES)),
        ("query --format csv p la", ["launches"]),
        ("help ", list(dict.fromkeys((*TOPICS, *COMMANDS)))),
        ("p --tab oper", ["operators"]),
        ("--theme d", ["dark"]),
        ("demo dispatch", ["dispatch_bound"]),
        ("schema r", ["report", "ranks"]),
        ("version ", []),
    ],
)
def test_completed(line: str, wanted: list[str]) -> None:
    assert [each for each in words(line) if each in wanted or line != "query --format csv p la"] == wanted


def test_options_say_what_they_do() -> None:
    assert all(each.partition("\t")[2] for each in completed(["report", "--"]))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_help_has_commands_to_copy(
    language: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["--lang", language, "completion", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [len(line.split(" > ")) for line in lines if line.startswith("npu-tui completion ")] == [2, 2, 2]


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds the program and one file."""
    program = tmp_path / "npu-tui"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m npu_tui "$@"\n')
    program.chmod(0o755)
    (tmp_path / "r.json").touch()
    return tmp_path


def told(shell: str, code: str, folder: Path) -> list[str]:
    """The lines that the shell prints when it runs ``code``."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    place = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}
    plain = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]
    done = subprocess.run([shell, plain, "-c", code], cwd=folder, env=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("npu-tui r", {"report", "ranks", "r.json"}),
        ("npu-tui help ag", {"agents"}),
        ("npu-tui --theme = d", {"dark"}),
        ("npu-tui report --format =", {"text", "markdown", "html", "json"}),
    ],
)
def test_bash(line: str, wanted: set[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Readline breaks words at ``=`` too, and takes what stands after it for the one to complete."""
    code = f"""compopt() {{ :; }}
{script("bash", capsys)}
COMP_WORDS=({line}) COMP_CWORD={line.count(" ")}
_npu_tui; printf '%s\\n' "${{COMPREPLY[@]}}" """
    assert set(told("bash", code, folder)) == wanted


def test_zsh(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What has no description stands without the colon that would announce one."""
    code = f"""compdef() {{ }}; _describe() {{ print -l -- "${{(@P)2}}" }}; _files() {{ print files }}
{script("zsh", capsys)}
words=(npu-tui rep) CURRENT=2; _npu_tui; words=(npu-tui demo heal) CURRENT=3; _npu_tui"""
    assert told("zsh", code, folder) == [f"report:{say('tree.report')}", "files", "healthy"]


def test_fish(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = f"{script('fish', capsys)}\ncomplete -C 'npu-tui r'; complete -C 'npu-tui demo heal'"
    assert {"r.json", f"report\t{say('tree.report')}", "healthy"} <= set(told("fish", code, folder))
