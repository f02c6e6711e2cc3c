"""Textual's bindings, made of the registry of commands and the keys that the user has now."""

from __future__ import annotations

import re
from collections.abc import Iterable

from textual.binding import Binding, BindingType

from npu_tui.tui.keys.commands import BY_ID, Command, Where, commands_of
from npu_tui.tui.keys.key_names import delivered

ASKING = ("search", "command", "flag", "filter", "find_rank")
"""The commands that open a prompt. What is typed at once after their keys belongs to it already."""

_ANYWHERE = re.compile(r"(ctrl|alt)\+\S+|f\d+")
"""Keys that mean nothing while a text is typed."""


def screen_bindings(where: Where) -> list[BindingType]:
    """Two bindings per key of the commands of a screen; the first key of a sequence waits for the second.

    The first one runs at once while the lanes have the focus, so that keys which come together run in their order, also
    those after a prompt's; the second one runs what the focused table leaves.
    """
    bindings: list[BindingType] = []
    for command in commands_of(where):
        for key in command.keys:
            first, _, second = key.partition(" ")
            action, target = ("prefix", first) if second else ("run", command.id)
            bindings += _named(command, f"lanes_{action}('{target}')", [first], urgent=True)
            bindings += _named(command, f"{action}('{target}')", [first], urgent=command.id in ASKING)
    return bindings


def list_bindings(where: Where) -> list[Binding]:
    """The keys of the commands of a list; the first key of a sequence waits for the second."""
    bindings = []
    for command in commands_of(where):
        for key in command.keys:
            first, _, second = key.partition(" ")
            bindings += _named(command, f"prefix('{first}')" if second else f"run('{command.id}')", [first])
    return bindings


def quit_bindings() -> list[Binding]:
    """The keys that end the program wherever the user is, as far as no prompt takes them."""
    command = BY_ID["quit"]
    keys = [key for key in command.keys if _ANYWHERE.fullmatch(key)]
    return _named(command, "quit", keys, urgent=True)


def closing_bindings(*commands: str) -> list[BindingType]:
    """Esc, and the keys of ``commands``, close a sheet."""
    bindings: list[BindingType] = [Binding("escape", "dismiss", show=False)]
    for command in commands:
        keys = [key for key in BY_ID[command].keys if key != "escape" and " " not in key]
        bindings += _named(BY_ID[command], "dismiss", keys)
    return bindings


def _named(command: Command, action: str, keys: Iterable[str], urgent: bool = False) -> list[Binding]:
    return [
        Binding(name, action, command.title, show=False, priority=urgent, id=f"{command.id}:{name}")
        for key in keys
        for name in delivered(key)
    ]
