"""The bottom panel: a line of tabs over details or a table."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import DataTable, Static

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.keys.commands import BY_ID, TAB_COMMAND
from npu_tui.tui.keys.key_names import key_label
from npu_tui.tui.tabs import TABS
from npu_tui.tui.tabs.order import Order, arranged
from npu_tui.tui.tabs.tab import GAP, Content, Row, Table
from npu_tui.tui.terminal.internals import forget_widths

_HEIGHTS = ((45, 10), (36, 8))
_SHOWN_FROM = 36
_SMALL = 8
_ASIDE_FROM = 110
_ASIDE = 0.28
"""From so many columns on, this share of them is for what stands beside a table."""


def _broken(note: str, width: int) -> list[str]:
    """The lines of ``note``; where there are several, one that is too long goes on in the next."""
    lines = note.split("\n")
    if len(lines) == 1:
        return lines
    found: list[str] = []
    for line in lines:
        parts = line.split(GAP)
        for part in parts:
            if part is not parts[0] and cell_len(found[-1] + GAP + part) <= width:
                found[-1] += GAP + part
            else:
                found.append(part)
    return found


class TabLine(Static):
    """The names of the tabs; a click opens one."""

    DEFAULT_CSS = "TabLine { height: 1; background: $panel; }"

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, tab: str) -> None:
            self.tab = tab
            super().__init__()

    def __init__(self) -> None:
        super().__init__("")
        self._ends: list[tuple[int, str]] = []

    def show(self, current: str, counts: dict[str, int]) -> None:
        """Mark ``current``; ``counts`` are shown behind the names."""
        line, width = Text(" "), self.app.size.width
        self._ends = []
        # Names get shorter before the room between them gets narrower.
        for form, room in (("", 3), (".short", 3), (".short", 2), (".short", 1)):
            labels = self._labels(form, counts)
            if sum(cell_len(label) + room for label in labels) < width:
                break
        before, behind = " " * (room > 2), " " * (room > 1)
        for tab, label in zip(TABS, labels, strict=True):
            line.append(f"{before}{label}{behind}", style="reverse bold" if tab.id == current else "dim")
            line.append(" ")
            self._ends.append((line.cell_len, tab.id))
        self.update(line, layout=False)

    @staticmethod
    def _labels(form: str, counts: dict[str, int]) -> list[str]:
        """The names of the tabs with their keys and counts."""
        keys = [BY_ID[f"{TAB_COMMAND}{tab.id}"].keys[:1] for tab in TABS]
        parts = [
            (*map(key_label, key), say(f"tab.{tab.id}{form}"), *([str(counts[tab.id])] if counts.get(tab.id) else []))
            for tab, key in zip(TABS, keys, strict=True)
        ]
        return [" ".join(part) for part in parts]

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

    BINDINGS: ClassVar[list[BindingType]] = [("space", "tell", "")]

    def __init__(self) -> None:
        super().__init__(cursor_type="row", cursor_foreground_priority="renderable")
        self._headings: tuple[str, ...] = ()

    class Sorted(Message):
        """The user wants the table by the column beside the present one (``step``), or by ``column``."""

        def __init__(self, step: int, column: int | None = None) -> None:
            self.step = step
            self.column = column
            super().__init__()

    class Asked(Message):
        """The user wants to know all about the row."""

    def action_tell(self) -> None:
        """Tell all about the row under the cursor."""
        self.post_message(self.Asked())

    def action_cursor_left(self) -> None:
        """Sort by the column to the left."""
        self.post_message(self.Sorted(-1))

    def action_cursor_right(self) -> None:
        """Sort by the column to the right."""
        self.post_message(self.Sorted(1))

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """A click on a heading sorts by it."""
        event.stop()
        self.post_message(self.Sorted(0, event.column_index))

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
            self.call_after_refresh(self._fit_headings)
        else:
            self.clear()
        # A str cell would be read as markup.
        self.add_rows([[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows])
        if rows:
            self.move_cursor(row=min(max(at, 0), len(rows) - 1), animate=False)

    def _fit_headings(self) -> None:
        """Draw the headings again: they may have been drawn before the widths of the columns were known."""
        forget_widths(self)
        self.refresh()


class Panel(Vertical):
    """Shows one tab at a time; the caller fills it."""

    DEFAULT_CSS = """
    Panel { height: 9; background: $surface; }
    Panel.-hidden { display: none; }
    Panel #scroll { height: 1fr; padding: 0 1; scrollbar-gutter: stable; }
    Panel #text { height: auto; width: 100%; }
    Panel #aside { width: 30; height: 1fr; padding: 0 0 0 2; }
    Panel #note { height: 1; padding: 0 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self) -> None:
        super().__init__(classes="-hidden")
        self.tab = "findings"
        self.table = Rows()
        self._tabs = TabLine()
        self._text = Static(id="text")
        self._scroll = VerticalScroll(self._text, id="scroll")
        self._note = Static(id="note")
        self._aside = Static(id="aside")
        self._beside = Horizontal(self.table, self._aside)
        self._wanted: bool | None = None
        self._pressed = ""
        self._shown = ""
        self._counts: dict[str, int] = {}
        self._lines = 0
        self._orders: dict[str, Order] = {}
        self._content: Content = ""
        self.rows: list[Row] = []

    def compose(self) -> ComposeResult:
        """Tabs, a text and a table."""
        yield self._tabs
        yield self._scroll
        yield self._note
        yield self._beside

    def on_mount(self) -> None:
        """Begin with the text."""
        if not self._content:
            self._show_table(False)
            self._tabs.show(self.tab, self._counts)

    def fit(self, height: int) -> None:
        """Take the room that a terminal of ``height`` rows has for it; where that is little, hide unless asked for."""
        rows = next((rows for least, rows in _HEIGHTS if height >= least), _SMALL)
        self.styles.height = min(rows, max(height // 2, 3))
        self.set_class(not (height >= _SHOWN_FROM if self._wanted is None else self._wanted), "-hidden")

    @property
    def is_shown(self) -> bool:
        """Whether it is not hidden."""
        return not self.has_class("-hidden")

    def toggle(self) -> None:
        """Show or hide the panel, whatever the size of the terminal says."""
        self._wanted = not self.is_shown
        self.set_class(not self._wanted, "-hidden")

    def open(self, tab: str, unfold: bool = True) -> None:
        """Let ``tab`` be the open one; with ``unfold`` the panel is shown, where it is hidden."""
        if unfold and not self.is_shown:
            self.toggle()
        self.tab, self._pressed = tab, ""

    def press(self, tab: str) -> bool:
        """Open ``tab``; True where its key was the last one that opened it, and it is open still."""
        again = self.is_shown and self.tab == tab and self._pressed == tab
        self.open(tab)
        self._pressed = tab
        return again

    def show_tabs(self, counts: dict[str, int]) -> None:
        """Show which tab is open, and ``counts`` behind the names of the tabs."""
        self._counts = counts
        self._tabs.show(self.tab, counts)

    @property
    def order(self) -> Order:
        """How the open tab is sorted and filtered."""
        return self._orders.get(self.tab, Order())

    @property
    def content(self) -> Content:
        """What the open tab shows, before it is sorted."""
        return self._content

    def sort(self, order: Order) -> None:
        """Sort and filter the open tab."""
        self._orders[self.tab] = order
        self.show(self._content)
        self.table.move_cursor(row=0, animate=False)  # what was sorted to the top is what is wanted

    def row_at_cursor(self) -> Row | None:
        """The row of the table's cursor."""
        at = self.table.cursor_row
        return self.rows[at] if 0 <= at < len(self.rows) else None

    def point_at(self, cells: tuple[Text | str, ...]) -> None:
        """Put the table's cursor on the row of ``cells``, if it is shown."""
        at = next((i for i, row in enumerate(self.rows) if row.cells == cells), None)
        if at is not None:
            self.table.move_cursor(row=at, animate=False)

    def show(self, content: Content) -> None:
        """Show the contents of the open tab, a table in the order that the user gave it."""
        if self.tab != self._shown:
            self.table.move_cursor(row=0, animate=False)
        self._shown, self._content = self.tab, content
        self._show_table(isinstance(content, Table))
        if not isinstance(content, Table):
            self.rows = []
            self._text.update(Text(content) if isinstance(content, str) else content)
            self._scroll.scroll_home(animate=False)
            return
        table = arranged(content, self.order)
        self.rows = table.rows
        line = self._note
        line.display = bool(table.note)
        notes = _broken(table.note, self.app.size.width - 2)[: max(self.size.height // 2, 1)]
        line.styles.height = self._lines = len(notes)
        line.update(Text("\n".join(printable(note) for note in notes)), layout=False)
        self.table.fill(table.headings, [row.cells for row in table.rows], table.at)
        self._show_aside()

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Show what stands beside the row that the cursor has come to."""
        event.stop()
        self._show_aside()

    def on_resize(self) -> None:
        """What stands beside the table has another size."""
        self._show_aside()

    def _show_aside(self) -> None:
        columns = self.app.size.width
        has = columns >= _ASIDE_FROM and any(row.aside is not None for row in self.rows)
        self._aside.display = has
        if not has:
            return
        row, width = self.row_at_cursor(), int(columns * _ASIDE)
        self._aside.styles.width = width
        lines = max(self.size.height - 1 - self._lines, 1)
        picture = Text() if row is None or row.aside is None else row.aside(width - 2, lines)
        self._aside.update(picture, layout=False)

    def on_rows_sorted(self, event: Rows.Sorted) -> None:
        """Sort as the table was told to."""
        event.stop()
        if isinstance(self._content, Table):
            order = self.order
            column = event.column
            self.sort(order.beside(self._content, event.step) if column is None else order.by(self._content, column))

    def _show_table(self, shown: bool) -> None:
        self._scroll.display = not shown
        self._note.display = shown
        self._beside.display = shown
