"""What the open tab of the panel shows, and where its rows lead."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text
from textual.worker import get_current_worker

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.trace.units import duration_text
from npu_tui.tui.sheets.sheet import Sheet
from npu_tui.tui.tabs import TABS
from npu_tui.tui.tabs.tab import Content, Context, Row, Stretch, Tab, Table
from npu_tui.tui.widgets.panel import Panel
from npu_tui.tui.widgets.timeline import Timeline
from npu_tui.view.scene import Selected

if TYPE_CHECKING:
    from npu_tui.tui.explore.screen import MainScreen

_MARGIN = 0.05
"""A stretch of time is shown with this share of its length on either side."""


class Contents:
    """One per session on ``screen``. ``computing`` is what a thread is making for the open tab, None if nothing."""

    def __init__(self, screen: MainScreen) -> None:
        self._screen = screen
        self._tabs: dict[str, Tab] = {tab.id: tab() for tab in TABS}
        self._filled: tuple[object, ...] | None = None
        self.computing: tuple[object, ...] | None = None
        self._visited: tuple[Row, int] | None = None
        self._finding: tuple[Text | str, ...] = ()

    def again(self, tab: str) -> None:
        """Let the open ``tab`` show the next thing it can, where it has several."""
        if self._tabs[tab].again():
            self._filled = None

    def tell(self) -> None:
        """Show all there is to say about the row under the table's cursor."""
        panel = self._screen.query_one(Panel)
        row = panel.row_at_cursor()
        if row is not None and row.told is not None:
            title = say("findings.told", number=panel.table.cursor_row + 1)
            self._screen.app.push_screen(Sheet(title, Text(row.told())))

    def fill(self) -> None:
        """Show what the open tab says of what the user looks at now."""
        panel = self._screen.query_one(Panel)
        if panel.has_class("-hidden"):
            self._filled = None
            return
        now, tab = self._now(), self._tabs[panel.tab]
        panel.show_tabs({other.id: other.count(now) for other in self._tabs.values()})
        wanted = (tab.id, tab.depends_on(now))
        if wanted == self._filled:
            return
        self._filled = wanted
        self.computing = None
        if tab.ready(now):
            self._show_content(tab.content(now))
        else:
            self.computing = wanted
            self._show_content(say("panel.computing"))
            self._screen.run_worker(partial(self._compute, tab, now, wanted), thread=True, group="panel")

    def _now(self) -> Context:
        state = self._screen.explorer.state
        return Context(
            self._screen.session,
            state.selection,
            state.range,
            self._screen.explorer.focused,
            state.link_category,
            self._screen.hits,
            state.cursor,
        )

    def _compute(self, tab: Tab, now: Context, wanted: tuple[object, ...]) -> None:
        """Make the contents of a tab in a thread."""
        worker, content = get_current_worker(), tab.content(now)
        if not worker.is_cancelled:
            self._screen.app.call_from_thread(self._computed, content, wanted)

    def _computed(self, content: Content, wanted: tuple[object, ...]) -> None:
        # Neither closed nor of another session meanwhile.
        if self.computing == wanted and self._screen.contents is self and self._screen.query(Panel):
            self.computing = None
            self._show_content(content)

    def _show_content(self, content: Content) -> None:
        self._screen.query_one(Panel).show(content)

    def visit(self, row: Row) -> None:
        """Go to the first place of ``row``, and again to its next one."""
        if not row.places:
            return
        turn = 0
        if self._visited is not None and self._visited[0] is row:
            turn = (self._visited[1] + 1) % len(row.places)
        self._visited = row, turn
        place = row.places[turn]
        words = [say("panel.place", n=turn + 1, count=len(row.places))] if len(row.places) > 1 else []
        if isinstance(place, Selected):
            self._screen.explorer.select(place)
            words.append(self._slice(place))
        else:
            self._show_stretch(place)
            words.append(place.words)
        if any(words):
            self._screen.tell("   ".join(words))
        self._screen.query_one(Timeline).changed()

    def _slice(self, place: Selected) -> str:
        trace = self._screen.session.scene.traces[place.trace]
        length = duration_text(int(trace.slices.end[place.item] - trace.slices.start[place.item]))
        return say("panel.slice", length=length, name=printable(trace.name_of(place.item)))

    def _show_stretch(self, place: Stretch) -> None:
        """Mark a stretch as the range and fit it; a slice of its own is selected too."""
        if place.slice is not None:
            self._screen.explorer.select(Selected(place.trace, place.slice))
        elif place.lane is not None:
            self._screen.explorer.go_to_lane(place.trace, place.lane)
        self._screen.explorer.show(place.start, place.end, _MARGIN)
        self._screen.explorer.set_range(place.start, place.end)

    def show_finding(self, wanted: str) -> str:
        """Go to the evidence of the finding with the id ``wanted``; returns what to tell."""
        self._screen.open_tab("findings")
        now = self._now()
        found, content = now.session.findings.get(now.trace), self._tabs["findings"].content(now)
        ids = [each.id for each in found.findings] if found is not None else []
        if wanted not in ids or not isinstance(content, Table):
            return say("findings.silent", id=wanted)
        return self._show_finding(content.rows, content.rows[ids.index(wanted)])

    def show_numbered(self, number: int) -> str:
        """Go to the evidence of finding number ``number``, from 1 on; returns what to tell."""
        self._screen.open_tab("findings", unfold=False)
        content = self._tabs["findings"].content(self._now())
        if not isinstance(content, Table) or not 0 < number <= len(content.rows):
            return say("findings.none")
        return self._show_finding(content.rows, content.rows[number - 1])

    def go_to_finding(self, direction: int) -> str:
        """Go to the evidence of the next (1) or previous (-1) finding; returns what to tell."""
        self._screen.open_tab("findings", unfold=False)
        now = self._now()
        if now.session.findings.get(now.trace) is None:
            return say("findings.examining" if now.session.whole else "loading.findings")
        content = self._tabs["findings"].content(now)
        found = [row for row in content.rows if not row.minor] if isinstance(content, Table) else []
        if not found:
            return say("findings.none")
        at = next((i for i, row in enumerate(found) if row.cells == self._finding), -1 if direction > 0 else 0)
        return self._show_finding(found, found[(at + direction) % len(found)])

    def _show_finding(self, found: list[Row], row: Row) -> str:
        self._finding = row.cells
        self._visited = None
        self.visit(row)
        self._screen.query_one(Panel).point_at(row.cells)
        return say("findings.of", n=found.index(row) + 1, count=len(found), title=row.cells[3])
