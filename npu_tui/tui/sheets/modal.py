"""Screens over the main screen: they close themselves, and nothing below them."""

from __future__ import annotations

from typing import Any

from textual import events, on
from textual.await_complete import AwaitComplete
from textual.command import CommandInput, CommandList
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.screen import ModalScreen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Input, LoadingIndicator

from npu_tui.tui.terminal.internals import SteadyPalette

_LONGEST = 200
"""Characters that commands are looked for with; all of them are measured with every key."""


class Modal(ModalScreen[ScreenResultType]):
    """A screen that closes once, however often it is told to before it is gone."""

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """The widgets got their styles when they came."""
        event.refresh_styles = False

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close with ``result``, unless it is on its way out already: that would close what is below."""
        return super().dismiss(result) if self.is_current else AwaitComplete()


class Palette(SteadyPalette):
    """The list of all commands, flags and lanes; of keys that come in one burst the first Enter counts.

    The icon is left out, as it has no counterpart in plain glyphs and terminals differ about its width; the list wraps
    its words, which needs a cell of width; few rows are all for what is typed and found.
    """

    VERTICAL_BREAKPOINTS = [(0, "-few"), (12, "-enough")]  # noqa: RUF012 - as Textual declares it
    CSS = """
    Palette SearchIcon { display: none; }
    Palette CommandList { min-width: 10; }
    Palette.-few > Vertical { margin-top: 0; }
    Palette.-few #--input { border: none; }
    Palette.-few CommandInput { border: none; height: 1; }
    Palette.-few CommandList { border: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        kinds = (CommandList, CommandInput, LoadingIndicator)
        self._stand_ins: dict[object, Widget] = {kind: kind() for kind in kinds} | {"#--input": Horizontal()}

    def on_mount(self) -> None:
        """Take no more than a line can have."""
        self.query_one(CommandInput).max_length = _LONGEST

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close, unless it is on its way out already."""
        return super().dismiss(result) if self.is_current else AwaitComplete()

    def query_one(self, selector: Any, expect_type: Any = None) -> Any:
        """As Textual has it, but that what was under way when its parts went finds others to work on in vain."""
        try:
            return super().query_one(selector, expect_type) if expect_type else super().query_one(selector)
        except NoMatches:
            if selector not in self._stand_ins:
                raise
            return self._stand_ins[selector]

    @on(Input.Submitted)
    def take_no_more(self, event: Input.Submitted) -> None:
        """Run nothing twice."""
        if not self.is_current:
            event.stop()
            event.prevent_default()
