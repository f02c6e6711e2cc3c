"""The bottom panel: a line of tabs over details or a table."""

from __future__ import annotations

from typing import Literal

from rich.console import RenderableType
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import DataTable, Static

from npu_tui.strings import say
from npu_tui.trace.text import printable

Tab = Literal["details", "links", "range", "search"]
TABS: tuple[Tab, ...] = ("details", "links", "range", "search")


class TabLine(Static):
    """The names of the tabs; a click opens one."""

    DEFAULT_CSS = "TabLine { height: 1; background: $panel; }"

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, tab: Tab) -> None:
            self.tab: Tab = tab
            super().__init__()

    def __init__(self) -> None:
        super().__init__("")
        self._ends: list[tuple[int, Tab]] = []

    def show(self, current: Tab, counts: dict[Tab, int]) -> None:
        """Mark ``current``; ``counts`` are shown behind the names."""
        line = Text(" ")
        self._ends = []
        for number, tab in enumerate(TABS, 1):
            count = counts.get(tab, 0)
            label = f" {number} {say(f'tab.{tab}')}{f' {count}' if count else ''} "
            line.append(label, style="reverse bold" if tab == current else "dim")
            line.append(" ")
            self._ends.append((len(line.plain), tab))
        self.update(line, layout=False)

    def on_click(self, event: events.Click) -> None:
        """Open the tab under the pointer."""
        for end, tab in self._ends:
            if event.x < end:
                self.post_message(self.Chosen(tab))
                return


class Rows(DataTable[Text | str]):
    """A table whose rows are places on the timeline."""

    DEFAULT_CSS = """
    Rows { height: 1fr; background: $surface; overflow-x: hidden; }
    Rows > .datatable--header { background: $surface; color: $text-muted; text-style: none; }
    """

    def __init__(self) -> None:
        super().__init__(cursor_type="row", cursor_foreground_priority="renderable")
        self._headings: tuple[str, ...] = ()

    def on_click(self, event: events.Click) -> None:
        """One click goes to the row, wherever the cursor was."""
        row = event.style.meta.get("row", -1)
        if row >= 0:
            event.prevent_default()
            event.stop()
            self.move_cursor(row=row, animate=False)
            self.action_select_cursor()

    def fill(self, headings: tuple[str, ...], rows: list[tuple[Text | str, ...]], at: int | None) -> None:
        """Show ``rows`` under ``headings`` with the cursor on row ``at``, by default where it was."""
        at = self.cursor_row if at is None else at
        if headings != self._headings:
            self.clear(columns=True)
            self.add_columns(*headings)
            self._headings = headings
        else:
            self.clear()
        # A str cell would be read as markup.
        self.add_rows([[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows])
        if rows:
            self.move_cursor(row=min(max(at, 0), len(rows) - 1), animate=False)


class Panel(Vertical):
    """Shows one tab at a time; the caller fills it."""

    DEFAULT_CSS = """
    Panel { height: 9; background: $surface; }
    Panel.-hidden { display: none; }
    Panel #scroll { height: 1fr; padding: 0 1; scrollbar-gutter: stable; }
    Panel #text { height: auto; width: 100%; }
    Panel #note { height: 1; padding: 0 1; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.tab: Tab = "details"
        self.counts: dict[Tab, int] = {}

    def compose(self) -> ComposeResult:
        """Tabs, a text and a table."""
        yield TabLine()
        with VerticalScroll(id="scroll"):
            yield Static(id="text")
        yield Static(id="note")
        yield Rows()

    def on_mount(self) -> None:
        """Begin with the text."""
        self._show_table(False)
        self.query_one(TabLine).show(self.tab, self.counts)

    @property
    def table(self) -> Rows:
        """The table of the tabs that list places."""
        return self.query_one(Rows)

    def show_text(self, tab: Tab, text: RenderableType) -> None:
        """Show ``text`` under ``tab``."""
        self._open(tab, False)
        self.query_one("#text", Static).update(text)
        self.query_one("#scroll", VerticalScroll).scroll_home(animate=False)

    def show_table(
        self, tab: Tab, note: str, headings: tuple[str, ...], rows: list[tuple[Text | str, ...]], at: int | None = None
    ) -> None:
        """Show a table under ``tab`` with a line of words above it (none if empty) and its cursor on row ``at``."""
        self._open(tab, True)
        line = self.query_one("#note", Static)
        line.display = bool(note)
        line.update(Text(printable(note)), layout=False)
        self.table.fill(headings, rows, at)

    def _open(self, tab: Tab, as_table: bool) -> None:
        if tab != self.tab:
            self.table.move_cursor(row=0, animate=False)
        self.tab = tab
        self._show_table(as_table)
        self.query_one(TabLine).show(tab, self.counts)

    def _show_table(self, shown: bool) -> None:
        self.query_one("#scroll").display = not shown
        self.query_one("#note").display = shown
        self.table.display = shown
