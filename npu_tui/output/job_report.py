"""The JSON document of a job."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Literal

import msgspec

from npu_tui.jobs import tables
from npu_tui.jobs.findings import JobFinding, job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import CLUSTER
from npu_tui.jobs.tables import CLOCKS, COLLECTIVES, FINDINGS, GROUPS, HEAT, HOSTS, LINKS, RANKS
from npu_tui.output.values import text
from npu_tui.profile.table import Record
from npu_tui.rules.model import MUCH_LOST
from npu_tui.strings import words
from npu_tui.trace.message import Message, message

if TYPE_CHECKING:  # the type of a row is made of the columns of its table
    ArrivalRow = Record
    ClockBend = Record
    ClockRow = Record
    CollectiveRow = Record
    FindingRow = Record
    GroupRow = Record
    HeatCell = Record
    HostRow = Record
    LinkRow = Record
    RankRow = Record
else:
    ClockRow, CollectiveRow, FindingRow, GroupRow, HeatCell, HostRow, LinkRow, RankRow = (
        table.row for table in (CLOCKS, COLLECTIVES, FINDINGS, GROUPS, HEAT, HOSTS, LINKS, RANKS)
    )
    ArrivalRow, ClockBend = tables.ArrivalRow, tables.ClockBend


class JobSource(msgspec.Struct):
    """Where the job lies: how many ``ranks`` and ``traces`` there are, and in which forms."""

    path: str
    ranks: int
    traces: int
    kinds: list[str]


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
    findings: list[FindingRow]
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
    findings = job_findings(job)
    kinds = sorted({profile.kind for profile in job.ranks})
    traces = sum(profile.has_trace for profile in job.ranks)
    return JobReport(
        source=JobSource(text(str(job.path)), len(job.ranks), traces, kinds),
        hosts=HOSTS.records(job),
        groups=GROUPS.records(job),
        steps=[text(step) for step in job.steps],
        verdict=words(verdict(job, findings)),
        clock=CLOCKS.records(job),
        rank_table=RANKS.records(job),
        heat=HEAT.records(job),
        collectives=COLLECTIVES.records(job),
        links=LINKS.records(job),
        missing=job.missing,
        findings=FINDINGS.records(job, findings=findings),
        not_checked=[words(reason) for reason in not_checked(job)],
    )


def verdict(job: Job, findings: list[JobFinding]) -> Message:
    """The dearest cause in a sentence; what was compared, where there is none."""
    if findings and findings[0].severity != "info":
        return findings[0].title
    if (loss := _unexplained(job)) is not None:
        return loss
    if not len(job.blamed):
        return message("job.verdict.nothing", ranks=len(job.ranks))
    return message("job.verdict.even", ranks=len(job.ranks), collectives=len(job.blamed))


def _unexplained(job: Job) -> Message | None:
    """The rank that spends most of its steps in exposed communication, where that is much and has no cause yet."""
    losses: list[tuple[float, int, int, int, int]] = []
    for profile in job.ranks:
        exposed, total = (sum(getattr(step, name) for step in profile.steps) for name in ("exposed", "total"))
        if total and exposed > MUCH_LOST * total:
            count, bubble = len(profile.steps), sum(step.bubble or 0 for step in profile.steps)
            losses.append((exposed / total, profile.rank, exposed // count, total // count, bubble // count))
    if not losses:
        return None
    share, rank, exposed, total, bubble = max(losses)
    if bubble:
        why = "bubble"
    elif all(profile.kind == CLUSTER for profile in job.ranks):
        why = "cluster"
    elif any(profile.level == 0 for profile in job.ranks):
        why = "level"
    elif all(profile.work is None for profile in job.ranks):
        why = "traces"
    else:
        why = "waits"
    args = {"rank": rank, "exposed": exposed, "total": total, "share": share}
    return message("job.verdict.unexplained", **args, why=message(f"job.unexplained.{why}", bubble=bubble))


def not_checked(job: Job) -> list[Message]:
    """What could not be known, and why."""
    reasons, cluster = list(job.broken), any(profile.kind == CLUSTER for profile in job.ranks)
    here = ".cluster" if cluster else ".gpu" if job.on_gpu else ""
    reasons += [problem for profile in job.ranks for problem in profile.problems]
    if len(job.ranks) < 2:
        reasons.append(message("job.one_rank"))
    elif not len(job.meetings):
        reasons.append(message(f"job.no_meetings{here}"))
    if cluster:
        reasons.append(message("job.cluster"))
    if job.layout is None and len(job.ranks) > 1:
        stages = any(job.stage(profile.rank) is not None for profile in job.ranks)
        known = stages and (cluster or job.on_gpu)
        reasons.append(message(f"job.no_layout{'.stages' if known else '.gpu' if job.on_gpu else ''}"))
    levels = {profile.level for profile in job.ranks if profile.level is not None}
    if len(levels) > 1:
        reasons.append(message("job.levels", levels=[str(level) for level in sorted(levels)]))
    if not job.links:
        reasons.append(message(job.no_links))
    return reasons
