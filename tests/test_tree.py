"""The commands: listed with a line each, found by nearly their names, with global options before or after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu_tui.cli.main import main
from npu_tui.cli.parser import COMMANDS, command_lines, given, meant, runner_of
from npu_tui.strings import LANGUAGES, say, speaking

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_place_help_and_a_line_in_every_language(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(runner_of(name))
    for language in LANGUAGES:
        with speaking(language):
            assert f"  {name} " in command_lines(400)
            assert say(f"tree.{name}") in command_lines(400)
    assert main(["help", name]) == 0
    assert f"npu-tui {name}" in capsys.readouterr().out


def test_the_help_lists_the_commands_before_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    with pytest.raises(SystemExit):
        main(["--help"])
    both = capsys.readouterr().out
    for said in (both[: len(both) // 2], both[len(both) // 2 :]):
        assert said.index("report") < said.index("version") < said.index("--no-cache") < said.index("Exit codes")


@pytest.mark.parametrize(
    ("words", "command", "rest"),
    [
        (["report", "P"], "report", ["P"]),
        (["--no-cache", "report", "P"], "report", ["--no-cache", "P"]),
        (["--config", "report", "check", "P"], "check", ["--config", "report", "P"]),
        (["--theme=dark", "P"], "", ["--theme=dark", "P"]),
        (["P", "report"], "", ["P", "report"]),
        (["--at", "1ms", "report"], "", ["--at", "1ms", "report"]),
        ([], "", []),
    ],
)
def test_options_of_the_program_may_stand_before_the_command(words: list[str], command: str, rest: list[str]) -> None:
    assert given(words)[:2] == (command, rest)


def test_what_is_nearly_a_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reprot", "P"]) == 2
    assert "did you mean npu-tui report?" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["help", "chek"])
    assert ended.value.code == 2
    assert "did you mean npu-tui help check?" in capsys.readouterr().err


def test_a_path_is_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").mkdir()
    assert [meant(word) for word in ("reports", "./report1", "trace_view.json", "xyzzy", "-report")] == [""] * 5
    assert meant("Reports1") == "report"


def test_the_version_is_told_in_three_ways(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    said = capsys.readouterr().out
    for word in ("-V", "--version"):
        with pytest.raises(SystemExit) as ended:
            main([word])
        assert (ended.value.code, capsys.readouterr().out) == (0, said)
