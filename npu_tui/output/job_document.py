"""The report about a job as a document: verdict, findings, pictures, ranks, collectives, links, clocks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from npu_tui.jobs import tables
from npu_tui.jobs.finding import advised
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import CLUSTER
from npu_tui.jobs.part_tables import EXPERT_LAYERS, EXPERT_RANKS, JOB_OWNERS, PIPELINES, ROLE_STEPS, ROLES, STAGES
from npu_tui.jobs.pipeline import PARTS
from npu_tui.load.roles import replica_of
from npu_tui.output.document import (
    Block,
    Cell,
    Code,
    Document,
    Finding,
    Findings,
    Heading,
    Items,
    Paragraph,
    Table,
    first_owners,
    rendered,
    time_cell,
)
from npu_tui.output.experts_report import experts_part
from npu_tui.output.job_report import JobPathPart, JobReport
from npu_tui.profile.table import Record, declared_tables
from npu_tui.strings import say
from npu_tui.trace.text import share_text

RANKS = 16
"""Rows of a table that a terminal or an issue gets: all ranks of two hosts."""
_MOST_LINKS = 8
_TOLD = 1e-3
"""Share of a step from which a part of it is told."""


def job_document(report: JobReport, job: Job | None = None, pictures: bool = True) -> Document:
    """What ``report`` says; with the ``job`` that it is about, late ranks without files too, and ``pictures``."""
    blocks: list[Block] = [Paragraph((_job_coverage(report),), "faint"), Paragraph(tuple(report.verdict), "verdict")]
    path = report.critical_path
    if path is not None and path.sentence is not None:
        blocks.append(Paragraph((path.sentence,), "verdict"))
    if report.findings:
        findings = tuple(job_finding(report, number, row) for number, row in enumerate(report.findings, 1))
        blocks.append(Findings(say("job.findings"), None, findings, frozenset(range(1, len(findings) + 1))))
    if job is not None and pictures:
        from npu_tui.jobs.heat import telling_metric
        from npu_tui.output.job_pictures import job_pictures  # text and Markdown have none

        first = next((row for row in report.findings[:1] if row.severity != "info"), None)
        known = {profile.rank for profile in job.ranks}
        blocks += job_pictures(job, "own" if first is None else telling_metric(first.id, first.ranks, known))
    if report.pipelines:
        blocks += [Heading(say("pipeline.title")), Paragraph((_pipelines_told(report),))]
    if path is not None and path.owners:
        blocks.append(_path_owners(path))
    found = [
        *_pipelines(report),
        *_role_tables(report),
        _rank_table(report, job),
        *_expert_tables(report),
        _waited_collectives(report),
    ]
    blocks += [table for table in found + _others(report) if table.rows]
    blocks += experts_part(report.expert_files)
    if report.links:
        blocks += [Heading(say("job.links")), Items(tuple(_link_lines(report)))]
    # Roles are put on one clock by their hosts, and the output of a cluster analysis has no times.
    bare = report.source.kinds == [CLUSTER]
    rows = [row for row in report.clock if not (bare or row.role) or row.method not in ("none", "reference")]
    if rows:
        blocks.append(_clock_table(rows))
    reasons = [row.reason for row in report.not_checked]
    if path is not None and path.reason is not None:
        reasons.append(say("job.path.untold", reason=path.reason))
    if reasons:
        blocks += [Heading(say("report.not_checked")), Items(tuple(reasons))]
    blocks.append(Code((f"npu-tui {shlex.quote(report.source.path)}",)))
    return Document(f"npu-tui: {report.source.path}", blocks)


def _job_coverage(report: JobReport) -> str:
    """How much of the job was read."""
    steps = say("job.no_steps")
    if report.steps and report.steps != [""]:
        first, last = report.steps[0], report.steps[-1]
        steps = say("job.steps.one", step=first) if first == last else say("job.steps", first=first, last=last)
    count, hosts = report.source.ranks, len({host.id for host in report.hosts})
    ranks = say("job.on_hosts", ranks=count, hosts=hosts) if hosts else say("job.no_hosts", ranks=count)
    if report.roles:
        named = {replica_of(row.role)[0] for row in report.rank_table if row.role}
        ranks = say("job.head.roles", roles=max(len(named), len(report.roles)), ranks=ranks)
    return say("job.head", ranks=ranks, traces=report.source.traces, steps=steps)


def job_finding(report: JobReport, number: int, row: Record) -> Finding:
    """A finding with what to do about it, and why the rank is slow where it names one alone."""
    slow = row.ranks if row.id == "RANK.SLOW" else []
    why: list[str] = next((rank.why for rank in report.rank_table if [rank.rank] == slow), [])
    notes = (say("job.why", why=" · ".join(why)),) if why else ()
    advice = tuple(filter(None, (advised(row.id),)))
    return Finding(number, row.id, row.severity, row.title, "", row.detail, advice=advice, notes=notes)


def _pipelines_told(report: JobReport) -> str:
    """How the mean step of the pipelines is made up, in one sentence."""
    count, first = len(report.pipelines), report.pipelines[0]
    mean = {name: 1e3 * sum(getattr(row, f"{name}_us") for row in report.pipelines) / count
            for name in (*PARTS, "length", "bubble")}  # fmt: skip
    parts = [
        say("pipeline.part", part=say(f"column.{name}"), time=mean[name])
        for name in PARTS[1:]
        if abs(mean[name]) >= _TOLD * mean["length"]
    ]
    return say(
        "pipeline.told", schedule=say(f"pipeline.schedule.{first.schedule}"), stages=first.stages,
        micro=first.micro_batches, length=mean["length"], bubble=mean["bubble"], share=mean["bubble"] / mean["length"],
        parts=parts,
    )  # fmt: skip


def _pipelines(report: JobReport) -> Iterator[Table]:
    """The stages, and each step of each pipeline; of many the longest."""
    yield rendered(STAGES, report.stages, ranks=lambda row: Cell(" ".join(map(str, row.ranks))))
    table = rendered(PIPELINES, report.pipelines, pipeline=lambda row: Cell("-".join(map(str, row.ranks))))
    yield replace(table, weights=tuple(row.length_us for row in report.pipelines))


def _role_tables(report: JobReport) -> Iterator[Table]:
    """The roles, and every one in every step."""
    yield rendered(ROLES, report.roles, waits_for=_waits_for, waited=_waited_cell)
    yield rendered(ROLE_STEPS, report.role_steps)


def _waits_for(row: Record) -> Cell:
    """The role that is waited for; nothing where none is, which is no more unknown than the cards are."""
    return Cell(row.waits_for or ("" if row.waits_us is not None else say("report.unknown")), name=bool(row.waits_for))


def _waited_cell(row: Record) -> Cell:
    return time_cell(row.waited_us) if row.waits_for or row.waits_us is None else Cell("")


def _path_owners(path: JobPathPart) -> Table:
    """Whose the path of the job is, by rank: those with most time, the others in one row, so that they add up."""
    rows = first_owners(path.owners, "on_path_us ratio", "rank gain_us")
    table = rendered(JOB_OWNERS, rows, "job_owners", True, rank=_holder_cell)
    return replace(table, sortable=False)


def _holder_cell(row: Record) -> Cell:
    return Cell("") if row.rank is None else _rank_cell(row)


def _rank_cell(row: Record) -> Cell:
    return Cell(say("job.rank", rank=row.rank), row.rank)


def _rank_table(report: JobReport, job: Job | None) -> Table:
    """All ranks, and what the others tell of missing ones; those first whose repair saves most."""
    rows = [*report.rank_table, *([] if job is None else _absent(job))]
    rows.sort(key=lambda row: (-(row.gain_us or 0), -(row.own_excess_us or 0), row.rank))
    exposed = any(row.job_waits_exposed_us is not None for row in rows)
    steps = max(len(report.steps), 1)  # the rows have sums over all of them

    def told(row: Record, us: float | None) -> Cell:
        # Where there are no collectives, nothing stands for what these tell.
        if us is None and not row.collectives:
            return Cell("")
        return time_cell(None if us is None else us / steps)

    def not_hidden(row: Record) -> Cell:
        # A rank that the job never waits for hides nothing; one that no trace tells of is unknown.
        return told(row, 0.0 if row.job_waits_us == 0 else row.job_waits_exposed_us) if exposed else Cell("")

    table = rendered(
        tables.RANKS,
        rows,
        rank=_rank_cell,
        own=lambda row: told(row, row.own_excess_us),
        waits=lambda row: told(row, row.job_waits_us),
        saves=lambda row: told(row, row.gain_us),
        last=_came_last,
        waits_exposed=not_hidden,
        why=lambda row: Cell(say("list.comma").join(row.why)),
    )
    return replace(table, more=lambda hidden: say("job.more_ranks", count=hidden))


def _absent(job: Job) -> list[Record]:
    """The ranks without files that others waited for."""
    rows = [row for part in job.parts for row in tables.RANKS.records(part, absent=part.missing)[len(part.ranks) :]]
    return [row for row in rows if row.came_last]


def _came_last(row: Record) -> Cell:
    if not row.collectives:
        return Cell("")
    share = row.came_last / row.collectives
    return Cell(f"{row.came_last}/{row.collectives} {share_text(share)}", share)


def _expert_tables(report: JobReport) -> tuple[Table, Table]:
    """The MoE layers that are waited for longest, and the ranks that spend most on theirs."""
    layers = rendered(EXPERT_LAYERS, report.expert_layers, slowest=lambda row: Cell(f"{row.slowest}", row.slowest))
    ranks = rendered(EXPERT_RANKS, report.expert_ranks)
    return (
        replace(layers, weights=tuple(row.job_waits_us for row in report.expert_layers)),
        replace(ranks, weights=tuple(row.work_us for row in report.expert_ranks)),
    )


def _waited_collectives(report: JobReport) -> Table:
    """The collectives that the ranks waited for, the longest first."""
    waited = sorted((row for row in report.collectives if row.second_us), key=lambda row: -row.second_us)
    return rendered(
        tables.COLLECTIVES,
        waited,
        type=lambda row: Cell(f"{row.type} {row.ordinal}", name=True),
        step=lambda row: Cell(say("job.in_step", step=row.step) if row.step else ""),
        last=lambda row: Cell(say("job.nobody") if row.last_rank is None else say("job.last", rank=row.last_rank)),
        ends=lambda row: Cell(say("job.spread", time=row.end_spread_us * 1e3), row.end_spread_us),
    )


_WRITTEN = ("pipelines", "stages", "roles", "role_steps", "rank_table", "expert_layers", "expert_ranks", "collectives",
            "clock")  # fmt: skip
"""The sections that are written in a way of their own."""


def _others(report: JobReport) -> list[Table]:
    """All other sections with columns of a page."""
    return [
        rendered(table, getattr(report, table.section))
        for table in declared_tables("npu_tui.jobs")
        if table.page and table.section and table.section not in _WRITTEN
    ]


def _link_lines(report: JobReport) -> Iterator[str]:
    """The links that stand out; the slowest one where none does."""
    slow = [link for link in report.links if link.verdict != "as_others"]
    slow = slow or sorted(report.links, key=lambda link: link.z)[:1]
    for link in slow[:_MOST_LINKS]:
        yield say(
            f"job.link.{link.verdict}",
            source=link.src,
            target=link.dst,
            transport=link.transport,
            type=link.type,
            speed=link.gb_s,
            expected=link.expected_gb_s,
        )


def _clock_table(rows: list[Record]) -> Table:
    """The clock of each rank; of many ranks those stay that are not tied, or are known the least."""
    table = rendered(tables.CLOCKS, rows, rank=_rank_cell, clock_offset=_offset, interval=_interval, known_by=_known_by)
    return replace(table, weights=tuple(np.inf if row.offset_us is None else row.error_us or 0 for row in rows))


def _offset(row: Record) -> Cell:
    if row.offset_us is None or row.error_us is None:
        return Cell("")
    return Cell(say("job.offset", offset=row.offset_us, error=row.error_us), row.offset_us)


def _interval(row: Record) -> Cell:
    """The interval that an offset certainly lies in; that of the reference is 0."""
    if row.offset_us is None or row.method == "reference" or row.low_us is None or row.high_us is None:
        return Cell("")
    return Cell(say("job.interval", low=row.low_us, high=row.high_us))


def _known_by(row: Record) -> Cell:
    """How a clock is known, and how it runs where it does not run as the reference's."""
    if row.offset_us is None:
        return Cell(say("job.method.none"))
    course = say("job.drifts", drift=row.drift_us_per_s) if row.drift_us_per_s else ""
    return Cell(say(f"job.method.{row.method}") + course)
