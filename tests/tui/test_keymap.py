"""The user's own keys."""

from __future__ import annotations

import re

import pytest
from driving import SIZE, opened

from npu_tui.cli.main import main
from npu_tui.cli.options import known_settings
from npu_tui.manual import page
from npu_tui.settings import load_settings
from npu_tui.tui.app import NpuTui
from npu_tui.tui.commands import BY_ID, COMMANDS, text_table
from npu_tui.tui.footer import StatusLine
from npu_tui.tui.keymap import KeymapError, key_name, use_keys, use_settings, words_at_start
from npu_tui.tui.picture import unknown_keys
from npu_tui.tui.sheets import HelpSheet


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("w", "w"), ("W", "W"), ("/", "slash"), ("Ctrl+R", "ctrl+r"), ("ctrl+r", "ctrl+r"), ("PgUp", "pageup"),
        ("Shift+←", "shift+left"), ("shift+left", "shift+left"), ("F5", "f5"), ("gg", "g g"), ("g g", "g g"),
        ("full_stop", "full_stop"), (";", "semicolon"), ("alt+x", "alt+x"), ("Space", "space"),
        ("ctrl+alt+Delete", "alt+ctrl+delete"), ("Shift+w", "W"),
    ],
)  # fmt: skip
def test_keys_are_written_as_people_do(text, name):
    assert key_name("zoom_in", text) == name


@pytest.mark.parametrize(
    ("text", "near"), [("pageupp", "pageup"), ("ctrl+bakspace", "ctrl+backspace"), ("slahs", "slash")]
)
def test_an_unknown_key_is_an_error_with_the_nearest_one(text, near):
    with pytest.raises(KeymapError, match="zoom_in: there is no key") as refused:
        use_keys({"zoom_in": (text,)})
    assert str(refused.value).endswith(f"; did you mean {near}?")


def test_a_key_is_taken_from_the_command_that_had_it():
    use_keys({"zoom_in": ("e", "Ctrl+Up"), "starved_next": ()})
    assert BY_ID["zoom_in"].keys == ("e", "ctrl+up")
    assert BY_ID["finding_next"].keys == ()
    assert BY_ID["starved_next"].keys == ()
    assert BY_ID["zoom_out"].keys == ("s",)
    use_keys({})
    assert all(command.keys == command.default_keys for command in COMMANDS)


def test_a_key_for_two_commands_is_an_error():
    with pytest.raises(KeymapError, match="bound to both zoom_in and zoom_out"):
        use_keys({"zoom_in": ("e",), "zoom_out": ("e",)})
    with pytest.raises(KeymapError, match="g begins gg of zoom_in, so it cannot also run zoom_out"):
        use_keys({"zoom_in": ("gg",), "zoom_out": ("g",)})
    with pytest.raises(KeymapError, match="g begins gg of zoom_out, so it cannot also run zoom_in"):
        use_keys({"zoom_in": ("g",), "zoom_out": ("gg",)})
    with pytest.raises(KeymapError, match="g begins gg of zoom_in"):
        use_keys({"zoom_in": ("g", "gg")})


def test_a_key_that_is_written_twice_is_one():
    use_keys({"escape": ("Esc", "escape", "Q"), "panel": ("q",)})
    assert BY_ID["escape"].keys == ("escape", "Q")


def test_ctrl_c_always_leaves():
    with pytest.raises(KeymapError, match=r"zoom_in: Ctrl\+C always quits"):
        use_keys({"zoom_in": ("ctrl+c",)})


def test_what_own_keys_take_from_others_is_said():
    said = [remark.words for remark in use_keys({"zoom_in": ("e", "k", "g"), "fold": ("Ctrl+I",), "zoom_out": ("W",)})]
    none_left = ", which has no key left: give it one, or [] to leave it without"
    assert said == [
        f"[keys] W runs zoom_out, no longer zoom_in_fast{none_left}",
        "[keys] k runs zoom_in, no longer row_up, which keeps ↑",
        f"[keys] g runs zoom_in, so gg no longer runs row_first{none_left}",
        f"[keys] e runs zoom_in, no longer finding_next{none_left}",
        "[keys] fold: most terminals send Tab for Ctrl+I",
    ]
    assert words_at_start() == [
        "no key left for zoom_in_fast, row_first, finding_next: npu-tui settings --check says why"
    ]
    assert use_keys({"zoom_in": ("e",), "finding_next": ("F5",)}) == []
    assert use_keys({"zoom_in": ("e",), "finding_next": ()}) == []
    assert words_at_start() == []


