"""The screen of a job: verdict, heat map, one collective, tables; Enter goes into the timeline of a rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace
from textual import events, work
from textual.app import ComposeResult
from textual.message import Message
from textual.worker import get_current_worker

from npu_tui.ingest.errors import InputError
from npu_tui.ingest.opening import Opening
from npu_tui.job.blame import Blamed
from npu_tui.strings import say
from npu_tui.tui.explore.palette import CommandProvider, Entry
from npu_tui.tui.job.asking import Asking
from npu_tui.tui.job.entering import Entering, Make
from npu_tui.tui.job.head import JobHead
from npu_tui.tui.job.map import JobMap
from npu_tui.tui.job.overview import Examined, Overview
from npu_tui.tui.job.panel import JobPanel
from npu_tui.tui.job.pictures import natural_lines
from npu_tui.tui.job.reading import examined_jobs
from npu_tui.tui.job.table_acts import TableActs
from npu_tui.tui.job.tables import JobRow, counts, job_table
from npu_tui.tui.job.walking import Walking
from npu_tui.tui.key_screen import KeyScreen
from npu_tui.tui.keys.commands import JOB_TABS, TAB_COMMAND, Where
from npu_tui.tui.sheets.help import Focus
from npu_tui.tui.sheets.help_sheet import HelpSheet
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.tui.widgets.prompt import Kind, Prompt
from npu_tui.tui.widgets.tab_line import TabLine


class JobScreen(KeyScreen[JobMap]):
    """The job at ``path``: files beside the traces first, then, where they are few and small, the traces too."""

    COMMANDS = {CommandProvider}  # noqa: RUF012 - Textual's own declaration
    DEFAULT_CSS = "JobScreen.-page JobMap { display: none; }"
    where: ClassVar[Where] = "job"

    class Leave(Message):
        """The user has seen enough."""

    class Back(Message):
        """The list that the job was chosen from is wanted again."""

    class Failed(Message):
        """Nothing at the path can be read."""

        def __init__(self, error: InputError) -> None:
            self.error = error
            super().__init__()

    class Advanced(Message):
        """``done`` of ``count`` ranks are read."""

        def __init__(self, done: int, count: int) -> None:
            self.done, self.count = done, count
            super().__init__()

    class Ready(Message):
        """The job was read and examined; ``whole`` if nothing more of it will be read by itself."""

        def __init__(self, examined: Examined, whole: bool) -> None:
            self.examined, self.whole = examined, whole
            super().__init__()

    class Entered(Message):
        """Timelines are wanted: those of ``openings``, of whose profiles ``make`` makes the session."""

        def __init__(self, openings: list[Opening], make: Make) -> None:
            self.openings, self.make = openings, make
            super().__init__()

    def __init__(
        self, path: Path, terminal: Terminal | None = None, traces: bool | None = None, cached: bool = True
    ) -> None:
        """With ``traces`` every trace is read after the first picture; with ``cached`` parsed copies are used."""
        super().__init__(JobMap(terminal or Terminal()), Prompt())
        self._path = path
        self._traces = traces
        self.head = JobHead(str(path))
        self.panel = JobPanel()
        self.view: Overview | None = None
        self.is_chosen = False
        self.is_whole = False
        self._filled: tuple[object, ...] | None = None
        self._walking = Walking(self._now, self._arrange)
        self._entering = Entering(self._now, self._walking.mark, self._want, cached)
        self._table = TableActs(self.panel, self._prompt, self.copy)
        self._asking = Asking(lambda: self.view, self._arrange, self.run_command)
        self._acts = self._all_acts()

    def _all_acts(self) -> dict[str, Callable[[], str | None]]:
        """What every command of this screen does."""
        return {
            **self._walking.acts(),
            **self._entering.acts(),
            **self._table.acts(),
            **{f"{TAB_COMMAND}{tab}": partial(self._press_tab, tab) for tab, _ in JOB_TABS},
            "panel": self._toggle_panel,
            "panel_grow": self._grow_panel,
            "yank_view": self._copy_command,
            "escape": self._escape,
            "focus_next": self._focus_next,
            "command": self._ask,
            "find_rank": self._ask,
            "finding_next": partial(self._next_finding, 1),
            "finding_previous": partial(self._next_finding, -1),
            "palette": self._open_palette,
            "redraw": self.redraw,
            "help": self._show_help,
            "quit": self._leave,
        }

    def compose(self) -> ComposeResult:
        """Head, pictures, panel; prompt and status line below."""
        yield self.head.headline
        yield self.head.verdict
        yield self.head.clock
        yield self._timeline
        yield self.panel
        yield self._line
        yield self._prompt

    def on_mount(self) -> None:
        """Begin to read."""
        self.app.app_resume_signal.subscribe(self, lambda _: self.redraw())
        self.head.show_loading(say("ranks.reading"))
        self._line.show_place("job")
        self.panel.share(self.app.size.height, self.app.size.height)
        self.set_focus(self._timeline)
        if self.view is None:
            self._read()
        else:
            self._begin()

    # --- reading

    @work(thread=True, exclusive=True, group="read")
    def _read(self) -> None:
        worker = get_current_worker()

        def told(done: int, count: int) -> None:
            if not worker.is_cancelled:
                self.post_message(self.Advanced(done, count))

        try:
            for examined, whole in examined_jobs(self._path, self._traces, told, lambda: not worker.is_cancelled):
                if not worker.is_cancelled:
                    self.post_message(self.Ready(examined, whole))
        except InputError as error:
            if self.view is None:
                self.post_message(self.Failed(error))

    def on_job_screen_advanced(self, event: Advanced) -> None:
        """Say how far the reading is."""
        if self.view is None:
            self.head.show_loading(say("job.reading", done=event.done, count=event.count))

    def on_job_screen_ready(self, event: Ready) -> None:
        """Show the job, where the user is if there was less of it on screen."""
        self.show(event.examined, event.whole)

    def show(self, examined: Examined, whole: bool = True) -> None:
        """Show a job; the user stays at the rank and the collective that he looks at."""
        before, self.is_whole = self.view, whole
        self.view = self._timeline.view = Overview(examined)
        if before is not None:
            self._stay(before, self.view)
        self._filled = None
        if self.is_attached:
            self._begin()

    def _begin(self) -> None:
        """Show what is there of the job."""
        self._line.hold("" if self.is_whole else say("ranks.traces.reading"))
        self._arrange()

    @staticmethod
    def _stay(before: Overview, now: Overview) -> None:
        """Look at what was looked at before more of the job was read."""
        now.marked = before.marked
        if before.chosen:
            now.metric, now.axis, now.chosen = before.metric, before.axis, True
        now.show_scope(before.scope if before.scope.ranks is not None else now.scope)
        now.opened = before.opened
        if before.row:
            now.go_to_rank(before.rank)

    # --- arranging

    def on_resize(self) -> None:
        """Everything follows the size of the terminal."""
        if self.view is not None:
            self._arrange()

    def _arrange(self) -> None:
        """Fill the head, share the height between pictures and panel, and fill the panel."""
        view, size = self.view, self.app.size
        if view is None:
            return
        self.head.show(view, size.width, size.height)
        rows, *others, parts = natural_lines(view, size.width)
        head = self.head.headline.rows + self.head.verdict.rows + self.head.clock.rows
        above = head + rows + 1 + sum(lines + 1 for lines in others if lines)
        self.panel.share(size.height, above, parts + 1 if parts else 0)
        self._timeline.changed()

    def on_job_map_moved(self) -> None:
        """The panel follows."""
        self._fill()

    def on_job_map_chosen(self) -> None:
        """A double click."""
        self.run_command("open_rank")

    def run_command(self, command: str) -> None:
        """Run a command and show what it leads to."""
        if self.view is None and command not in ("quit", "help", "redraw", "escape", "palette", "command"):
            return
        super().run_command(command)
        if self.view is not None:
            self.head.show(self.view, self.app.size.width, self.app.size.height)

    def _fill(self) -> None:
        """Show what the open tab says, if that has changed."""
        view, panel = self.view, self.panel
        if view is None or not panel.is_shown:
            return
        wanted = (view, panel.tab, view.scope, view.collective, tuple(view.marked))
        panel.show_tabs(counts(view), {})
        if wanted != self._filled:
            same = self._filled is not None and self._filled[1] == panel.tab
            self._filled = wanted
            content = job_table(view, panel.tab)
            panel.show(replace(content, at=None) if same and panel.has_focus_within else content)

    def _now(self) -> Overview:
        assert self.view is not None
        return self.view

    def enter(self, ranks: Sequence[int], follow: tuple[Blamed, int] | None = None) -> None:
        """Ask for the timelines of ``ranks``, as ``Entering.enter`` does."""
        self._entering.enter(ranks, follow=follow)

    def _want(self, openings: list[Opening], make: Make) -> None:
        self.post_message(self.Entered(openings, make))

    def places(self) -> Iterable[Entry]:
        """The hosts to go to (the palette asks for them)."""
        return self._asking.places()

    # --- panel

    def _press_tab(self, tab: str) -> None:
        if self.panel.is_open(tab):
            self.panel.focus_content()
            return
        self.panel.open(tab)
        self._fill()

    def on_tab_line_chosen(self, event: TabLine.Chosen) -> None:
        """Open the tab that was clicked."""
        self._press_tab(event.tab)

    def on_tab_line_dragged(self, event: TabLine.Dragged) -> None:
        """The panel begins where its line of tabs was dragged to."""
        self.panel.drag(self.app.size.height - 1 - event.y)

    def _toggle_panel(self) -> None:
        self.panel.toggle()
        if not self.panel.is_shown:
            self.set_focus(self._timeline)
        self._fill()

    def _grow_panel(self) -> str:
        self.panel.grow()
        self._fill()
        if self.panel.growth == "full":
            self.panel.focus_content()
        return say(f"panel.{self.panel.growth}")

    def on_data_table_row_selected(self) -> None:
        """Enter on a row: to its collective, ranks or rank; on the rank that is looked at, into its timeline."""
        self.tell(self._table.follow(self._now(), self._arrange, self._entering.open))
        self._timeline.changed()

    def on_rows_asked(self) -> None:
        """Space on a row: everything about it."""
        if (sheet := self._table.sheet()) is not None:
            self.app.push_screen(sheet)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Name the keys of what has the focus; put the prompt away when something else takes it."""
        above, inside = event.widget.ancestors, self.panel in event.widget.ancestors
        self._line.show_place("job_table" if inside else "job")
        if self._prompt.is_open and self._prompt not in above:
            self._prompt.close()

    def _copy_command(self) -> str:
        import shlex

        command = f"npu-tui {shlex.quote(str(self._path))}"
        self.copy(command)
        return say("ranks.copied.command", command=command)

    def _next_finding(self, direction: int) -> str:
        """Go to the rank of the next (1) or previous (-1) finding, and show its row."""
        view, panel = self._now(), self.panel
        number, findings = view.next_finding(direction), view.report.findings
        if number is None:
            if not findings and not self.is_whole:
                return say("ranks.traces.reading")
            return say("ranks.finding.last" if findings else "ranks.finding.none")
        panel.open("job_findings")
        self._fill()
        own = (at for at, row in enumerate(panel.rows) if isinstance(row, JobRow) and row.finding == number)
        if (at := next(own, None)) is not None:
            panel.table.move_cursor(row=at, animate=False)
        self.set_focus(self._timeline)
        return say("ranks.finding", number=number + 1, count=len(findings), title=findings[number].title)

    # --- asking

    def _ask(self) -> None:
        self._prompt.open("command", hint=say("ranks.ask"))

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        """Filter while typing."""
        if event.kind == "filter":
            self._table.filtering.show(event.text)

    def obey(self, kind: Kind, text: str) -> None:
        """Do what was asked."""
        if kind == "filter":
            self._table.filtering.show(text)
            self.panel.table.focus()
        elif kind == "command":
            self.tell(self._asking.obey(text.strip()))
            self._timeline.changed()

    def on_prompt_closed(self) -> None:
        """Back to the pictures; a filter that was given up is what it was before."""
        if self._prompt.kind == "filter":
            self._table.filtering.give_up()
        super().on_prompt_closed()

    # --- the program

    def _escape(self) -> str | None:
        if self.panel.is_full:
            self.panel.grow("normal")
            self._fill()
        elif self.focused is not self._timeline:
            self.set_focus(self._timeline)
        elif self.view is not None and self.view.back():
            self._arrange()
        elif self.is_chosen:
            self.post_message(self.Back())
        return None

    def _leave(self) -> None:
        self.post_message(self.Leave())

    def why_not(self) -> Mapping[str, str]:
        """The commands that can do nothing just now, each with the reason in one line."""
        view, reasons = self.view, {}
        if view is not None and not view.has_traces:
            for command in ("open_rank", "compare_ranks", "extremes"):
                reasons[command] = say("ranks.fact.no_traces")
        if view is not None and view.collective < 0:
            for command in ("collective_previous", "collective_next", "collective_worst"):
                reasons[command] = say("ranks.collective.none")
        return reasons

    def _show_help(self) -> None:
        focus: Focus = "job_table" if self.panel.has_focus_within else "job"
        self.app.push_screen(HelpSheet(focus, self.why_not()))
