"""Every key of every command as the bytes that a terminal sends, read by Textual's own parser."""

from __future__ import annotations

import pytest
from driving import keys_of, opened
from key_bytes import cases, sequences
from key_table import parsed

from npu_tui.tui.commands import commands_of
from npu_tui.tui.screen import MainScreen


def test_bytes_become_the_key_of_the_command():
    assert [entry for entry in cases() if parsed(entry) != [entry.command]] == []


async def test_bytes_run_the_command(session, monkeypatch):
    ran: list[str] = []
    for name in ("run_command", "action_run", "action_lanes_run"):
        monkeypatch.setattr(MainScreen, name, lambda self, command: ran.append(command))
    async with opened(session) as driver:
        for entry in cases():
            if entry.command == "quit":  # it ends the program wherever the user is
                continue
            ran.clear()
            driver.main._prefix = ""
            for event in keys_of(entry.data):
                event.set_sender(driver.app)
                driver.app._driver.send_message(event)
            await driver.idle()
            assert ran == [entry.command], entry


async def test_bytes_open_the_prompt(session):
    async with opened(session) as driver:
        for data in sequences("ctrl+p"):
            await driver.send(data)
            assert driver.main.prompt.is_open, data
            await driver.press("escape")


@pytest.mark.parametrize("data", sequences("ctrl+q"))
async def test_bytes_quit(session, data):
    async with opened(session) as driver:
        await driver.send(data)
    assert driver.app.return_code == 0


async def test_other_bytes_run_nothing(session, monkeypatch):
    ran: list[str] = []
    for name in ("run_command", "action_run", "action_lanes_run"):
        monkeypatch.setattr(MainScreen, name, lambda self, command: ran.append(command))
    async with opened(session) as driver:
        # Focus out and in, a mode report, Delete, Alt+w, Ctrl+W, Ctrl+A, Ctrl+D.
        for data in ("\x1b[O", "\x1b[I", "\x1b[?2026;2$y", "\x1b[3~", "\x1bw", "\x17", "\x01", "\x04"):
            await driver.send(data)
            assert ran == [], data


def test_a_terminal_without_the_kitty_protocol_sends_ctrl_0_as_0():
    home = next(command.keys for command in commands_of("lanes") if command.id == "home")
    assert {"0", "ctrl+0"} <= set(home)
    assert [event.key for event in keys_of("0")] == ["0"]


def test_keys_that_terminals_cannot_send_have_a_second_way():
    for command in (command for command in commands_of("lanes") if command.keys):
        plain = [key for key in command.keys if not key.startswith(("ctrl+", "shift+", "alt+"))]
        assert plain or command.id in {"cursor_left", "cursor_right", "quit", "redraw", "stop"}
