"""What a tab of the panel is: contents made of what the user looks at, and where its rows lead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.device import Window
from npu_tui.profile.profile import Profile
from npu_tui.profile.selection import WHOLE_TRACE, Selection
from npu_tui.tui.hits import Hits
from npu_tui.tui.session import Session
from npu_tui.view.scene import ScreenRow, Selected

GAP = "   "
"""Stands between the parts of a note."""


class Context(Struct, frozen=True):
    """What the user looks at just now: ``focused`` is the row of the cursor, ``range`` and ``cursor`` are in ns.

    Times are those of the scene's clock unless a trace is named.
    """

    session: Session
    selection: Selected | None
    range: tuple[int, int] | None
    focused: ScreenRow | None
    link_category: str
    hits: Hits
    cursor: int

    @property
    def trace(self) -> int:
        """The number of the trace that the cursor is in."""
        return self.focused.trace if self.focused is not None else 0

    @property
    def profile(self) -> Profile:
        """The profile that the cursor is in."""
        return self.session.profiles[self.trace]

    @property
    def part(self) -> Profile:
        """The range of it, if it lasts, else all of it."""
        marked = self.marked_in(self.trace)
        return self.profile.part(WHOLE_TRACE if marked is None else Selection(Window(*marked)))

    def marked_in(self, trace: int) -> tuple[int, int] | None:
        """The range on the clock of trace number ``trace``, if it lasts."""
        if self.marked is None:
            return None
        start, end = (self.session.scene.to_trace(trace, when) for when in self.marked)
        return start, end

    @property
    def marked(self) -> tuple[int, int] | None:
        """The range, if it lasts."""
        return None if self.range is None or self.range[0] == self.range[1] else self.range


class Stretch(Struct, frozen=True):
    """A stretch of time in ns of a trace, on ``lane`` and at ``slice`` if it is of one; ``words`` say what is there.

    Going there makes it the range where it is to be ``marked``.
    """

    start: int
    end: int
    trace: int = 0
    lane: int | None = None
    slice: int | None = None
    words: str = ""
    marked: bool = True
    twin: Stretch | None = None
    """The same on the other side of a comparison: both are shown."""


Place = Selected | Stretch


class Row(Struct, frozen=True):
    """One row of a table. Enter leads to the first of its ``places``, Enter again to the next one.

    A table is sorted by ``values``, one per cell (None: unknown, always last). ``code`` is what ``o`` opens, ``told``
    gives all there is to say about the row, for Space. ``minor`` rows are passed over when walking from row to row.
    ``aside`` draws what stands beside the table while the cursor is on the row, in so many columns and lines.
    """

    cells: tuple[Text | str, ...]
    places: Sequence[Place] = ()
    values: tuple[float | str | None, ...] = ()
    code: CodeLine | None = None
    told: Callable[[], str] | None = None
    minor: bool = False
    aside: Callable[[int, int], Text] | None = None


class Table(Struct, frozen=True):
    """Rows under headings, below a ``note`` (none if empty); the cursor begins on row ``at``, else where it was.

    A note of several lines is broken at its ``GAP`` where the screen is narrow; a panel too low shows its first lines.
    ``again`` stands at the end of the first one whatever the room: what the key of the tab shows next.

    The user can sort a table whose rows have values.
    """

    headings: tuple[str, ...]
    rows: list[Row]
    note: str = ""
    at: int | None = None
    at_top: bool = False
    again: str = ""


def known_columns(table: Table) -> Table:
    """``table`` without the columns in which no row says anything."""
    kept = [k for k in range(len(table.headings)) if any(str(row.cells[k]).strip() for row in table.rows)]
    rows = [
        replace(row, cells=tuple(row.cells[k] for k in kept), values=tuple(row.values[k] for k in kept if row.values))
        for row in table.rows
    ]
    return replace(table, headings=tuple(table.headings[k] for k in kept), rows=rows)


Content = RenderableType | Table


class Tab(ABC):
    """A tab of the panel; one per session, so that it may keep what is expensive to compute.

    ``id`` names its texts (``tab.<id>``, ``command.tab_<id>``), ``key`` opens it.
    """

    id: ClassVar[str]
    key: ClassVar[str]

    @abstractmethod
    def depends_on(self, now: Context) -> object:
        """A value that is equal as long as the contents stay the same."""

    @abstractmethod
    def content(self, now: Context) -> Content:
        """A text or a table. It runs in a thread where ``ready`` is False."""

    def ready(self, now: Context) -> bool:
        """Whether the contents are there at once, without keeping the user waiting."""
        del now
        return True

    def again(self) -> bool:
        """Its key was pressed while it is open; True if that changes the contents."""
        return False

    def count(self, now: Context) -> int:
        """The number shown after the tab's name; none if 0."""
        del now
        return 0

    def name(self) -> str:
        """What the tab is called while it shows something else than its first view; empty for its usual name."""
        return ""
