"""The main screen: headline, timeline, panel, status line, and the keys that drive them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from rich.text import Text
from textual.app import ComposeResult
from textual.geometry import Size
from textual.message import Message

from npu_tui.ingest.scanner.leaves import flatten
from npu_tui.job.blame import Blamed
from npu_tui.report.health import health_lines
from npu_tui.strings import say
from npu_tui.tui.actions.acts import acts_on
from npu_tui.tui.actions.in_job import InJob, apart_words
from npu_tui.tui.compared.head import ComparedHead
from npu_tui.tui.explore.asking import Asking
from npu_tui.tui.explore.completion import Candidate
from npu_tui.tui.explore.contents import Contents
from npu_tui.tui.explore.disabled import why_not
from npu_tui.tui.explore.examine import Examined, Measured, Remembered, examine
from npu_tui.tui.explore.finder import Finder, Found
from npu_tui.tui.explore.first_run import FirstRun
from npu_tui.tui.explore.notes import Notes
from npu_tui.tui.explore.palette import CommandProvider, Entry
from npu_tui.tui.explore.querying import Querying
from npu_tui.tui.explore.supposing import Supposed, Supposing
from npu_tui.tui.flags import Flags
from npu_tui.tui.heights import PANEL_FROM
from npu_tui.tui.hits import Hits
from npu_tui.tui.keys.commands import TAB_COMMAND, TAB_KEYS, VIEW_KEYS
from npu_tui.tui.keys.keymap import words_at_start
from npu_tui.tui.panel_screen import PanelScreen
from npu_tui.tui.session import Session
from npu_tui.tui.sheets.flag_sheet import Choice, FlagSheet
from npu_tui.tui.sheets.help import Focus
from npu_tui.tui.sheets.help_sheet import HelpSheet
from npu_tui.tui.sheets.sheet import Sheet
from npu_tui.tui.tabs.table.tab import Table
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.tui.widgets.prompt import Kind, Prompt
from npu_tui.tui.widgets.tab_line import TabLine
from npu_tui.tui.widgets.timeline import Timeline
from npu_tui.view.scene import Selected
from npu_tui.view.walk.explorer import Explorer
from npu_tui.view.walk.start import NO_TAB, Start, start_at
from npu_tui.view.walk.takeover import take_over


class MainScreen(PanelScreen):
    """Explores one session."""

    COMMANDS = {CommandProvider}  # noqa: RUF012 - Textual's own declaration

    class Leave(Message):
        """The user has seen enough."""

    class Back(Message):
        """The overview of the job is wanted again."""

    class Wanted(Message):
        """Timelines of other ranks of the job are wanted, with what a late one did in a collective selected."""

        def __init__(self, ranks: list[int], follow: tuple[Blamed, int] | None = None) -> None:
            self.ranks, self.follow = ranks, follow
            super().__init__()

    class StopLoading(Message):
        """The user does not want to wait for the rest of the trace."""

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
        self.explorer = Explorer(session.scene, 80, 20, flatten=flatten())
        super().__init__(Timeline(self.explorer, session.painter, terminal), Prompt())
        if session.picture is not None:
            self.head = ComparedHead(session.picture)
        self._start = start
        self._chosen = chosen
        self._notes_file = notes
        self._first_run = FirstRun(seen)
        self._go_to_hit = False
        self._arranged: Size | None = None
        self.notes = Notes(Flags(session.scene.traces[0], None), self.explorer, self._prompt)
        self._explore()

    def _explore(self) -> None:
        """Make what belongs to the session on screen."""
        session, explorer, panel, prompt = self.session, self.explorer, self._panel, self._prompt
        self.finder = Finder(session, self._work, self.post_message)
        self.contents = Contents(session, explorer, self.finder, panel, partial(self._work, group="panel"))
        self.supposing = Supposing(
            prompt, explorer, session.profiles, self._work, self.post_message, lambda: self.app.size.width
        )
        self.querying = Querying(prompt, self._ask)
        self.asking = Asking(prompt, explorer, self.notes, self.run_command, self.supposing.begin, self.querying)
        self._acts = {
            **acts_on(
                session,
                explorer,
                self.contents,
                self.finder,
                self.notes,
                panel,
                prompt,
                self.copy,
                self.whole,
                self.open_line,
            ),
            **{f"{TAB_COMMAND}{tab}": partial(self._press_tab, tab) for tab, _ in TAB_KEYS},
            **{view: partial(self._press_view, view) for view, _ in VIEW_KEYS},
            "flags": self._list_flags,
            "panel": self._toggle_panel,
            "panel_grow": self._grow_panel,
            "filter": self._filtering.ask,
            "escape": self._escape,
            "focus_next": self._focus_next,
            "command": self.asking.open,
            "palette": self._open_palette,
            "whatif": self.supposing.open,
            "sql": self.querying.open,
            "health": self._show_health,
            "help": self._show_help,
            "redraw": self.redraw,
            "quit": self._leave,
        }
        in_job = InJob(session, explorer, self._acts, lambda: self.post_message(self.Back()), self._want)
        self._acts = {**self._acts, **in_job.acts}

    def _want(self, ranks: list[int], follow: tuple[Blamed, int] | None) -> None:
        self.post_message(self.Wanted(ranks, follow))

    @property
    def hits(self) -> Hits:
        """The hits of the search."""
        return self.finder.hits

    def compose(self) -> ComposeResult:
        """Headline, bars, timeline, panel; prompt and status line below."""
        yield self.head.headline
        yield self.head.verdict
        yield self.head.bars
        yield self._timeline
        yield self._panel
        yield self._line
        yield self._prompt

    def on_mount(self) -> None:
        """Focus the lanes, and say what is wrong with the trace."""
        if not self.query(TabLine):
            return  # closed while it was mounted
        self.app.app_resume_signal.subscribe(self, lambda _: self.redraw())
        self._arrange(self.app.size)  # before the first layout, which then stays
        self.set_focus(self._timeline)
        if self.session.picture is not None:
            self._lanes_place = "compared"
            self._line.show_place(self._lanes_place)
            self.contents.open_tab("changes")
        self.contents.fill()
        if self.session.is_tables:
            self._panel.grow("full")
            self._panel.focus_content()
        self._look_through()

    def _look_through(self) -> None:
        """Go where the user wants to begin, add up the trace and find what is wrong, once all of the trace is there."""
        if not self.session.whole:
            return
        self.head.examined = 0
        self._work(partial(examine, self.session, self.post_message), "head")
        self._first_run.show(self._line, self.session)
        cut = [sum(trace.events.values()) for trace in self.session.scene.traces if trace.health.truncated]
        words = [*(say("health.truncated", events=events) for events in cut), *words_at_start()]
        if words:
            self.tell("   ".join(words))
        # Only the whole trace has a section in the file of flags.
        self.notes.flags.keep_in(self.session.scene.traces[0], self._notes_file)
        self.tell(self.notes.mark())
        if self.session.goal is not None:
            self.call_after_refresh(self._begin_at, self.session.goal)
        elif self._start is not None and not self.explorer.moved:
            self.call_after_refresh(self._start_at, self._start)

    def _begin_at(self, goal: Selected) -> None:
        """Select what the screen begins at; the lanes have their size now."""
        self.explorer.select(goal)
        self.tell(apart_words(self.session))
        self._timeline.changed()

    def _start_at(self, start: Start) -> None:
        """Show the place that was asked for; the lanes have their size now."""
        if start.tab and start.tab != NO_TAB:
            self.contents.open_tab(start.tab)
        elif start.tab and self._panel.is_shown:
            self._toggle_panel()
        failed = start_at(self.explorer, start)
        if start.search:
            self.finder.finish(start.search)
            self._show_hits()
        if failed:
            self.tell(say("open.failed", option=failed))
        self._timeline.changed()

    def replace_session(self, session: Session) -> None:
        """Explore ``session``, which holds more of the same trace, from where the user is now."""
        before, finder, owed = self.explorer, self.finder, self.contents.owed
        shift = before.scene.traces[0].start_ns - session.scene.traces[0].start_ns
        self.session, self.explorer = (
            session,
            Explorer(session.scene, before.state.viewport.width, 20, flatten=flatten()),
        )
        take_over(before, self.explorer)
        self._timeline.show_scene(self.explorer, session.painter)
        self.notes.move_to(self.explorer, shift)
        self._explore()
        self.contents.owed = owed
        self._arranged = None
        self.finder.begin(finder.text)
        finder.clear()
        self._arrange(self.size)
        self.contents.fill()
        self._look_through()

    def show_loading(self, words: str) -> None:
        """Show how far the loading is in place of the keys; nothing once it is done."""
        self._line.hold(words)

    def on_measured(self, event: Measured) -> None:
        """Show the times of a trace in bars."""
        if event.session is self.session:
            self.head.bars.learn(event.index, event.times)
            self._show_head()

    def on_remembered(self, event: Remembered) -> None:
        """Show the curves of memory of a trace."""
        if event.session is self.session and self.session.remember(event.index):
            self.explorer.widen()
            if self.session.is_tables and self._panel.is_full and self.app.size.height >= PANEL_FROM:
                self._panel.grow("normal")
            self._show_head()
            self._timeline.changed()

    def on_examined(self, event: Examined) -> None:
        """Show the findings of a trace; from the first one go to the finding that the user wants to begin with."""
        if event.session is not self.session:
            return
        self.session.learn(event.index, event.found)
        self.head.examined += 1
        self._show_head()
        self.contents.fill()
        if self.head.examined == 1 and self._start is not None and self._start.finding:
            self.tell(self.contents.show_finding(self._start.finding))
        if words := self.contents.pay():
            self.tell(words)
        self._timeline.changed()

    def on_resize(self) -> None:
        """Headline and panel follow the size of the terminal."""
        self._arrange(self.size)

    def _arrange(self, size: Size) -> None:
        if size == self._arranged:
            return
        self._arranged = size
        self._show_head()
        self._panel.fit(size.height)

    def _show_head(self) -> None:
        beside_lanes = self._panel.is_shown and not self._panel.is_full  # a whole page has room for the verdict
        self.head.show(self.session, self.explorer, self.app.size, beside_lanes)

    def _work(self, job: Callable[[], None], group: str) -> None:
        """Run ``job`` in a thread; it replaces the one of its ``group``."""
        # Without a description Textual would write down all columns that the job looks at.
        self.run_worker(job, thread=True, exclusive=True, group=group, description=group)

    # --- commands

    def run_command(self, command: str) -> None:
        """Run a command of the registry and show what it has to say."""
        self._first_run.used(command)
        offsets = list(self.session.scene.offsets)
        super().run_command(command)
        if offsets != self.session.scene.offsets:
            self._show_head()
            self.finder.shifted()
            self.explorer.state.hits = self.hits.starts
            self.notes.mark()
            self._timeline.changed()

    def _escape(self) -> None:
        """Close what is open, else clear, else deselect; from the panel back to the lanes."""
        if self._panel.is_full and self.explorer.rows:
            self._panel.grow("normal")
            self.contents.fill()
        elif self.focused is not self._timeline:
            self.set_focus(self._timeline)
        elif self.explorer.deselect():
            if not len(self.explorer.state.hits):
                self.finder.clear()
        elif not self.session.whole:
            self.post_message(self.StopLoading())
        elif self.session.job is not None or self._chosen:
            self.post_message(self.Back())

    def _leave(self) -> None:
        self.post_message(self.Leave())

    def why_not(self) -> Mapping[str, str]:
        """The commands that can do nothing just now, each with the reason in one line."""
        has_table = isinstance(self._panel.content, Table)
        return why_not(self.session, self.explorer, len(self.hits), len(self.notes.flags.all), has_table)

    def places(self) -> Iterable[Entry]:
        """Flags and lanes to go to (the palette asks for them)."""
        for place in self.asking.places():
            yield place.text, place.beside, partial(self._go, place)

    def _go(self, place: Candidate) -> None:
        place.run()
        self._timeline.changed()

    def _show_help(self) -> None:
        """Show all keys, and why some can do nothing just now."""
        focus: Focus = "lanes"
        if self._panel.has_focus_within:
            focus = "table" if self._panel.table.has_focus else "panel"
        self.app.push_screen(HelpSheet(focus, self.why_not()))

    def _show_health(self) -> None:
        """Show what of the traces could not be placed."""
        lines = [line for profile in self.session.profiles for line in health_lines(profile)]
        self.app.push_screen(Sheet(say("health.title"), Text("\n".join(lines))))

    def on_supposed(self, event: Supposed) -> None:
        """Show what the run would take, or why it cannot be told."""
        if event.error:
            self.tell(event.error)
            return
        if event.ghosts is not None:
            self.session.haunt(event.trace, list(event.ghosts))
            self.explorer.list.refold()
            self._timeline.changed()
        if event.title:
            self.app.push_screen(Sheet(event.title, Text("\n".join(event.lines))))

    def _ask(self, sql: str) -> None:
        """Show the answer to a query, with the focus on its rows."""
        self.contents.ask(sql)
        self._panel.focus_content()

    def _list_flags(self) -> str | None:
        """List the flags."""
        if not self.notes.flags.all:
            return say("flags.none")
        self.app.push_screen(FlagSheet(self.notes.flags), self._flag_chosen)
        return None

    def _flag_chosen(self, choice: Choice | None) -> None:
        self.tell(self.notes.mark())
        if choice is not None:
            (self.notes.go_to if choice.act == "go" else self.notes.edit)(choice.flag)
        self._timeline.changed()

    # --- prompt

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        """Count the hits, or show what may be meant, while typing."""
        if event.kind == "search":
            self.finder.begin(event.text)
            if not self.finder.running:
                self._show_hits()
        elif event.kind == "command":
            self.asking.complete(event.text)
        elif event.kind == "sql":
            self.querying.complete(event.text)
        elif event.kind == "filter":
            self._filtering.show(event.text)

    def on_prompt_asked(self, event: Prompt.Asked) -> None:
        """Show another candidate, or take over the one on show."""
        if self._prompt.kind not in ("command", "sql"):
            return
        asking = self.asking if self._prompt.kind == "command" else self.querying
        if event.wish != "take":
            asking.choose(1 if event.wish == "next" else -1)
        elif text := asking.taken():
            self._prompt.take(text)

    def obey(self, kind: Kind, text: str) -> None:
        """Go to the first hit, do what was asked, or keep the flag."""
        if kind == "command":
            self.tell(self.asking.obey(text))
            self._timeline.changed()
        elif kind == "flag":
            self.tell(self.notes.name(text))
            self._timeline.changed()
        elif kind == "whatif":
            self.supposing.begin(text)
        elif kind == "sql":
            self.querying.ask(text)
        elif kind == "filter":
            self._filtering.show(text)
            self._panel.table.focus()
        else:
            self.finder.finish(text)
            self._go_to_hit = True
            self._show_hits()

    def on_found(self, event: Found) -> None:
        """Show the hits that a search has found so far."""
        if self.finder.take(event):
            self._show_hits()

    def _show_hits(self) -> None:
        """Mark the hits, count them in the prompt, and after it go to the first one."""
        finder = self.finder
        self.explorer.state.hits = finder.hits.starts
        self.explorer.state.hit_masks = finder.hits.masks
        self._timeline.changed()
        if self._prompt.is_open:
            self._prompt.answer(finder.answer())
        elif self._go_to_hit and (len(finder.hits) or not finder.running):
            self._go_to_hit = False
            if len(finder.hits):
                self.run_command("hit_next")
                self.contents.open_tab("search", unfold=False)
            else:
                self.tell(finder.words())

    def on_timeline_pointed(self, event: Timeline.Pointed) -> None:
        """Go to the finding or flag that was clicked above the lanes, else put the cursor there."""
        if event.finding:
            self.tell(self.contents.show_numbered(int(event.finding)))
        else:
            self.tell(self.notes.point_at(event.start, event.end))
        self._timeline.changed()
