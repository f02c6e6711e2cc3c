"""The screen of a job: its tables, its map, and the way into a rank."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from textual import work
from textual.worker import get_current_worker

from npu_tui.jobs.blame import BlamedCollective
from npu_tui.load.errors import InputError
from npu_tui.load.load import opening_of
from npu_tui.output.job_report import verdict
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.commands import BY_ID, TAB_COMMAND, Where, asked
from npu_tui.tui.film import JobFilm, film_asked, film_without, first_with_film
from npu_tui.tui.footer import Place
from npu_tui.tui.heads import JobHead
from npu_tui.tui.job_map import JobMap, filled_lines, natural_lines
from npu_tui.tui.job_overview import Examined, Overview, Scope, compared_job, examined_jobs
from npu_tui.tui.job_tables import RARE_TABS, JobPanel, JobRow, counts, job_table
from npu_tui.tui.keymap import elsewhere
from npu_tui.tui.panel_screen import MOST_STACKED, PanelScreen
from npu_tui.tui.prompt import Kind
from npu_tui.tui.prompts import command_called, nearest_command
from npu_tui.tui.ranks import against, compared_session, ranks_session, second_side
from npu_tui.tui.session import settle
from npu_tui.tui.sheets import Focus
from npu_tui.tui.tabs.table import GAP, TabRow, TabTable
from npu_tui.tui.terminal.terminal import Terminal

if TYPE_CHECKING:
    from npu_tui.jobs.job import Job
    from npu_tui.jobs.path import JobPath
    from npu_tui.output.statement import Statement


_MOST_DIGITS = 10  # no rank that is typed has so many


class JobScreen(PanelScreen[JobMap]):
    """The job at ``path``: files beside the traces first, then, where they are few and small, the traces too."""

    where: ClassVar[Where] = "job"
    panel: JobPanel
    head: JobHead
    footers: tuple[Place, Place, Place] = ("job", "job_table", "job_table")
    focuses: ClassVar[tuple[Focus, Focus, Focus]] = ("job", "job_table", "job_table")

    def __init__(
        self,
        path: Path,
        terminal: Terminal | None = None,
        traces: bool | None = None,
        cached: bool = True,
        base: Path | None = None,
    ) -> None:
        """With ``traces`` every trace is read after the first picture; with ``cached`` parsed copies are used.

        With ``base`` the job is held against the one there.
        """
        super().__init__(
            JobMap(terminal or Terminal(), self.fill, lambda: self.run_command("open")), JobPanel(self._filled_above)
        )
        self.path = path
        self._base = base
        self._traces = traces
        self.head = JobHead(str(path))
        self.view: Overview | None = None
        self.is_chosen = False
        self.is_whole = False
        self._told: tuple[object, ...] | None = None
        self._cached = cached
        self._owes_film = False
        """Whether the film was asked for before there were findings."""

    def on_mount(self) -> None:
        """Begin to read."""
        self.app.app_resume_signal.subscribe(self, lambda _: self.redraw())
        self.head.show_loading(say("ranks.reading"))
        self._line.show_place("job")
        self.panel.share(self.app.size.height, self.app.size.height)
        self.set_focus(self.drawing)
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
                self.call_later(self._show_progress, done, count)

        try:
            if self._base is not None:
                self.call_later(self.show, compared_job(self._base, self.path, told), True)
                return
            for examined, whole in examined_jobs(self.path, self._traces, told, lambda: not worker.is_cancelled):
                if not worker.is_cancelled:
                    self.call_later(self.show, examined, whole)
                if whole and not worker.is_cancelled:
                    self._tell_path(examined.job)
        except InputError as error:
            if self.view is None:
                self.app.call_later(self.app.end_job, error)

    def _tell_path(self, job: Job) -> None:
        """Follow the critical path of ``job``, which reads traces again, beneath what is on screen; in a thread."""
        from npu_tui.jobs.path import job_path  # a walk needs the replay

        with suppress(InputError):  # a trace is gone meanwhile: opening it says so
            self.call_later(self._show_path, job, job_path(job))

    def _show_path(self, job: Job, path: JobPath) -> None:
        """Say where the path of ``job`` is, above the pictures."""
        if self.view is not None and self.view.whole.job is job:
            self.view.path = path
            self._arrange()

    def _show_progress(self, done: int, count: int) -> None:
        """Say how far the reading is."""
        if self.view is None:
            self.head.show_loading(say("job.reading", done=done, count=count))
        elif not self.is_whole:
            self._hold_reading(say("ranks.reading.of", done=done, count=count))

    def _hold_reading(self, how_far: str = "") -> None:
        """Say in the bottom line what is still being read, if anything, and ``how_far`` that is."""
        traced = self.view is None or self.view.has_traces
        reading = say("ranks.traces.reading" if traced else "ranks.kernels.reading")
        self._line.hold("" if self.is_whole else GAP.join(filter(None, (reading, how_far))))

    def show(self, examined: Examined, whole: bool = True) -> None:
        """Show a job; the user stays at the rank and the collective that he looks at."""
        before, self.is_whole = self.view, whole
        self.view = self.drawing.view = Overview(examined, whole)
        if before is not None:
            self._stay(before, self.view)
            if before.whole.job is self.view.whole.job:
                self.view.path = before.path
        elif examined.compared is not None:
            self.panel.tab = "job_changes"
        elif not examined.job.has_profiles:
            self.panel.tab = "job_experts"
            if not self._has_map:
                self.panel.grow("full")
        self._told = None
        if self.is_attached:
            self._begin()
            self.app.call_after_refresh(settle)  # the columns of the job stay
            if self._owes_film and whole:
                asked, self._owes_film = self.is_current, False
                if asked:
                    self.run_command("film")

    def _begin(self) -> None:
        """Show what is there of the job."""
        self._hold_reading()
        self._line.refuse([*self.why_not(), *([] if self._has_map else ["escape"])])
        if not self._has_map:
            self.panel.focus_content()
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
        above = self._head_rows + rows + 1 + sum(lines + 1 for lines in others if lines)
        self.panel.share(size.height, above, parts + 1 if parts else 0)
        self.drawing.changed()

    @property
    def _head_rows(self) -> int:
        return sum(line.rows for line in self.head.lines)

    def _filled_above(self, rows: int) -> int:
        """How many of ``rows`` the head and the pictures fill."""
        if self.view is None:
            return rows
        return (head := self._head_rows) + filled_lines(self.view, self.app.size.width, rows - head)

    def run_command(self, command: str) -> None:
        """Run a command and show what it leads to."""
        if self.view is None and command not in ("quit", "help", "redraw", "escape", "command"):
            return
        super().run_command(command)
        self.show_head()

    action_run = action_lanes_run = run_command

    def show_head(self, anew: bool = True) -> None:
        """Fill the lines above the pictures."""
        del anew
        if self.view is not None:
            self.head.show(self.view, self.app.size.width, self.app.size.height)

    def fill(self) -> None:
        """Show what the open tab says, if that has changed."""
        view, panel = self.view, self.panel
        if view is None or not panel.is_shown:
            return
        wanted = (view, panel.tab, view.scope, view.collective, tuple(view.marked))
        panel.show_tabs(counts(view), {})
        if wanted != self._told:
            same = self._told is not None and self._told[1] == panel.tab and panel.has_focus_within
            self._told = wanted
            content = job_table(view, panel.tab)
            panel.show(replace(content, at=None) if same and isinstance(content, TabTable) else content)

    @property
    def _has_map(self) -> bool:
        return self.view is None or self.view.has_map

    @property
    def overview(self) -> Overview:
        """The overview of the job, once it is read: ``run_command`` runs nothing before that needs it."""
        assert self.view is not None
        return self.view

    def say_again(self) -> None:
        """Say what is on screen again: the report of a job is written in one language."""
        if self.view is not None:
            self.show(Examined(self.view.whole.job, self.view.whole.compared), self.is_whole)
        self._line.show_keys()

    # --- into the timelines

    def open_here(self) -> str | None:
        """Open the marked ranks, or the one under the cursor; a row of several opens itself."""
        view = self.overview
        row = view.rows[view.row] if view.rows else None
        if view.marked:
            return self.open_ranks(sorted(view.marked))
        if row is not None and row.kind == "alike":
            return self.mark()
        compared, who = view.whole.compared, (view.job.role, view.rank)
        pair = [row for row in compared.ranks if (row.role, row.rank) == who] if compared is not None else []
        return self.open_pair(pair[0].base_rank, view.rank, view.job.role) if pair else self.open_ranks([view.rank])

    def open_pair(self, base: int, rank: int, role: str | None) -> str:
        """Ask for the timelines of ``rank`` of ``role`` and of ``base`` in the other job, compared; says why not."""
        compared = self.overview.whole.compared
        paths = []
        for job, number in zip(() if compared is None else compared.jobs, (base, rank), strict=False):
            profile = next(row for row in job.ranks if (row.role or None, row.rank) == (role, number))
            if not profile.has_trace:
                return say(profile.recorder.word("ranks.no_trace"), ranks=[number])
            if not profile.path.exists():
                return say("ranks.elsewhere", ranks=[number], path=str(profile.path))
            paths.append(profile.path)
        openings = [opening_of(path, self._cached) for path in paths]
        self.app.enter(openings, partial(compared_session, second_side))
        return ""

    def compare(self) -> str | None:
        """Hold the first rank, or the marked one, against the one under the cursor."""
        view = self.overview
        pair = view.marked[:2] if len(view.marked) > 1 else [*view.marked[:1], view.rank]
        if len(pair) < 2:
            pair = [view.like(view.rank), view.rank]
        if pair[0] == pair[1]:
            return say("ranks.compare.same", mark=BY_ID["mark"].press)
        return self.open_ranks(pair, compared=True)

    def open_ranks(self, ranks: list[int], compared: bool = False) -> str | None:
        """Ask for the timelines of ``ranks``, as far as they have any; returns why there are none."""
        profiles = {profile.rank: profile for profile in self.overview.job.ranks}
        traced = [rank for rank in ranks if rank in profiles and profiles[rank].has_trace]
        if len(traced) < len(ranks) and (compared or not traced):
            bare = [rank for rank in ranks if rank not in traced]
            missing = all(rank not in profiles for rank in bare)
            no_trace = self.overview.job.recorder.word("ranks.no_trace")
            return say("ranks.no_files" if missing else no_trace, ranks=bare)
        gone = [rank for rank in traced if not profiles[rank].path.exists()]
        if gone:  # a summary may lie on another machine than the profile it was made of
            return say("ranks.elsewhere", ranks=gone, path=str(profiles[gone[0]].path))
        if len(traced) > MOST_STACKED:
            return say("ranks.too_many", count=len(traced), most=MOST_STACKED)
        self.enter(traced, compared)
        return None

    def enter(
        self, ranks: Sequence[int], compared: bool = False, follow: tuple[BlamedCollective, int] | None = None
    ) -> None:
        """Ask for the timelines of ``ranks``, which have traces; ``compared``: the second held against the first.

        ``follow`` is a collective and the rank that was waited for in it: what that did then is selected.
        """
        view = self.overview
        paths = {profile.rank: profile.path_at(view.step) for profile in view.job.ranks}
        openings = [opening_of(paths[rank], self._cached) for rank in ranks]
        shown, late = follow or (view.job.blamed[view.collective] if view.collective >= 0 else None, None)
        begun = view.begun if list(ranks) == [view.rank] and follow is None else None
        whole = view.whole
        about = (finding.title for finding in whole.findings if set(ranks) & set(finding.ranks))
        thread = next(about, None) or verdict(whole.job, whole.findings)
        make = (
            partial(against, view.job, ranks)
            if compared
            else partial(ranks_session, view.job, ranks, shown, late, begun=begun, thread=thread)
        )
        self.app.enter(openings, make)

    def toggle_film(self) -> str | None:
        """Show the run without the finding under the cursor of the table, else the one gone to last.

        Where none was chosen, the first that has a film.
        """
        view, row = self.overview, self.panel.row_at_cursor()
        if not self.is_whole:  # what is not read yet may change the findings and their figures
            self._owes_film = True
            return say("film.then")
        number = row.finding if isinstance(row, JobRow) else None
        if not number and view.finding < 0 and not self.panel.has_focus_within:
            number = first_with_film(view.whole)
        number = max(view.finding, 0) if number is None else number
        return self._play(film_without(view.whole, number, self.app.size.height))

    def _play(self, film: JobFilm | str) -> str | None:
        """Load the timelines of ``film``, or say why there is none."""
        if isinstance(film, str):
            return film
        self.app.enter([opening_of(path, self._cached) for path in film.paths], film.make)
        return None

    # --- moving

    def mark(self) -> str | None:
        """Mark the rank under the cursor, or open a row of several."""
        view = self.overview
        marked = view.toggle()
        if marked is None:
            self._arrange()
            return None
        key = BY_ID["open"].press
        return say("ranks.marked", ranks=sorted(view.marked), key=key) if view.marked else say("ranks.unmarked")

    def next_rank(self, direction: int) -> str | None:
        """To the next (1) or previous (-1) rank by its number."""
        if self.overview.next_rank(direction):
            return None
        return say("rank.last" if direction > 0 else "rank.first")

    def next_collective(self, direction: int) -> str | None:
        """To the next (1) or previous (-1) collective."""
        if self.overview.next_collective(direction):
            return None
        return say("ranks.collective.last" if direction > 0 else "ranks.collective.first")

    def next_metric(self) -> str:
        """Show another metric."""
        metric = self.overview.next_metric()
        self._arrange()
        return say(f"ranks.metric.told.{metric}")

    def next_axis(self) -> str:
        """Show columns of another kind."""
        axis = self.overview.next_axis()
        self._arrange()
        return say(f"ranks.axis.told.{axis}")

    def next_scope(self) -> str:
        """Show the ranks of another group or host, or all."""
        return self._show_scope(self.overview.next_scope())

    def _show_scope(self, scope: Scope) -> str:
        """Show the ranks of ``scope``."""
        self.overview.show_scope(scope)
        self._arrange()
        return say("ranks.scope.told", scope=scope.name)

    # --- panel

    def open_tab(self, tab: str) -> str | None:
        """Open ``tab``; where the job has none of these, say why."""
        if self.view is not None and tab in RARE_TABS and tab not in counts(self.view):
            went = (elsewhere(key, "job") for key in BY_ID[f"{TAB_COMMAND}{tab}"].keys)
            return GAP.join(filter(None, (say(f"job.none.{tab}"), *went)))
        self.panel.open(tab)
        self.fill()
        return None

    def visit(self, row: TabRow) -> str:
        """To the collective, ranks or rank of ``row``; from the rank that is looked at into its timeline."""
        view = self.overview
        if not isinstance(row, JobRow):
            return ""
        if row.collective is not None:
            return self._open_collective(row.collective)
        if row.scope is not None:
            return self._show_scope(row.scope)
        if row.base is not None and row.rank is not None:
            return self.open_pair(row.base, row.rank, row.role)
        if row.role is not None:
            view.show_role(row.role)
            self._arrange()
            return say("ranks.axis.told.role")
        if row.finding is not None and self.overview.whole.findings[row.finding].role is not None:
            view.finding = row.finding - 1
            view.next_finding(1)
            self._arrange()
            return say("ranks.at", rank=view.rank, key=BY_ID["open"].press)
        if row.rank is not None:
            if view.rank == row.rank and self.panel.tab == "job_ranks":
                return self.open_ranks([row.rank]) or ""
            view.go_to_rank(row.rank)
            return say("ranks.at", rank=row.rank, key=BY_ID["open"].press)
        return ""

    def _open_collective(self, collective: int) -> str:
        """Open the timeline of the rank that came last to a collective, else of another that has one, with it selected.

        Without any timeline the pictures above show it.
        """
        view = self.overview
        view.show_collective(collective)
        last, paths = view.job.blamed[collective].last, {rank.rank: rank for rank in view.job.ranks}
        ranks = [*([] if last is None else [last]), *view.examined.source.ranks_of(collective)]
        traced = (rank for rank in ranks if rank in paths and paths[rank].has_trace and paths[rank].path.exists())
        if (rank := next(traced, None)) is None:
            return say("ranks.no_trace", ranks=ranks[:1])
        self.enter([rank])
        return ""

    def yank_view(self) -> str:
        """Copy the command that opens this overview."""
        command = f"npu-tui {shlex.quote(str(self.path))}"
        if self._base is not None:
            command = f"npu-tui compare {shlex.join((str(self._base), str(self.path)))}"
        self.app.copy_to_clipboard(command)
        return say("ranks.copied.command", command=command)

    def next_finding(self, direction: int) -> str:
        """Go to the rank of the next (1) or previous (-1) finding, and show its row."""
        view, panel = self.overview, self.panel
        number, findings = view.next_finding(direction), view.report.findings
        if number is None:
            if not findings and not self.is_whole:
                return say("ranks.traces.reading")
            return say("ranks.finding.last" if findings else "ranks.finding.none")
        panel.open("job_findings")
        self.fill()
        own = (at for at, row in enumerate(panel.rows) if isinstance(row, JobRow) and row.finding == number)
        if (at := next(own, None)) is not None:
            panel.table.move_cursor(row=at, animate=False)
        self.set_focus(self.drawing)
        return say("ranks.finding", number=number + 1, count=len(findings), title=findings[number].title)

    # --- asking

    def ask(self) -> None:
        """Ask for a rank, a host or a command."""
        self.prompt.open("command", hint=say("ranks.ask"))

    def obey(self, kind: Kind, text: str) -> None:
        """Do what was asked."""
        self.tell(self._obeyed(text.strip()))
        self.drawing.changed()

    def _obeyed(self, text: str) -> str:
        """Go to the rank or host that ``text`` names, or run the command; returns what was done."""
        view = self.view
        if view is not None and text.isdecimal() and len(text) < _MOST_DIGITS:
            if not view.go_to_rank(int(text)):
                return say("ranks.no_rank", rank=int(text))
            return say("ranks.at", rank=int(text), key=BY_ID["open"].press)
        if view is not None and any(host.id == text for host in view.job.hosts):
            return self._show_scope(view.scope_of_host(text))
        word, _, rest = text.partition(" ")
        if view is not None and word.lower() == "whatif" and rest.strip():
            return self._play(film_asked(view.job, rest.split(";"), self.app.size.height)) or ""
        if (order := self.orders().get(word.lower())) is not None and rest.strip():
            order(rest.strip())
            return ""
        command = command_called(text, "job")
        if command is not None:
            self.run_command(command.id)
        if command is not None or not text:
            return ""
        if meant := asked(text, "job"):
            self.run_command(meant[0])
            return ""
        near = nearest_command(text, "job")
        return say("ranks.unknown", text=printable(text)) + (say("command.nearest", command=near) if near else "")

    # --- the program

    def statement(self) -> Statement | None:
        """The report about the job."""
        from npu_tui.output.statement import job_statement

        return None if self.view is None else job_statement(self.view.job)

    def escape(self) -> None:
        """Close what is open, else take back what is chosen, else leave for the list of profiles."""
        if self.panel.is_full and self._has_map:
            self.panel.grow("normal")
            self.fill()
        elif self.focused is not self.drawing and self._has_map:
            self.set_focus(self.drawing)
        elif self.view is not None and self.view.back():
            self._arrange()
        elif self.is_chosen:
            self.app.back()

    def why_not(self) -> Mapping[str, str]:
        """The commands that can do nothing just now, each with the reason in one line."""
        view = self.view
        if view is None:
            return {}
        checks = (
            (view.has_map, "ranks.map.none", "row_up row_down link_mode sides hits_only pan_left pan_right"),
            (view.has_traces, "ranks.fact.no_traces", "open align_sides extremes"),
            (view.collective >= 0, "ranks.collective.none", "slice_previous slice_next path"),
            (view.report.findings or not self.is_whole, "ranks.finding.none", "finding_next finding_previous"),
        )
        return {command: say(reason) for able, reason, commands in checks if not able for command in commands.split()}
