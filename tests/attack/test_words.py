"""Odd words on the command line: one line or a usage, an exit code of ours, nothing that a terminal obeys."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from npu_tui.cli.main import main

PROFILE = "fixtures/healthy"
ODD = (
    "--",
    "a" * 300,
    "/" + "a/" * 3000,
    "\udcff",
    "\x1b[2J\x1b]0;pwn\x07",
    "a\r\nb",
    "%s",
    "{x}",
    "9" * 400,
    "nan",
)
WHERE = (
    ("report", "{}"), ("report", PROFILE, "--range={}"), ("report", PROFILE, "--step={}"), ("report", "--config={}"),
    ("check", PROFILE, "--max-free={}"), ("check", PROFILE, "--baseline={}"), ("check", PROFILE, "--against={}"),
    ("check", PROFILE, "--max-free=9s", "--allow-damage={}"), ("compare", PROFILE, "{}"), ("ranks", "{}"),
    ("query", PROFILE, "{}"), ("query", PROFILE, "--file={}"), ("screenshot", PROFILE, "-o", "x.svg", "--at={}"),
    ("explain", "{}"), ("settings", "{}"), ("doctor", "{}"), ("{}",), ("report", PROFILE, "--{}"),
)  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize("word", ODD, ids=lambda word: ascii(word)[:20])
def test_no_word_breaks_a_command(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("npu_tui.cli.explore.on_terminal", lambda: False)
    for words in WHERE:
        given = [part.replace("{}", word) for part in words]
        try:
            code = main(given)
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        told = capsys.readouterr().err
        assert code in (0, 1, 2, 3), given
        assert not set(told) & set("\x1b\x07\r\0"), given


@pytest.mark.parametrize(
    ("words", "code"), [(["report", "nothere"], 3), (["check", "--nope"], 2), (["reprot", "x"], 2)]
)
def test_a_full_stderr_changes_no_exit_code(words: list[str], code: int) -> None:
    with open("/dev/full", "wb") as full:
        assert subprocess.run([sys.executable, "-m", "npu_tui", *words], stderr=full, check=False).returncode == code
