"""The user's own keys."""

from __future__ import annotations

import pytest
from driving import opened

from npu_tui.cli import main
from npu_tui.tui.commands import BY_ID, COMMANDS, set_keys, text_table
from npu_tui.tui.header import StatusLine
from npu_tui.tui.keymap import KeymapError, key_name, use_keys


@pytest.fixture(autouse=True)
def _default_keys():
    yield
    set_keys({})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("w", "w"), ("W", "W"), ("/", "slash"), ("Ctrl+R", "ctrl+r"), ("ctrl+r", "ctrl+r"), ("PgUp", "pageup"),
        ("Shift+←", "shift+left"), ("shift+left", "shift+left"), ("F5", "f5"), ("gg", "g g"), ("g g", "g g"),
        ("full_stop", "full_stop"), (";", "semicolon"), ("Esc", "escape"), ("alt+x", "alt+x"), ("Space", "space"),
        ("ctrl+alt+Delete", "ctrl+alt+delete"),
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
    with pytest.raises(KeymapError, match="given to zoom_in and to zoom_out"):
        use_keys({"zoom_in": ("e",), "zoom_out": ("e",)})
    with pytest.raises(KeymapError, match="given to"):
        use_keys({"zoom_in": ("gg",), "zoom_out": ("g",)})


def test_a_key_that_begins_a_sequence_ends_the_sequence():
    use_keys({"zoom_in": ("g",)})
    assert BY_ID["row_first"].keys == ()


async def test_the_screen_obeys_the_users_keys_and_shows_them(session):
    use_keys({"zoom_in": ("J",), "pan_left": ("yy",), "pan_right": ("Ctrl+F",)})
    async with opened(session, (300, 60)) as driver:
        assert "J s zoom" in str(driver.main.query_one(StatusLine).render())
        span = driver.state.viewport.span
        await driver.press("w")
        assert driver.state.viewport.span == span
        await driver.press("J")
        assert driver.state.viewport.span < span
        start = driver.state.viewport.start
        await driver.send("\x06")
        assert driver.state.viewport.start > start
        await driver.press("y")
        assert driver.state.viewport.start > start
        await driver.press("y")
        assert driver.state.viewport.start == start
        await driver.press("?")
        assert "Ctrl+F" in driver.text() or "ctrl+f" in driver.text()
    assert "J " in text_table()


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
