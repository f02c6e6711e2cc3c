"""The main screen: headline, timeline, panel, status line, and the keys that drive them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.message import Message
from textual.timer import Timer

from npu_tui.report.health import health_lines
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.actions import Actions
from npu_tui.tui.explore.asking import Asking
from npu_tui.tui.explore.contents import Contents
from npu_tui.tui.explore.finder import Finder, Found
from npu_tui.tui.explore.first_run import FirstRun
from npu_tui.tui.explore.flags import Flags
from npu_tui.tui.explore.head import Head
from npu_tui.tui.explore.hits import Hits
from npu_tui.tui.explore.notes import Notes
from npu_tui.tui.explore.palette import CommandProvider
from npu_tui.tui.explore.session import Session
from npu_tui.tui.keys.commands import TAB_COMMAND
from npu_tui.tui.keys.key_names import is_han
from npu_tui.tui.keys.keymap import words_at_start
from npu_tui.tui.sheets.help_sheet import help_of
from npu_tui.tui.sheets.key_screen import KeyScreen
from npu_tui.tui.sheets.sheet import Sheet
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.tui.widgets.bars import Bars
from npu_tui.tui.widgets.header import Headline, StatusLine
from npu_tui.tui.widgets.panel import Panel, TabLine
from npu_tui.tui.widgets.prompt import Prompt
from npu_tui.tui.widgets.timeline import Timeline
from npu_tui.tui.widgets.verdict import Verdict
from npu_tui.view.frame.painter import Painter
from npu_tui.view.walk.explorer import Explorer
from npu_tui.view.walk.start import NO_TAB, Start, start_at
from npu_tui.view.walk.takeover import take_over

_PANEL_SECONDS = 0.08
"""The panel follows the last key after this rest, as filling a table takes longer than a frame."""

_PANEL_HEIGHTS = ((45, 10), (36, 8))
_PANEL_FROM = 36
_PANEL_SMALL = 8


class MainScreen(KeyScreen):
    """Explores one session."""

    COMMANDS = {CommandProvider}  # noqa: RUF012 - Textual's own declaration

    class Leave(Message):
        """The user has seen enough."""

    def __init__(
        self,
        session: Session,
        terminal: Terminal | None = None,
        start: Start | None = None,
        notes: Path | None = None,
        seen: Path | None = None,
    ) -> None:
        """Opens at ``start``; flags are kept in the file ``notes``, without one only as long as the screen.

        Until the file ``seen`` is there, a line says what to press first.
        """
        super().__init__()
        self.session = session
        self._terminal = terminal
        self.head = Head(self)
        self.explorer = Explorer(session.scene, 80, 20)
        self.notes = Notes(self, Flags(session.scene.traces[0], None))
        self._start = start
        self._notes_file = notes
        self._first_run = FirstRun(seen)
        self.asking = Asking(self)
        self.finder = Finder(self, session)
        self._actions = Actions(self)
        self._go_to_hit = False
        self._pressed_tab = ""
        self._panel_timer: Timer | None = None
        self._panel_wanted: bool | None = None
        self._arranged: Size | None = None
        self.contents = Contents(self)
        self.cancel: Callable[[], None] | None = None

    @property
    def hits(self) -> Hits:
        """The hits of the search."""
        return self.finder.hits

    def compose(self) -> ComposeResult:
        """Headline, bars, timeline, panel; prompt and status line below."""
        yield Headline()
        yield Verdict()
        yield Bars()
        yield Timeline(self.explorer, Painter(self.session.scene), self._terminal)
        yield Panel()
        yield StatusLine()
        yield Prompt()

    def on_mount(self) -> None:
        """Focus the lanes, and say what is wrong with the trace."""
        if not self.query(TabLine):
            return  # closed while it was mounted
        self.app.app_resume_signal.subscribe(self, lambda _: self.redraw())
        self._arrange(self.app.size)  # before the first layout, which then stays
        self.query_one(Timeline).focus()
        self.contents.fill()
        self._look_through()

    def _look_through(self) -> None:
        """Go where the user wants to begin, add up the trace and find what is wrong, once all of the trace is there."""
        if self.cancel is not None:
            return
        self.head.examine()
        self._first_run.show(self.query_one(StatusLine), self.session)
        cut = [sum(trace.events.values()) for trace in self.session.scene.traces if trace.health.truncated]
        words = [*(say("health.truncated", events=events) for events in cut), *words_at_start()]
        if words:
            self.tell("   ".join(words))
        self.notes.flags.keep_in(self.session.scene.traces[0], self._notes_file)  # only the whole trace has a section
        self.notes.mark()
        if self._start is not None and not self.explorer.moved:
            self.call_after_refresh(self._start_at, self._start)

    def _start_at(self, start: Start) -> None:
        """Show the place that was asked for; the lanes have their size now."""
        panel = self.query_one(Panel)
        if start.tab and start.tab != NO_TAB:
            self.open_tab(start.tab)
        elif start.tab and not panel.has_class("-hidden"):
            self.toggle_panel()
        failed = start_at(self.explorer, start)
        if start.search:
            self.finder.finish(start.search)
            self._show_hits()
        if failed:
            self.tell(say("open.failed", option=failed))
        self.query_one(Timeline).changed()

    def examined(self, traces: int) -> None:
        """The findings of so many traces are there: go to the one that the user wants to begin with."""
        if traces == 1 and self._start is not None and self._start.finding:
            self.tell(self.contents.show_finding(self._start.finding))

    def replace_session(self, session: Session) -> None:
        """Explore ``session``, which holds more of the same trace, from where the user is now."""
        before, finder = self.explorer, self.finder
        shift = before.scene.traces[0].start_ns - session.scene.traces[0].start_ns
        self.session, self.explorer = session, Explorer(session.scene, before.state.viewport.width, 20)
        take_over(before, self.explorer)
        self.query_one(Timeline).show_scene(self.explorer, Painter(session.scene))
        self.notes.flags.shift(shift)
        self.notes.mark()
        self.asking.renew(shift)
        self.finder, self._actions = Finder(self, session), Actions(self)
        self.contents, self._arranged = Contents(self), None
        self.finder.begin(finder.text)
        finder.clear()
        self._arrange(self.size)
        self.contents.fill()
        self._look_through()

    def show_loading(self, words: str) -> None:
        """Show how far the loading is in place of the keys; nothing once it is done."""
        self.query_one(StatusLine).hold(words)

    def on_screen_suspend(self) -> None:
        """Another screen draws over this one."""
        self.query_one(Timeline).forget_shown()

    def on_screen_resume(self) -> None:
        """This screen is drawn again as a whole."""
        self.query_one(Timeline).forget_shown()

    def redraw(self) -> None:
        """Draw everything again, whatever the terminal shows now."""
        self.query_one(Timeline).forget_shown()
        self.refresh()

    def leave(self) -> None:
        """Ask the program to end."""
        self.post_message(self.Leave())

    def on_resize(self) -> None:
        """Headline and panel follow the size of the terminal."""
        self._arrange(self.size)

    def _arrange(self, size: Size) -> None:
        if size == self._arranged:
            return
        self._arranged = size
        self.head.show()
        height = next((rows for least, rows in _PANEL_HEIGHTS if size.height >= least), _PANEL_SMALL)
        panel = self.query_one(Panel)
        panel.styles.height = min(height, max(size.height // 2, 3))
        shown = size.height >= _PANEL_FROM if self._panel_wanted is None else self._panel_wanted
        panel.set_class(not shown, "-hidden")

    # --- commands

    def on_key(self, event: events.Key) -> None:
        """Say why keys do nothing while an input method takes them."""
        if is_han(event.character):
            self.tell(say("keys.input_method"))

    def run_command(self, command: str) -> None:
        """Run a command of the registry and show what it has to say."""
        super().run_command(command)
        self._first_run.used(command)
        words = None
        if command.startswith(TAB_COMMAND):
            self.press_tab(command.removeprefix(TAB_COMMAND))
        else:
            words = getattr(self._actions, command)()
        if words:
            self.tell(words)
        else:
            self.query_one(StatusLine).show_keys()
        self.query_one(Timeline).changed()

    def tell(self, words: str) -> None:
        """Show ``words`` in the status line."""
        self.query_one(StatusLine).say(words)

    def escape(self) -> None:
        """Close what is open, else clear, else deselect; from the panel back to the lanes."""
        timeline = self.query_one(Timeline)
        if self.focused is not timeline:
            timeline.focus()
        elif self.explorer.deselect():
            if not len(self.explorer.state.hits):
                self.finder.clear()
        elif self.cancel is not None:
            self.cancel()

    def show_help(self) -> None:
        """Show all keys, and why some can do nothing just now."""
        self.app.push_screen(help_of(self))

    def show_health(self) -> None:
        """Show what of the traces could not be placed."""
        lines = [line for profile in self.session.profiles for line in health_lines(profile)]
        self.app.push_screen(Sheet(say("health.title"), Text("\n".join(lines))))

    # --- prompt

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        """Count the hits, or show what may be meant, while typing."""
        if event.kind == "search":
            self.finder.begin(event.text)
            if not self.finder.running:
                self._show_hits()
        elif event.kind == "command":
            self.asking.complete(event.text)

    def on_prompt_asked(self, event: Prompt.Asked) -> None:
        """Show another candidate, or take over the one on show."""
        prompt = self.query_one(Prompt)
        if prompt.kind != "command":
            return
        if event.wish != "take":
            self.asking.choose(1 if event.wish == "next" else -1)
        elif text := self.asking.taken():
            prompt.take(text)

    def on_prompt_entered(self, event: Prompt.Entered) -> None:
        """Go to the first hit, do what was asked, or keep the flag."""
        self.set_focus(self.query_one(Timeline))
        if event.kind == "command":
            self.asking.obey(event.text)
        elif event.kind == "flag":
            self.asking.name_flag(event.text)
        elif event.kind == "filter":
            panel = self.query_one(Panel)
            panel.sort(replace(panel.order, wanted=event.text))
            panel.table.focus()
        else:
            self.finder.finish(event.text)
            self._go_to_hit = True
            self._show_hits()

    def on_found(self, event: Found) -> None:
        """Show the hits that a search has found so far."""
        if self.finder.take(event):
            self._show_hits()

    def _show_hits(self) -> None:
        """Mark the hits, count them in the prompt, and behind it go to the first one."""
        finder, prompt = self.finder, self.query_one(Prompt)
        self.explorer.state.hits = finder.hits.starts
        self.explorer.state.hit_masks = finder.hits.masks
        self.query_one(Timeline).changed()
        if prompt.is_open:
            prompt.answer(finder.answer())
        elif self._go_to_hit and (len(finder.hits) or not finder.running):
            self._go_to_hit = False
            if len(finder.hits):
                self.run_command("hit_next")
                self.open_tab("search", unfold=False)
            elif words := finder.words():
                self.tell(words)

    def on_prompt_closed(self) -> None:
        """Back to the lanes."""
        self.set_focus(self.query_one(Timeline))

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Put the prompt away when something else takes the focus; name the keys of what has it."""
        prompt, panel = self.query_one(Prompt), self.query_one(Panel)
        inside = panel in event.widget.ancestors
        self.query_one(StatusLine).show_place("lanes" if not inside else "table" if panel.table.has_focus else "text")
        if prompt.is_open and prompt not in event.widget.ancestors:
            prompt.close()

    def lane_names(self) -> list[tuple[str, tuple[int, int]]]:
        """Names of all lanes, folded away or not, each with (trace, lane)."""
        return [
            (printable(f"{trace.layers[lane.layer].name} / {lane.name}"), (index, lane.index))
            for index, trace in enumerate(self.session.scene.traces)
            for lane in trace.lanes
        ]

    def go_to_lane(self, place: tuple[int, int]) -> None:
        """Open what hides the (trace, lane) of ``place`` and move the cursor to it."""
        self.explorer.go_to_lane(*place)
        self.query_one(Timeline).changed()

    # --- panel

    def toggle_panel(self) -> None:
        """Show or hide the panel."""
        panel = self.query_one(Panel)
        self._panel_wanted = panel.has_class("-hidden")
        panel.set_class(not self._panel_wanted, "-hidden")
        if not self._panel_wanted:
            self.query_one(Timeline).focus()
        self.contents.fill()

    def press_tab(self, tab: str) -> None:
        """Open ``tab``; where it is open already, let it show the next thing it can."""
        panel = self.query_one(Panel)
        shown = panel.tab == tab and not panel.has_class("-hidden")
        if shown and self._pressed_tab == tab:
            self.contents.again(tab)
        self.open_tab(tab)
        self._pressed_tab = tab

    def open_tab(self, tab: str, unfold: bool = True) -> None:
        """Show ``tab``; with ``unfold`` also the panel, where it is hidden."""
        panel = self.query_one(Panel)
        if unfold and panel.has_class("-hidden"):
            self._panel_wanted = True
            panel.remove_class("-hidden")
        panel.tab = tab
        self._pressed_tab = ""
        self.contents.fill()

    def on_tab_line_chosen(self, event: TabLine.Chosen) -> None:
        """Open the tab that was clicked."""
        self.open_tab(event.tab)

    def on_timeline_pointed(self, event: Timeline.Pointed) -> None:
        """Go to the finding or flag that was clicked above the lanes, else put the cursor there."""
        found = self.contents.show_numbered(int(event.finding)) if event.finding else ""
        if words := found or self.notes.point_at(event.start, event.end):
            self.tell(words)

    def on_timeline_moved(self) -> None:
        """Fill the panel again after a rest."""
        if self._panel_timer is None:
            self._panel_timer = self.set_timer(_PANEL_SECONDS, self._rested)
        else:
            self._panel_timer.reset()

    def _rested(self) -> None:
        self._panel_timer = None
        self.head.show()
        self.contents.fill()

    def on_data_table_row_selected(self) -> None:
        """Enter or a click on a row: go there, and again to its next place."""
        row = self.query_one(Panel).row_at_cursor()
        if row is not None:
            self.contents.visit(row)

    def on_rows_asked(self) -> None:
        """Space: all there is to say about the row."""
        self.contents.tell()
