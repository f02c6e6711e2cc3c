"""What the shells complete, and that their scripts pass it on."""

from __future__ import annotations

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
        ("compare a b c ", [":files"]),
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


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "wanted"),
    [("npu-tui rep", {"report"}), ("npu-tui r", {"report", "ranks", "r.json"}), ("npu-tui help ag", {"agents"})],
)
def test_bash(line: str, wanted: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "npu-tui"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m npu_tui "$@"\n')
    program.chmod(0o755)
    (tmp_path / "r.json").touch()
    asked = [str(program), *line.split(" ")[1:]]
    code = f"""compopt() {{ :; }}
{script("bash", capsys)}
COMP_WORDS=({" ".join(asked)}) COMP_CWORD={len(asked) - 1}
_npu_tui; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == wanted


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_are_valid(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n"], input=script(shell, capsys), text=True, check=True)
