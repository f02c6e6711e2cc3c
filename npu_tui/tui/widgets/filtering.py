"""The filter of the table in a panel, asked for in a prompt."""

from __future__ import annotations

from msgspec.structs import replace

from npu_tui.strings import say
from npu_tui.tui.tabs.table.tab import Table
from npu_tui.tui.widgets.panel import Panel
from npu_tui.tui.widgets.prompt import Prompt


class Filtering:
    """What the rows of the table in ``panel`` must contain, while ``prompt`` asks for it and afterwards."""

    def __init__(self, panel: Panel, prompt: Prompt) -> None:
        self._panel = panel
        self._prompt = prompt
        self._before = ""

    def ask(self) -> str | None:
        """Open the prompt; what to say where there is no table."""
        if not isinstance(self._panel.content, Table):
            return say("panel.no_table")
        self._before = self._panel.order.wanted
        self._prompt.open("filter", hint=say("filter.hint"))
        return None

    def show(self, text: str) -> None:
        """Show the rows with ``text``, and how many they are while it is typed."""
        if text != self._panel.order.wanted:
            self._panel.sort(replace(self._panel.order, wanted=text))
        content = self._panel.content
        if self._prompt.is_open and isinstance(content, Table):
            shown, count = len(self._panel.rows), len(content.rows)
            self._prompt.answer(say("filter.count", shown=shown, count=count) if text else say("filter.hint"))

    def give_up(self) -> None:
        """The filter is what it was before it was asked for."""
        self.show(self._before)
