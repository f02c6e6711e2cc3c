"""The sheet of keys over the main screen; what is typed finds some of them."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from npu_tui.strings import say
from npu_tui.tui.keys.commands import BY_ID
from npu_tui.tui.keys.key_names import delivered
from npu_tui.tui.sheets.drawn import Drawn
from npu_tui.tui.sheets.help import TWO_COLUMNS, Focus, help_text
from npu_tui.tui.sheets.modal import Modal

_LONGEST = 80
"""Characters that are looked for."""


class HelpSheet(Modal[None]):
    """All keys by task for what has the ``focus``; ``why_not`` says which can do nothing just now."""

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

    def __init__(self, focus: Focus, why_not: Mapping[str, str]) -> None:
        super().__init__()
        self._focus = focus
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
        """As many columns as fit."""
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
        self._wanted = wanted[:_LONGEST]
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
        keys = help_text(self._focus, self._why_not, self._wanted, width)
        self.query_one("#keys", Static).update(Drawn(keys))
