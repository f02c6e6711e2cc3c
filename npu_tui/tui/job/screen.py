"""The screen of a job: verdict, heat map, one collective, tables; Enter goes into the timeline of a rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.message import Message
from textual.worker import get_current_worker

from npu_tui.ingest.errors import InputError
from npu_tui.ingest.opening import Opening, opening_of
from npu_tui.ingest.source.find import find_sources
from npu_tui.job.blame import Blamed
from npu_tui.job.opening import open_job, reads_traces
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.explore.completion import nearest_command
from npu_tui.tui.explore.palette import CommandProvider, Entry
from npu_tui.tui.explore.record import record
from npu_tui.tui.job.head import JobHead
from npu_tui.tui.job.map import JobMap
from npu_tui.tui.job.overview import Examined, Overview
from npu_tui.tui.job.panel import JobPanel
from npu_tui.tui.job.pictures import natural_lines
from npu_tui.tui.job.session import against, ranks_session
from npu_tui.tui.job.tables import JobRow, counts, job_table
from npu_tui.tui.key_screen import KeyScreen
from npu_tui.tui.keys.commands import BY_ID, JOB_TABS, TAB_COMMAND, Where, commands_of
from npu_tui.tui.session import Session
from npu_tui.tui.sheets.help import Focus
from npu_tui.tui.sheets.help_sheet import HelpSheet
from npu_tui.tui.sheets.sheet import Sheet
from npu_tui.tui.tabs.table.tab import Table
from npu_tui.tui.tabs.table.table_text import as_csv, as_text
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.tui.widgets.prompt import Prompt
from npu_tui.tui.widgets.tab_line import TabLine

_QUIT = ("q", "q!", "qa", "wq", "quit", "exit")
"""What people type to leave a program."""

MOST_STACKED = 16
"""Timelines that are opened together at most."""

Progress = Callable[[int, int], None]


class JobScreen(KeyScreen[JobMap]):
    """The job at ``path``: files beside the traces first, then, where they are few and small, the traces too."""

    COMMANDS = {CommandProvider}  # noqa: RUF012 - Textual's own declaration
    DEFAULT_CSS = "JobScreen.-page JobMap { display: none; }"
    where: ClassVar[Where] = "job"

    class Leave(Message):
        """The user has seen enough."""

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

        def __init__(self, openings: list[Opening], make: Callable[[Sequence[Profile]], Session]) -> None:
            self.openings, self.make = openings, make
            super().__init__()

    def __init__(
        self, path: Path, terminal: Terminal | None = None, traces: bool | None = None, cached: bool = True
    ) -> None:
        """With ``traces`` every trace is read after the first picture; with ``cached`` parsed copies are used."""
        super().__init__(JobMap(terminal or Terminal()), Prompt())
        self._path = path
        self._cached = cached
        self._traces = traces
        self.head = JobHead(str(path))
        self.panel = JobPanel()
        self.view: Overview | None = None
        self.is_whole = False
        self._filled: tuple[object, ...] | None = None
        self._filter_before = ""
        self._acts = self._all_acts()

    def _all_acts(self) -> dict[str, Callable[[], str | None]]:
        """What every command of this screen does."""
        return {
            "row_up": partial(self._move, -1),
            "row_down": partial(self._move, 1),
            "row_last": partial(self._move, 1 << 30),
            "rank_previous": partial(self._next_rank, -1),
            "rank_next": partial(self._next_rank, 1),
            "column_previous": partial(self._move_column, -1),
            "column_next": partial(self._move_column, 1),
            "collective_previous": partial(self._next_collective, -1),
            "collective_next": partial(self._next_collective, 1),
            "collective_worst": self._worst_collective,
            "mark_rank": self._mark,
            "open_rank": self._open,
            "extremes": self._open_extremes,
            "compare_ranks": self._compare,
            "metric": self._next_metric,
            "axis": self._next_axis,
            "job_group": self._next_scope,
            **{f"{TAB_COMMAND}{tab}": partial(self._press_tab, tab) for tab, _ in JOB_TABS},
            "panel": self._toggle_panel,
            "panel_grow": self._grow_panel,
            "sort_reverse": self._reverse,
            "filter": self._filter,
            "copy_text": partial(self._copy_table, as_text),
            "copy_csv": partial(self._copy_table, as_csv),
            "yank_view": self._copy_command,
            "escape": self._escape,
            "focus_next": self._focus_next,
            "command": self._ask,
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
        self._timeline.focus()
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
            sources = find_sources(self._path)
            job = open_job(self._path, False, told, beside_only=True)
            bare = any(profile.kind != "companions" and not profile.calls for profile in job.ranks)
            wanted = reads_traces(sources) if self._traces is None else self._traces
            more = bare or (wanted and any(source.files for source in sources))
            first = Examined(job)
            if not worker.is_cancelled:
                self.post_message(self.Ready(first, not more))
            if more and not worker.is_cancelled:
                again = open_job(self._path, self._traces)
                self.post_message(self.Ready(Examined(again), True))
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

    # --- walking

    def _now(self) -> Overview:
        assert self.view is not None
        return self.view

    def _move(self, rows: int) -> None:
        self._now().move(rows)

    def _next_rank(self, direction: int) -> str | None:
        found = self._now().next_rank(direction)
        return None if found else say("rank.last" if direction > 0 else "rank.first")

    def _move_column(self, direction: int) -> None:
        self._now().move_column(direction)

    def _next_collective(self, direction: int) -> str | None:
        view = self._now()
        if not view.next_collective(direction):
            return say("ranks.collective.last" if direction > 0 else "ranks.collective.first")
        return None

    def _worst_collective(self) -> str | None:
        return None if self._now().worst_collective() else say("ranks.collective.none")

    def _mark(self) -> str | None:
        view = self._now()
        marked = view.toggle()
        if marked is None:
            self._arrange()
            return None
        key = BY_ID["open_rank"].press
        return say("ranks.marked", ranks=sorted(view.marked), key=key) if view.marked else say("ranks.unmarked")

    def _next_metric(self) -> str:
        metric = self._now().next_metric()
        self._arrange()
        return say(f"ranks.metric.told.{metric}")

    def _next_axis(self) -> str:
        axis = self._now().next_axis()
        self._arrange()
        return say(f"ranks.axis.told.{axis}")

    def _next_scope(self) -> str:
        scope = self._now().next_scope()
        self._arrange()
        return say("ranks.scope.told", scope=scope.name)

    # --- timelines

    def _open(self) -> str | None:
        """Open the marked ranks, or the one under the cursor; a row of several opens itself."""
        view = self._now()
        row = view.rows[view.row] if view.rows else None
        if view.marked:
            return self._enter(sorted(view.marked))
        if row is not None and row.kind == "alike":
            return self._mark()
        return self._enter([view.rank])

    def _open_extremes(self) -> str | None:
        return self._enter(self._now().extremes())

    def _compare(self) -> str | None:
        """Hold the first rank, or the marked one, against the one under the cursor."""
        view = self._now()
        pair = view.marked[:2] if len(view.marked) > 1 else [*view.marked[:1], view.rank]
        if len(pair) < 2:
            pair = [self._like(view.rank), view.rank]
        if pair[0] == pair[1]:
            return say("ranks.compare.same", mark=BY_ID["mark_rank"].press)
        return self._enter(pair, compared=True)

    def _like(self, rank: int) -> int:
        """The rank with the median own work among those that do the same work as ``rank``."""
        view = self._now()
        key = view.job.peers_key(rank)
        peers = [own for own in view.job.sums if own.rank in view.examined.rows and view.job.peers_key(own.rank) == key]
        others = sorted((own for own in peers if own.rank != rank), key=lambda own: own.own)
        return others[(len(others) - 1) // 2].rank if others else rank

    def _enter(self, ranks: list[int], compared: bool = False) -> str | None:
        """Ask for the timelines of ``ranks``, as far as they have any."""
        kinds = {profile.rank: profile.kind for profile in self._now().job.ranks}
        there = [rank for rank in ranks if kinds.get(rank, "companions") != "companions"]
        if len(there) < len(ranks) and (compared or not there):
            away = [rank for rank in ranks if rank not in there]
            missing = all(rank not in kinds for rank in away)
            return say("ranks.no_files" if missing else "ranks.no_trace", ranks=away)
        if len(there) > MOST_STACKED:
            return say("ranks.too_many", count=len(there), most=MOST_STACKED)
        self.enter(there, compared)
        return None

    def enter(self, ranks: Sequence[int], compared: bool = False, follow: tuple[Blamed, int] | None = None) -> None:
        """Ask for the timelines of ``ranks``, which have traces; ``compared``: the second held against the first.

        ``follow`` is a collective and the rank that was waited for in it: what that did then is selected.
        """
        view = self._now()
        paths = {profile.rank: profile.path for profile in view.job.ranks}
        openings = [opening_of(paths[rank], self._cached) for rank in ranks]
        shown, late = follow or (view.job.blamed[view.collective] if view.collective >= 0 else None, None)
        make = partial(against, view.job, ranks) if compared else partial(ranks_session, view.job, ranks, shown, late)
        self.post_message(self.Entered(openings, make))

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
            self._timeline.focus()
        self._fill()

    def _grow_panel(self) -> str:
        self.panel.grow()
        self._fill()
        if self.panel.growth == "full":
            self.panel.focus_content()
        return say(f"panel.{self.panel.growth}")

    def on_data_table_row_selected(self) -> None:
        """Enter on a row: to its collective, ranks or rank; on the rank that is looked at, into its timeline."""
        row, view = self.panel.row_at_cursor(), self._now()
        if not isinstance(row, JobRow):
            return
        if row.collective is not None:
            view.show_collective(row.collective)
        elif row.scope is not None:
            view.show_scope(row.scope)
            self._arrange()
            self.tell(say("ranks.scope.told", scope=row.scope.name))
        elif row.rank is not None:
            if view.rank == row.rank and self.panel.tab == "job_ranks":
                self.tell(self._enter([row.rank]) or "")
            else:
                view.go_to_rank(row.rank)
                self.tell(say("ranks.at", rank=row.rank, key=BY_ID["open_rank"].press))
        self._timeline.changed()

    def on_rows_asked(self) -> None:
        """Space on a row: everything about it."""
        row, content, panel = self.panel.row_at_cursor(), self.panel.content, self.panel
        if row is None or not isinstance(content, Table):
            return
        title = say("told.row", tab=say(f"tab.{panel.tab}"), number=panel.table.cursor_row + 1)
        self.app.push_screen(Sheet(title, Text(row.told() if row.told is not None else record(content, row))))

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Name the keys of what has the focus; put the prompt away when something else takes it."""
        above, inside = event.widget.ancestors, self.panel in event.widget.ancestors
        self._line.show_place("job_table" if inside else "job")
        if self._prompt.is_open and self._prompt not in above:
            self._prompt.close()

    def _reverse(self) -> None:
        order = self.panel.order
        self.panel.sort(replace(order, falling=not order.falling))

    def _filter(self) -> str | None:
        if not isinstance(self.panel.content, Table):
            return say("panel.no_table")
        self._filter_before = self.panel.order.wanted
        self._prompt.open("filter", hint=say("filter.hint"))
        return None

    def _show_filtered(self, text: str) -> None:
        if text != self.panel.order.wanted:
            self.panel.sort(replace(self.panel.order, wanted=text))

    def _copy_table(self, form: Callable[[Table | None], list[str]]) -> str:
        content = self.panel.content
        lines = form(content if isinstance(content, Table) else None)
        if not lines:
            return say("panel.no_table")
        self.copy("\n".join(lines))
        return say("ranks.copied", count=len(lines) - 1)

    def _copy_command(self) -> str:
        import shlex

        command = f"npu-tui {shlex.quote(str(self._path))}"
        self.copy(command)
        return say("ranks.copied.command", command=command)

    # --- asking

    def _ask(self) -> None:
        self._prompt.open("command", hint=say("ranks.ask"))

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        """Filter while typing."""
        if event.kind == "filter":
            self._show_filtered(event.text)

    def on_prompt_entered(self, event: Prompt.Entered) -> None:
        """Do what was asked."""
        self.set_focus(self._timeline)
        if event.kind == "filter":
            self._show_filtered(event.text)
            self.panel.table.focus()
        elif event.kind == "command":
            self.tell(self._obey(event.text.strip()))
            self._timeline.changed()

    def on_prompt_closed(self) -> None:
        """Back to the pictures; a filter that was given up is what it was before."""
        if self._prompt.kind == "filter":
            self._show_filtered(self._filter_before)
        super().on_prompt_closed()

    def _obey(self, text: str) -> str:
        """Go to the rank or host that ``text`` names, or run the command."""
        view, lowered = self.view, text.lower()
        if lowered in _QUIT:
            self._leave()
            return ""
        if view is not None and lowered.isdecimal() and len(lowered) < 10:
            rank = int(lowered)
            if not view.go_to_rank(rank):
                return say("ranks.no_rank", rank=rank)
            return say("ranks.at", rank=rank, key=BY_ID["open_rank"].press)
        host = None if view is None else next((each for each in view.job.hosts if each.id == text), None)
        if view is not None and host is not None:
            view.show_scope(view.scope_of_host(host.id))
            self._arrange()
            return say("ranks.scope.told", scope=view.scope.name)
        own = {command.id: command for command in commands_of("job")}
        command = own.get(lowered.replace(" ", "_")) or next(
            (each for each in own.values() if each.title.lower() == lowered), None
        )
        if command is not None:
            self.run_command(command.id)
            return ""
        if not text:
            return ""
        near = nearest_command(text, own)
        return say("ranks.unknown", text=printable(text)) + (say("command.nearest", command=near) if near else "")

    # --- the program

    def _escape(self) -> str | None:
        if self.panel.is_full:
            self.panel.grow("normal")
            self._fill()
        elif self.focused is not self._timeline:
            self._timeline.focus()
        elif self.view is not None and self.view.back():
            self._arrange()
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

    def places(self) -> Iterable[Entry]:
        """The hosts to go to (the palette asks for them)."""
        for host in self.view.job.hosts if self.view is not None and len(self.view.job.hosts) > 1 else []:
            yield (
                printable(host.id),
                say("ranks.fact.ranks", ranks=len(host.ranks), hosts=1),
                partial(self._obey, host.id),
            )

    def _show_help(self) -> None:
        focus: Focus = "job_table" if self.panel.has_focus_within else "job"
        self.app.push_screen(HelpSheet(focus, self.why_not()))
