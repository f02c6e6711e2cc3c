"""What ``npu-tui doctor`` says about the terminal, tmux, the disk and the settings around it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from written import fields_of

from npu_tui.cli import doctor
from npu_tui.cli.main import main
from npu_tui.native import library

TMUX = """#!/bin/sh
case "$*" in
  -V) echo "tmux 3.4";;
  *escape-time) echo {escape};;
  *extended-keys) echo {extended};;
  *set-clipboard) echo {clipboard};;
esac
"""


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TMUX", "NO_COLOR", "LC_ALL", "LC_CTYPE", "NPU_TUI_CACHE_MB", "NPU_TUI_SCANNER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NPU_TUI_CONFIG", str(tmp_path / "settings.toml"))
    (tmp_path / "settings.toml").touch()


def found(capsysbinary: pytest.CaptureFixture[bytes]) -> dict[str, dict[str, str]]:
    assert main(["doctor", "--format", "json"]) == 0
    return {row["name"]: row for row in fields_of(capsysbinary.readouterr().out)["facts"]}


def test_all_is_well(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    rows = found(capsysbinary)
    assert [name for name, row in rows.items() if row["advice"]] == []
    assert "textual" in rows["libraries"]["value"]
    assert "tmux" not in rows
    assert main(["doctor"]) == 0
    assert capsysbinary.readouterr().out.decode().splitlines()[-1] == "Nothing to change."


def test_names_are_words_of_the_language(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["--lang", "zh", "doctor"]) == 0
    names = [line.split(" ")[0] for line in capsysbinary.readouterr().out.decode().splitlines()[:-1]]
    assert {"npu-tui", "机器", "颜色", "TMPDIR", "设置"} <= set(names)


def test_what_it_runs_on(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    rows = found(capsysbinary)
    assert f"{os.sysconf('SC_PAGE_SIZE') // 1024} KiB" in rows["machine"]["value"]
    assert os.uname().machine in rows["machine"]["value"]
    assert os.uname().release in rows["system"]["value"]
    assert rows["library"]["value"].startswith(os.uname().machine)


def test_a_folder_from_which_nothing_may_be_run(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "_FOLDER", tmp_path)
    library._loaded.cache_clear()
    try:
        rows = found(capsysbinary)
    finally:
        library._loaded.cache_clear()
    assert rows["library"]["value"].startswith("none")
    assert "noexec" in rows["library"]["advice"]


@pytest.mark.parametrize(
    ("variable", "value", "name", "advice"),
    [
        ("NPU_TUI_SCANNER", "off", "library", "NPU_TUI_SCANNER"),
        ("COLORTERM", "", "colours", "COLORTERM=truecolor"),
        ("LANG", "zh_CN.GBK", "locale", "LANG=C.UTF-8"),
    ],
)
def test_the_environment(
    variable: str, value: str, name: str, advice: str, monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:  # fmt: skip
    monkeypatch.setenv(variable, value)
    rows = found(capsysbinary)
    assert [each for each, row in rows.items() if row["advice"]] == [name]
    assert advice in rows[name]["advice"]


@pytest.mark.parametrize(
    ("options", "advised"),
    [
        ({"escape": 10, "extended": "on", "clipboard": "external"}, []),
        ({"escape": 500, "extended": "off", "clipboard": "off"}, ["escape-time", "extended-keys", "set-clipboard"]),
        ({"escape": '""', "extended": '""', "clipboard": '""'}, ["extended-keys"]),
    ],
)
def test_the_options_of_tmux(
    options: dict[str, object], advised: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:  # fmt: skip
    tmux = tmp_path / "tmux"
    tmux.write_text(TMUX.format(**options))
    tmux.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TMUX", "/tmp/socket,1,0")
    rows = found(capsysbinary)
    assert rows["tmux"]["value"] == "3.4"
    assert [name for name, row in rows.items() if row["advice"]] == advised


def test_settings_that_are_not_valid(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "settings.toml").write_text('[screen]\nglyphs = "blocksy"\n')
    rows = found(capsysbinary)
    assert "settings.toml:2" in rows["settings"]["advice"]


def test_a_full_disk_and_no_copies(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    monkeypatch.setattr(doctor, "_ROOM_LEAST", 1 << 60)
    monkeypatch.setenv("NPU_TUI_CACHE_MB", "0")
    rows = found(capsysbinary)
    assert [name for name, row in rows.items() if row["advice"]] == ["TMPDIR"]
    assert "NPU_TUI_CACHE_MB" in rows["copies"]["value"]
