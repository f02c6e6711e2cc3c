"""Sheets over the screen: help and pages of text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from typing import Literal

from msgspec import Struct
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.console import Group as Lines
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Static

from npu_tui.rules.explanation import Word, words_called
from npu_tui.strings import knows, say
from npu_tui.subjects import subject_of
from npu_tui.trace.model import Trace
from npu_tui.trace.text import cell_count, wrapped
from npu_tui.tui.commands import (
    BY_ID,
    TAB_COMMAND,
    VIEW_KEYS,
    Command,
    Where,
    asked,
    commands_of,
    delivered,
    keys_label,
)
from npu_tui.tui.keymap import closing_bindings
from npu_tui.tui.tabs.links import legend
from npu_tui.tui.terminal.internals import SeenScreen, bind


class Drawn:
    """``content``, whose lines are kept: Textual asks for them to know how many they are, and again to show them."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content
        self._lines: dict[int, list[Segment]] = {}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> list[Segment]:
        width = options.max_width
        if width not in self._lines:
            self._lines[width] = list(console.render(self._content, options.reset_height()))
        return self._lines[width]


class Modal(SeenScreen[ScreenResultType], ModalScreen[ScreenResultType]):
    """A screen that closes once, however often it is asked to before it is gone."""

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """The widgets got their styles when they came."""
        event.refresh_styles = False

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close with ``result``, unless it is on its way out already: that would close what is below."""
        return super().dismiss(result) if self.is_current else AwaitComplete()


class Sheet(Modal[None]):
    """Shows ``content`` under ``title``; it scrolls where it is longer than the screen."""

    DEFAULT_CSS = """
    Sheet { align: center middle; }
    Sheet > VerticalScroll {
        width: 92%; max-width: 130; height: auto; max-height: 96%;
        background: $surface; border: round $primary; padding: 0 2; scrollbar-gutter: stable;
    }
    Sheet Static { height: auto; }
    """

    def __init__(self, title: str, content: RenderableType) -> None:
        super().__init__()
        bind(self, closing_bindings("help", "panel"))
        self._heading = title
        self._content = content

    def compose(self) -> ComposeResult:
        """Title and content."""
        heading = Text(self._heading, style="bold")
        heading.append(f"   {say('sheet.close')}", style="dim")
        with VerticalScroll():
            yield Static(Drawn(Group(heading, Text(""), self._content)))


Focus = Literal["lanes", "table", "panel", "job", "job_table", "picker"]
Task = str
"""What a user may be looking for: a group of commands, or what belongs to none; its heading is ``help.task.<task>``."""

_ORDER: dict[Where, tuple[Task, ...]] = {
    "lanes": (
        "place", "slices", "launches", "measure", "search", "notes", "rows", "panel", "compared", "job",
        "mouse", "prompt", "program",
    ),
    "job": ("job", "place", "panel", "notes", "prompt", "program"),
    "picker": ("list", "place", "program"),
}  # fmt: skip
_FIRST: dict[Focus, tuple[Task, ...]] = {
    "table": ("table", "panel", "notes"), "panel": ("panel", "notes"), "job_table": ("table",)
}  # fmt: skip
"""The tasks that come before the others where a table or a text of the panel has the focus."""
# The screens that are not the lanes.
_SCREENS: dict[Focus, Where] = {"job": "job", "job_table": "job", "picker": "picker"}
# The task of a command of a screen where the help of that screen lacks its own.
_RESTS: dict[Where, Task] = {"lanes": "program", "job": "job", "picker": "list"}
_WORDS: dict[Where, str] = {"lanes": "help.words", "job": "ranks.help.words", "picker": "picker.help.words"}
TWO_COLUMNS = 96
"""From this width on there are two of them."""
_BETWEEN = 4  # blanks between both


class Entry(Struct, frozen=True):
    """One line of the help: ``keys`` and what they do, and in ``reason`` why they can do nothing just now."""

    keys: str
    words: str
    reason: str = ""
    command: str = ""

    def holds(self, wanted: str, commands: Collection[str]) -> bool:
        """Whether all words of ``wanted`` are in it, or it is one of the ``commands`` that they mean."""
        if self.command in commands:
            return True
        text = f"{self.keys} {self.words}".casefold()
        return all(word in text for word in wanted.casefold().split())


def entries(focus: Focus, why_not: Mapping[str, str], trace: Trace | None = None) -> list[tuple[Task, list[Entry]]]:
    """Every key by task, those of ``focus`` first; ``why_not`` gives reasons by command.

    With the ``trace`` at the cursor those of its subject alone, in its words.
    """
    where = _SCREENS.get(focus, "lanes")
    found = {task: [*map(_fixed, _FIXED.get(task, ()))] for task in (*_FIRST.get(focus, ()), *_ORDER[where])}
    rest, gone = found[_RESTS[where]], set[str]() if trace is None else _absent(trace)
    words = where if trace is None else trace.nature.subject
    instead = "" if trace is None else subject_of(trace).no_kernels  # told where the key is pressed
    for command in commands_of(where):
        if command.id in gone or (instead and why_not.get(command.id) == say(instead)):
            continue
        found.get(command.group, rest).append(_entry(command, why_not, words))
    return list(found.items())


_OF_KERNELS = (
    "starved_next", "starved_previous", "bubble_next", "bubble_previous", "path_next", "path_previous", "path", "film",
    "chain", "passes", "whatif", "code", *VIEW_KEYS,
)  # fmt: skip
"""Commands for who looks at kernels and what launched them."""
_OF_LINKS = (
    "link_back", "link_forward", "sibling_previous", "sibling_next", "chain", "passes", "link_mode"
)  # fmt: skip


def _absent(trace: Trace) -> set[str]:
    """The commands that have nothing to do where ``trace`` is of a subject without kernels, or has no links."""
    subject = subject_of(trace)
    gone = {f"{TAB_COMMAND}{tab}" for tab, view in subject.tabs.items() if not view}
    if subject.no_kernels:
        gone.update({*_OF_KERNELS, "requests"} - {*subject.tabs, *subject.tabs.values()})
    if not len(trace.links):
        gone.update(_OF_LINKS)
    return gone


def _entry(command: Command, why_not: Mapping[str, str], where: str = "lanes") -> Entry:
    return Entry(keys_label(command), command.title_on(where), why_not.get(command.id, ""), command.id)


_FIXED: dict[Task, tuple[tuple[str, str] | str, ...]] = {
    "table": (
        ("↑ ↓ PgUp PgDn", "help.table.move"), ("← →", "help.table.sort"), "sort_reverse", "filter",
        ("Enter", "help.table.go"), ("Space", "help.table.tell"), "yank", ("escape", "help.table.leave"),
    ),
    "prompt": (
        ("Enter", "help.prompt.enter"), ("Esc", "help.prompt.leave"), ("↑ ↓", "help.prompt.choose"),
        ("Tab", "help.prompt.take"),
    ),
    "mouse": (
        ("help.mouse.drag", "help.mouse.mark"), ("help.mouse.right", "help.mouse.zoom_range"),
        ("help.mouse.click", "help.mouse.select"), ("help.mouse.wheel", "help.mouse.scroll"),
        ("help.mouse.ruler", "help.mouse.pan"), ("help.mouse.gutter", "help.mouse.fold"),
    ),
    "program": (("npu-tui screenshot", "help.picture"), ("--lang en|zh", "help.language")),
}  # fmt: skip
"""What belongs to no command: keys of tables and prompts, what a mouse does. Some keys are those of a command."""


def _fixed(entry: tuple[str, str] | str) -> Entry:
    if isinstance(entry, str):
        return _entry(BY_ID[entry], {})
    keys, words = entry
    return Entry(keys_label(BY_ID[keys]) if keys in BY_ID else say(keys) if knows(keys) else keys, say(words))


def help_text(
    focus: Focus, why_not: Mapping[str, str], wanted: str = "", width: int = 120, trace: Trace | None = None
) -> RenderableType:
    """The help for ``width`` columns, about ``trace``; only what has ``wanted`` in it, the key itself first."""
    groups, called = entries(focus, why_not, trace), list[Word]()
    if wanted.strip():
        called = words_called(wanted)
        commands = {command for word in called for command in word.commands}
        shown = subject_of(trace) if trace is not None else None
        commands |= {*asked(wanted, _SCREENS.get(focus, "lanes"), shown)}
        groups = [(task, _matching(found, wanted, commands)) for task, found in groups]
        groups = [(task, found) for task, found in groups if found]
        groups.sort(key=lambda group: not any(wanted in entry.keys.split() for entry in group[1]))
        if not groups and not called:
            return Text(say("help.none", text=wanted))
    screen = _SCREENS.get(focus, "lanes")
    first: tuple[RenderableType, ...] = (*legend(trace), Text()) if screen == "lanes" and not wanted.strip() else ()
    meanings = _Keys([("meaning", [Entry(word.title, word.meaning) for word in called])]) if called else Text()
    words = Text("" if wanted.strip() else say(_WORDS[screen]), style="dim")
    if width < TWO_COLUMNS:  # a low screen shows keys first
        return Lines(*first, _Keys(groups), meanings, words)
    half, count, left = sum(len(found) + 2 for _, found in groups) / 2, 0, 0
    while left < len(groups) and count + len(groups[left][1]) / 2 < half:
        count += len(groups[left][1]) + 2
        left += 1
    return Lines(*((meanings,) if called else first), _Beside(_Keys(groups[:left]), _Keys(groups[left:])), words)


def _matching(found: list[Entry], wanted: str, commands: Collection[str]) -> list[Entry]:
    kept = [entry for entry in found if entry.holds(wanted, commands)]
    return sorted(kept, key=lambda entry: wanted not in entry.keys.split())


class _Keys:
    """Keys and what they do by task, in lines: tables of Rich take ten times as long, and a key waits for the sheet."""

    def __init__(self, groups: list[tuple[Task, list[Entry]]]) -> None:
        self._groups = groups

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield from self.lines(options.max_width)

    def lines(self, width: int) -> list[Text]:
        """All lines in ``width`` columns; what keys do stands beside the widest key or heading, or takes half."""
        rows = list(self._rows())
        keys_width = min(max((cell_count(keys) for keys, *_ in rows), default=0), width // 2 - 2)
        lines: list[Text] = []
        for keys, words, key_style, style in rows:
            both = wrapped(keys, keys_width) or [""], wrapped(words, width - keys_width - 2)
            for key, word in zip_longest(*both, fillvalue=""):
                gap = " " * (keys_width + 2 - cell_count(key)) if word else ""
                lines.append(Text.assemble((key, key_style), gap, (word, style)))
        return lines

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Keys, what they do, and the style of both; headings, reasons and blank lines are rows of their own."""
        for task, found in self._groups:
            yield say(f"help.task.{task}"), "", "bold underline", ""
            for entry in found:
                yield entry.keys, entry.words, "dim" if entry.reason else "bold", "dim" if entry.reason else ""
                if entry.reason:
                    yield "", entry.reason, "", "dim italic"
            yield "", "", "", ""


