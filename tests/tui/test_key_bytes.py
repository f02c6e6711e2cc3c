"""Every key of every command as the bytes that a terminal sends, read by Textual's own parser."""

from __future__ import annotations

import pytest
from driving import keys_of, opened
from textual.command import CommandPalette

from npu_tui.tui.commands import COMMANDS
from npu_tui.tui.key_names import delivered
from npu_tui.tui.main import MainScreen

BYTES: dict[str, list[str]] = {
    "left": ["\x1b[D", "\x1bOD", "\x1b[1;1D", "\x1b[57417;1u"],
    "right": ["\x1b[C", "\x1bOC", "\x1b[1;1C"],
    "up": ["\x1b[A", "\x1bOA", "\x1b[1;1A"],
    "down": ["\x1b[B", "\x1bOB", "\x1b[1;1B"],
    "shift+left": ["\x1b[1;2D"],
    "shift+right": ["\x1b[1;2C"],
    "home": ["\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[1;1H"],
    "pageup": ["\x1b[5~"],
    "pagedown": ["\x1b[6~"],
    "backspace": ["\x7f", "\x08", "\x1b[127u", "\x1b[127;1u"],
    "enter": ["\r", "\x1b[13u", "\x1b[13;1u"],
    "escape": ["\x1b", "\x1b[27u", "\x1b[27;1u"],
    "tab": ["\t", "\x1b[9u", "\x1b[9;1u"],
    "space": [" ", "\x1b[32;1;32u", "\x1b[32u"],
    "comma": [",", "\x1b[44;1;44u"],
    "full_stop": [".", "\x1b[46;1;46u"],
    "slash": ["/", "\x1b[47;1;47u"],
    "asterisk": ["*", "\x1b[56;2;42u"],
    "less_than_sign": ["<", "\x1b[44;2;60u"],
    "greater_than_sign": [">", "\x1b[46;2;62u"],
    "left_curly_bracket": ["{", "\x1b[91;2;123u"],
    "right_curly_bracket": ["}", "\x1b[93;2;125u"],
    "left_parenthesis": ["(", "\x1b[57;2;40u"],
    "right_parenthesis": [")", "\x1b[48;2;41u"],
    "ampersand": ["&", "\x1b[55;2;38u"],
    "colon": [":", "\x1b[59;2;58u"],
    "question_mark": ["?", "\x1b[47;2;63u"],
    "minus": ["-", "\x1b[45;1;45u"],
    "left_square_bracket": ["[", "\x1b[91;1;91u"],
    "right_square_bracket": ["]", "\x1b[93;1;93u"],
    "0": ["0", "\x1b[48;1;48u"],
    "ctrl+0": ["\x1b[48;5u"],
    "ctrl+l": ["\x0c", "\x1b[108;5u"],
    "ctrl+p": ["\x10", "\x1b[112;5u"],
    "ctrl+q": ["\x11", "\x1b[113;5u"],
    "ctrl+r": ["\x12", "\x1b[114;5u"],
    "Z": ["Z", "\x1b[122;2;90u", "\x1b[27;2;90~", "\x1b[122;2u", "\x1b[90;2u"],
}
"""Legacy first, then the kitty protocol (flags 1, 8 and 16: every key escaped, with its text)."""

TEXTUALS_OWN = ("palette", "quit")
"""Commands whose keys Textual takes before the screen sees them, to do the same."""


def sequences(key: str) -> list[str]:
    """Bytes for one key; letters and digits follow one rule."""
    if key in BYTES:
        return BYTES[key]
    assert len(key) == 1, f"no bytes are known for {key}"
    assert key.isalnum()
    shifted = key.isupper()
    code = ord(key.lower())
    capital = [f"\x1b[{code};65;{ord(key)}u", f"\x1b[{code};2u", f"\x1b[{ord(key)};2u"] if shifted else []
    return [key, f"\x1b[{code};{2 if shifted else 1};{ord(key)}u", *capital]


def cases() -> list[tuple[str, str]]:
    """(command, bytes) for every key of every command."""
    found = []
    for command in COMMANDS:
        for key in command.keys:
            ways = [sequences(part) for part in key.split(" ")]
            found += [(command.id, "".join(parts)) for parts in zip(*ways, strict=True)]
    return found


@pytest.mark.parametrize(("command", "data"), cases(), ids=lambda value: repr(value) if "\x1b" in value else value)
def test_bytes_become_the_key_of_the_command(command: str, data: str):
    keys = [event.key for event in keys_of(data)]
    registered = next(entry.keys for entry in COMMANDS if entry.id == command)
    assert " ".join(keys) in {name for key in registered for name in delivered(key)}


async def test_bytes_run_the_command(session, monkeypatch):
    ran: list[str] = []
    monkeypatch.setattr(MainScreen, "run_command", lambda self, command: ran.append(command))
    async with opened(session) as driver:
        for command, data in cases():
            if command in TEXTUALS_OWN:
                continue
            ran.clear()
            driver.main._prefix = ""
            for event in keys_of(data):
                event.set_sender(driver.app)
                driver.app._driver.send_message(event)
            await driver.idle()
            assert ran == [command], (command, data)


@pytest.mark.parametrize("data", sequences("ctrl+p"))
async def test_bytes_open_the_palette(session, data):
    async with opened(session) as driver:
        await driver.send(data)
        assert isinstance(driver.app.screen, CommandPalette)


@pytest.mark.parametrize("data", sequences("ctrl+q"))
async def test_bytes_quit(session, data):
    async with opened(session) as driver:
        await driver.send(data)
    assert driver.app.return_code == 0


@pytest.mark.parametrize(
    "data",
    [
        "\x1b[I",
        "\x1b[O",
        "\x1b[?2026;2$y",
        "\x1b[3~",
        "\x1bw",
        "\x17",
        "\x01",
        "\x04",
    ],
    ids=["focus in", "focus out", "mode report", "Delete", "Alt+w", "Ctrl+W", "Ctrl+A", "Ctrl+D"],
)
async def test_other_bytes_run_nothing(session, monkeypatch, data):
    ran: list[str] = []
    monkeypatch.setattr(MainScreen, "run_command", lambda self, command: ran.append(command))
    async with opened(session) as driver:
        await driver.send(data)
        assert ran == []


def test_a_terminal_without_the_kitty_protocol_sends_ctrl_0_as_0():
    home = next(command.keys for command in COMMANDS if command.id == "home")
    assert {"0", "ctrl+0"} <= set(home)
    assert [event.key for event in keys_of("0")] == ["0"]


def test_keys_that_terminals_cannot_send_have_a_second_way():
    for command in (command for command in COMMANDS if command.keys):
        plain = [key for key in command.keys if not key.startswith(("ctrl+", "shift+", "alt+"))]
        assert plain or command.id in {"cursor_left", "cursor_right", "palette", "quit", "redraw"}
