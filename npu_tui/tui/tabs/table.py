"""A table of the panel: its rows, their order, scope and text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.device import Window
from npu_tui.profile.parts import WHOLE_TRACE, Selection
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import Span
from npu_tui.strings import language, say
from npu_tui.subjects import subject_of
from npu_tui.trace.text import duration_text, exact_text, printable
from npu_tui.tui.session import Hits, Session
from npu_tui.view.moves import inner_links, links_of
from npu_tui.view.scene import ScreenRow, Selected

if TYPE_CHECKING:
    from npu_tui.rules.model import Findings

GAP = "   "
"""Stands between the parts of a note."""


class Context(Struct, frozen=True, dict=True):
    """What the user looks at just now: ``focused`` is the row of the cursor, ``range`` and ``cursor`` are in ns.

    Times are those of the scene's clock unless a trace is named. ``turn`` is how often the key of the open tab was
    pressed for its next view.
    """

    session: Session
    selection: Selected | None
    range: tuple[int, int] | None
    focused: ScreenRow | None
    link_category: str
    hits: Hits
    cursor: int
    turn: int = 0
    over: Selected | None = None
    """What was selected when the range was marked."""
    alone: bool = False
    """Whether the lanes show some slices alone, those of a chain."""

    @property
    def trace(self) -> int:
        """The number of the trace that the cursor is in."""
        return self.focused.trace if self.focused is not None else 0

    @property
    def profile(self) -> Profile:
        """The profile that the cursor is in."""
        return self.session.profiles[self.trace]

    @cached_property
    def part(self) -> Profile:
        """The range of it, if it lasts, else all of it."""
        marked = self.marked_in(self.trace)
        return self.profile.part(WHOLE_TRACE if marked is None else Selection(Window(*marked)))

    @property
    def findings(self) -> Findings | None:
        """The findings of the profile that the cursor is in, None until they are known."""
        return self.session.findings.get(self.trace)

    @property
    def marked(self) -> tuple[int, int] | None:
        """The range, if it lasts."""
        return None if self.range is None or self.range[0] == self.range[1] else self.range

    def marked_in(self, trace: int) -> tuple[int, int] | None:
        """The range on the clock of trace number ``trace``, if it lasts."""
        if self.marked is None:
            return None
        start, end = (self.session.scene.to_trace(trace, when) for when in self.marked)
        return start, end

    @cached_property
    def links(self) -> list[Way]:
        """The links of the selection, of what it contains where it has none itself."""
        selected = self.selection
        if selected is None:
            return []
        trace, item = self.session.scene.traces[selected.trace], selected.item
        ends, target = links_of(trace, item, self.link_category), trace.links.target_slice
        ways = [Way(link, int(target[link]), "→") for link in ends.out]
        ways += [Way(link, int(trace.links.source_slice[link]), "←") for link in ends.into]
        return ways or [Way(link, int(target[link]), "⇒") for link in inner_links(trace, item, self.link_category)]


class Way(NamedTuple):
    """A link, the slice at its other end (-1: none there) and an arrow that shows whether it leads there or back."""

    link: int
    item: int
    arrow: str


class Stretch(Span, frozen=True):
    """A stretch of time of one of the traces on screen; going there makes it the range where it is to be ``marked``."""

    trace: int = 0
    twin: Stretch | None = None
    """The same on the other side of a comparison: both are shown."""


Place = Selected | Stretch


class TabRow(Struct, frozen=True):
    """One row of a table. Enter leads to the first of its ``places``, Enter again to the next one.

    A table is sorted by ``values``, one per cell (None: unknown, always last). ``code`` is what ``o`` opens, ``told``
    gives all there is to say about the row, for Space, and ``explained`` what stands below the table where it leaves
    room: what it means and what to do. ``minor`` rows are passed over when walking from row to row.
    ``aside`` draws what stands beside the table while the cursor is on the row, in so many columns and lines.
    ``cause`` is what ``npu-tui whatif`` does without, of a row that names such.
    """

    cells: tuple[Text | str, ...]
    places: Sequence[Place] = ()
    values: tuple[float | str | None, ...] = ()
    code: CodeLine | None = None
    told: Callable[[], str] | None = None
    explained: Callable[[], str] | None = None
    minor: bool = False
    aside: Callable[[int, int], Text] | None = None
    cause: str = ""


class TabTable(Struct, frozen=True):
    """Rows under headings, below a ``note`` (none if empty); the cursor begins on row ``at``, else where it was.

    A note of several lines is broken at its ``GAP`` where the screen is narrow; a panel too low shows its first lines.
    ``again``, what the key of the tab shows next, ends its first line whatever the room. ``named`` is the heading of
    the column that names the rows: no picture beside the table cuts it. ``spare`` are the headings that a narrow
    terminal leaves out, as another column needs the room more. ``walked`` are the rows that the key of the next hit
    goes through, in that order.

    The user can sort a table whose rows have values.
    """

    headings: tuple[str, ...]
    rows: list[TabRow]
    note: str = ""
    at: int | None = None
    at_top: bool = False
    again: str = ""
    named: str = ""
    spare: tuple[str, ...] = ()
    walked: tuple[int, ...] = ()


def known_columns(table: TabTable) -> TabTable:
    """``table`` without the columns in which no row says anything."""
    return _taken(
        table, [k for k in range(len(table.headings)) if any(str(row.cells[k]).strip() for row in table.rows)]
    )


def narrow(table: TabTable) -> TabTable:
    """``table`` without its spare columns."""
    return _taken(table, [k for k, heading in enumerate(table.headings) if heading not in table.spare])


def _taken(table: TabTable, kept: Sequence[int]) -> TabTable:
    rows = [
        replace(row, cells=tuple(row.cells[k] for k in kept), values=tuple(row.values[k] for k in kept if row.values))
        for row in table.rows
    ]
    return replace(table, headings=tuple(table.headings[k] for k in kept), rows=rows)


Content = RenderableType | TabTable


class Tab:
    """A tab of the panel: ``make`` makes its contents, made again only where ``depends_on`` gives something else.

    There is one per session. ``count`` gives the number after the name, 0 for none. Contents that are not ``ready``
    take a while and are made in a thread. ``turn`` counts how often the tab was asked for its next view.
    """

    def __init__(
        self,
        make: Callable[[Context], Content],
        depends_on: Callable[[Context], object] = lambda now: (now.trace, now.marked),
        count: Callable[[Context], int] = lambda now: 0,
        ready: Callable[[Context], bool] = lambda now: False,
        turns: bool = False,
    ) -> None:
        self._make = make
        self._depends_on = depends_on
        self.count = count
        self._at_once = ready
        self._turns = turns
        self.turn = 0
        self._made: tuple[object, Content] | None = None

    def depends_on(self, now: Context) -> object:
        """A value that is equal as long as the contents stay the same."""
        lent = (id(profile.borrowed) for profile in now.session.profiles)
        return language(), now.turn, *now.session.scene.offsets, *lent, self._depends_on(now)

    def is_ready(self, now: Context) -> bool:
        """Whether the contents are there at once, without keeping the user waiting."""
        return (self._made is not None and self._made[0] == self.depends_on(now)) or self._at_once(now)

    def content(self, now: Context) -> Content:
        """A text or a table. It runs in a thread where ``is_ready`` is False."""
        made, wanted = self._made, self.depends_on(now)
        if made is None or made[0] != wanted:
            made = self._made = wanted, self._make(now)
        return made[1]

    def again(self) -> None:
        """Show the next view: the key of the tab was pressed while it is open."""
        self.turn += self._turns

    @property
    def name(self) -> str:
        """What the tab is called while it shows something else than its first view; empty for its usual name."""
        return ""


_DOWN, _UP = "▾", "▴"


class Order(Struct, frozen=True):
    """``column`` (None: as the table comes), falling or not, and the ``wanted`` part of a row's text."""

    column: int | None = None
    falling: bool = True
    wanted: str = ""

    def beside(self, table: TabTable, step: int) -> Order:
        """Sort by the next (1) or previous (-1) column; numbers fall, words rise."""
        if not sortable(table):
            return self
        count = len(table.headings)
        column = (0 if step > 0 else count - 1) if self.column is None else (self.column + step) % count
        return self.by(table, column)

    def by(self, table: TabTable, column: int) -> Order:
        """Sort by ``column``; where that is done already, the other way round."""
        if not sortable(table):
            return self
        if column == self.column:
            return replace(self, falling=not self.falling)
        words = any(isinstance(row.values[column], str) for row in table.rows)
        return replace(self, column=column, falling=not words)


