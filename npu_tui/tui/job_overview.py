"""What the user looks at in a job: the metric, the axis, some ranks, one rank, one collective."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from npu_tui.jobs.against import JobComparison
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.heat import AXES, METRICS, Axis, Heat, HeatRow, HeatSource, Metric, heat_rows, metric_of_finding
from npu_tui.jobs.job import Job
from npu_tui.jobs.kept import is_kept
from npu_tui.jobs.opening import Progress, open_job, open_steps, reads_traces
from npu_tui.load.find import find_sources
from npu_tui.output.job_compare import compared_jobs
from npu_tui.output.job_report import JobReport, job_report
from npu_tui.rules.model import Finding
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.job_roles import PassWalk, RoleWalk

if TYPE_CHECKING:  # a walk needs the replay
    from npu_tui.jobs.path import JobPath

_OF_PIPELINES = ("RANK.STAGE", "PIPELINE.BUBBLE", "PIPELINE.TRANSFER")  # findings that passes show


class Scope(Struct, frozen=True):
    """Some ranks of the job, None for all of them, and the ``group`` whose collectives count, None for every one."""

    name: str
    ranks: frozenset[int] | None = None
    group: str | None = None


class Examined:
    """Everything about ``job`` that takes long, computed when it is made: a thread makes it.

    ``compared`` is what became of the job since another one, ``changes`` says it.
    """

    def __init__(self, job: Job, compared: JobComparison | None = None) -> None:
        self.job = job
        self.compared = compared
        self.changes = None if compared is None else compared_jobs(compared)
        self.findings: list[Finding] = job_findings(job)
        self.report: JobReport = job_report(job, path=False)
        self.parts: list[Examined] = [Examined(part) for part in job.parts] if len(job.parts) > 1 else [self]
        """The jobs of its roles; itself where it has no several."""
        self.source: HeatSource
        for part in self.parts:
            part.source = HeatSource(part.job, compared)
        self.rows = {row.rank: row for row in self.report.rank_table}
        self.clocks = {row.rank: row for row in self.report.clock}


GoesOn = Callable[[], bool]


def examined_jobs(
    path: Path, traces: bool | None, progress: Progress, goes_on: GoesOn
) -> Iterator[tuple[Examined, bool]]:
    """The job at ``path``, once or twice: by the files beside its traces, then with the traces where they are read.

    With each, whether nothing more comes. ``traces`` is as in ``open_job``. Raises ``InputError``.
    """
    if is_kept(path):
        yield Examined(open_job(path, progress=progress)), True
        return
    sources = find_sources(path)
    job = open_job(path, False, progress, beside_only=True)
    bare = any(profile.has_trace and not profile.calls for profile in job.ranks)
    wanted = reads_traces(sources) if traces is None else traces
    more = bare or wanted  # without traces the tables of kernels show more
    yield Examined(job), not more
    if more and goes_on():
        yield Examined(open_job(path, traces, progress)), True


def compared_job(base: Path, path: Path, progress: Progress) -> Examined:
    """The job at ``path`` against that at ``base``, by the files beside the traces. Raises ``InputError``."""
    before, job = open_steps(base, progress), open_steps(path, progress)
    return Examined(job, JobComparison(before, job))


class Overview:
    """Walks a job that is ``examined``; ``rank`` and ``collective`` (a number in ``Job.blamed``) are looked at.

    ``heat`` has the values of the ``metric`` over the ``axis``, ``rows`` are those of its map.
    """

    def __init__(self, examined: Examined, is_whole: bool = True) -> None:
        """Not ``is_whole``: more of the job is still being read, so that nothing stands out means nothing yet."""
        self.whole = examined
        self.examined = examined.parts[0]
        """The role that is looked at; the job itself unless it has several."""
        self.is_whole = is_whole
        self.path: JobPath | None = None
        """The critical path of the whole job, once it is known."""
        self.job = self.examined.job
        self.report = examined.report
        self.roles = RoleWalk(examined.job.roles)
        self._place = ""
        first = next((finding for finding in examined.findings[:1] if finding.severity != "info"), None)
        self.metric: Metric = "own" if first is None else metric_of_finding(first.id, first.ranks, examined.rows)
        if examined.compared is not None:
            self.metric = "change"
        self.chosen = False
        """Whether the user has chosen the metric or the axis."""
        self.axis: Axis = self._first_axis()
        self.scope = Scope(say("ranks.scope.all"))
        self.opened = False
        self.marked: list[int] = []
        self.row = 0
        self.column = 0
        self.finding = -1
        self.collective = self._worst()
        self.passes = PassWalk(self.job.pipelines)
        self._arrange()
        self._follow_collective()
        if first is not None and first.role is not None:
            self._show_role(first)
        elif examined.findings and examined.findings[0].id in _OF_PIPELINES:
            self._show_passes(examined.findings[0])

    @property
    def rank(self) -> int:
        """The rank under the cursor; in a row of several the first one."""
        return self.rows[self.row].ranks[0] if self.rows else self.job.ranks[0].rank

    @property
    def step(self) -> str:
        """The step that the cursor's column lies in."""
        if self.walk is not None:
            return self.walk.step
        columns = self.heat.columns
        return columns[self.column].step if columns else ""

    @property
    def walk(self) -> PassWalk | RoleWalk | None:
        """The lines of passes or of roles, where they are looked at in place of a heat map."""
        return self.passes if self.axis == "pipeline" else self.roles if self.axis == "role" else None

    def _first_axis(self) -> Axis:
        if self.roles.steps and (len(self.whole.parts) > 1 or len(self.whole.report.roles) > 1):
            return "role"
        return self._heat_axis

    @property
    def _heat_axis(self) -> Axis:
        return "step" if len(self.job.steps) > 1 else "collective"

    def arrivals(self) -> Heat:
        """How late the ranks came to the collectives of the step and group that are looked at."""
        group = self.scope.group
        if group is None and self.collective >= 0:
            group = self.examined.source.group_of(self.collective)
        return self.examined.source.heat("late", "collective", group, self.step)

    def like(self, rank: int) -> int:
        """The rank with the median own work among those that do the same work as ``rank``; itself where it is alone."""
        key = self.job.peers_key(rank)
        peers = [own for own in self.job.sums if own.rank in self.examined.rows and self.job.peers_key(own.rank) == key]
        others = sorted((own for own in peers if own.rank != rank), key=lambda own: own.own)
        return others[(len(others) - 1) // 2].rank if others else rank

    @property
    def has_traces(self) -> bool:
        """Whether any rank has a timeline to enter."""
        return any(profile.has_trace for profile in self.whole.job.ranks)

    @property
    def has_map(self) -> bool:
        """Whether there is anything to draw by rank: dumps of one rank, and placements, have nothing."""
        return self.job.has_profiles or bool(self.heat.columns)

    def _arrange(self, keep: int | None = None) -> None:
        """Make the rows again, with the cursor on rank ``keep``, where it is shown."""
        shown: Axis = "step" if self.walk is not None else self.axis
        self.heat = self.examined.source.heat(self.metric, shown, self.scope.group)
        self.rows = heat_rows(self.heat, self.scope.ranks, self.job.missing, self.opened)
        if self.walk is not None:  # a line is a stage or a role, whatever the scope
            self.rows = [
                HeatRow(ranks, np.zeros(0), "alike" if ranks[1:] else "rank") for ranks in self.walk.ranks(self.opened)
            ]
        self.row = min(self.row, max(len(self.rows) - 1, 0))
        self.column = min(self.column, max(self._columns() - 1, 0))
        if keep is not None:
            self.go_to_rank(keep)

    # --- walking

    def move(self, rows: int) -> None:
        """Move the cursor by ``rows`` rows."""
        before = self.row
        self.row = min(max(self.row + rows, 0), max(len(self.rows) - 1, 0))
        if self.axis == "pipeline":
            self.column = self.passes.beside(before, self.column, self.row)
        self._enter_role()

    def _enter_role(self, place: str | None = None) -> None:
        """Look at the ranks of the role ``place``, or of that under the cursor."""
        if place is None and self.axis == "role" and self.rows:
            place = self.roles.lines[self.row].spans[0].place
        self._place = place or self._place
        part = next((part for part in self.whole.parts if part.job.role == place), self.examined)
        if part is not self.examined:
            self.examined, self.job, self.marked = part, part.job, []
            self.passes = PassWalk(self.job.pipelines)
            self.scope = Scope(say("ranks.scope.all"))
            self.collective = self._worst()

    def show_role(self, role: str) -> None:
        """Look at the lanes, with the cursor on the first rank of ``role``."""
        self.axis = "role"
        self._arrange()
        self.row = next((at for at, line in enumerate(self.roles.lines) if line.role == role), 0)
        self._enter_role()

    def _show_role(self, finding: Finding) -> bool:
        """Look at the stint that a finding between roles shows, or at the ranks of the role of another one."""
        self._enter_role(finding.role)
        who = self.roles.shown_by(finding.evidence[0]) if finding.id.startswith("ROLE.") and finding.evidence else None
        self.axis = self._heat_axis if who is None else "role"
        self._arrange()
        if who is not None:
            self.row = self.roles.place_of(*who) or 0
            self._enter_role()
        return who is not None

    def _columns(self) -> int:
        """The columns of the map: those of the heat, the passes of the stage under the cursor, the steps of roles."""
        return len(self.heat.columns) if self.walk is None else self.walk.columns(self.row)

    @property
    def begun(self) -> int | None:
        """When the pass or stint under the cursor began, ns since 1970 on its device; None where there is none."""
        return self.walk.begun(self.row, self.column) if self.walk is not None and self.rows else None

    def _show_passes(self, finding: Finding) -> bool:
        """Look at the pass that a finding shows; False where it shows none."""
        place = self.passes.place_of(finding.evidence[0]) if finding.evidence else None
        if place is None:
            return False
        self.axis = "pipeline"
        self._arrange()
        self.row, self.column = place
        return True

    def go_to_rank(self, rank: int) -> bool:
        """Put the cursor on ``rank``, opening what hides it; False if the job, or the role, has no such rank."""
        if self.axis == "role":
            return self._go_in_role(rank)
        for again in (False, True):
            found = [row for row in self.rows if rank in row.ranks]
            if found and (len(found[0].ranks) == 1 or again or found[0].kind != "alike"):
                self.row = self.rows.index(found[0])
                return True
            if not found and self.scope.ranks is not None:
                self.scope = Scope(say("ranks.scope.all"))
            elif not found:
                return False
            self.opened = True
            self._arrange()
        return False

    def _go_in_role(self, rank: int) -> bool:
        """Put the cursor on ``rank`` of the role or replica that is looked at."""
        at = self.roles.place_of(self._place, rank)
        if at is not None and self.rows[at].ranks[0] != rank:
            self.opened = True
            self._arrange()
            at = self.roles.place_of(self._place, rank)
        self.row = self.row if at is None else at
        return at is not None

    def next_rank(self, direction: int) -> bool:
        """Go to the rank with the next (1) or previous (-1) number; False where there is none."""
        there = [
            profile.rank for profile in self.job.ranks if self.scope.ranks is None or profile.rank in self.scope.ranks
        ]
        beyond = [rank for rank in there if (rank > self.rank if direction > 0 else rank < self.rank)]
        return bool(beyond) and self.go_to_rank(min(beyond) if direction > 0 else max(beyond))

    def move_column(self, direction: int) -> None:
        """Go to the next column, and to the collective in it that was waited for the longest."""
        if self.axis == "pipeline":
            self._move_pass(direction)
            return
        if self.axis == "role":
            self._move_step(direction)
            return
        columns = self.heat.columns
        self.column = min(max(self.column + direction, 0), max(len(columns) - 1, 0))
        if columns and columns[self.column].collectives:
            self.collective = max(columns[self.column].collectives, key=self.job.blamed.cost.__getitem__)

    def _move_step(self, direction: int) -> None:
        """Look at another step of the roles, with the cursor on the same rank if it has a line there."""
        who = self.roles.held(self.row)
        self.roles.move_step(direction)
        self._arrange()
        at = None if who is None else self.roles.place_of(*who)
        self.row = self.row if at is None else at
        self._enter_role()

    def _move_pass(self, direction: int) -> None:
        """Go to another pass of the stage; after the last one comes the next step."""
        self.column += direction
        if not 0 <= self.column < self._columns():
            moved = self.passes.move_step(direction)
            self.column = 0 if moved == (direction > 0) else self._columns() - 1
            self._arrange()

    def show_column(self, column: int) -> None:
        """Put the cursor on ``column``."""
        self.move_column(column - self.column)

    def next_collective(self, direction: int) -> bool:
        """Go to the next (1) or previous (-1) collective of the scope in time; False where there is none."""
        at = self.collective
        while 0 <= (at := at + direction) < len(self.job.blamed):
            if self._holds(at):
                self.show_collective(at)
                return True
        return False

    def show_collective(self, number: int) -> None:
        """Look at collective ``number`` of ``Job.blamed``."""
        self.collective = number
        self._follow_collective()

    def worst_collective(self) -> bool:
        """Look at the collective of the scope that was waited for the longest; False where there is none."""
        worst = self._worst()
        if worst < 0:
            return False
        self.show_collective(worst)
        return True

    def _worst(self) -> int:
        there = [number for number in range(len(self.job.blamed)) if self._holds(number)]
        return max(there, key=self.job.blamed.cost.__getitem__, default=-1)

    def others(self) -> list[int]:
        """The other collectives of the scope that ranks waited for, from the longest wait on."""
        cost = self.job.blamed.cost
        there = (at for at in range(len(self.job.blamed)) if at != self.collective and cost[at] > 0 and self._holds(at))
        return sorted(there, key=lambda at: -cost[at])

    def _holds(self, number: int) -> bool:
        if self.scope.group is not None:
            return self.examined.source.group_of(number) == self.scope.group
        return self.scope.ranks is None or not self.scope.ranks.isdisjoint(self.examined.source.ranks_of(number))

    def _follow_collective(self) -> None:
        """Put the cursor on the column of the collective."""
        if self.walk is not None:
            return
        for number, column in enumerate(self.heat.columns):
            if self.collective in column.collectives:
                self.column = number
                return

    def next_finding(self, direction: int) -> int | None:
        """Go to the rank of the next (1) or previous (-1) finding; its number, None where there is none."""
        number = self.finding + direction
        if not 0 <= number < len(self.report.findings):
            return None
        self.finding = number
        found, ranks = self.whole.findings[number], self.report.findings[number].ranks
        if found.role is not None and self._show_role(found):
            return number
        if ranks and not (found.id in _OF_PIPELINES and self._show_passes(found)):
            self.go_to_rank(ranks[0])
        return number

    # --- choosing

    def next_metric(self) -> Metric:
        """Show the next metric that has any values."""
        if self.walk is not None:
            self.axis = self._heat_axis
        at = METRICS.index(self.metric)
        order = [*METRICS[at + 1 :], *METRICS[: at + 1]]
        telling = (metric for metric in order if self.examined.source.heat(metric, self.axis).columns)
        self.metric = next(telling, self.metric)
        self._choose()
        return self.metric

    def next_axis(self) -> Axis:
        """Show the next axis."""
        there = {"pipeline": bool(self.passes.lines), "role": bool(self.roles.steps)}
        axes = tuple(axis for axis in AXES if there.get(axis, True))
        self.axis = axes[(axes.index(self.axis) + 1) % len(axes)]
        self._choose()
        return self.axis

    def _choose(self) -> None:
        """Show the metric and the axis that the user has chosen; the cursor stays on a rank with a row for itself."""
        self.chosen = True
        row = self.rows[self.row] if self.rows else None
        self._arrange(row.ranks[0] if row is not None and len(row.ranks) == 1 else None)
        self._follow_collective()

    def scopes(self) -> list[Scope]:
        """All ranks, the groups of the rank under the cursor, and its host."""
        rank = self.rank
        found = [Scope(say("ranks.scope.all"))]
        for group in self.job.groups:
            if rank in group.ranks:
                found.append(self.scope_of_group(group.name))
        host = self.job.host_of.get(rank)
        if host is not None and host.known and len(self.job.hosts) > 1:
            found.append(self.scope_of_host(host.id))
        return found

    def scope_of_group(self, name: str) -> Scope:
        """The ranks and collectives of a group."""
        group = next(group for group in self.job.groups if group.name == name)
        return Scope(say("ranks.scope.group", group=self.group_name(name)), frozenset(group.ranks), group.name)

    def scope_of_host(self, id_: str) -> Scope:
        """The ranks of a host."""
        host = next(host for host in self.job.hosts if host.id == id_)
        return Scope(printable(id_), frozenset(host.ranks))

    def group_name(self, name: str) -> str:
        """What a group is called: its kind where that is known, and its ranks where they are few."""
        group = next((group for group in self.job.groups if group.name == name), None)
        if group is None:
            return printable(name)
        kind = group.kind or printable(name)[-6:]
        return f"{kind} ({' '.join(map(str, group.ranks))})" if len(group.ranks) <= 4 else f"{kind} ×{len(group.ranks)}"

    def next_scope(self) -> Scope:
        """The one of ``scopes`` that follows the present one."""
        scopes = self.scopes()
        at = scopes.index(self.scope) if self.scope in scopes else 0
        return scopes[(at + 1) % len(scopes)]

    def show_scope(self, scope: Scope) -> None:
        """Show the ranks of ``scope``."""
        keep = self.rank if self.rows and len(self.rows[self.row].ranks) == 1 else None
        self.scope, self.opened = scope, False
        self._arrange()
        if keep is not None and (scope.ranks is None or keep in scope.ranks):
            self.go_to_rank(keep)
        else:
            self.row = 0
        if self.collective < 0 or not self._holds(self.collective):
            self.collective = self._worst()
        self._follow_collective()

    def toggle(self) -> bool | None:
        """Open or close a row of several ranks, else mark the rank or take the mark back.

        Whether the rank is marked now; None where rows were opened or closed.
        """
        row = self.rows[self.row] if self.rows else None
        if row is None or row.kind == "missing":
            return None
        if row.kind == "alike":
            self.opened = True
            self._arrange(row.ranks[0])
            return None
        if self.rank in self.marked:
            self.marked.remove(self.rank)
            return False
        self.marked.append(self.rank)
        return True

    def back(self) -> bool:
        """Take back the marks, then the opened row, then the scope; False where there is nothing to take back."""
        if self.marked:
            self.marked = []
        elif self.opened:
            self.opened = False
            self._arrange()
        elif self.scope.ranks is not None:
            self.show_scope(Scope(say("ranks.scope.all")))
        else:
            return False
        return True

    def extremes(self) -> list[int]:
        """The slowest rank of the scope by its own work, the median one, and the fastest."""
        there = [own for own in self.job.sums if own.rank in self.examined.rows]
        if self.scope.ranks is not None:
            there = [own for own in there if own.rank in self.scope.ranks]
        order = [own.rank for own in sorted(there, key=lambda own: -own.own)]
        return list(dict.fromkeys([*order[:1], *order[len(order) // 2 : len(order) // 2 + 1], *order[-1:]]))
