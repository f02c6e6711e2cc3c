"""The registry of commands: the one source of bindings, palette, help, footer and the README's key table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from npu_tui.strings import name_keys, say
from npu_tui.tui.keys.key_names import key_label

Group = Literal[
    "time", "rows", "slices", "links", "range", "search", "notes", "panel", "compared", "job", "list", "program"
]
GROUPS: tuple[Group, ...] = (
    "time", "rows", "slices", "links", "range", "search", "notes", "panel", "compared", "job", "list", "program",
)  # fmt: skip

Where = Literal["lanes", "job", "picker"]
"""The screens that have commands: the lanes of some traces, the overview of a job, and the list of profiles to choose
from. Each has keys of its own."""

TAB_COMMAND = "tab_"
"""What the ids of the commands begin with that open a tab."""
TAB_KEYS = (
    ("findings", "1"),
    ("lines", "2"),
    ("details", "3"),
    ("links", "4"),
    ("range", "5"),
    ("operators", "6"),
    ("communication", "7"),
    ("search", "8"),
    ("memory", "9"),
    ("summary", "r"),
    ("changes", "F"),
)
"""The tabs of the panel as they are declared in ``tabs``, without the imports that those need."""

JOB_TABS = (
    ("job_ranks", "1"),
    ("job_collectives", "2"),
    ("job_links", "3"),
    ("job_hosts", "4"),
    ("job_groups", "5"),
    ("job_clock", "6"),
    ("job_findings", "7"),
)
"""The tabs of the overview of a job."""

VIEW_KEYS = (("bubbles", "I"), ("syncs", "T"), ("calls", "C"), ("host_ops", "O"))
"""Views of the tab ``lines`` with keys of their own."""


class Command(Struct, frozen=True):
    """Something the user can do. ``default_keys`` are Textual key names, or one twice with a blank for a sequence.

    ``acts`` is what it does, by the screen that has it: a function of that screen, which returns what to tell the user,
    or None where the screen shows it. A command without keys is typed after ``:`` or found in the palette.
    """

    id: str
    group: Group
    default_keys: tuple[str, ...]
    acts: Mapping[Where, Callable[[Any], str | None]]

    @property
    def where(self) -> tuple[Where, ...]:
        """The screens that have it."""
        return (*self.acts,)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that run the command, the user's own if there are any."""
        return _own_keys.get(self.id, self.default_keys)

    @property
    def press(self) -> str:
        """What to press, or to type where it has no key, in texts that name it."""
        return key_label(self.keys[0]) if self.keys else f":{self.id}"

    @property
    def title(self) -> str:
        """What the command does, in a few words."""
        return say(f"command.{self.id}")


COMMANDS: list[Command] = []
BY_ID: dict[str, Command] = {}
"""All commands in the order of the help, and by their ids: those that ``tui/actions.py`` declares.

The table names the screens, and the screens and all below them name commands; so it is declared here when
``npu_tui.tui`` is imported, before anything asks for it.
"""

_own_keys: dict[str, tuple[str, ...]] = {}


def declare(commands: Iterable[Command]) -> None:
    """Let ``commands`` be those that there are."""
    COMMANDS.extend(commands)
    BY_ID.update((command.id, command) for command in COMMANDS)
    assert len(BY_ID) == len(COMMANDS), "two commands have one id"
    name_keys(lambda command: BY_ID[command].press)


def set_keys(own: Mapping[str, tuple[str, ...]]) -> None:
    """From now on the commands of ``own`` have these keys, all others their default ones."""
    _own_keys.clear()
    _own_keys.update(own)


def commands_of(where: Where) -> list[Command]:
    """The commands of one screen."""
    return [command for command in COMMANDS if where in command.where]


def keys_label(command: Command) -> str:
    """All keys of a command as people write them."""
    return " ".join(_labels(command))


def _labels(command: Command) -> list[str]:
    """The keys of a command, or how it is typed where it has none."""
    return [key_label(key) for key in command.keys] or [f":{command.id}"]


def markdown_table(where: Where) -> str:
    """The keys of a screen as a table in Markdown."""
    lines = [f"| {say('keymap.heading.keys')} | {say('keymap.heading.what')} |", "|---|---|"]
    for command in commands_of(where):
        keys = " ".join(_code(label) for label in _labels(command))
        lines.append(f"| {keys} | {command.title} |")
    return "\n".join(lines) + "\n"


def _code(label: str) -> str:
    """``label`` as code in a cell of a Markdown table, also where it is a backtick or the bar between cells."""
    return f"`` {label} ``" if "`" in label else "`" + label.replace("|", "\\|") + "`"


def text_table() -> str:
    """The key table as plain text, by group."""
    width = max(len(keys_label(command)) for command in COMMANDS)
    lines = []
    for group in GROUPS:
        lines += [say(f"group.{group}")]
        lines += [f"  {keys_label(command):{width}}  {command.title}" for command in COMMANDS if command.group == group]
        lines.append("")
    return "\n".join(lines)
