"""Every key of every command as bytes in the real program, in a terminal and in tmux: one process for all keys."""

from __future__ import annotations

import shutil

import pytest
from key_bytes import KITTY, LEGACY, TWIN, KeyBytes, cases
from key_table import EXTENDED, measured, parsed, table

from npu_tui.tui.commands import commands_of

in_terminal = pytest.mark.reached_from(
    "npu_tui/tui/terminal", "npu_tui/tui/actions.py", "npu_tui/tui/keymap.py", "tests/tui/key_"
)
in_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def expect_their_commands(ran: dict[KeyBytes, list[str]]) -> None:
    assert {entry: commands for entry, commands in ran.items() if commands != [entry.command]} == {}


def test_every_key_of_the_registry_has_bytes():
    keys = [(command.id, key) for command in commands_of("lanes") for key in command.keys]
    entries = cases()
    assert list(dict.fromkeys((entry.command, entry.key) for entry in entries)) == keys
    assert {entry.protocol for entry in entries} == {LEGACY, KITTY, TWIN}


@in_terminal
def test_every_key_runs_its_command_in_a_terminal():
    expect_their_commands(measured(cases()))


@in_terminal
@in_tmux
def test_every_key_runs_its_command_in_tmux():
    entries = [entry for entry in cases() if entry.through_tmux]
    # Terminals of old have no bytes for Ctrl with a digit.
    assert {command.id for command in commands_of("lanes") if command.keys} == {entry.command for entry in entries}
    expect_their_commands(measured(entries, []))


@in_terminal
@in_tmux
def test_every_key_runs_its_command_in_tmux_with_extended_keys():
    entries = [entry for entry in cases() if entry.through_extended_tmux]
    assert {key for command in commands_of("lanes") for key in command.keys} == {entry.key for entry in entries}
    expect_their_commands(measured(entries, EXTENDED))


def test_the_table_shows_what_was_measured():
    entries = cases()
    lines = table({"parser": {entry: parsed(entry) for entry in entries}, "pty": {entries[0]: []}}).splitlines()
    assert lines[0] == "| key | bytes | sent by | parser | pty | command |"
    assert lines[2] == "| `w` | `w` | legacy | zoom_in | nothing | zoom_in |"
    assert lines[3].split(" | ")[3:] == ["zoom_in", "-", "zoom_in |"]
    assert len(lines) == len(entries) + 2
