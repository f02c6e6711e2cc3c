from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from npu_tui.cli.main import main
from npu_tui.settings import Known, Settings, SettingsError, load_settings, parse_settings, settings_path, settings_text
from npu_tui.tui.commands import COMMANDS

KNOWN = Known(
    commands=("zoom_in", "zoom_out", "quit"),
    themes=("dark", "light"),
    thresholds={"near_us": 30.0, "free_share": 0.1, "least_links": 5, "strict": False},
)
FILE = Path("/home/u/settings.toml")


def read(text: str, known: Known = KNOWN) -> Settings:
    return parse_settings(text.encode(), FILE, known)


def test_every_table():
    found = read("""
        [keys]
        zoom_in = "plus"
        "zoom_out" = ["minus", "s"]
        quit = []
        [screen]
        glyphs = "ascii"
        theme = "light"
        [thresholds]
        near_us = 25
        least_links = 7
        strict = true
    """)
    assert found.keys == {"zoom_in": ("plus",), "zoom_out": ("minus", "s"), "quit": ()}
    assert (found.glyphs, found.theme, found.path) == ("ascii", "light", FILE)
    assert found.thresholds == {"near_us": 25.0, "least_links": 7, "strict": True}
    assert isinstance(found.thresholds["near_us"], float)


def test_what_is_left_out_stays_with_its_owner():
    assert read("") == Settings(path=FILE)


def test_windows_files_are_read():
    assert parse_settings(b"\xef\xbb\xbf[screen]\r\ntheme = 'dark'\r\n", FILE, KNOWN).theme == "dark"


def test_a_table_without_known_names_is_not_checked():
    found = read("[keys]\nanything = 'x'\n[thresholds]\nmore = 3\n[screen]\ntheme = 'mine'", Known())
    assert (found.keys, found.thresholds, found.theme) == ({"anything": ("x",)}, {"more": 3.0}, "mine")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\n[kyes]\n", 2, "there is no table [kyes]; did you mean keys?"),
        ("screen = 3", 1, "screen is a table"),
        ("[[keys]]\n", 1, "keys is a table"),
        ("[keys]\nzoom_inn = 'w'", 2, "there is no command zoom_inn; did you mean zoom_in?"),
        ("keys.zoomout = 'w'", 1, "did you mean zoom_out?"),
        ("[keys]\nzoom_in = 3", 2, "zoom_in needs a key"),
        ("[keys]\nzoom_in = ['w', '']", 2, "zoom_in needs a key"),
        ("[screen]\n\ncolour = 'x'", 3, "[screen] has no setting colour"),
        ("[screen]\nthemes = 'x'", 2, "did you mean theme?"),
        ("[screen]\ntheme = 1", 2, "theme needs text"),
        ("[screen]\ntheme = 'drak'", 2, "theme cannot be drak; choose one of dark, light; did you mean dark?"),
        ("[screen]\nglyphs = 'block'", 2, "did you mean blocks?"),
        ("[thresholds]\nnear = 1", 2, "there is no threshold near; did you mean near_us?"),
        ("[thresholds]\nnear_us = '30'", 2, "near_us needs a number from 0, such as 30.0"),
        ("[thresholds]\nnear_us = true", 2, "near_us needs a number"),
        ("[thresholds]\nnear_us = nan", 2, "near_us needs a number"),
        ("[thresholds]\nnear_us = -1", 2, "near_us needs a number"),
        ("[thresholds]\nleast_links = 5.5", 2, "least_links needs a whole number from 0, such as 5"),
        ("[thresholds]\nstrict = 1", 2, "strict needs true or false"),
        ("[keys]\nzoom_in = w", 2, "not valid TOML"),
        ("[keys]\nzoom_in = 'w'\nzoom_in = 'x'", None, "not valid TOML"),
        ("x = " + "[" * 5_000, None, "not valid TOML"),
        ("[keys]\n'zoom\\u001b[2J' = 'w'", None, "there is no command"),
        ('[keys]\n"zoom\\u001b[2J" = "w"', None, "there is no command zoom?[2J"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(text, line, words):
    with pytest.raises(SettingsError) as raised:
        read(text)
    said = str(raised.value)
    assert words in said
    assert said.isprintable()
    assert said.startswith(f"{FILE}:{line}: " if line else str(FILE))


def test_bytes_that_are_no_text():
    with pytest.raises(SettingsError, match=r"settings\.toml:2: not UTF-8 at byte 7"):
        parse_settings(b"[keys]\n\xff", FILE, KNOWN)


def test_where_the_file_is(tmp_path, monkeypatch):
    monkeypatch.delenv("NPU_TUI_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    default = tmp_path / "npu-tui" / "settings.toml"
    assert settings_path() == default
    assert load_settings() == Settings()
    default.parent.mkdir()
    default.write_text("[screen]\ntheme = 'dark'")
    assert load_settings(known=KNOWN).theme == "dark"
    other = tmp_path / "other.toml"
    other.write_text("[screen]\ntheme = 'light'")
    monkeypatch.setenv("NPU_TUI_CONFIG", str(other))
    assert load_settings(known=KNOWN).theme == "light"
    assert load_settings(default, KNOWN).theme == "dark"


@pytest.mark.parametrize("named", ["option", "environment"])
def test_a_named_file_must_be_there(tmp_path, monkeypatch, named):
    missing = tmp_path / "none.toml"
    if named == "environment":
        monkeypatch.setenv("NPU_TUI_CONFIG", str(missing))
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(missing if named == "option" else None)
    with pytest.raises(SettingsError, match="directory"):
        load_settings(tmp_path)


def test_the_printed_file_is_right_with_and_without_its_hashes():
    commands = [(command.id, command.keys, command.title) for command in COMMANDS]
    rows = [("near_us", 30.0, "near-vertical below this"), ("least_links", 5, "fewer say nothing"), ("on", True, "x")]
    text = settings_text(commands, ("dark", "light"), rows, FILE)
    known = Known({row[0] for row in commands}, ("dark", "light"), thresholds={name: value for name, value, _ in rows})
    assert read(text, known) == Settings(path=FILE)
    found = read(re.sub(r"(?m)^# (?=\w+ = (?!\"key\"))", "", text), known)
    assert found.keys == {name: tuple(keys) for name, keys, _ in commands}
    assert (found.glyphs, found.theme) == ("auto", "dark")
    assert found.thresholds == {name: value for name, value, _ in rows}
    assert str(FILE) in text


def test_the_command_prints_and_checks(tmp_path, capsys):
    assert main(["settings"]) == 0
    file = tmp_path / "s.toml"
    file.write_text(capsys.readouterr().out)
    assert main(["settings", "--check", "--config", str(file)]) == 0
    assert str(file) in capsys.readouterr().out
    file.write_text("[keys]\nzoom_inn = 'w'\n")
    assert main(["settings", "--check", "--config", str(file)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"npu-tui: {file}:2: there is no command zoom_inn; did you mean zoom_in?\n"


@pytest.mark.parametrize(("text", "loaded"), [("[keys]\n", False), ("[thresholds]\nfree_share = 0.2\n", True)])
def test_only_a_file_with_thresholds_imports_the_rules(text: str, loaded: bool, tmp_path: Path):
    """They take longer than everything else before the first picture."""
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="utf-8")
    code = (
        "import sys; from npu_tui.cli.options import thresholds_of; thresholds_of(sys.argv[1]); "
        "print('npu_tui.rules.find' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(loaded)
