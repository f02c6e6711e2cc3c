"""The one-line prompts for search and commands."""

from __future__ import annotations

from typing import Literal

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Input, Label

from npu_tui.strings import say

Kind = Literal["search", "command"]


class Prompt(Horizontal):
    """Asks for one line; posts what is typed, what is entered, and when it is given up."""

    DEFAULT_CSS = """
    Prompt { height: 1; dock: bottom; display: none; background: $panel; }
    Prompt.-open { display: block; }
    Prompt Label { width: auto; color: $text-accent; text-style: bold; padding: 0 0 0 1; }
    Prompt Input { border: none; height: 1; padding: 0; background: $panel; width: 1fr; }
    Prompt #answer { color: $text-muted; padding: 0 1; }
    """

    class Typed(Message):
        """The text changed while typing."""

        def __init__(self, kind: Kind, text: str) -> None:
            self.kind = kind
            self.text = text
            super().__init__()

    class Entered(Message):
        """Enter was pressed."""

        def __init__(self, kind: Kind, text: str) -> None:
            self.kind = kind
            self.text = text
            super().__init__()

    class Closed(Message):
        """The prompt was given up."""

    def __init__(self) -> None:
        super().__init__()
        self.kind: Kind = "search"

    def compose(self) -> ComposeResult:
        """Label, input, answer."""
        yield Label(id="ask")
        yield Input(compact=True)
        yield Label(id="answer")

    def open(self, kind: Kind, suggestions: list[str]) -> None:
        """Ask for a search text or a command."""
        self.kind = kind
        self.query_one("#ask", Label).update(say(f"{kind}.prompt"))
        self.answer("")
        field = self.query_one(Input)
        field.suggester = SuggestFromList(suggestions, case_sensitive=False) if suggestions else None
        field.value = ""
        self.add_class("-open")
        self.screen.set_focus(field)  # at once: the next key may be here already

    def answer(self, text: str) -> None:
        """Show ``text`` right of the input."""
        self.query_one("#answer", Label).update(text)

    def close(self) -> None:
        """Put the prompt away."""
        self.remove_class("-open")

    @property
    def is_open(self) -> bool:
        """Whether the prompt is on screen."""
        return self.has_class("-open")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Pass on what is typed."""
        event.stop()
        if self.is_open:
            self.post_message(self.Typed(self.kind, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Pass on what is entered."""
        event.stop()
        self.close()
        self.post_message(self.Entered(self.kind, event.value))

    def on_key(self, event: events.Key) -> None:
        """Esc gives up, Tab takes the suggestion."""
        if event.key == "escape":
            event.stop()
            self.close()
            self.post_message(self.Closed())
        elif event.key == "tab":
            event.stop()
            field = self.query_one(Input)
            field.action_end()
            field.action_cursor_right()
