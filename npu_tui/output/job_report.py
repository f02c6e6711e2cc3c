"""The JSON document of a job."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Literal

import msgspec

from npu_tui.jobs import tables
from npu_tui.jobs.findings import JobFinding, job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.tables import CLOCKS, COLLECTIVES, GROUPS, HEAT, HOSTS, LINKS, RANKS
from npu_tui.output.values import text
from npu_tui.profile.table import Record, us
from npu_tui.strings import words
from npu_tui.trace.message import Message, message

if TYPE_CHECKING:  # the type of a row is made of the columns of its table
    ArrivalRow = Record
    ClockBend = Record
    ClockRow = Record
    CollectiveRow = Record
    GroupRow = Record
    HeatCell = Record
    HostRow = Record
    LinkRow = Record
    RankRow = Record
else:
    ClockRow, CollectiveRow, GroupRow, HeatCell, HostRow, LinkRow, RankRow = (
        each.row for each in (CLOCKS, COLLECTIVES, GROUPS, HEAT, HOSTS, LINKS, RANKS)
    )
    ArrivalRow, ClockBend = tables.ArrivalRow, tables.ClockBend


class JobSource(msgspec.Struct):
    """Where the job lies: how many ``ranks`` and ``traces`` there are, and in which forms."""

    path: str
    ranks: int
    traces: int
    kinds: list[str]


class JobEvidenceRow(msgspec.Struct):
    """Where a finding shows, on the device clock of the rank, ns since 1970."""

    rank: int
    start_ns: int
    end_ns: int


class JobFindingRow(msgspec.Struct):
    """What is wrong with the job."""

    id: str
    severity: str
    title: str
    detail: str
    ranks: list[int]
    gain_us: float | None
    evidence: list[JobEvidenceRow]


class JobReport(msgspec.Struct):
    """A job in numbers."""

    source: JobSource
    hosts: list[HostRow]
    groups: list[GroupRow]
    steps: list[str]
    verdict: str
    clock: list[ClockRow]
    rank_table: list[RankRow]
    heat: list[HeatCell]
    collectives: list[CollectiveRow]
    links: list[LinkRow]
    missing: list[int]
    findings: list[JobFindingRow]
    not_checked: list[str]
    schema_version: int = 1
    kind: Literal["ranks"] = "ranks"


def job_report(job: Job) -> JobReport:
    """All of ``job`` in numbers; titles and details are in the language in use."""
    collects = gc.isenabled()
    gc.disable()  # nothing of a report is cyclic, and a collection walks every collective
    try:
        return _report(job)
    finally:
        if collects:
            gc.enable()


def _report(job: Job) -> JobReport:
    found = job_findings(job)
    kinds = sorted({profile.kind for profile in job.ranks})
    traces = sum(profile.kind != "companions" for profile in job.ranks)
    return JobReport(
        source=JobSource(text(str(job.path)), len(job.ranks), traces, kinds),
        hosts=HOSTS.records(job),
        groups=GROUPS.records(job),
        steps=[text(step) for step in job.steps],
        verdict=words(verdict(job, found)),
        clock=CLOCKS.records(job),
        rank_table=RANKS.records(job),
        heat=HEAT.records(job),
        collectives=COLLECTIVES.records(job),
        links=LINKS.records(job),
        missing=job.missing,
        findings=[_finding(each) for each in found],
        not_checked=[words(each) for each in not_checked(job)],
    )


def verdict(job: Job, found: list[JobFinding]) -> Message:
    """The dearest cause in a sentence; what was compared, where there is none."""
    if found and found[0].severity != "info":
        return found[0].title
    if not len(job.blamed):
        return message("job.verdict.nothing", ranks=len(job.ranks))
    return message("job.verdict.even", ranks=len(job.ranks), collectives=len(job.blamed))


def not_checked(job: Job) -> list[Message]:
    """What could not be known, and why."""
    said = list(job.broken)
    said += [problem for profile in job.ranks for problem in profile.problems]
    if len(job.ranks) < 2:
        said.append(message("job.one_rank"))
    elif not len(job.meetings):
        said.append(message("job.no_meetings"))
    if job.layout is None and len(job.ranks) > 1:
        said.append(message("job.no_layout"))
    levels = {profile.level for profile in job.ranks if profile.level is not None}
    if len(levels) > 1:
        said.append(message("job.levels", levels=[str(level) for level in sorted(levels)]))
    if not job.links:
        said.append(message("job.no_links"))
    return said


def _finding(each: JobFinding) -> JobFindingRow:
    return JobFindingRow(
        each.id,
        each.severity,
        words(each.title),
        words(each.detail),
        list(each.ranks),
        None if each.gain is None else us(each.gain),
        [JobEvidenceRow(shown.rank, shown.start, shown.end) for shown in each.evidence],
    )
