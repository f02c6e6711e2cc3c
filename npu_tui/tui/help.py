"""What the help sheet says: all keys by task."""

from __future__ import annotations

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from npu_tui.strings import say
from npu_tui.tui.commands import COMMANDS, GROUPS, keys_label


def help_text() -> RenderableType:
    """Every command with its keys, in two columns of groups, and the words of the links."""
    left: list[str] = []
    right: list[str] = []
    count = 0
    for group in GROUPS:
        (left if count < len(COMMANDS) // 2 else right).append(group)
        count += sum(command.group == group for command in COMMANDS)
    columns = Table.grid(padding=(0, 4), expand=True)
    columns.add_row(_column(left), _column(right))
    return Lines(columns, Text(say("help.words"), style="dim"))


def _column(groups: list[str]) -> Table:
    table = Table.grid(padding=(0, 2))
    for group in groups:
        table.add_row(Text(say(f"group.{group}"), style="bold underline"), "")
        for command in COMMANDS:
            if command.group == group:
                table.add_row(Text(keys_label(command), style="bold"), command.title)
        table.add_row("", "")
    return table
