"""Screens over the main screen: they close themselves, and nothing below them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from textual import on
from textual.await_complete import AwaitComplete
from textual.command import CommandInput, CommandList, CommandPalette
from textual.css.query import NoMatches
from textual.screen import ModalScreen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Input

_LONGEST = 200
"""Characters that commands are looked for with; all of them are measured with every key."""


class Modal(ModalScreen[ScreenResultType]):
    """A screen that closes once, however often it is told to before it is gone."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close with ``result``, unless it is on its way out already: that would close what is below."""
        return super().dismiss(result) if self.is_current else AwaitComplete()


class Palette(CommandPalette):
    """The list of all commands, flags and lanes; of keys that come in one burst the first Enter counts."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[Any, Widget] = {}

    def on_mount(self) -> None:
        """Know the parts from the start."""
        with suppress(NoMatches):  # closed while it was mounted
            for part in (CommandList, CommandInput):
                self._parts[part] = super().query_one(part)

    def on_mount(self) -> None:
        """Take no more than a line can have."""
        self.query_one(CommandInput).max_length = _LONGEST

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close, unless it is on its way out already."""
        return super().dismiss(result) if self.is_current else AwaitComplete()

    def query_one(self, selector: Any, expect_type: Any = None) -> Any:
        """As Textual has it, but that a part which is gone is still found by what was under way when it went."""
        try:
            found = super().query_one(selector, expect_type) if expect_type else super().query_one(selector)
        except NoMatches:
            if selector not in self._parts:
                raise
            return self._parts[selector]
        self._parts[selector] = found
        return found

    @on(Input.Submitted)
    def take_no_more(self, event: Input.Submitted) -> None:
        """Run nothing twice."""
        if not self.is_current:
            event.stop()
            event.prevent_default()
