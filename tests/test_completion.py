"""What the shells complete, and that their scripts pass it on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from argcomplete.lexers import split_line

from npu_tui.cli.completion import WordCompleter
from npu_tui.cli.main import main
from npu_tui.cli.parser import COMMANDS
from npu_tui.manual import TOPICS
from npu_tui.output.explain import finding_ids
from npu_tui.query.frames import TABLES
from npu_tui.strings import LANGUAGES, say


def finder(line: str) -> tuple[WordCompleter, list[str]]:
    """What completes ``npu-tui line`` at its end, and the words it finds."""
    prequote, prefix, _, before, at = split_line(f"npu-tui {line}")
    if prefix.startswith("-") and "=" in prefix:
        before.append(prefix.partition("=")[0])
    completes = WordCompleter(None, always_complete_options=False, append_space=False)
    return completes, completes._get_completions(before, prefix, prequote, at)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Holds one file, one folder and a hidden file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.json").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "run").mkdir()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", [*COMMANDS, "run/", "x.json"]),
        ("rep", ["report"]),
        ("--no-cache r", ["report", "ranks", "record", "run/"]),
        ("report --fo", ["--format"]),
        ("report --format ", ["text", "markdown", "html", "json"]),
        ("report --format=j", ["--format=json"]),
        ("report --format json --config ", ["run/", "x.json"]),
        ("report --config=x", ["--config=x.json"]),
        ("report .", [".hidden"]),
        ("report x ", []),
        ("compare a ", ["run/", "x.json"]),
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
    found = finder(line)[1]
    assert ([each for each in found if each in wanted] if line == "query --format csv p la" else found) == wanted


def test_options_and_commands_say_what_they_do() -> None:
    for line in ("report --", "re"):
        completes, found = finder(line)
        assert found
        assert all(completes.get_display_completions()[each] for each in found)


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
        pytest.skip(reason=f"{shell} is not installed")
    place = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}
    plain = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]
    done = subprocess.run([shell, plain, "-c", code], cwd=folder, env=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("npu-tui r", {"report", "ranks", "record", "r.json", "run/"}),
        ("npu-tui help ag", {"agents"}),
        ("npu-tui --theme=d", {"dark"}),
        ("npu-tui explain dispatch.v", {"DISPATCH.VERTICAL"}),
        ("npu-tui report --format=", {"text", "markdown", "html", "json"}),
    ],
)
def test_bash(line: str, wanted: set[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Readline breaks words at ``=`` too, and takes what stands after it for the one to complete."""
    code = f"""compopt() {{ :; }}
{script("bash", capsys)}
COMP_LINE="{line}" COMP_POINT={len(line)} COMP_TYPE=9
_python_argcomplete npu-tui; printf '%s\\n' "${{COMPREPLY[@]}}" """
    assert {each.rstrip() for each in told("bash", code, folder)} == wanted


def test_zsh(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = f"""compdef() {{ }}; _describe() {{ print -l -- "${{(@P)2}}" }}
{script("zsh", capsys)}
words=(npu-tui) BUFFER="npu-tui rep" CURSOR=11; _python_argcomplete
words=(npu-tui) BUFFER="npu-tui demo heal" CURSOR=17; _python_argcomplete"""
    assert told("zsh", code, folder) == [f"report:{say('tree.report')}", "healthy:"]


def test_fish(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = f"{script('fish', capsys)}\ncomplete -C 'npu-tui r'; complete -C 'npu-tui demo heal'"
    assert {"r.json", f"report\t{say('tree.report')}", "healthy"} <= set(told("fish", code, folder))
