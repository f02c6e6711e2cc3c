"""The rows of a table on the screen, and the filter over them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import ClassVar

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.coordinate import Coordinate
from textual.strip import Strip
from textual.widgets import DataTable

from npu_tui.trace.text import wrapped
from npu_tui.tui.terminal.internals import PlainTable

_LEAST_WRAPPED = 24  # cells of a column that wraps: in fewer a sentence is a tower


def text_lines(text: Text, cells: int, console: Console) -> list[Text]:
    """``text`` in lines of at most ``cells`` cells, broken between Chinese characters too.

    Where a word or a run of blanks is too long for that, as Rich breaks it: at blanks and within the word.
    """
    plain = text.plain
    begin, lines = 0, []
    for line in wrapped(plain, cells, plain[: len(plain) - len(plain.lstrip())]):
        end = begin
        for _ in range(sum(not char.isspace() for char in line)):
            while plain[end].isspace():
                end += 1
            end += 1
        part = text[begin:end]
        if part.cell_len > cells:
            lines = [*text.wrap(console, cells, no_wrap=False)]
            break
        lines.append(part)
        begin = end + len(plain[end:]) - len(plain[end:].lstrip())
    for part in lines:
        part.rstrip()
    return lines


class Rows(PlainTable):
    """A table whose rows are places on the timeline."""

    DEFAULT_CSS = """
    Rows { height: 1fr; background: $surface; overflow-x: hidden; }
    Rows:focus { background-tint: transparent; }
    Rows > .datatable--header { background: $surface; color: $text-muted; text-style: none; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [("space", "screen.tell_row", "")]

    def __init__(self, sort: Callable[[int, int | None], object], fitted: Callable[[], object]) -> None:
        """``sort`` gets a step from the column that it is sorted by, or a column; ``fitted`` of another size."""
        super().__init__(cursor_type="row", cursor_foreground_priority="renderable")
        self._sort, self._fitted = sort, fitted
        self._headings: tuple[tuple[str, ...], frozenset[int]] = (), frozenset()
        self._given: list[tuple[Text | str, ...]] = []
        self._heights: list[int] = []
        self._drawn: list[list[Text]] = []
        self._lines: dict[int, list[Text]] = {}
        """The last text of rows, by number, in the lines that it takes."""
        self._wrapped_at: int | None = None
        """The row of the cursor that the heights are for."""
        self._at_top = False
        self._layout = 0, 0
        self._room = 0
        """Cells that the last column has where a text in it wraps, else 0."""

    def on_mount(self) -> None:
        """With 16 colours give the cursor's row one colour: no other is readable on its background."""
        if self.app.console.color_system == "standard":
            self.cursor_foreground_priority = "css"

    def watch_show_vertical_scrollbar(self, shown: bool) -> None:
        """A bar that comes after the table was scrolled stands where the table does: Textual moves only one on show."""
        if shown:
            self.vertical_scrollbar.position = self.scroll_y
        self.call_after_refresh(self._refit)

    def watch_virtual_size(self) -> None:
        """New rows have their places now: that of the cursor comes on screen, which was not there to scroll to."""
        if self.row_count:
            self.call_after_refresh(self._show_cursor)

    def _show_cursor(self) -> None:
        if self._at_top:
            self.scroll_to(y=self.cursor_row, animate=False)
        else:
            self.move_cursor(row=self.cursor_row, animate=False)

    def on_resize(self) -> None:
        """Report that other columns may be beyond the edge; what fits by now is wrapped."""
        self._refit()
        self.call_later(self._fitted)

    def _refit(self) -> None:
        """Wrap for the cells that there are now."""
        if self._given:
            headings, numbers = self._headings
            if (self._cells_of_last(headings, self._drawn, numbers), self.size.height) != self._layout:
                self.fill(headings, self._given, self.cursor_row, self._at_top, numbers)

    def on_data_table_row_highlighted(self) -> None:
        """The row that the cursor has come to is wrapped, the one before it only where there is room."""
        if self._wrapped_at not in (None, self.cursor_row):
            self._at_top = False
        self._wrap()

    def reach(self, column: int | None) -> None:
        """Bring a whole ``column`` on screen, the first ones where that is None."""
        if column is None or not self.is_attached:
            self.scroll_to(x=0, animate=False, force=True, immediate=True)
            return
        widths = [each.get_render_width(self) for each in self.ordered_columns]
        start, end = sum(widths[:column]), sum(widths[: column + 1])
        room, at = self.scrollable_content_region.width, round(self.scroll_x)
        if start < at or end > at + room:
            self.scroll_to(x=min(start, max(end - room, 0)) if end > at + room else start, animate=False, force=True)

    def beyond(self) -> tuple[int, int]:
        """How many columns are not whole on screen, on the left and on the right; none where it is not laid out."""
        if not self.size.width:
            return 0, 0
        widths = [each.get_render_width(self) for each in self.ordered_columns]
        ends = list(accumulate(widths))
        at = round(self.scroll_x)
        left = sum(end - width < at for end, width in zip(ends, widths, strict=True))
        if self._room:  # the last one is there, in as many lines as it needs in the row of the cursor
            ends.pop()
        return left, sum(end - self.cell_padding > at + self.scrollable_content_region.width for end in ends)

    def render_line(self, y: int) -> Strip:
        """A line of the table. In a column that the edge cuts, a text ends with …; a part of a number says nothing.

        Neither does a text with less room than its heading needs.
        """
        strip = super().render_line(y)
        found = self._at_edge()
        if found is None:
            return strip
        column, start = found
        room = self.scrollable_content_region.width
        told = cell_len(self._text_at(y, column))
        number = column in self._headings[1] or self.ordered_columns[column].label.cell_len > room - start
        if not told or (not number and told <= room - start):
            return strip
        keep = start if number else max(room - 1, start)
        cut = strip.crop(keep, room)
        style = next((segment.style for segment in cut), None)
        filler = Segment("…" + " " * (strip.cell_length - keep - 1), style)
        return Strip.join([strip.crop(0, keep), Strip([filler], strip.cell_length - keep)])

    def _at_edge(self) -> tuple[int, int] | None:
        """The column that the right edge cuts, and where its text begins on screen; None where it cuts none."""
        at, room, end = round(self.scroll_x), self.scrollable_content_region.width, 0
        for number, column in enumerate(self.ordered_columns):
            start, end = end, end + column.get_render_width(self)
            if end - self.cell_padding > at + room:
                begins = start + self.cell_padding - at
                return (number, begins) if 0 <= begins < room else None
        return None

    def _text_at(self, y: int, column: int) -> str:
        """What the cell of ``column`` says in line ``y``."""
        if self.show_header and y < self.header_height:
            return self.ordered_columns[column].label.plain
        line = y - self.header_height * self.show_header + round(self.scroll_y)
        ends = list(accumulate(self._heights))
        row = bisect_right(ends, line)
        if row >= self.row_count:
            return ""
        lines = str(self.get_cell_at(Coordinate(row, column))).split("\n")
        return lines[min(line - (ends[row] - self._heights[row]), len(lines) - 1)]

    def action_cursor_left(self) -> None:
        """Sort by the column to the left."""
        self._sort(-1, None)

    def action_cursor_right(self) -> None:
        """Sort by the column to the right."""
        self._sort(1, None)

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """A click on a heading sorts by it."""
        event.stop()
        self._sort(0, event.column_index)

    def on_click(self, event: events.Click) -> None:
        """One click goes to the row, wherever the cursor was."""
        row = event.style.meta.get("row", -1)
        if row >= 0:
            event.prevent_default()
            event.stop()
            self.move_cursor(row=row, animate=False)
            self.action_select_cursor()

    @property
    def rows_taken(self) -> int:
        """The lines that the headings and all rows need."""
        return self.header_height + sum(self._heights)

    def rows_wanted(self, most: int) -> int:
        """The lines that the headings and all rows need where no text is cut; ``most`` where that is more."""
        lines = self.header_height
        for number in range(len(self._drawn)):
            lines += len(self._lines_of(number)) if self._room else 1
            if lines >= most:
                return most
        return lines

    def fill(
        self,
        headings: tuple[str, ...],
        rows: list[tuple[Text | str, ...]],
        at: int | None,
        at_top: bool = False,
        numbers: frozenset[int] = frozenset(),
    ) -> None:
        """Show ``rows`` under ``headings`` with the cursor on row ``at``, by default where it was.

        Row ``at`` is somewhere on screen then, ``at_top`` as far up as the rows below it allow. The columns ``numbers``
        stand to the right, so that their digits and units are below each other.
        """
        self._at_top = at_top and at is not None
        at = self.cursor_row if at is None else at
        if (headings, numbers) != self._headings:
            self.clear(columns=True)
            self.add_columns(*(_cell_text(name, column in numbers) for column, name in enumerate(headings)))
            self._headings = headings, numbers
            self.call_after_refresh(self._fit_headings)
        else:
            self.clear()
        self._drawn = [[_cell_text(cell, column in numbers) for column, cell in enumerate(row)] for row in rows]
        self._given, self._lines = rows, {}
        self._room = self._cells_of_last(headings, self._drawn, numbers)
        self._layout = self._room, self.size.height
        at = min(max(at, 0), max(len(rows) - 1, 0))
        self._wrapped_at, self._heights = at, self._heights_at(at)
        self.has_tall_rows = max(self._heights, default=1) > 1
        for number, height in enumerate(self._heights):
            self.add_row(*self._shown(number, height), height=height)
        if rows:
            self.move_cursor(row=at, animate=False)
            self.call_after_refresh(self._show_cursor)

    def _cells_of_last(self, headings: tuple[str, ...], rows: list[list[Text]], numbers: frozenset[int]) -> int:
        """Cells of the last column if it is texts and one of them is longer, else 0."""
        last = len(headings) - 1
        if not rows or last in numbers or not self.size.width:
            return 0
        widths = [max(map(cell_len, (name, *(row[at].plain for row in rows)))) for at, name in enumerate(headings[:-1])]
        room = self.scrollable_content_region.width - sum(widths) - 2 * self.cell_padding * len(headings)
        return 0 if room < _LEAST_WRAPPED or all(row[last].cell_len <= room for row in rows) else room

    def _heights_at(self, at: int) -> list[int]:
        """The lines of each row while the cursor is on row ``at``.

        The last text of that row has all it needs, those of the others, from the top on, what the table has left; if it
        is not whole another row stays in sight.
        """
        heights = [1] * len(self._drawn)
        if not self._room:
            return heights
        room = self.size.height - self.header_height
        spare = room - len(heights)
        for number in [at, *(other for other in range(len(heights)) if other != at)]:
            most = max(room - (len(heights) > 1), 1) if number == at else 1 + spare
            if most > 1:
                heights[number] = min(len(self._lines_of(number)), most)
                spare -= heights[number] - 1
        return heights

    def _lines_of(self, number: int) -> list[Text]:
        lines = self._lines.get(number)
        if lines is None:
            lines = self._lines[number] = text_lines(self._drawn[number][-1], self._room, self.app.console)
        return lines

    def _shown(self, number: int, height: int) -> list[Text]:
        """Row ``number`` with its last text in ``height`` lines, in one of all its length."""
        row = self._drawn[number]
        if height == 1:
            return row
        lines = self._lines_of(number)[:height]
        if height < len(self._lines_of(number)):
            lines[-1] = lines[-1].copy()
            lines[-1].right_crop(1)
            lines[-1].append("…")
        return [*row[:-1], Text("\n", end="").join(lines)]

    def _wrap(self) -> None:
        """Give the rows the lines that they have with the cursor where it is."""
        at = self.cursor_row
        if not self._room or at == self._wrapped_at or not 0 <= at < len(self._drawn):
            return
        before, self._heights = self._heights, self._heights_at(at)
        self._wrapped_at, self.has_tall_rows = at, max(self._heights) > 1
        for number, height in enumerate(self._heights):
            if height != before[number]:
                self.replace_row(number, self._shown(number, height), height)

    def _fit_headings(self) -> None:
        """Draw the headings again: they may have been drawn before the widths of the columns were known."""
        self.forget_widths()
        self.refresh()


def _cell_text(cell: Text | str, right: bool) -> Text:
    """``cell`` as it is drawn; a str would be read as markup."""
    text = Text(cell) if isinstance(cell, str) else cell
    if right:
        text = text.copy()
        text.justify = "right"
    return text
