"""The screen that asks which of several profiles to open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from npu_tui.ingest.source.reach import sources_below
from npu_tui.nearby.profiles import Nearby, in_order, profile_of
from npu_tui.nearby.verdicts import Told, verdicts
from npu_tui.strings import say
from npu_tui.tui.keys.bindings import list_bindings
from npu_tui.tui.keys.commands import BY_ID, commands_of
from npu_tui.tui.picker.rows import Choice, columns, foot_lines, head_line, row_line, title_line
from npu_tui.tui.sheets.help_sheet import HelpSheet
from npu_tui.tui.terminal.internals import bind

_HEAD = 3
"""Lines above the first row."""
_FEW = 16
"""Profiles after which those found so far are shown."""
MOST_STACKED = 16
"""Timelines that are opened together at most."""


class PickerScreen(Screen[None], inherit_bindings=False):
    """Lists the profiles below ``folder`` as they are found, and what each says as that becomes known."""

    DEFAULT_CSS = "PickerScreen Static { height: 1fr; padding: 0 1; text-wrap: nowrap; }"

    class Leave(Message):
        """Nothing is wanted."""

    class Chosen(Message):
        """``paths`` are wanted, one below the other; a ``job`` is the only one."""

        def __init__(self, paths: list[Path], job: bool) -> None:
            self.paths, self.job = paths, job
            super().__init__()

    class Listed(Message):
        """These profiles were found; ``whole`` if that is all."""

        def __init__(self, listed: list[Nearby], whole: bool) -> None:
            self.listed, self.whole = listed, whole
            super().__init__()

    class Learned(Message):
        """What one of them says; None once there is nothing more to learn."""

        def __init__(self, told: Told | None) -> None:
            self.told = told
            super().__init__()

    def __init__(self, folder: Path, cached: bool = True) -> None:
        """With ``cached`` parsed copies are used."""
        super().__init__()
        self._cached = cached
        self._shown = Static()
        self._words = ""
        self._typing = False
        self._prefix = ""
        self._first = 0
        self._stop = Event()
        self.choice = Choice(folder)
        bind(self, list_bindings("picker"))  # the user's keys are known only now

    def compose(self) -> ComposeResult:
        """The list alone."""
        yield self._shown

    def on_mount(self) -> None:
        """Begin to look."""
        self._draw()
        self._look()

    def on_unmount(self) -> None:
        """Nothing more needs to be known."""
        self._stop.set()

    # --- looking

    @work(thread=True, exclusive=True, group="look")
    def _look(self) -> None:
        found: list[Nearby] = []
        for source in sources_below(self.choice.folder):
            if self._stop.is_set():
                return
            found.append(profile_of(source, self.choice.folder))
            if len(found) % _FEW == 0:
                self.post_message(self.Listed(in_order(found), False))
        self.post_message(self.Listed(in_order(found), True))

    def on_picker_screen_listed(self, event: Listed) -> None:
        """Show what was found; the cursor stays where the user has put it."""
        choice = self.choice
        row = choice.current() if choice.at else None
        choice.listed, choice.is_whole = event.listed, event.whole
        choice.stay_at(row)
        self._draw()
        if event.whole:
            self.examine()

    def examine(self) -> None:
        """Learn what those say of which it is not known yet."""
        self._stop.clear()
        self._learn([each for each in self.choice.listed if each.path not in self.choice.told])

    @work(thread=True, exclusive=True, group="learn")
    def _learn(self, listed: list[Nearby]) -> None:
        go_on: Callable[[], bool] = lambda: not self._stop.is_set()  # noqa: E731 - its type
        for told in verdicts(listed, self._cached, go_on):
            if not go_on():
                return
            self.post_message(self.Learned(told))
        if go_on():
            self.post_message(self.Learned(None))

    def on_picker_screen_learned(self, event: Learned) -> None:
        """Show what a profile says."""
        if event.told is None:
            self.choice.is_examined = True
        else:
            row = self.choice.current()
            self.choice.told[event.told.path] = event.told
            self.choice.stay_at(row)
        self._draw()

    def pause(self) -> None:
        """Learn nothing more until ``examine``: something is opened, which needs the machine."""
        self._stop.set()

    # --- drawing

    def on_resize(self) -> None:
        """Draw it for another size."""
        self._draw()

    def tell(self, words: str) -> None:
        """Show ``words`` in place of the keys."""
        self._words = words
        self._draw()

    def _draw(self) -> None:
        width, height = self.app.size.width - 2, self.app.size.height
        if width <= 0 or height <= 0:
            return
        shown = self.choice.shown()
        foot = foot_lines(self.choice, width, self._words)
        room = self._room(len(foot))
        self._first = max(0, min(max(self._first, self.choice.at - room + 1), self.choice.at, len(shown) - room))
        rows = shown[self._first : self._first + room]
        widths = columns(self.choice, shown, width)
        lines = [head_line(self.choice, width), Text(), title_line(widths)]
        lines += [
            row_line(self.choice, each, widths, at == self.choice.at) for at, each in enumerate(rows, self._first)
        ]
        if not shown and self.choice.is_whole:
            lines.append(Text(say("picker.nothing"), "dim"))
        lines += [Text()] * (height - len(lines) - len(foot))
        self._shown.update(Text("\n").join([*lines, *foot]))

    def _room(self, foot: int = 5) -> int:
        """How many rows fit."""
        return max(self.app.size.height - _HEAD - foot - 1, 1)

    # --- keys

    def on_key(self, event: events.Key) -> None:
        """A letter that is no command begins a filter; in one all are text, and Backspace takes back the last."""
        if event.key == "backspace":
            self._want(self.choice.wanted[:-1])
            event.stop()
            return
        if not self._typing and event.key in self._bound:
            return
        if event.is_printable and event.character and not event.character.isspace():
            self._type(event.character)
            event.stop()

    def on_paste(self, event: events.Paste) -> None:
        """What is pasted is looked for."""
        self._type(event.text.strip().partition("\n")[0])

    def _type(self, text: str) -> None:
        self._typing = True
        self._want(self.choice.wanted + text)

    def _want(self, text: str) -> None:
        row = self.choice.current()
        self.choice.wanted = text
        self._typing = bool(text) or self._typing
        self.choice.stay_at(row)
        self.tell("" if text or not self._typing else say("picker.type"))

    @property
    def _bound(self) -> frozenset[str]:
        """The keys of its commands, under every name that terminals deliver them."""
        return frozenset(binding.key for binding in list_bindings("picker"))

    def action_prefix(self, key: str) -> None:
        """Take the first key of a sequence; the second one runs its command."""
        if self._prefix == key:
            self.action_run(next(each.id for each in commands_of("picker") if f"{key} {key}" in each.keys))
        else:
            self._prefix = key

    def action_run(self, command: str) -> None:
        """Run the command called ``command``."""
        self._prefix = ""
        BY_ID[command].acts["picker"](self)

    def find(self) -> None:
        """Begin a filter."""
        self._typing = True
        self.tell(say("picker.type"))

    def move(self, by: int) -> None:
        """Go ``by`` rows down."""
        self.choice.at = max(0, min(self.choice.at + by, len(self.choice.shown()) - 1))
        self.tell("")

    def page(self, by: int) -> None:
        """Go a page down or up."""
        self.move(by * self._room())

    def fold(self) -> None:
        """Show the ranks of a job, or hide them."""
        row = self.choice.current()
        if row is None:
            return
        if not row.is_job:
            row = next((each for each in self.choice.listed if row in each.ranks), row)
        if row.is_job:
            self.choice.turned ^= {row.path}
            self.choice.stay_at(row)
        self.tell("")

    def mark(self) -> None:
        """Mark this one or take its mark away, and go on."""
        row = self.choice.current()
        if row is None:
            return
        if row.is_job:
            self.tell(say("picker.job_alone"))
            return
        self.choice.marked ^= {row.path}
        self.move(1)

    def open(self) -> None:
        """Open what is marked, or else this one."""
        row = self.choice.current()
        marked = [each.path for each in self.choice.listed if each.path in self.choice.marked and not each.is_job]
        if len(marked) > MOST_STACKED:
            self.tell(say("picker.too_many", count=len(marked), most=MOST_STACKED))
        elif marked:
            self.post_message(self.Chosen(marked, False))
        elif row is not None:
            self.post_message(self.Chosen([row.path], row.is_job))

    def on_click(self, event: events.Click) -> None:
        """Go to the row under the pointer; a double click opens it."""
        at = event.screen_y - _HEAD + self._first
        if 0 <= event.screen_y - _HEAD < self._room() and at < len(self.choice.shown()):
            self.choice.at = at
            self.tell("")
            if event.chain > 1:
                self.open()

    def on_mouse_scroll_down(self) -> None:
        """Three rows down."""
        self.move(3)

    def on_mouse_scroll_up(self) -> None:
        """Three rows up."""
        self.move(-3)

    def show_help(self) -> None:
        """Show all keys."""
        self.app.push_screen(HelpSheet("picker", {}))

    def escape(self) -> None:
        """Take back the filter, then the marks; else leave."""
        if self._typing:
            self._typing = False
            self._want("")
        elif self.choice.marked:
            self.choice.marked.clear()
            self.tell("")
        else:
            self.leave_list()

    def leave_list(self) -> None:
        """Leave without opening anything."""
        self._stop.set()
        self.post_message(self.Leave())