def sortable(table: TabTable) -> bool:
    """Whether every row says by what it is sorted."""
    return bool(table.rows) and all(row.values for row in table.rows)


def numeric(table: TabTable) -> frozenset[int]:
    """The columns that show numbers, as far as they are known, and nothing else.

    Words may be sorted by a number, as severities are: those are no numbers.
    """
    if not sortable(table):
        return frozenset()
    return frozenset(column for column in range(len(table.headings)) if _is_numeric(table.rows, column))


def _is_numeric(rows: list[TabRow], column: int) -> bool:
    known = [row for row in rows if row.values[column] is not None]
    return not any(isinstance(row.values[column], str) for row in known) and any(
        (text := _plain_cell(row.cells[column])) and not text[0].isalpha() for row in known
    )


def _plain_cell(cell: Text | str) -> str:
    return (cell.plain if isinstance(cell, Text) else cell).strip()


def broken(note: str, first: int, width: int, lines: int) -> list[str]:
    """``note`` in at most so many ``lines`` of ``width`` columns, ``first`` in the first, broken at its gaps.

    What does not fit is left out.
    """
    parts = [part for line in note.split("\n") for part in line.split(GAP) if part]
    found: list[str] = []
    for part in parts:
        if found and cell_len(found[-1] + GAP + part) <= (first if len(found) == 1 else width):
            found[-1] += GAP + part
        elif len(found) == lines:
            break
        else:
            found.append(part)
    return found


