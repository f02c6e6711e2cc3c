"""A sheet of text over the main screen, closed with Esc."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from npu_tui.strings import say
from npu_tui.tui.keys.bindings import closing_bindings
from npu_tui.tui.sheets.drawn import Drawn
from npu_tui.tui.sheets.modal import Modal
from npu_tui.tui.terminal.internals import bind


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