def test_a_key_that_begins_a_sequence_ends_the_sequence():
    use_keys({"zoom_in": ("g",)})
    assert BY_ID["row_first"].keys == ()


async def test_the_screen_obeys_the_users_keys_and_shows_them(session):
    use_keys({"zoom_in": ("~",), "pan_left": ("yy",), "pan_right": ("Ctrl+F",), "yank": ()})
    async with opened(session, (300, 60)) as driver:
        assert "~ s zoom" in str(driver.main.query_one(StatusLine).render())
        span = driver.state.viewport.span
        await driver.press("w")
        assert driver.state.viewport.span == span
        await driver.press("~")
        assert driver.state.viewport.span < span
        start = driver.state.viewport.start
        await driver.send("\x06")
        assert driver.state.viewport.start > start
        await driver.press("y")
        assert driver.state.viewport.start > start
        await driver.press("y")
        assert driver.state.viewport.start == start
        await driver.press("?")
        assert "Ctrl+F" in driver.text()
    assert "% " in text_table()


def test_the_settings_file_gives_keys(tmp_path, monkeypatch, capsys):
    file = tmp_path / "settings.toml"
    monkeypatch.setenv("NPU_TUI_CONFIG", str(file))
    file.write_text('[keys]\nzoom_in = "J"\nhealth = ["F5"]\n')
    assert main(["keys"]) == 0
    table = capsys.readouterr().out
    assert "J " in next(line for line in table.splitlines() if "zoom in at the cursor" in line)
    file.write_text('[keys]\nzoom_in = "JJJ"\n')
    assert main(["keys"]) == 2
    error = capsys.readouterr().err
    assert "zoom_in: there is no key JJJ" in error
    assert main(["settings", "--check"]) == 2
    file.write_text('[keys]\nzom_in = "J"\n')
    assert main(["keys"]) == 2
    assert "did you mean zoom_in" in capsys.readouterr().err


