"""The screen while a trace loads and nothing of it can be shown: how far it is, and Esc to stop."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import ProgressBar, Static

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.loader import Advanced, Loader


class LoadingScreen(Screen[None]):
    """Shows how far ``loader`` is."""

    DEFAULT_CSS = """
    LoadingScreen { align: center middle; }
    LoadingScreen Vertical { width: 64; height: auto; }
    LoadingScreen ProgressBar { width: 100%; margin: 1 0; }
    LoadingScreen Bar { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "cancel", "")]

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self._loader = loader
        self._title = Static(Text(self._title_of(0)))
        self._bar = ProgressBar(total=100, show_eta=False)
        self._shown = Static(id="figures")

    def compose(self) -> ComposeResult:
        """Title, bar, figures."""
        with Vertical():
            yield self._title
            yield self._bar
            yield self._shown
            yield Static(Text(say("loading.cancel"), style="dim"))

    def advance(self, news: Advanced) -> None:
        """Show how far it is."""
        self._title.update(self._title_of(news.at))
        self._bar.update(total=news.total or None, progress=news.done)
        self._shown.update(news.figures)

    def _title_of(self, at: int) -> str:
        """What is loading while opening number ``at`` is."""
        openings = self._loader.openings
        path, count = printable(str(openings[at].path)), len(openings)
        if count < 2:
            return say("loading.title", path=path)
        return say("loading.title_of", path=path, n=at + 1, count=count)

    def action_cancel(self) -> None:
        """Stop loading."""
        self._loader.cancel()
