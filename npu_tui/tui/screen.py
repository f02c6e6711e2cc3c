"""The main screen: headline, timeline, panel, status line, and what the keys do there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.geometry import Size
from textual.timer import Timer
from textual.worker import get_current_worker

from npu_tui.output.film import align_film
from npu_tui.output.report_tables import health_lines
from npu_tui.rules.model import Findings
from npu_tui.strings import say, words
from npu_tui.subjects import subject_of
from npu_tui.tui.commands import Where
from npu_tui.tui.contents import Contents
from npu_tui.tui.exports import copy_text, copy_view, open_code, share_to
from npu_tui.tui.film import Films, show_film
from npu_tui.tui.flags import FlagMarks, Flags
from npu_tui.tui.footer import FirstRun, place_of_session, selection_line
from npu_tui.tui.head import Head, HeadTimes, examined
from npu_tui.tui.heads import ComparedHead
from npu_tui.tui.keymap import words_at_start
from npu_tui.tui.loading import PANEL_FROM
from npu_tui.tui.panel import Panel, TabLine
from npu_tui.tui.panel_screen import PanelScreen
from npu_tui.tui.path_walk import PathWalk
from npu_tui.tui.prompt import Desk, Kind, Wish
from npu_tui.tui.prompts import Asking, Querying, Supposed, Supposing, borrowed, refused_code
from npu_tui.tui.ranks import ComparedRanks, JobRanks, apart_words
from npu_tui.tui.session import Session, collect_at_rest
from npu_tui.tui.sheets import Sheet
from npu_tui.tui.tabs.search import Finder, Searching
from npu_tui.tui.tabs.table import GAP, TabRow, TabTable
from npu_tui.tui.terminal.internals import after
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.tui.timeline import Timeline
from npu_tui.tui.walk import TraceWalk, why_not
from npu_tui.view.explorer import Explorer
from npu_tui.view.scene import Selected
from npu_tui.view.start import NO_TAB, Start, start_at, take_over

if TYPE_CHECKING:
    from npu_tui.output.statement import Statement
    from npu_tui.profile.scene import ShownPath
    from npu_tui.trace.model import Trace

_PANEL_SECONDS = 0.08  # the panel follows the last key after this rest, as filling a table takes longer than a frame


class MainScreen(PanelScreen[Timeline]):
    """Explores one session; what takes long of its traces is computed in a thread, which hands it over."""

    head: Head | ComparedHead
    where: ClassVar[Where] = "lanes"

    def __init__(
        self,
        session: Session,
        terminal: Terminal | None = None,
        start: Start | None = None,
        notes: Path | None = None,
        seen: Path | None = None,
        chosen: bool = False,
    ) -> None:
        """Opens at ``start``; flags are kept in the file ``notes``, without one only as long as the screen.

        Until the file ``seen`` is there, a line says what to press first. Where it was ``chosen`` from a list, Esc
        leads back there.
        """
        self.session = session
        self.explorer = Explorer(session.scene, 80, 20)
        if session.film is not None:  # of several ranks: what one step gains adds up in the next ones
            self.explorer.show(*session.scene.whole)
        super().__init__(Timeline(self.explorer, session.painter, terminal), Panel())
        self.drawing.beside = lambda: self._line.select(partial(self._selected, linked=False))
        self.head = Head() if session.picture is None else ComparedHead(session.picture)
        self.footers = (place_of_session(session), "table", "tables" if session.is_tables else "text")
        self._start, self._chosen, self._notes_file = start, chosen, notes
        self._panel_timer: Timer | None = None
        if seen is not None:
            self.first_run = FirstRun(seen)
        self._arranged: Size | None = None
        self._offsets = [*session.scene.offsets]
        self._examined: Session | None = None
        self.films = Films(lambda causes: self.supposing.play(causes), self.replace_session, lambda: self.app.back())
        self.marks = FlagMarks(Flags(session.scene.traces[0], None), self.explorer, self.prompt)
        self._explore()

    def _explore(self) -> None:
        """Make what belongs to the session on screen."""
        desk = Desk(self.session, self.explorer, self.prompt, self.work, self.call_later)
        self.finder = Finder(desk, lambda: self.searching.show())
        self.contents = Contents(desk, self.panel, self.finder, self.drawing.changed)
        self.walk = TraceWalk(desk, self.contents, self.finder)
        self.path = PathWalk(desk, self.contents)
        self.searching = Searching(desk, self.finder, self._show_hits)
        self.sides = ComparedRanks(desk)
        self.ranks = JobRanks(desk, lambda ranks, late: self.app.show_ranks(ranks, late))
        self.supposing = Supposing(desk, partial(self.call_later, self._show_supposed))
        self.querying = Querying(self.prompt, self.contents.ask)
        own = {
            "share": lambda name: self.tell(share_to(name, self.head.lines, self.explorer)),
            "code": self.code_in,
            "whatif": self.supposing.begin,
            "eager": self.borrow,
        }
        orders = {**self.orders(), **own}
        self.asking = Asking(desk, self.marks, self.walk, self.contents, self.querying, self.run_command, orders)

    def on_mount(self) -> None:
        """Focus the lanes, and say what is wrong with the trace."""
        if not self.query(TabLine):
            return  # closed while it was mounted
        self.app.app_resume_signal.subscribe(self, lambda _: self.redraw())
        self._arrange(self.app.size)  # before the first layout, which then stays
        self.set_focus(self.drawing)
        self._line.show_place(self.footers[0])
        if self.session.picture is not None:
            self.contents.open_tab("changes")
        self.contents.fill()
        if self.session.film is not None and not any(found.findings for found in self.session.findings.values()):
            self.hide_panel()
        if self.session.is_tables:
            self.panel.grow("full")
            self.panel.focus_content()
        self._look_through()

    def _look_through(self) -> None:
        """Go where the user asked to begin, add up the trace and find what is wrong, once all of the trace is there."""
        if not self.session.whole:
            return
        if self.session.film is not None or self.session is self._examined:  # a film, or what was there before it
            self.head.examined = len(self.session.profiles)
            return
        self._examined = self.session
        self.head.examined = 0
        self.work(partial(self._examine, self.session), "head")
        if self.first_run is not None:
            self.first_run.show(self._line)
        healths = [trace.health for trace in self.session.scene.traces]
        cut = [sum(trace.events.values()) for trace in self.session.scene.traces if trace.health.truncated]
        apart = [words(said) for health in healths for said in health.warnings if said.code == "odd.service_apart"]
        self.tell(GAP.join([*(say("health.truncated", events=events) for events in cut), *apart, *words_at_start()]))
        # Only the whole trace has a section in the file of flags.
        self.marks.flags.keep_in(self.session.scene.traces[0], self._notes_file)
        self.tell(self.marks.mark())
        if self.session.goal is not None:
            self.call_after_refresh(self._begin_at, self.session.goal)
        elif self._start is not None and not self.explorer.moved:
            self.call_after_refresh(self._start_at, self._start)

    def _examine(self, session: Session) -> None:
        """Compute in a thread what takes long of ``session``: times, findings, then curves of memory and CPU."""
        self.call_later(self.tell, "   ".join(words(each) for profile in session.profiles for each in profile.left_out))
        for index, made in examined(session):
            if get_current_worker().is_cancelled:
                return
            self.call_later(self.learn, session, index, made)

    def learn(self, session: Session, index: int, made: HeadTimes | Findings | list[ShownPath] | None) -> None:
        """Show what was ``made`` of trace number ``index`` of ``session``; None: memory and CPU have been read."""
        if session is not self.session:
            return
        if isinstance(made, Findings):
            self._learn_findings(index, made)
        elif isinstance(made, list):
            if self.session.take_paths(index, made):
                self.explorer.take_in()
            self.contents.fill()
            self.drawing.changed()
        elif made is not None and isinstance(self.head, Head):
            self.head.learn(index, made)
        elif made is None and session.remember(index):
            self.explorer.widen()
            if session.is_tables and self.panel.is_full and self.app.size.height >= PANEL_FROM:
                self.panel.grow("normal")
            self.drawing.changed()
        self.show_head()

    def _learn_findings(self, index: int, findings: Findings) -> None:
        """With the first findings, go to the one that the user asked to begin with."""
        session = self.session
        session.learn(index, findings)
        self.head.examined += 1
        if self.head.examined == len(session.profiles) and not any(profile.starved for profile in session.profiles):
            self._line.refuse(("starved_next",))
        first = [finding.cls for finding in findings.findings[:1]]
        if self.first_run is not None and not index and first == ["dispatch"]:
            self.first_run.lead_to(sum(len(profile.starved) for profile in session.profiles))
        self.contents.fill()
        if self.head.examined == 1 and self._start is not None and self._start.finding:
            self.tell(self.contents.show_finding(self._start.finding))
        self.tell(self.contents.pay() or self.films.pay(session, self.explorer.trace))
        self.drawing.changed()

    def _begin_at(self, goal: Selected) -> None:
        """Select what the screen begins at; the lanes have their size now."""
        self.explorer.select(goal)
        self.tell(apart_words(self.session))
        self.drawing.changed()

    def _start_at(self, start: Start) -> None:
        """Show the place that was asked for; the lanes have their size now."""
        if start.tab and start.tab != NO_TAB:
            self.contents.open_tab(start.tab)
        elif start.tab:
            self.hide_panel()
        failed = start_at(self.explorer, start)
        if start.search:
            self.finder.finish(start.search)
            self.searching.show()
        if failed:
            self.tell(say("open.failed", option=failed))
        self.drawing.changed()

    def replace_session(self, session: Session) -> None:
        """Explore ``session``, which holds more of the same trace, from where the user is now."""
        before, finder, owed = self.explorer, self.finder, self.contents.owed
        self.contents.computing = None  # what a thread still makes of the trace before is not shown
        shift = before.scene.traces[0].start_ns - session.scene.traces[0].start_ns
        self.session, self.explorer = session, Explorer(session.scene, before.state.viewport.width, 20)
        take_over(before, self.explorer)
        self.drawing.show_scene(self.explorer, session.painter)
        self.marks.move_to(self.explorer, shift)
        self._explore()
        self.contents.owed = owed
        self._arranged = None
        self.finder.begin(finder.text)
        finder.clear()
        self._arrange(self.size)
        self.contents.fill()
        self._look_through()

    def on_resize(self) -> None:
        """Headline and panel follow the size of the terminal."""
        self._arrange(self.size)

    def _arrange(self, size: Size) -> None:
        if size != self._arranged:
            self._arranged = size
            self.panel.fit(size.height)
            self.show_head()

    def show_head(self, anew: bool = True) -> None:
        """Fill the lines above the lanes; not ``anew`` only where they say something else."""
        if self.session.film is not None:
            if anew:  # it says the same as long as it is shown
                show_film(self.head, self.session.film, self.app.size)
        elif isinstance(self.head, ComparedHead):
            self.head.show(self.explorer, self.app.size)
        else:
            beside_lanes = self.panel.is_shown and self.panel.growth != "full"  # a whole page has room for the verdict
            self.head.show(self.session, self.explorer, self.app.size, beside_lanes, anew, self.contents.gone)

    def work(self, job: Callable[[], object], group: str) -> None:
        """Run ``job`` in a thread; it replaces the one of its ``group``."""
        # Without a description Textual would write down all columns that the job looks at.
        self.run_worker(job, thread=True, exclusive=True, group=group, description=group)

    # --- commands

    def say_again(self) -> None:
        """Say what is on screen again."""
        self.contents.forget()
        self.contents.fill()
        self.show_head()
        self._line.show_keys()
        self._line.select(partial(self._selected, linked=True))
        self.drawing.changed()

    def escape(self) -> None:
        """Close what is open, else clear, else deselect; from the panel back to the lanes."""
        if self.contents.lines.stop():
            self.contents.fill()
        elif self.panel.is_full and self.explorer.rows:
            self.panel.grow("normal")
            self.contents.fill()
        elif self.focused is not self.drawing:
            self.set_focus(self.drawing)
        elif self.explorer.deselect():
            if not len(self.explorer.state.hits):
                self.finder.clear()
        elif self.session.film is not None:
            self.films.leave()
        elif not self.session.whole:
            self.app.stop_loading()
        elif self.session.job is not None or self._chosen:
            self.app.back()

    def undo(self) -> str | None:
        """One step back; in a job, from where there is none, to its overview."""
        if self.session.job is not None and not self.explorer.history.past:
            return self.show_ranks()
        return None if self.explorer.undo() else say("undo.none")

    def show_ranks(self) -> str | None:
        """Back to the overview of the job."""
        if self.session.job is None:
            return say("ranks.no_job")
        self.app.back()
        return None

    def step(self, direction: int) -> str | None:
        """The next (1) or previous (-1) step; with several ranks the next rank, in a comparison the steps of both."""
        if self.ranks.alone:
            return self.ranks.beside(direction)
        if self.session.picture is not None:
            return self.sides.step(direction)
        if self.session.film is not None:
            told = self.walk.step(direction)
            self.explorer.set_offsets(align_film(self.session.scene, self.explorer.state.cursor))
            return told
        return self.walk.rank(direction) if len(self.session.scene.traces) > 1 else self.walk.step(direction)

    def follow_link(self) -> str | None:
        """From a collective to what the rank that came last did meanwhile, else along the link."""
        late = self.ranks.late()
        return self.walk.follow(True) if late is None else self.ranks.follow(late)

    def show_passes(self) -> str | None:
        """Show the forward and backward operation of the row under the cursor of the table, else of the selection."""
        told = self.walk.passes(self.panel.row_at_cursor() if self.panel.has_focus_within else None)
        if self.panel.is_full and self.panel.is_open("details"):
            self.panel.grow("normal")
        return told

    def open_code(self) -> str:
        """Open the line of code that the row under the cursor or the selected slice names in the user's editor."""
        told = open_code(self.app, self.session, self.explorer, self.panel)
        self.drawing.forget_shown()
        return told

    def yank(self) -> str:
        """Copy the row of the table that has the focus, else the name of the selected slice."""
        return copy_text(self.app, self.session, self.explorer, self.panel)

    def yank_view(self) -> str | None:
        """Copy the command that opens what is on screen."""
        tab = self.panel.tab if self.panel.is_shown else NO_TAB
        return copy_view(self.app, self.explorer, self.finder.hits.text, tab, self._line.holds)

    def why_not(self) -> Mapping[str, str]:
        """The commands that can do nothing just now, each with the reason in one line."""
        content = self.panel.content
        table = content if isinstance(content, TabTable) else None
        return why_not(self.session, self.explorer, len(self.finder.hits), len(self.marks.flags.all), table)

    @property
    def trace(self) -> Trace | None:
        """The trace that the cursor is in."""
        return self.session.profiles[self.explorer.trace].trace

    def show_health(self) -> None:
        """Show what of the traces could not be placed."""
        lines = [line for profile in self.session.profiles for line in health_lines(profile)]
        self.app.push_screen(Sheet(say("health.title"), Text("\n".join(lines))))

    def _show_supposed(self, answer: Supposed) -> None:
        self.supposing.pending = False
        if answer.title:
            self.app.push_screen(Sheet(answer.title, Text("\n".join(answer.lines))))
        elif answer.error:
            self.tell(answer.error)
        elif (step := self.films.show(self.session, self.explorer.state, answer)) is not None:
            self.explorer.show(*step[0])
            self.tell(step[1])
        else:
            self._line.show_keys()

    def next_finding(self, direction: int) -> str | None:
        """To the next (1) or previous (-1) finding; in a film one more cause goes, or the last one comes back."""
        film = self.session.film
        return self.contents.go_to_finding(direction) if film is None else self.films.next(film, direction)

    def next_hit(self, direction: int) -> str:
        """To the next (1) or previous (-1) hit; of the code that is shown to that hot line, unless there are hits."""
        to_code = self.panel.has_focus_within or not len(self.finder.hits)
        told = self.contents.walk_code(direction) if to_code else None
        return self.walk.hit(direction) if told is None else told

    def toggle_film(self) -> str | None:
        """Show the run without what the row of the table or of the path names, else the first cause; or leave that."""
        row = self.explorer.focused
        owner = self.path.cause() if self.focused is self.drawing and row is not None and row.kind == "path" else None
        return self.films.toggle(self.session, self.explorer.trace, self.contents.cause if owner is None else owner)

    def statement(self) -> Statement | None:
        """The report about the profile that the cursor is in, or about the comparison."""
        from npu_tui.output.statement import comparison_statement, profile_statement

        session = self.session
        if session.picture is not None:
            return comparison_statement(session.picture.comparison)
        index = 0 if session.film is not None else self.explorer.trace
        return profile_statement(session.profiles[index]) if session.whole else None

    def show_requests(self) -> str | None:
        """List the requests of an inference service, where one is on screen."""
        views = {subject_of(profile.trace).tabs.get("engine_steps") for profile in self.session.profiles}
        return self.contents.press_view("engine_steps") if "requests" in views else say("order.requests")

    def code_in(self, name: str) -> None:
        """Look for the source of the program in the folder ``name``, and show what there is."""
        if why := refused_code(name):
            self.tell(why)
        else:
            self.contents.press_view("lines")

    def borrow(self, path: str) -> None:
        """Let replayed kernels of the profile at the selection have the code of the profile at ``path``."""
        selected = self.explorer.state.selection
        profile = self.session.profiles[0 if selected is None else selected.trace]
        self.work(lambda: self.call_later(self._show_borrowed, borrowed(profile, path)), "eager")

    def _show_borrowed(self, told: str) -> None:
        self.tell(told)
        self.contents.forget()
        self.contents.fill()

    def list_flags(self) -> str | None:
        """List the flags."""
        return self.marks.list(self._tell_moved)

    def _tell_moved(self, words: str) -> None:
        self.tell(words)
        self.drawing.changed()

    # --- prompt

    def take_typed(self, kind: Kind, text: str) -> None:
        """Count the hits, or show what may be meant, while typing."""
        if kind == "search":
            self.searching.typed(text)
        elif kind in ("command", "sql"):
            (self.asking if kind == "command" else self.querying).complete(text)
        else:
            super().take_typed(kind, text)

    def take_wish(self, wish: Wish) -> None:
        """Show another candidate, or take over the one on show."""
        if self.prompt.kind not in ("command", "sql"):
            return
        asking = self.asking if self.prompt.kind == "command" else self.querying
        if wish != "take":
            asking.choose(1 if wish == "next" else -1)
        elif text := asking.taken():
            self.prompt.take(text)

    def obey(self, kind: Kind, text: str) -> None:
        """Go to the first hit, do what was asked, or keep the flag."""
        if kind == "search":
            self.searching.entered(text)
        elif kind in ("command", "flag"):
            self._tell_moved(self.asking.obey(text) if kind == "command" else self.marks.name(text))
        else:
            (self.supposing.begin if kind == "whatif" else self.querying.ask)(text)

    def _show_hits(self, ended: bool) -> None:
        """Draw the hits; once the search has ``ended`` go to the first one, or say that there is none."""
        self.drawing.changed()
        if ended and len(self.finder.hits):
            self.run_command("hit_next")
            self.contents.open_tab("search", unfold=False)
        elif ended:
            self.tell(self.finder.words())

    def on_timeline_pointed(self, event: Timeline.Pointed) -> None:
        """Go to the finding or flag that was clicked above the lanes, else put the cursor there."""
        number = int(event.finding or 0)
        self._tell_moved(self.contents.show_numbered(number) if number else self.marks.point_at(event.start, event.end))

    def on_timeline_ranged(self) -> None:
        """Show what happens in the range that was dragged."""
        self.contents.open_tab("range")

    # --- panel

    def fill(self) -> None:
        """Show in the panel what the open tab says now."""
        self.contents.fill()

    def open_tab(self, tab: str) -> str | None:
        """Open ``tab``, or where it is open let it show the next thing it can."""
        return self.contents.press_tab(tab)

    def press_tab(self, tab: str) -> str | None:
        """Open ``tab``; its digit leads to the code lines also from another view of that tab that a key opened."""
        if tab == "lines" and self.contents.lines.view != "lines":
            self.contents.press_view("lines")
            return None
        return super().press_tab(tab)

    def visit(self, row: TabRow) -> str:
        """Go to the place of ``row``, and again to its next one; returns the message."""
        if self.panel.is_full and row.places and self.explorer.rows:
            self.panel.grow("normal")
        return self.contents.visit(row)

    def on_panel_fitted(self) -> None:
        """The head stands over lanes of another height now."""
        self.show_head()

    def on_timeline_fitted(self) -> None:
        """Panel and lanes take the rows that the other leaves blank; on a low screen it comes up if it fits there."""
        panel, explorer = self.panel, self.explorer
        if not self.drawing.size.height:
            return
        self.contents.surround()  # lanes and panel have the heights of one layout now
        if self.session.whole and panel.offer(explorer.list.height - explorer.list.wanted):
            self.show_head()
            self.contents.fill()
        if panel.is_shown and panel.growth == "normal":
            room = self.drawing.size.height + panel.size.height - panel.usual
            wanted = explorer.list.wanted_in(self.drawing.lanes_in(room + panel.unneeded))
            panel.take_blank(room - self.drawing.height_for(max(wanted, 1)))  # lanes keep a row where none is shown

    def on_timeline_moved(self) -> None:
        """Fill the panel again after a rest; hits and flags go with traces that were shifted."""
        if self._panel_timer is None:
            self._panel_timer = after(_PANEL_SECONDS, self, self.rest)
        else:
            self._panel_timer.reset()
        if self._offsets != self.session.scene.offsets:
            self._offsets = [*self.session.scene.offsets]
            self.finder.shifted()
            self.searching.mark()
            self.marks.mark()
            self.drawing.changed()

    @property
    def is_settled(self) -> bool:
        """Whether the timeline, the hits and the panel are those of the last key."""
        working = self.finder.running or self.supposing.pending or self.contents.computing
        return not (self.drawing.is_pending or working or self._panel_timer)

    def _selected(self, width: int, linked: bool) -> str:
        """What is selected in ``width`` columns; where it is ``linked`` also where its link leads."""
        if self.explorer.state.selection is None and self.explorer.state.range is None:
            return ""
        opened = self.panel.is_open("details")
        return selection_line(self.session, self.explorer, width, linked, opened, self.walk.origin())

    def rest(self) -> None:
        """Let the panel follow what was drawn last, once after each change."""
        if self._panel_timer is None:
            return
        self._panel_timer.stop()
        self._panel_timer = None
        self._line.select(partial(self._selected, linked=True))
        if self.contents.has_news():
            self.show_head(anew=False)
            self.contents.fill()
            self.on_timeline_fitted()
        collect_at_rest()
