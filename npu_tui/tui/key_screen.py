"""A screen on which keys run the commands of the registry."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from rich.text import Text
from textual import events
from textual.screen import Screen

from npu_tui.analysis.launches.code_lines import CodeLine
from npu_tui.strings import say
from npu_tui.tui.actions.acts import Act
from npu_tui.tui.explore.editor import open_line
from npu_tui.tui.keys.bindings import ASKING, screen_bindings
from npu_tui.tui.keys.commands import Where, commands_of
from npu_tui.tui.keys.key_names import is_han
from npu_tui.tui.sheets.modal import Palette
from npu_tui.tui.sheets.sheet import Sheet
from npu_tui.tui.terminal.internals import bind
from npu_tui.tui.widgets.drawing import Drawing
from npu_tui.tui.widgets.header import StatusLine
from npu_tui.tui.widgets.prompt import Kind, Prompt

Drawn = TypeVar("Drawn", bound=Drawing)


class KeyScreen(Screen[None], Generic[Drawn], inherit_bindings=False):
    """The lanes of ``timeline``, or another drawing, a ``prompt``, a status line, and what its commands do."""

    where: ClassVar[Where] = "lanes"

    def __init__(self, timeline: Drawn, prompt: Prompt) -> None:
        super().__init__()
        bind(self, screen_bindings(self.where))  # the user's keys are known only now
        self._timeline = timeline
        self._prompt = prompt
        self._line = StatusLine()
        self._acts: Mapping[str, Act] = {}
        self._prefix = ""

    def on_key(self, event: events.Key) -> None:
        """Say why keys do nothing while an input method takes them."""
        if is_han(event.character):
            self.tell(say("keys.input_method"))

    def run_command(self, command: str) -> None:
        """Run a command of the registry and show what it has to say; what began a sequence of keys is forgotten."""
        self._prefix = ""
        words = self._acts[command]()
        if words:
            self.tell(words)
        else:
            self._line.show_keys()
        self._timeline.changed()

    def tell(self, words: str) -> None:
        """Show ``words`` in the status line, if there are any."""
        if words:
            self._line.say(words)

    def whole(self, words: str, title: str, text: str) -> str | None:
        """``words`` where the line has room for them; else None, and ``text`` is shown under ``title``."""
        if self._line.holds(words):
            return words
        self.app.push_screen(Sheet(title, Text(text)))
        return None

    def on_screen_suspend(self) -> None:
        """Another screen draws over this one."""
        self._timeline.forget_shown()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """This screen is drawn again as a whole; its widgets got their styles when they came."""
        event.refresh_styles = False
        self._timeline.forget_shown()

    def redraw(self) -> None:
        """Draw everything again, whatever the terminal shows now."""
        self._timeline.forget_shown()
        self.refresh()

    def _focus_next(self) -> None:
        self.focus_next()

    def _open_palette(self) -> None:
        self.app.push_screen(Palette())

    def copy(self, text: str) -> None:
        """Give ``text`` to the clipboard."""
        self.app.copy_to_clipboard(text)

    def open_line(self, code: CodeLine) -> str:
        """Open a line of code in the user's editor; returns what was done."""
        words = open_line(self.app, code)
        self._timeline.forget_shown()
        return words

    @property
    def is_answering(self) -> bool:
        """Whether what was entered in the prompt is still to be done."""
        return self._prompt.is_answering

    def enters(self) -> None:
        """Enter is on its way to what has the focus."""
        self._prompt.is_answering = self._prompt.is_open

    def on_prompt_entered(self, event: Prompt.Entered) -> None:
        """Do what was entered; the keys after it are for what it leads to."""
        self.set_focus(self._timeline)
        try:
            self.obey(event.kind, event.text)
        finally:
            self._prompt.is_answering = False

    @abstractmethod
    def obey(self, kind: Kind, text: str) -> None:
        """Do what was entered in a prompt of this ``kind``."""

    def on_prompt_closed(self) -> None:
        """Back to the lanes."""
        self.set_focus(self._timeline)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """In a prompt keys are text, and what is of the lanes alone needs their focus."""
        asked = self._prompt.is_open
        if action in ("lanes_prefix", "lanes_run"):
            return not asked and self.focused is self._timeline
        return not (asked and (action == "prefix" or (action == "run" and parameters[0] in ASKING)))

    def action_prefix(self, key: str) -> None:
        """Take the first key of a sequence; the second one runs its command."""
        if self._prefix == key:
            command = next(each for each in commands_of(self.where) if f"{key} {key}" in each.keys)
            self.run_command(command.id)
        else:
            self._prefix = key

    def action_run(self, command: str) -> None:
        """Run the command called ``command`` (a binding's action)."""
        self.run_command(command)

    action_lanes_prefix, action_lanes_run = action_prefix, action_run
