"""What the help sheet says: all keys by task, those of what has the focus first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from npu_tui.strings import say
from npu_tui.tui.keys.commands import BY_ID, Command, Group, Where, commands_of, keys_label
from npu_tui.tui.tabs.legend import legend

Focus = Literal["lanes", "table", "panel", "job", "job_table", "picker"]
Task = Literal[
    "table",
    "place",
    "slices",
    "launches",
    "measure",
    "search",
    "notes",
    "rows",
    "panel",
    "compared",
    "job",
    "list",
    "prompt",
    "mouse",
    "program",
]

_TASKS: dict[Group, Task] = {
    "time": "place",
    "rows": "place",
    "slices": "slices",
    "links": "launches",
    "range": "measure",
    "search": "search",
    "notes": "notes",
    "panel": "panel",
    "compared": "compared",
    "job": "job",
    "list": "list",
    "program": "program",
}
_OTHERS: dict[str, Task] = {
    **dict.fromkeys(("fold", "pin", "hide", "show_hidden", "idle"), "rows"),
    **dict.fromkeys(("starved_next", "starved_previous", "open_code"), "launches"),
    **dict.fromkeys(("finding_next", "finding_previous", "command"), "place"),
    **dict.fromkeys(("align_start", "align_end", "base"), "measure"),
    **dict.fromkeys(("go", "escape"), "slices"),
}
"""Commands whose task is not that of their group."""
_ORDER: dict[Focus, tuple[Task, ...]] = {
    "lanes": (
        "place", "slices", "launches", "measure", "search", "notes", "rows", "panel", "compared", "job",
        "mouse", "prompt", "program",
    ),
    "table": (
        "table", "panel", "notes", "place", "slices", "launches", "measure", "search", "rows", "compared",
        "job", "mouse", "prompt", "program",
    ),
    "panel": (
        "panel", "notes", "place", "slices", "launches", "measure", "search", "rows", "compared", "job",
        "mouse", "prompt", "program",
    ),
    "job": ("job", "place", "panel", "notes", "prompt", "program"),
    "job_table": ("table", "job", "place", "panel", "notes", "prompt", "program"),
    "picker": ("list", "place", "program"),
}  # fmt: skip
_SCREENS: dict[Focus, Where] = {"job": "job", "job_table": "job", "picker": "picker"}
"""The screens that are not the lanes."""
_WORDS: dict[Where, str] = {"lanes": "help.words", "job": "ranks.help.words", "picker": "picker.help.words"}
TWO_COLUMNS = 96
"""From this width on there are two of them."""


class Entry(Struct, frozen=True):
    """One line of the help: ``keys`` and what they do, and in ``reason`` why they can do nothing just now."""

    keys: str
    words: str
    reason: str = ""

    def holds(self, wanted: str) -> bool:
        """Whether all words of ``wanted`` are in it."""
        text = f"{self.keys} {self.words}".casefold()
        return all(word in text for word in wanted.casefold().split())


def entries(focus: Focus, why_not: Mapping[str, str]) -> list[tuple[Task, list[Entry]]]:
    """Every key by task, those of ``focus`` first; ``why_not`` gives reasons by command."""
    found: dict[Task, list[Entry]] = {task: list(_fixed(task)) for task in _ORDER[focus]}
    for command in commands_of(_SCREENS.get(focus, "lanes")):
        task = _OTHERS.get(command.id, _TASKS[command.group])
        found.get(task, found["program"]).append(_entry(command, why_not))
    return list(found.items())


def _entry(command: Command, why_not: Mapping[str, str]) -> Entry:
    return Entry(keys_label(command), command.title, why_not.get(command.id, ""))


def _fixed(task: Task) -> tuple[Entry, ...]:
    """The keys that belong to no command: those of tables and prompts, and the mouse."""
    if task == "table":
        return (
            Entry("↑ ↓ PgUp PgDn", say("help.table.move")),
            Entry("← →", say("help.table.sort")),
            _entry(BY_ID["sort_reverse"], {}),
            _entry(BY_ID["filter"], {}),
            Entry("Enter", say("help.table.go")),
            Entry("Space", say("help.table.tell")),
            _entry(BY_ID["yank"], {}),
            Entry(keys_label(BY_ID["escape"]), say("help.table.leave")),
        )
    if task == "prompt":
        return (
            Entry("Enter", say("help.prompt.enter")),
            Entry("Esc", say("help.prompt.leave")),
            Entry("↑ ↓", say("help.prompt.choose")),
            Entry("Tab", say("help.prompt.take")),
        )
    if task == "mouse":
        return (
            Entry(say("help.mouse.drag"), say("help.mouse.mark")),
            Entry(say("help.mouse.right"), say("help.mouse.zoom_range")),
            Entry(say("help.mouse.click"), say("help.mouse.select")),
            Entry(say("help.mouse.wheel"), say("help.mouse.scroll")),
            Entry(say("help.mouse.ruler"), say("help.mouse.pan")),
            Entry(say("help.mouse.gutter"), say("help.mouse.fold")),
        )
    if task == "program":
        return (
            Entry("npu-tui screenshot", say("help.picture")),
            Entry("--lang en|zh", say("help.language")),
        )
    return ()


def help_text(focus: Focus, why_not: Mapping[str, str], wanted: str = "", width: int = 120) -> RenderableType:
    """The help for ``width`` columns; with ``wanted`` only what has that in it, the key itself first."""
    groups = entries(focus, why_not)
    if wanted.strip():
        groups = [(task, _matching(found, wanted)) for task, found in groups]
        groups = [(task, found) for task, found in groups if found]
        groups.sort(key=lambda group: not any(wanted in entry.keys.split() for entry in group[1]))
        if not groups:
            return Text(say("help.none", text=wanted))
    screen = _SCREENS.get(focus, "lanes")
    first = (*legend(), Text()) if screen == "lanes" and not wanted.strip() else ()
    words = Text("" if wanted.strip() else say(_WORDS[screen]), style="dim")
    if width < TWO_COLUMNS:
        return Lines(*first, _column(groups), words)
    half, count, left = sum(len(found) + 2 for _, found in groups) / 2, 0, 0
    while left < len(groups) and count + len(groups[left][1]) / 2 < half:
        count += len(groups[left][1]) + 2
        left += 1
    columns = Table.grid(padding=(0, 4), expand=True)
    columns.add_column(ratio=1)
    columns.add_column(ratio=1)
    columns.add_row(_column(groups[:left]), _column(groups[left:]))
    return Lines(*first, columns, words)


def _matching(found: list[Entry], wanted: str) -> list[Entry]:
    kept = [entry for entry in found if entry.holds(wanted)]
    return sorted(kept, key=lambda entry: wanted not in entry.keys.split())


def _column(groups: list[tuple[Task, list[Entry]]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")  # Chinese has no blanks to break at
    for task, found in groups:
        table.add_row(Text(say(f"help.task.{task}"), style="bold underline"), "")
        for entry in found:
            if entry.reason:
                table.add_row(Text(entry.keys, style="dim"), Text(entry.words, style="dim"))
                table.add_row("", Text(f"  {entry.reason}", style="dim italic"))
            else:
                table.add_row(Text(entry.keys, style="bold"), entry.words)
        table.add_row("", "")
    return table
