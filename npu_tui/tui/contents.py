"""What the panel shows: its tabs filled for the trace, the range and the selection."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import cast

from msgspec import Struct
from msgspec.structs import astuple
from rich.text import Text

from npu_tui.strings import say
from npu_tui.subjects import subject_of
from npu_tui.tui.panel import Panel
from npu_tui.tui.prompt import Desk
from npu_tui.tui.tabs.details import details, details_are_ready, details_depend_on
from npu_tui.tui.tabs.device import communication, operators
from npu_tui.tui.tabs.findings import changes, changes_that_count, findings, findings_worth_a_look, listed
from npu_tui.tui.tabs.lines import OF_DEVICES, LinesTab, has_own, of_subject, view_name
from npu_tui.tui.tabs.links import events_are_ready, links
from npu_tui.tui.tabs.memory import memory, memory_depends_on
from npu_tui.tui.tabs.range import TREE_TURN, range_table
from npu_tui.tui.tabs.search import Finder, are_few, lists_hits, search
from npu_tui.tui.tabs.summary import summary
from npu_tui.tui.tabs.table import GAP, Content, Context, Stretch, Tab, TabRow, TabTable, of_a_device, padded, row_cells
from npu_tui.view.scene import ScreenRow, Selected
from npu_tui.view.viewport import Viewport


def record(table: TabTable, row: TabRow) -> str:
    """The headings of ``table`` with the cells of ``row``; columns without a word are left out."""
    pairs = [(name, cell) for name, cell in zip(table.headings, row_cells(row.cells), strict=True) if cell.strip()]
    names = padded([name for name, _ in pairs])
    return "\n".join(f"{name}   {cell}" for name, (_, cell) in zip(names, pairs, strict=True))


_MARGIN = 0.05  # a stretch of time is shown with this share of its length on either side
_CONTEXT = 0.75  # the same of what differs between two profiles: it is known by what stands around it
_THIN = 0.02
_AROUND = 3.0
"""A slice thinner than this share of the view is shown with so many of its lengths on either side."""


def _is_at_once(now: Context) -> bool:
    del now
    return True


def make_tabs(compared: bool) -> dict[str, Tab]:
    """The tabs of a session by id, in the order in which they stand; a comparison has one more, which comes first."""
    first = {
        "changes": Tab(
            changes, lambda now: now.session.picture and now.session.picture.at, changes_that_count, _is_at_once
        )
    }
    return (first if compared else {}) | {
        "findings": Tab(
            findings, lambda now: (now.trace, now.findings is not None), findings_worth_a_look, ready=_is_at_once
        ),
        "lines": LinesTab(),
        "details": Tab(details, details_depend_on, ready=details_are_ready),
        "links": Tab(
            of_subject("links", links),
            lambda now: (now.trace, now.marked) if has_own("links", now) else (now.selection, now.link_category),
            lambda now: 0 if has_own("links", now) else len(now.links),
            lambda now: not has_own("links", now) and events_are_ready(now),
        ),
        "range": Tab(
            range_table,
            lambda now: (now.range, now.focused and (now.focused.trace, now.focused.layer, now.focused.lane)),
            turns=True,
        ),
        "operators": Tab(of_subject("operators", of_a_device(operators)), turns=True),
        "communication": Tab(of_subject("communication", of_a_device(communication)), turns=True),
        "search": Tab(
            search,
            lambda now: (now.hits, now.selection if lists_hits(now.turn) else None),
            lambda now: len(now.hits),
            are_few,
            turns=True,
        ),
        "memory": Tab(memory, memory_depends_on, turns=True),
        "summary": Tab(summary, lambda now: now.trace, turns=True),
    }


class Owed(Struct, frozen=True):
    """A step to the next (1) or previous (-1) finding, asked for before there were any, and where the user was then."""

    direction: int
    tab: str
    viewport: Viewport
    cursor: int
    selection: Selected | None


class Contents:
    """Fills ``panel`` with what the explorer of ``desk`` looks at and the hits of ``finder``.

    What takes longer than a key may a thread computes, which hands it back through the panel. ``computing`` is what a
    thread is making for the open tab, None if nothing. ``redraw`` draws the lanes again.
    """

    def __init__(self, desk: Desk, panel: Panel, finder: Finder, redraw: Callable[[], object]) -> None:
        self._session, self._explorer, self._work = desk.session, desk.explorer, desk.work
        self._panel, self._finder, self._redraw = panel, finder, redraw
        self._tabs = make_tabs(self._session.picture is not None)
        self._walked = "findings" if self._session.picture is None else "changes"
        """The tab that is walked row by row."""
        self.lines = cast(LinesTab, self._tabs["lines"])
        """The tab of code lines: which of its views is open."""
        self._filled: tuple[object, ...] | None = None
        self._counted: tuple[object, ...] | None = None
        self.computing: tuple[object, ...] | None = None
        self._visited: tuple[TabRow, int] | None = None
        self._marked: tuple[int, int] | None = None
        """The range that going to a row marked last."""
        self._finding: tuple[Text | str, ...] = ()
        self._gone: tuple[tuple[object, ...], TabRow | None] = (), None
        self.owed: Owed | None = None
        self._followed: tuple[object, ...] = ()
        self._fitted: list[ScreenRow] | None = None

    def open_tab(self, tab: str, unfold: bool = True) -> None:
        """Show ``tab``; with ``unfold`` also the panel, where it is hidden."""
        self._panel.open(tab, unfold)
        self.fill()

    def press_tab(self, tab: str) -> str | None:
        """Open ``tab``, if there is one; where it is open already, let it show the next thing it can."""
        if tab not in self._tabs:
            return say("compared.none")
        if tab not in self._shown_tabs():
            return say(subject_of(self._now().profile.trace).no_kernels)
        if self._panel.is_open(tab):
            self._tabs[tab].again()
        self._panel.open(tab)
        self.fill()
        return None

    def press_view(self, view: str) -> str | None:
        """Show ``view`` of the tab of code lines, or its tab; where it is on show, give it the focus.

        Returns the message of one that needs kernels where there are none.
        """
        shown = subject_of(self._now().profile.trace)
        here, of_devices = shown.tabs, view in OF_DEVICES
        view = here.get(view) or view
        tab = next((tab for tab in self._tabs if here.get(tab) == view), None)
        if tab is None and of_devices and shown.no_kernels:
            return say(shown.no_kernels)
        if tab is not None:
            if self._panel.is_open(tab):
                self._panel.focus_content()
            self.lines.view = "lines"
            self.open_tab(tab)
        elif self._panel.is_open("lines") and self.lines.view == view:
            self._panel.focus_content()
        else:
            self.lines.stop()
            self.lines.view = view
            self.open_tab("lines")
        return None

    def show_call_tree(self) -> None:
        """Show the calls of the lane under the cursor as a tree, in the tab of the range."""
        self._tabs["range"].turn = TREE_TURN
        self.open_tab("range")

    def ask(self, sql: str) -> None:
        """Show the answer to a query, with the focus on its rows."""
        self.lines.ask(sql)
        self.open_tab("lines")
        self._panel.focus_content()

    def walk_bubbles(self, direction: int) -> str | None:
        """Go to the next (1) or previous (-1) row of the table of bubbles; None unless that is on show."""
        if not self._panel.is_open("lines") or self.lines.view != "bubbles":
            return None
        self.fill()  # the key may follow at once on the one that asked for the table
        if not (rows := self._panel.rows):
            return None if self.computing is None else say("panel.computing")
        at = self._panel.table.cursor_row
        visited = self._visited is not None and self._visited[0] is rows[at]
        at = min(max(at + direction, 0), len(rows) - 1) if visited else at
        self._panel.table.move_cursor(row=at, animate=False)
        words = self.visit(rows[at])
        return say("panel.row_of", n=at + 1, count=len(rows), words=words)

    def walk_code(self, direction: int) -> str | None:
        """Go to the next (1) or previous (-1) hot line of the code; None unless that is on show."""
        content, rows = self._panel.content, self._panel.rows
        if not self._panel.is_shown or not isinstance(content, TabTable):
            return None
        places = {id(row): at for at, row in enumerate(rows)}  # a filter leaves some out
        order = [places[id(row)] for row in (content.rows[at] for at in content.walked) if id(row) in places]
        if not order:
            return None
        here = self._panel.table.cursor_row
        at = order.index(here) + direction if here in order else min(direction, 0) % len(order)
        row = order[at % len(order)]
        self._panel.table.move_cursor(row=row, animate=False)
        words = GAP.join(" ".join(cell.split()) for cell in row_cells(rows[row].cells[1:]) if cell)
        return say("panel.row_of", n=at % len(order) + 1, count=len(order), words=words)

    def fill(self) -> None:
        """Show what the open tab says of what the user looks at now."""
        if not self._panel.is_shown:
            self.forget()
            return
        now, tab = self._now(), self._tabs[self._panel.tab]
        wanted = (self, self._panel.tab, tab.depends_on(now))
        self._show_tabs(now)
        if wanted == self._filled:
            return
        self._filled = wanted
        self.computing = None
        if tab.is_ready(now):
            self._panel.show(tab.content(now))
            self.surround()
        else:
            self.computing = wanted
            self._panel.show(say("panel.computing"))
            self._work(lambda: self._panel.call_later(self.take, tab.content(now), wanted), "panel")

    def has_news(self) -> bool:
        """Whether more than the times in view has changed since it was asked last: no tab and no head tells of them.

        The head of a comparison tells how its sides lie on each other as well.
        """
        rows, (view, *others) = self._explorer.list, astuple(self._explorer.state)
        followed, self._followed = self._followed, (view, rows.key, *others, self._session.scene.offsets)
        compared = self._session.picture is not None
        if compared or not followed or rows.rows is not self._fitted or rows.key != followed[1] or view is followed[0]:
            return True
        return not all(map(is_, self._followed[2:], followed[2:]))

    def forget(self) -> None:
        """Make again what the panel shows, though nothing of it has changed."""
        self._filled = self._counted = None

    def _show_tabs(self, now: Context) -> None:
        """Show the names and counts of all tabs, unless what they depend on is as it was: most keys only move."""
        counted = (
            self._panel.tab, self.lines.view, self._panel.size.width, now.trace, now.selection, now.link_category,
            now.hits, now.findings,
        )  # fmt: skip
        if counted != self._counted:
            self._counted = counted
            here = subject_of(now.profile.trace).tabs
            names = {id_: tab.name or view_name(here.get(id_, "")) for id_, tab in self._tabs.items()}
            self._panel.show_tabs({id_: self._tabs[id_].count(now) for id_ in self._shown_tabs()}, names)

    def _shown_tabs(self) -> list[str]:
        """The tabs that some subject of the session has."""
        own = [subject_of(profile.trace).tabs for profile in self._session.profiles]
        return [id_ for id_ in self._tabs if not all(tabs.get(id_) == "" for tabs in own)]

    def _now(self) -> Context:
        state, turn = self._explorer.state, self._tabs[self._panel.tab].turn
        focused = self._explorer.focused
        if self._session.film is not None and self._panel.tab == "findings":
            focused = None  # both runs of a film have the findings of the recorded one
        return Context(
            self._session, state.selection, state.range, focused, state.link_category,
            self._finder.hits, state.cursor, turn, state.over, self._explorer.list.only is not None,
        )  # fmt: skip

    def take(self, content: Content, wanted: tuple[object, ...]) -> None:
        """Show the ``content`` that a thread has made for what was ``wanted``, unless that has changed since."""
        if self.computing == wanted:
            self.computing = None
            self._panel.show(content)
            self.surround()

    def visit(self, row: TabRow) -> str:
        """Go to the first place of ``row``, and again to its next one; returns the message."""
        if not row.places:
            return ""
        turn = 0
        if self._visited is not None and self._visited[0] is row:
            turn = (self._visited[1] + 1) % len(row.places)
        self._visited = row, turn
        place = row.places[turn]
        words = [say("panel.place", n=turn + 1, count=len(row.places))] if len(row.places) > 1 else []
        if isinstance(place, Selected):
            self._explorer.select(place)
            if row.values:
                self.fit_around(*self._session.scene.times(place))
        else:
            self._show_stretch(place)
            words.append(place.words)
        return "   ".join(words) if any(words) else ""

    def fit_around(self, start: int, end: int) -> None:
        """Show a few lengths of what lasts from ``start`` to ``end`` around it, where it is thin or does not fit."""
        span, length = self._explorer.state.viewport.span, max(end - start, 1)
        if length < _THIN * span or length > span:
            self._explorer.show(start, end, _AROUND)

    def _show_stretch(self, place: Stretch) -> None:
        """Mark a stretch as the range and fit it; what is selected then is its own slice, or nothing."""
        if place.slice is not None:
            self._explorer.select(Selected(place.trace, place.slice))
        else:
            self._explorer.state.selection = None
        if place.slice is None and place.lane is not None:
            self._explorer.go_to_lane(place.trace, place.lane)
        start, end = self._times(place)
        low, high = start, end
        if place.twin is not None:
            other = self._times(place.twin)
            low, high = min(start, other[0]), max(end, other[1])
        self._explorer.show(low, high, _MARGIN if self._session.picture is None else _CONTEXT)
        if place.marked:
            self._explorer.set_range(start, end)
            self._marked = self._explorer.state.range
        else:
            self._explorer.go_to(start)

    def surround(self) -> None:
        """Give rows that the text leaves blank to what surrounds those shown alone; take back what it needs."""
        shown, panel = self._explorer.list, self._panel
        self._fitted = shown.rows
        if shown.only is None or self.computing is not None or not panel.is_shown or panel.growth != "normal":
            return
        # Lanes and panel share the rows of the screen: one has what the other has not.
        around = max(shown.height + panel.size.height - panel.text_height - len(shown.only), 0)
        if panel.text_height and around != shown.around:
            shown.show_around(around)
            self._redraw()

    def leave_stretch(self) -> None:
        """Drop the range that going to a row marked, once the cursor is outside of it; the user's own ones stay."""
        state = self._explorer.state
        if state.range is None or state.range != self._marked:
            return
        start, end = state.range
        if not start <= state.cursor <= end:
            state.range = None

    def _times(self, place: Stretch) -> tuple[int, int]:
        """Start and end of a stretch on the scene's clock."""
        start, end = (self._session.scene.to_scene(place.trace, when) for when in (place.start, place.end))
        return start, end

    def show_finding(self, wanted: str) -> str:
        """Go to the evidence of the finding with the id ``wanted``; returns the message."""
        self.open_tab("findings")
        now = self._now()
        content = self._tabs["findings"].content(now)
        ids = [finding.id for finding in listed(now.findings)] if now.findings is not None else []
        if wanted not in ids or not isinstance(content, TabTable):
            return say("findings.silent", id=wanted)
        return self._show_finding(content.rows, content.rows[ids.index(wanted)])

    def show_numbered(self, number: int) -> str:
        """Go to the evidence of finding number ``number``, from 1 on; returns the message."""
        self._open_walked()
        content = self._tabs[self._walked].content(self._now())
        if not isinstance(content, TabTable) or not 0 < number <= len(content.rows):
            return say(f"{self._walked}.none")
        return self._show_finding(content.rows, content.rows[number - 1])

    def go_to_finding(self, direction: int) -> str:
        """Go to the evidence of the next (1) or previous (-1) finding, or change; returns the message."""
        self._open_walked()
        now = self._now()
        if self._walked == "findings" and now.findings is None:
            state = self._explorer.state
            self.owed = Owed(direction, self._panel.tab, state.viewport, state.cursor, state.selection)
            return say("findings.then" if now.session.whole else "loading.findings")
        content = self._tabs[self._walked].content(now)
        found = [row for row in content.rows if not row.minor] if isinstance(content, TabTable) else []
        if not found:
            return say(f"{self._walked}.none")
        at = next((i for i, row in enumerate(found) if row.cells == self._finding), -1 if direction > 0 else 0)
        return self._show_finding(found, found[(at + direction) % len(found)])

    @property
    def _proof(self) -> tuple[object, ...]:
        return self._explorer.state.selection, self._explorer.state.range

    @property
    def gone(self) -> Text | None:
        """The finding that was gone to, as long as what proves it is selected or marked and no panel shows it."""
        marked, row = self._gone
        if row is None or self._panel.is_shown or marked != self._proof:
            return None
        number, title = row.cells[0], str(row.cells[-1]).strip()
        style = number.style if isinstance(number, Text) else ""
        return Text.assemble((f"{str(number).strip()} ", style), title, no_wrap=True, end="")

    @property
    def cause(self) -> str:
        """What the row under the cursor of the open table names that a run can do without; nothing elsewhere."""
        row = self._panel.row_at_cursor() if self._panel.is_shown else None
        return "" if row is None else row.cause

    def _open_walked(self) -> None:
        """Show the table that is gone through, unless Details are open: they show the evidence of each row."""
        if not self._panel.is_open("details"):
            self.open_tab(self._walked, unfold=False)

    def pay(self) -> str:
        """Go to the finding that was asked for before there were any, unless the user went elsewhere meanwhile.

        Returns the message. A tab that was opened meanwhile stays open.
        """
        owed, self.owed, state = self.owed, None, self._explorer.state
        if owed is None or (owed.viewport, owed.cursor, owed.selection) != (
            state.viewport, state.cursor, state.selection,
        ):  # fmt: skip
            return ""
        tab = self._panel.tab
        words = self.go_to_finding(owed.direction)
        if tab != owed.tab:
            self.open_tab(tab, unfold=False)
        return words

    def _show_finding(self, found: list[TabRow], row: TabRow) -> str:
        self._finding = row.cells
        self._visited = None
        self.visit(row)
        self._panel.point_at(row.cells)
        self._gone = self._proof, row
        return say(f"{self._walked}.of", n=found.index(row) + 1, count=len(found), title=str(row.cells[-1]).strip())
