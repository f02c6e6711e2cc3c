"""What the help sheet says: all keys by task."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from npu_tui.strings import say
from npu_tui.tui.commands import COMMANDS, GROUPS, keys_label


def help_text(in_table: bool, why_not: Mapping[str, str]) -> RenderableType:
    """Every command with its keys, in two columns of groups, and the words of the links.

    ``in_table``: what the table's own keys do comes first. ``why_not`` gives the reason for commands that can do
    nothing just now; they are dimmed.
    """
    left: list[str] = []
    right: list[str] = []
    count = 0
    for group in GROUPS:
        (left if count < len(COMMANDS) // 2 else right).append(group)
        count += sum(command.group == group for command in COMMANDS)
    columns = Table.grid(padding=(0, 4), expand=True)
    columns.add_row(_column(left, why_not), _column(right, why_not))
    here = Text(say("help.table" if in_table else "help.lanes"))
    return Lines(here, Text(""), columns, Text(say("help.words"), style="dim"))


def _column(groups: list[str], why_not: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    for group in groups:
        table.add_row(Text(say(f"group.{group}"), style="bold underline"), "")
        for command in COMMANDS:
            if command.group != group:
                continue
            reason = why_not.get(command.id)
            if reason is None:
                table.add_row(Text(keys_label(command), style="bold"), command.title)
            else:
                table.add_row(Text(keys_label(command), style="dim"), Text(command.title, style="dim"))
                table.add_row("", Text(f"  {reason}", style="dim italic"))
        table.add_row("", "")
    return table