def arranged(table: TabTable, order: Order) -> TabTable:
    """``table`` filtered and sorted; its note and headings say so, the first one also where rows come in its order."""
    rows, headings, notes = table.rows, table.headings, [table.note] if table.note else []
    if order.wanted:
        wanted = order.wanted.casefold()
        rows = [row for row in rows if wanted in _row_texts(row)]
        notes.insert(0, say("panel.filtered", text=order.wanted, shown=len(rows), count=len(table.rows)))
    if sortable(table):
        column = order.column
        if column is not None and column < len(headings):
            known = [row for row in rows if row.values[column] is not None]
            unknown = [row for row in rows if row.values[column] is None]
            known.sort(key=lambda row: _sort_key(row, column), reverse=order.falling)
            rows = known + unknown
        marked, mark = (0, _DOWN) if column is None and _falls(table) else (column, _DOWN if order.falling else _UP)
        headings = tuple(f"{name} {mark}" if i == marked else name for i, name in enumerate(headings))
    at = None
    if table.at is not None:
        at = next((i for i, row in enumerate(rows) if row is table.rows[table.at]), None)
    return TabTable(headings, rows, GAP.join(notes), at, table.at_top, table.again)


def _falls(table: TabTable) -> bool:
    """Whether the first column is a measure, with units, that falls from row to row."""
    first = [row.values[0] for row in table.rows]
    numbers = [value for value in first if isinstance(value, (int, float))]
    falls = len(numbers) == len(first) and numbers[0] > numbers[-1] and numbers == sorted(numbers, reverse=True)
    return falls and _plain_cell(table.rows[0].cells[0])[-1:].isalpha()


def _sort_key(row: TabRow, column: int) -> tuple[bool, float, str]:
    value = row.values[column]
    return (True, 0.0, value.casefold()) if isinstance(value, str) else (False, value or 0.0, "")


def _row_texts(row: TabRow) -> str:
    return "\n".join(map(_plain_cell, row.cells)).casefold()


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_FIGURE = re.compile(r"[-+][\d.,]+ ?[%\w/]{0,6}")


def row_cells(cells: tuple[Text | str, ...]) -> list[str]:
    """The cells of a row as plain texts."""
    return [printable(cell.plain if isinstance(cell, Text) else cell) for cell in cells]


def padded(texts: list[str]) -> list[str]:
    """``texts``, all as wide as the widest."""
    width = max(map(cell_len, texts), default=0)
    return [text + " " * (width - cell_len(text)) for text in texts]


def as_text(table: TabTable | None) -> list[str]:
    """Headings and rows in columns; empty without a table."""
    if table is None:
        return []
    rows = [list(table.headings), *(row_cells(row.cells) for row in table.rows)]
    columns = zip(*(padded(list(column)) for column in zip(*rows, strict=True)), strict=True)
    return ["  ".join(cells).rstrip() for cells in columns]


def _inert(cell: str) -> str:
    """``cell``, with an apostrophe before what a spreadsheet would run as a formula; figures do not count."""
    return f"'{cell}" if cell[:1] in _FORMULA and not _FIGURE.fullmatch(cell) else cell


def as_csv(table: TabTable | None) -> list[str]:
    """Headings and rows as lines of CSV; empty without a table."""
    if table is None:
        return []
    lines = []
    for row in [list(table.headings), *(row_cells(row.cells) for row in table.rows)]:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(map(_inert, row))
        lines.append(line.getvalue())
    return lines


def scope_note(now: Context) -> str:
    """How long the range is, or that it is everything."""
    if now.marked is None:
        return say("panel.everything")
    return say("panel.scope", length=duration_text(now.marked[1] - now.marked[0]))


def nothing(now: Context, words: str) -> str:
    """``words`` that there is nothing, and where a range is marked which one and how to leave it."""
    if now.marked is None:
        return words
    start, end = (exact_text(time) for time in now.marked)
    return GAP.join([words, say("panel.in_range", range=say("panel.range", start=start, end=end))])


def of_a_device(make: Callable[[Context], Content]) -> Callable[[Context], Content]:
    """``make``; for a subject without kernels the keys that show what it holds."""

    def made(now: Context) -> Content:
        why = subject_of(now.profile.trace).no_kernels
        return say(why) if why else make(now)

    return made


class Ranked(Sequence[Place]):
    """Slices of one trace in the order of their worth, found when the first of them is asked for."""

    def __init__(self, trace: int, count: int, find: Callable[[], npt.NDArray[np.int64]]) -> None:
        self._trace, self._count, self._find = trace, count, find
        self._items: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Place: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Place]: ...
    def __getitem__(self, index: int | slice) -> Place | Sequence[Place]:
        if self._items is None:
            self._items = self._find()
        if isinstance(index, slice):
            return [Selected(self._trace, item) for item in self._items[index].tolist()]
        return Selected(self._trace, int(self._items[index]))
