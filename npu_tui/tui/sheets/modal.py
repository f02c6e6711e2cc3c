"""Screens over the main screen: they close themselves, and nothing below them."""

from __future__ import annotations

from textual import on
from textual.await_complete import AwaitComplete
from textual.command import CommandPalette
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Input


class Modal(ModalScreen[ScreenResultType]):
    """A screen that closes once, however often it is told to before it is gone."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close with ``result``, unless it is on its way out already: that would close what is below."""
        return super().dismiss(result) if self.is_current else AwaitComplete()


class Palette(CommandPalette):
    """The list of all commands, flags and lanes; of keys that come in one burst the first Enter counts."""

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close, unless it is on its way out already."""
        return super().dismiss(result) if self.is_current else AwaitComplete()

    @on(Input.Submitted)
    def take_no_more(self, event: Input.Submitted) -> None:
        """Run nothing twice."""
        if not self.is_current:
            event.stop()
            event.prevent_default()