WRONG = [
    ('[keys]\nzoom_in = "J"\n\nzoom_out = [\n  "s",\n  "J"]\n', ":4: [keys] J is bound to both zoom_in (line 2) and"),
    ('[keys]\nzoom_in = "pageupp"\n', ":2: [keys] zoom_in: there is no key pageupp; did you mean pageup?"),
    ('[keys]\nzoom_in = "gg"\nzoom_out = "g"\n', ":3: [keys] g begins gg of zoom_in (line 2), so it cannot"),
    ('keys = { zoom_in = "Ctrl+C" }\n', ":1: [keys] zoom_in: Ctrl+C always quits at once"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG, ids=["twice", "unknown", "sequence", "fixed"])
@pytest.mark.parametrize("argv", [["settings", "--check"], ["keys"]], ids=["check", "start"])
def test_wrong_keys_are_refused_with_their_line(tmp_path, monkeypatch, capsys, text, words, argv):
    file = tmp_path / "settings.toml"
    monkeypatch.setenv("NPU_TUI_CONFIG", str(file))
    file.write_text(text)
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert f"npu-tui: {file}{words}" in error
    assert error.count("\n") == 1


def test_the_check_says_what_own_keys_take(tmp_path, monkeypatch, capsys):
    file = tmp_path / "settings.toml"
    monkeypatch.setenv("NPU_TUI_CONFIG", str(file))
    file.write_text('[keys]\nzoom_out = "s"\nzoom_in = "g"\n')
    assert main(["settings", "--check"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"{file}:3: [keys] g runs zoom_in, so gg no longer runs row_first, which has no key left")
    assert said[1:] == [f"{file}: every setting is valid"]


async def test_the_start_says_which_commands_have_no_key_left(session):
    use_keys({"zoom_in": ("e", "g")})
    async with opened(session) as driver:
        assert driver.rows()[-1].strip().startswith("no key left for row_first, finding_next: npu-tui settings")


def example() -> str:
    return page("settings", "en").partition("```toml\n")[2].partition("```")[0]


async def test_the_keys_of_the_manual_are_what_the_screen_shows(session, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(example())
    assert use_settings(load_settings(file, known_settings())) == []
    async with opened(session, (300, 60)) as driver:
        footer = str(driver.main.query_one(StatusLine).render())
        assert "+ s zoom" in footer
        assert "F5 starved" in footer
        span = driver.state.viewport.span
        await driver.send("+")
        assert driver.state.viewport.span < span
        await driver.send("\x1b[15~")
        assert "starved launch " in driver.rows()[-1]


async def test_texts_on_screen_name_the_users_keys(session, tmp_path):
    use_keys({"range_mark": ("F7",), "starved_next": ("F5",), "help": ("F1",), "tab_range": ("F6",), "fold": ("F8",)})
    app = NpuTui(session=session, seen=tmp_path / "seen")
    async with opened(session, SIZE, app) as driver:
        assert "F5 goes to the" in driver.rows()[-1]
        assert "F1 keys  :q quit" in driver.rows()[-1]
        await driver.run("panel", "tab_range")
        await driver.settle()
        assert "F6 Range" in driver.text()
        await driver.send("z")
        assert "no range: F7 marks one" in driver.rows()[-1]
        await driver.send("\x1bOP")
        assert isinstance(driver.app.screen, HelpSheet)
        await driver.send("\x1bOP")
        assert not isinstance(driver.app.screen, HelpSheet)


async def test_the_keys_of_textual_itself_can_be_given_to_others(session):
    use_keys({"zoom_in": ("Ctrl+P",), "zoom_out": ("Ctrl+Q",), "command": ("F2",), "quit": ("F10", "ctrl+x")})
    async with opened(session) as driver:
        span = driver.state.viewport.span
        await driver.send("\x10")
        assert driver.state.viewport.span < span
        await driver.send("\x11")
        assert driver.state.viewport.span == span
        await driver.send("\x1bOQ")
        assert driver.main.prompt.is_open
        await driver.send("\x1b")
        await driver.send("\x18")
    assert driver.app.return_code == 0


async def test_a_sequence_that_opens_a_prompt_is_text_in_it(session):
    use_keys({"search": ("//",), "command": ("F3",)})
    async with opened(session) as driver:
        await driver.press("/")
        assert not driver.prompt.is_open
        await driver.press("/", *"//a//")
        assert driver.prompt.text == "//a//"
        await driver.press("escape")
        await driver.send("\x1bOR")
        await driver.press(*"//")
        assert driver.prompt.text == "//"


def test_the_printed_keys_are_the_default_ones(tmp_path, capsys):
    assert main(["settings"]) == 0
    file = tmp_path / "settings.toml"
    text = capsys.readouterr().out.partition("[screen]")[0]
    assert 'pan_left = ["a", "left"]' in text
    file.write_text(re.sub(r"(?m)^# (?=\w+ = (?!\"key\"))", "", text))
    settings = load_settings(file, known_settings())
    assert set(settings.keys) == set(BY_ID)
    assert use_settings(settings) == []
    assert all(command.keys == command.default_keys for command in COMMANDS)


def test_pictures_take_keys_as_people_write_them():
    assert unknown_keys(["x", "Ctrl+R", "PgDn", "gg", "F5", "left", "<", "colon"]) == []
    assert unknown_keys(["nope", "Ctrl+Nope", "xy"]) == ["nope", "Ctrl+Nope", "xy"]


def test_the_key_that_leads_back_stays_with_its_command():
    with pytest.raises(KeymapError, match="zoom_in: Esc always closes"):
        use_keys({"zoom_in": ("Esc",)})


@pytest.mark.parametrize("text", ["Shift+1", "gg gg"])
def test_what_no_terminal_sends_is_no_key(text):
    with pytest.raises(KeymapError, match="there is no key"):
        use_keys({"zoom_in": (text,)})
