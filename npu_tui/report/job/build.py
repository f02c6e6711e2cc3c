"""The report about a job, made of what was computed of it."""

from __future__ import annotations

import gc

from npu_tui.job.clock import Clock
from npu_tui.job.findings import JobFinding, job_findings
from npu_tui.job.job import Job
from npu_tui.report.job.schema import (
    ArrivalRow,
    Bound,
    ClockBend,
    ClockRow,
    CollectiveRow,
    GroupRow,
    HeatCell,
    HostRow,
    JobEvidenceRow,
    JobFindingRow,
    JobReport,
    JobSource,
    LinkRow,
    RankRow,
)
from npu_tui.report.values import text, us
from npu_tui.strings import words
from npu_tui.trace.message import Message, message


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
        hosts=[HostRow(text(host.id), list(host.ranks), host.boot) for host in job.hosts],
        groups=[GroupRow(text(group.name), group.kind, list(group.ranks)) for group in job.groups],
        steps=[text(step) for step in job.steps],
        verdict=words(verdict(job, found)),
        clock=[_clock(clock) for clock in job.clocks],
        rank_table=_ranks(job),
        heat=[
            HeatCell(rank, text(step), us(own), us(late)) for (rank, step), (own, late) in sorted(job.by_step.items())
        ],
        collectives=_collectives(job),
        links=[
            LinkRow(
                link.source,
                link.target,
                text(link.transport),
                text(link.type),
                round(link.size_mb * 1e6),
                round(link.speed, 3),
                round(link.expected, 3),
                round(link.score, 2),
                link.verdict,
            )
            for link in job.links
        ],
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


def _clock(clock: Clock) -> ClockRow:
    offset, error = (us(clock.offset), us(clock.error)) if clock.is_tied else (None, None)
    drift = round(clock.drift * 1e6, 3)
    bends = [ClockBend(after / 1e3, round(gained / 1e3, 3)) for after, gained in clock.bends]
    return ClockRow(clock.rank, offset, us(clock.low), us(clock.high), error, clock.method, drift, clock.edges, bends)


def _ranks(job: Job) -> list[RankRow]:
    shape, clock_of = job.shapes, {clock.rank: clock for clock in job.clocks}
    rows = []
    for profile, own in zip(job.ranks, job.sums, strict=False):  # those without files come after
        clock = clock_of[profile.rank]
        steps = profile.steps

        def mean(times: list[int]) -> float | None:
            return us(sum(times) / len(times)) if times else None

        rows.append(
            RankRow(
                profile.rank,
                text(job.host_of[profile.rank].id),
                mean([step.total for step in steps]),
                mean([step.computing for step in steps]),
                mean([step.exposed for step in steps]),
                mean([step.free for step in steps]),
                us(own.own),
                us(own.inherited),
                own.came_last,
                own.collectives,
                us(own.cost),
                None if own.exposed is None else us(own.exposed),
                None if own.gain is None else us(own.gain),
                shape.get(profile.rank),
                [words(each) for each in job.reasons[profile.rank]],
                us(clock.offset) if clock.is_tied else None,
            )
        )
    return rows


def _collectives(job: Job) -> list[CollectiveRow]:
    found, table = job.blamed, job.calls
    if not len(found):
        return []
    after = (found.start - found.start[found.first[:-1]][found.row]).tolist()
    bounds: list[Bound] = ["at_most" if at_most else "exact" for at_most in found.at_most.tolist()]
    arrivals = [
        ArrivalRow(found.ranks[rank], time / 1e3, bound)
        for rank, time, bound in zip(found.rank.tolist(), after, bounds, strict=True)
    ]
    kinds = [(text(group), text(kind), text(step)) for group, kind, step in table.kinds]
    rows = zip(
        found.met.kind[found.meeting].tolist(),
        found.met.ordinal[found.meeting].tolist(),
        found.last.tolist(),
        found.cost.tolist(),
        found.transfer.tolist(),
        found.spread.tolist(),
        found.first[:-1].tolist(),
        found.first[1:].tolist(),
        strict=True,
    )
    return [
        CollectiveRow(
            kinds[kind][2],
            kinds[kind][0],
            kinds[kind][1],
            ordinal,
            None if last < 0 else found.ranks[last],
            us(cost),
            us(transfer),
            us(spread),
            arrivals[low:high],
        )
        for kind, ordinal, last, cost, transfer, spread, low, high in rows
    ]


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
