"""The panel below the lanes: the line of tabs, the table, its filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import DataTable, Static

from npu_tui.strings import knows, say
from npu_tui.trace.text import brief, printable, wrapped
from npu_tui.tui.commands import BY_ID, TAB_COMMAND, TAB_KEYS, key_label, keys_label
from npu_tui.tui.loading import PANEL_FROM, panel_rows
from npu_tui.tui.prompt import Prompt
from npu_tui.tui.rows import Rows
from npu_tui.tui.tabs.table import GAP, Content, Order, TabRow, TabTable, arranged, broken, narrow, numeric, sortable

_LOW = 7  # up to so many rows of the panel a row of the table is worth more than to count the columns beyond the edge
_TALL = 14  # from so many rows on the panel has more than one line above its table
_LEAST_BELOW = 3  # blank rows below a table from which what its row is about is worth them
_ASIDE_FROM = 110
_ASIDE = 0.28
"""From so many columns on, this share of them is for what stands beside a table."""
_SPARE_FROM = 100  # from so many columns on a table shows those that it could spare
_MEASURED = 50  # rows of a table that decide how wide it is

Growth = Literal["normal", "half", "full"]
_GROWTHS: tuple[Growth, ...] = ("normal", "half", "full")


class Panel(Vertical):
    """Shows one tab at a time; the caller fills it."""

    DEFAULT_CSS = """
    Panel { height: 9; background: $surface; }
    Panel.-hidden { display: none; }
    Panel.-full { height: 1fr; }
    Panel #scroll { height: 1fr; padding: 0 1; scrollbar-gutter: stable; }
    Panel #text { height: auto; width: 100%; }
    Panel #aside { width: 30; height: 1fr; padding: 0 0 0 2; }
    Panel #below { height: 3; padding: 1 1 0 1; color: $text-muted; display: none; }
    Panel #note { height: 1; padding: 0 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    FIRST = "findings"
    """The tab that is open at first."""
    SHOWN_FROM = PANEL_FROM
    """Rows of the terminal from which it is shown without being asked for."""

    class Fitted(Message):
        """The panel has another height."""

    def __init__(self) -> None:
        super().__init__()
        self.tab = self.FIRST
        self.table = Rows(self._sort, self._show_note)
        self.growth: Growth = "normal"
        self._asked_back: set[int] = set()
        self._tabs = TabLine(self.drag)
        self._text = Static(id="text")
        self._scroll = VerticalScroll(self._text, id="scroll")
        self._note = Static(id="note")
        self._aside = Static(id="aside")
        self._beside = Horizontal(self.table, self._aside)
        self._below = Static(id="below")
        self._wanted: bool | None = None
        self._shown = ""
        self._counts: dict[str, int] = {}
        self._labels: dict[str, str] = {}
        self._lines = 0
        self._orders: dict[tuple[object, ...], Order] = {}
        self._content: Content = ""
        self._terminal = self.usual = 0
        self._dragged = 0
        self._blank = 0
        self._told = ""
        self.rows: list[TabRow] = []

    def compose(self) -> ComposeResult:
        """Tabs, a text and a table."""
        yield self._tabs
        yield self._scroll
        yield self._note
        yield self._beside
        yield self._below

    def on_mount(self) -> None:
        """Begin with the text; count the columns beyond the edge whenever the table knows its width."""
        self.watch(self.table, "virtual_size", self._show_note, init=False)
        if not self._content:
            self._show_table(False)
            self._draw_tabs()

    # --- size

    def fit(self, height: int, usual: int = 0) -> None:
        """Take the room that a terminal of ``height`` rows has for it; where that is little, hide unless asked for.

        ``usual`` are the rows it has while it is neither grown nor dragged; 0: as many as go with the height.
        """
        if height != self._terminal:
            self._terminal, self._blank = height, 0
            self._asked_back.clear()
        self.usual = usual or panel_rows(height)
        self._resize()
        self.set_class(not (height >= self.SHOWN_FROM if self._wanted is None else self._wanted), "-hidden")

    def take_blank(self, rows: int) -> None:
        """Take ``rows`` that the lanes would leave blank, while it is as it comes; below 0: give lanes what they lack.

        It gives no more than the tab that is open at first leaves blank. Lanes fold and open with the room there is:
        what they asked back stays theirs until the panel or the terminal is given another size, so that the two never
        take turns.
        """
        rows = min(rows, max(self._terminal - self.usual, 0)) if rows > 0 else max(rows, -self.unneeded)
        if rows == self._blank or rows in self._asked_back:
            return
        if rows < self._blank:
            self._asked_back.add(self._blank)
        self._blank = rows
        self._resize()

    @property
    def unneeded(self) -> int:
        """How many of its usual rows a text in the first tab leaves blank: others change with the place.

        Below a table stands what its row is about.
        """
        if self.tab != self.FIRST or self._shown != self.tab or isinstance(self._content, TabTable):
            return 0
        lines = self._text.visual.get_height({}, self._text.size.width or self.app.size.width - 2)
        return max(self.usual - lines - 2, 0)

    def drag(self, rows: int) -> None:
        """Have ``rows`` from now on, as far as the terminal goes."""
        self._dragged, self.growth = min(max(rows, 3), max(self._terminal - 6, 3)), "normal"
        self._resize()

    def grow(self, growth: Growth | None = None) -> None:
        """Have the next size, normal, half, full, or ``growth``; a hidden panel comes up with it."""
        if not self.is_shown:
            self.unfold()
        self._dragged = 0
        self._asked_back.clear()
        self.growth = growth or _GROWTHS[(_GROWTHS.index(self.growth) + 1) % len(_GROWTHS)]
        self._resize()

    def _resize(self) -> None:
        self.set_class(self.growth == "full", "-full")
        if self.is_attached:
            self.screen.set_class(self.is_full, "-page")
        if self.growth == "full":
            self.styles.height = None
        elif self.growth == "half":
            self.styles.height = max(self._terminal // 2, self.usual)
        else:
            self.styles.height = self._dragged or self.usual + self._blank

    @property
    def is_full(self) -> bool:
        """Whether it has all of the screen but the head."""
        return self.is_shown and self.growth == "full"

    @property
    def is_shown(self) -> bool:
        """Whether it is not hidden."""
        return not self.has_class("-hidden")

    @property
    def text_height(self) -> int:
        """The rows it needs for its text, those it usually has at least; 0 with a table."""
        if not self._scroll.display or isinstance(self._content, TabTable):
            return 0
        lines = self._text.visual.get_height({}, self._text.size.width or self.app.size.width - 2)
        return max(lines + 1, self.usual)

    def offer(self, blank: int) -> bool:
        """Come up on a low terminal where the lanes leave so many rows ``blank``, unless the user has decided.

        Returns whether it has.
        """
        offered = self._wanted is None and not self.is_shown and blank >= self.usual
        if offered:
            self.remove_class("-hidden")
        return offered

    def unfold(self) -> None:
        """Show the panel, whatever the size of the terminal says."""
        self._wanted = True
        self.remove_class("-hidden")

    def hide(self) -> None:
        """Hide the panel, whatever the size of the terminal says; it comes up in its usual size."""
        self._wanted = False
        self.add_class("-hidden")
        self.growth, self._blank = "normal", 0
        self._asked_back.clear()
        self._resize()

    # --- tabs and focus

    def open(self, tab: str, unfold: bool = True) -> None:
        """Let ``tab`` be the open one; with ``unfold`` the panel is shown, where it is hidden."""
        if unfold and not self.is_shown:
            self.unfold()
        self.tab = tab

    def is_open(self, tab: str) -> bool:
        """Whether ``tab`` is what the panel shows."""
        return self.is_shown and self.tab == tab

    def focus_content(self) -> None:
        """Give the table or the text the focus."""
        (self.table if self._beside.display else self._scroll).focus()

    def on_descendant_focus(self) -> None:
        """The line of tabs says that the keys go here."""
        self._say_focus()

    def on_descendant_blur(self) -> None:
        """The line of tabs says that the keys go elsewhere."""
        self.call_after_refresh(self._say_focus)

    def _say_focus(self) -> None:
        self._draw_tabs()
        self._show_note()

    def show_tabs(self, counts: dict[str, int], labels: dict[str, str]) -> None:
        """Show which tab is open; ``counts`` stand after the names of the tabs, ``labels`` in place of some."""
        self._counts, self._labels = counts, labels
        self._draw_tabs()

    def _draw_tabs(self) -> None:
        self._tabs.show(self.tab, self._counts, self._labels, self.has_focus_within)

    # --- order

    @property
    def order(self) -> Order:
        """How the open tab is sorted and filtered."""
        return self._orders.get(self._view, Order())

    @property
    def _view(self) -> tuple[object, ...]:
        """What is sorted: a tab whose columns change is another table."""
        return self.tab, self._content.headings if isinstance(self._content, TabTable) else ()

    @property
    def content(self) -> Content:
        """What the open tab shows, before it is sorted."""
        return self._content

    def sort(self, order: Order) -> None:
        """Sort and filter the open tab."""
        self._orders[self._view] = order
        self.show(self._content)
        self.table.move_cursor(row=0, animate=False)  # what was sorted to the top is what is wanted
        self.call_after_refresh(lambda: self.call_after_refresh(self._reach))  # the widths of columns come a turn later

    def _reach(self) -> None:
        self.table.reach(self.order.column)
        self._show_note()

    def row_at_cursor(self) -> TabRow | None:
        """The row of the table's cursor."""
        at = self.table.cursor_row
        return self.rows[at] if 0 <= at < len(self.rows) else None

    def point_at(self, cells: tuple[Text | str, ...]) -> None:
        """Put the table's cursor on the row of ``cells``, if it is shown."""
        at = next((i for i, row in enumerate(self.rows) if row.cells == cells), None)
        if at is not None:
            self.table.move_cursor(row=at, animate=False)

    # --- contents

    def show(self, content: Content) -> None:
        """Show the contents of the open tab, a table in the order that the user gave it."""
        if self.tab != self._shown:
            self.table.move_cursor(row=0, animate=False)
            self.table.reach(None)
        if isinstance(content, TabTable) and content.spare and self.app.size.width < _SPARE_FROM:
            content = narrow(content)
        if self.unneeded or isinstance(content, TabTable) != isinstance(self._content, TabTable):
            self._asked_back.clear()  # it has other needs
        self._shown, self._content = self.tab, content
        focused = self.has_focus_within
        self._show_table(isinstance(content, TabTable))
        if focused and not (self.table if isinstance(content, TabTable) else self._scroll).has_focus:
            self.focus_content()
        if not isinstance(content, TabTable):
            self.rows = []
            self._text.update(Text(content) if isinstance(content, str) else content)
            self._scroll.scroll_home(animate=False)
            return
        table = arranged(content, self.order)
        self.rows = table.rows
        self._told = table.note
        self.table.fill(table.headings, [row.cells for row in table.rows], table.at, table.at_top, numeric(content))
        self._show_note()
        self._show_beside()
        # The widths of columns come a turn later.
        self.call_after_refresh(lambda: self.call_after_refresh(self._show_note))

    def _show_note(self) -> None:
        """One line about the table, several where the panel has grown; on the right the columns beyond the edge."""
        if not isinstance(self._content, TabTable) or not self.is_attached:
            return
        left, right = self.table.beyond() if self.table.ordered_columns else (0, 0)
        key = " ".join([keys_label(BY_ID[f"{TAB_COMMAND}{self.tab}"])] * (1 if self.has_focus_within else 2))
        again = say("panel.again", key=key, then=self._content.again) if self._content.again else ""
        counted = sortable(self._content) and (self._told or self.size.height > _LOW)
        beyond = left + right if counted else 0  # the keys of columns sort by them
        hints = [say(f"panel.columns{size}", count=beyond) for size in ("", ".short")] if beyond else []
        width, most = self.app.size.width - 2, 1 if self.size.height < _TALL else max(self.size.height // 4, 1)

        def told(hint: str) -> tuple[list[str], int]:
            room = width - (cell_len(hint) + 2 if hint else 0)
            return broken(self._told, room, width, most) or [""], room

        def worth(hint: str) -> tuple[bool, bool]:
            """Whether the note is not cut beside it, and whether more than one part of it has room."""
            lines, room = told(hint)
            return cell_len(lines[0]) <= room, GAP in lines[0]

        hint = max((GAP.join(part for part in (again, each) if part) for each in (*hints, "")), key=worth)
        lines, room = told(hint)
        lines = [brief(printable(line), room if number == 0 else width) for number, line in enumerate(lines)]
        lines[0] += " " * (width - cell_len(lines[0]) - cell_len(hint)) + hint if hint else ""
        self._note.display = lines != [""]
        if len(lines) != self._lines:
            self._note.styles.height = self._lines = max(len(lines), 1)
        self._note.update(Text("\n".join(lines)), layout=False)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Show what stands beside the row that the cursor has come to."""
        event.stop()
        self._show_beside()

    def on_resize(self) -> None:
        """What stands in and beside the table has another size."""
        self._show_note()
        self._show_beside()
        self.post_message(self.Fitted())

    def _show_beside(self) -> None:
        """Show what stands beside and below the row under the cursor."""
        self._show_aside()
        row, width = self.row_at_cursor(), self.app.size.width - 2
        blank = self.size.height - 1 - self._lines - self.table.rows_taken
        self._below.display = row is not None and row.explained is not None and blank >= _LEAST_BELOW
        if self._below.display and row is not None and row.explained is not None:
            self._below.styles.height = blank
            self._below.update(Text("\n").join(self._explained(row, width, blank - 1)), layout=False)

    def _explained(self, row: TabRow, width: int, most: int) -> list[Text]:
        """What ``row`` means, then what the rows below it mean under their titles, as far as each is whole."""
        lines: list[Text] = []
        for other in self.rows[self.rows.index(row) :]:
            if other.explained is None:
                continue
            parts = [part for line in other.explained().split("\n") for part in wrapped(line, width, "", "  ")]
            own = [Text(part, no_wrap=True) for part in parts]
            if other is not row:
                title = f"{str(other.cells[0]).strip()}  {str(other.cells[-1]).strip()}"
                own = [Text(), Text(brief(title, width), "bold", no_wrap=True), *own]
                if len(lines) + len(own) > most:
                    break
            lines += own
        return lines[:most]

    def _show_aside(self) -> None:
        columns = self.app.size.width
        width = int(columns * _ASIDE)
        has = (
            columns >= _ASIDE_FROM
            and any(row.aside is not None for row in self.rows)
            and self._named_width() <= columns - width
        )
        self._aside.display = has
        if not has:
            return
        row = self.row_at_cursor()
        self._aside.styles.width = width
        lines = max(self.size.height - 1 - self._lines, 1)
        picture = Text() if row is None or row.aside is None else row.aside(width - 2, lines)
        self._aside.update(picture, layout=False)

    def _named_width(self) -> int:
        """Columns up to the end of the one that names the rows, 0 without one."""
        if not isinstance(self._content, TabTable) or self._content.named not in self._content.headings:
            return 0
        headings = self._content.headings[: self._content.headings.index(self._content.named) + 1]
        return sum(
            max(map(cell_len, [heading, *(str(row.cells[column]) for row in self.rows[:_MEASURED])]))
            + 2 * self.table.cell_padding
            for column, heading in enumerate(headings)
        )

    def _sort(self, step: int, column: int | None) -> None:
        """Sort the table by ``column``, or without one by the column ``step`` places from the present one."""
        if isinstance(self._content, TabTable):
            order = self.order
            self.sort(order.beside(self._content, step) if column is None else order.by(self._content, column))

    def _show_table(self, shown: bool) -> None:
        self._scroll.display = not shown
        self._note.display = shown
        self._beside.display = shown


class Filtering:
    """What the rows of the table in ``panel`` must contain, while ``prompt`` asks for it and afterwards."""

    def __init__(self, panel: Panel, prompt: Prompt) -> None:
        self._panel = panel
        self._prompt = prompt
        self._before = ""

    def ask(self) -> str | None:
        """Open the prompt; what to say where there is no table."""
        if not isinstance(self._panel.content, TabTable):
            return say("panel.no_table")
        self._before = self._panel.order.wanted
        self._prompt.open("filter", hint=say("filter.hint"))
        return None

    def show(self, text: str) -> None:
        """Show the rows with ``text``, and how many they are while it is typed."""
        if text != self._panel.order.wanted:
            self._panel.sort(replace(self._panel.order, wanted=text))
        content = self._panel.content
        if self._prompt.is_open and isinstance(content, TabTable):
            shown, count = len(self._panel.rows), len(content.rows)
            self._prompt.answer(say("filter.count", shown=shown, count=count) if text else say("filter.hint"))

    def give_up(self) -> None:
        """The filter is what it was before it was asked for."""
        self.show(self._before)


_REST, _RULE, _RULE_FOCUSED = " ", "─", "━"
_LETTERS = 12
"""Letters of a name of a tab at most, where tabs have to get shorter."""


class TabLine(Static):
    """The names of the tabs, as long as there is room for; that of the open one is whole."""

    DEFAULT_CSS = "TabLine { height: 1; background: $panel; color: $text-muted; }"
    ALLOW_SELECT = False

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, tab: str) -> None:
            self.tab = tab
            super().__init__()

    def __init__(self, drag: Callable[[int], object]) -> None:
        """``drag`` gets how many rows there are below where the line was dragged to."""
        super().__init__("")
        self._drag = drag
        self._ends: list[tuple[int, str]] = []
        self._drawn: Text | None = None
        self._pressed: int | None = None
        self._moved = False

    def show(self, current: str, counts: dict[str, int], names: dict[str, str], focused: bool) -> None:
        """Mark ``current``, ``focused`` or not; ``counts`` stand after the names, ``names`` in place of some."""
        width, shown = self.app.size.width, list(counts or TAB_KEYS)
        labels, room = [""], 1
        for labels, room in self._forms(shown, counts, names, current):
            if sum(cell_len(label) + room for label in labels) < width:
                break
        line, accent = Text(no_wrap=True), f"bold {self.app.theme_variables['accent']}"
        line.append(_RULE_FOCUSED if focused else _REST, accent)
        before, behind = _REST * (room > 2), _REST * (room > 1)
        self._ends = []
        for tab, label in zip(shown, labels, strict=True):
            marked = f"reverse {accent}" if focused else "reverse bold"
            line.append(f"{before}{label}{behind}", style=marked if tab == current else "dim")
            line.append(_REST)
            self._ends.append((line.cell_len, tab))
        rest = max(width - line.cell_len, 0)
        line.append((_RULE_FOCUSED if focused else _RULE) * rest, accent if focused else "dim")
        if line != self._drawn:
            self._drawn = line
            self.update(line, layout=False)

    def _forms(
        self, shown: list[str], counts: dict[str, int], names: dict[str, str], current: str
    ) -> Iterator[tuple[list[str], int]]:
        """The labels of the tabs and the room between them, from the longest to the shortest form.

        Names get shorter before the room between them gets narrower, those that gain most first; counts go before
        names do, and where they could be taken for the key of the next tab.
        """
        whole, short = (self._labels(form, shown, counts, names, None) for form in ("", ".short"))
        by_gain = sorted(range(len(shown)), key=lambda k: cell_len(short[k]) - cell_len(whole[k]))
        for count in range(len(shown)):
            yield [short[k] if k in by_gain[:count] else whole[k] for k in range(len(shown))], 3
        yield from ((short, 3), (short, 2), (self._labels(".short", shown, {}, names, None), 1))
        for letters in range(_LETTERS, -1, -1):
            yield self._labels(".least", shown, {}, names, current, letters), 1

    @staticmethod
    def _labels(
        form: str,
        shown: list[str],
        counts: dict[str, int],
        names: dict[str, str],
        only: str | None,
        letters: int = _LETTERS,
    ) -> list[str]:
        """Key, name and count of every tab; the others than ``only`` have so many ``letters`` of their names."""
        labels = []
        for tab in shown:
            keys = [key_label(key) for key in BY_ID[f"{TAB_COMMAND}{tab}"].keys[:1]]
            key = f"tab.{tab}{form}"
            name = names.get(tab) or say(key if tab != only and knows(key) else f"tab.{tab}.short")
            if only not in (None, tab) and keys:
                name = name[:letters]
            count = [str(counts[tab])] if counts.get(tab) else []
            labels.append(" ".join(part for part in (*keys, name, *count) if part))
        return labels

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin a click or a drag."""
        self.capture_mouse()
        self._pressed, self._moved = event.screen_y, False

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move the line with the pointer."""
        if self._pressed is not None and event.screen_y != self._pressed:
            self._pressed, self._moved = event.screen_y, True
            self._drag(self.app.size.height - 1 - event.screen_y)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Open the tab under the pointer, unless the line was moved."""
        self.release_mouse()
        pressed, self._pressed = self._pressed, None
        if pressed is None or self._moved:
            return
        for end, tab in self._ends:
            if event.x < end:
                self.post_message(self.Chosen(tab))
                return
