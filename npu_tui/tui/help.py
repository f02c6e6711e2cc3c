"""The help screen: all keys by task."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Group as Lines
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from npu_tui.strings import say
from npu_tui.tui.commands import COMMANDS, GROUPS, keys_label


class HelpScreen(ModalScreen[None]):
    """Every command with its keys, from the registry."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll {
        width: 92%; max-width: 130; height: auto; max-height: 96%;
        background: $surface; border: round $primary; padding: 0 2;
    }
    HelpScreen Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape,question_mark,q", "dismiss", "")]

    def compose(self) -> ComposeResult:
        """The table in two columns of groups."""
        with VerticalScroll():
            yield Static(_help())


def _help() -> Lines:
    half = sum(1 for _ in COMMANDS) // 2
    left: list[str] = []
    right: list[str] = []
    count = 0
    for group in GROUPS:
        own = [command for command in COMMANDS if command.group == group]
        (left if count < half else right).append(group)
        count += len(own)
    outer = Table.grid(padding=(0, 4), expand=True)
    outer.add_row(_column(left), _column(right))
    title = Text(say("help.title"), style="bold")
    title.append(f"   {say('help.close')}", style="dim")
    return Lines(title, Text(""), outer, Text(""), Text(say("help.words"), style="dim"))


def _column(groups: list[str]) -> Table:
    table = Table.grid(padding=(0, 2))
    for group in groups:
        table.add_row(Text(say(f"group.{group}"), style="bold underline"), "")
        for command in COMMANDS:
            if command.group == group:
                table.add_row(Text(keys_label(command), style="bold"), command.title)
        table.add_row("", "")
    return table