class _Beside:
    """Two columns of keys."""

    def __init__(self, left: _Keys, right: _Keys) -> None:
        self._left, self._right = left, right

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        half = (options.max_width + 1) // 2
        left, right = self._left.lines(half - _BETWEEN), self._right.lines(options.max_width - half)
        for one, other in zip_longest(left, right, fillvalue=Text()):
            yield Text.assemble(one, " " * (half - one.cell_len), other)


_LONGEST_FILTER = 80  # characters that are looked for


class HelpSheet(Modal[None]):
    """All keys by task for what has the ``focus``; ``why_not`` says which can do nothing just now.

    They are those of the subject of ``trace``, where one is given.
    """

    DEFAULT_CSS = """
    HelpSheet { align: center middle; }
    HelpSheet > Vertical {
        width: 92%; max-width: 130; height: 96%;
        background: $surface; border: round $primary; padding: 0 1;
    }
    HelpSheet #heading { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    HelpSheet VerticalScroll { height: 1fr; scrollbar-gutter: stable; }
    HelpSheet #keys { height: auto; width: 100%; }
    """

    def __init__(self, focus: Focus, why_not: Mapping[str, str], trace: Trace | None = None) -> None:
        super().__init__()
        self._focus = focus
        self._trace = trace
        self._why_not = why_not
        self._wanted = ""
        self._shown: tuple[str, bool] | None = None
        self._found_soon = False

    def compose(self) -> ComposeResult:
        """Heading and keys."""
        with Vertical():
            yield Static(id="heading")
            with VerticalScroll():
                yield Static(id="keys")

    def on_mount(self) -> None:
        """Begin with all keys."""
        if not self.query("#keys"):
            return  # closed while it was mounted
        self.query_one(VerticalScroll).focus()
        self._show()

    def on_resize(self) -> None:
        """Lay the keys out in as many columns as fit."""
        if self.query("#keys"):
            self._show()

    def on_key(self, event: events.Key) -> None:
        """What is typed is looked for; Esc takes it back, then closes."""
        if event.key == "escape" and self._wanted:
            self._find("")
        elif event.key == "escape" or event.key in {name for key in BY_ID["help"].keys for name in delivered(key)}:
            self.dismiss()
        elif event.key == "backspace":
            self._find(self._wanted[:-1])
        elif event.character is not None and event.is_printable:
            self._find(self._wanted + event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def _find(self, wanted: str) -> None:
        self._wanted = wanted[:_LONGEST_FILTER]
        if not self._found_soon:
            self._found_soon = True
            self.call_later(self._show_found)  # once for all keys that are here already

    def _show_found(self) -> None:
        self._found_soon = False
        if self.query("#keys"):
            self._show()
            self.query_one(VerticalScroll).scroll_home(animate=False)

    def _show(self) -> None:
        width = self.query_one(VerticalScroll).size.width or self.app.size.width
        shown = self._wanted, width < TWO_COLUMNS
        if shown == self._shown:
            return
        self._shown = shown
        heading = Text(say("help.title"), style="bold")
        heading.append(
            f"   {say('help.found', text=self._wanted) if self._wanted else say('help.ask')}", style="not bold"
        )
        self.query_one("#heading", Static).update(heading)
        keys = help_text(self._focus, self._why_not, self._wanted, width, self._trace)
        self.query_one("#keys", Static).update(Drawn(keys))
