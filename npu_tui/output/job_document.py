"""The report about a job as a document: verdict, findings, pictures, ranks, collectives, links, clocks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.graph import KINDS
from npu_tui.jobs import tables
from npu_tui.jobs.against import JobComparison
from npu_tui.jobs.finding import advised
from npu_tui.jobs.heat import SHADES, HeatRow, HeatSource, Metric, heat_rows, metric_of_finding
from npu_tui.jobs.job import Job
from npu_tui.jobs.part_tables import EXPERT_LAYERS, EXPERT_RANKS, JOB_OWNERS, PIPELINES, ROLE_STEPS, ROLES, STAGES
from npu_tui.jobs.passes import PipelineRun
from npu_tui.jobs.pipeline import PARTS
from npu_tui.jobs.roles import Roles, RoleSpan
from npu_tui.jobs.timelines import Bar, CollectiveWaterfall, waterfall
from npu_tui.load.roles import replica_of
from npu_tui.output.document import (
    Block,
    Box,
    Cell,
    Code,
    Document,
    Finding,
    Findings,
    Heading,
    Items,
    Paint,
    Paragraph,
    Picture,
    Shape,
    Table,
    Tip,
    first_owners,
    rendered,
    time_cell,
)
from npu_tui.output.job_report import JobPathPart, JobReport
from npu_tui.output.report_schema import experts_part
from npu_tui.output.svg import CELL_HEIGHT, CELL_WIDTH, row_shapes
from npu_tui.profile.table import Record, declared_tables
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.recorder import CLUSTER
from npu_tui.trace.text import cell_count, drawable, duration_text, padded, share_change_text, share_text, time_text
from npu_tui.view import palette

RANKS = 16
"""Rows of a table that a terminal or an issue gets: all ranks of two hosts."""
_MOST_LINKS = 8
_TOLD = 1e-3
"""Share of a step from which a part of it is listed."""


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
        first = next((row for row in report.findings[:1] if row.severity != "info"), None)
        known = {profile.rank for profile in job.ranks}
        blocks += job_pictures(job, "own" if first is None else metric_of_finding(first.id, first.ranks, known))
    if report.pipelines:
        blocks += [Heading(say("pipeline.title")), Paragraph((_pipelines_sentence(report),))]
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
    bare = report.source.kinds == [CLUSTER.kind]
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


def _pipelines_sentence(report: JobReport) -> str:
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
    """The stages, and each step of each pipeline; if many, the longest."""
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
    """The owners of the job's path by rank, most time first; the rest share a row, so that the rows add up."""
    rows = first_owners(path.owners, "on_path_us ratio", "rank gain_us")
    table = rendered(JOB_OWNERS, rows, "job_owners", True, rank=_holder_cell)
    return replace(table, sortable=False)


def _holder_cell(row: Record) -> Cell:
    return Cell("") if row.rank is None else _rank_cell(row)


def _rank_cell(row: Record) -> Cell:
    return Cell(say("job.rank", rank=row.rank), row.rank)


def _rank_table(report: JobReport, job: Job | None) -> Table:
    """All ranks, and what the others say of missing ones; the rank first whose repair saves most."""
    rows = [*report.rank_table, *([] if job is None else _absent(job))]
    rows.sort(key=lambda row: (-(row.gain_us or 0), -(row.own_excess_us or 0), row.rank))
    exposed = any(row.job_waits_exposed_us is not None for row in rows)
    steps = max(len(report.steps), 1)  # the rows have sums over all of them

    def told(row: Record, us: float | None) -> Cell:
        # Where there are no collectives, what these would say is left out.
        if us is None and not row.collectives:
            return Cell("")
        return time_cell(None if us is None else us / steps)

    def not_hidden(row: Record) -> Cell:
        # A rank that the job never waits for hides nothing; one without a trace is unknown.
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
    """The clock of each rank; with many ranks those stay that are not tied, or are known the least."""
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


_MOST_ROWS = 64
_MOST_COLUMNS = 60
_MOST_BARS = 16
_INKS = tuple(map(palette.bar, (OpClass.CUBE, OpClass.VECTOR, OpClass.COMMUNICATION, OpClass.OTHER)))
"""The inks of roles, one after the other; the first three are those of forward and backward passes and transfers."""
# Of a rank in a collective: its work, the part of it above its peers', its waiting, the transfer.
_PARTS: tuple[Paint, ...] = (_INKS[0], "excess", "free", _INKS[2])
_BAR = 900  # pixels of the longest bar


def job_pictures(job: Job, metric: Metric) -> Iterator[Block]:
    """The heat map of ``job`` in one ``metric``, and the collective that was waited for the longest."""
    if job.roles is not None:
        yield _role_lanes(job.roles)
    for part in job.parts:
        yield from map(_pass_rows, part.pipelines.longest)
        yield from heat_picture(part, metric)
        yield from _collective(part)


def _role_lanes(roles: Roles) -> Picture:
    """When every rank worked as which role, a line each, and how far it lies behind the median of its role."""
    inks = dict(zip(roles.by_role, cycle(_INKS), strict=False))
    late = {span: tail.median for tail in roles.tails for span in tail.last}
    who = list(dict.fromkeys(span.who for own in roles.by_role.values() for span in sorted(own, key=_by_rank)))
    lines: dict[tuple[str, int], list[_Part]] = {one: [] for one in who[:_MOST_ROWS]}
    for span in roles.spans:
        middle = min(max(late.get(span, span.end), span.start), span.end)
        for paint, low, high in ((inks[span.role], span.start, middle), ("excess", middle, span.end)):
            if span.who in lines and high > low:
                lines[span.who].append((low, high, paint, span.place))
    named = [(f"{place} {rank}", parts) for (place, rank), parts in lines.items()]
    return _timed(say("roles.lanes.title"), "roles", named)


def _pass_rows(run: PipelineRun) -> Picture:
    """The longest step of a pipeline by stages: passes and transfers over the bubble."""
    lines = []
    words = [say(f"pipeline.pass.{name}") for name in (*KINDS, "transfer")]
    for stage, rank in enumerate(run.ranks):
        parts: list[_Part] = []
        for at in np.flatnonzero(run.plan.stage == stage).tolist():
            kind, begun, end = int(run.plan.kind[at]), int(run.start[at]), int(run.end[at])
            if moved := int(run.transfer[at]):
                parts.append((begun - moved, begun, _INKS[2], words[2]))
            parts.append((begun, end, _INKS[kind], f"{words[kind]} {run.plan.number[at]}"))
        lines.append((say("pipeline.stage", stage=stage, rank=rank), parts))
    paints: tuple[Paint, ...] = (*_INKS[:3], "free")
    legend = tuple(zip(paints, (*words, say("column.bubble")), strict=True))
    return _timed(say("pipeline.chart", step=run.step or "–"), "passes", lines, "free", legend)


_Part = tuple[int, int, Paint, str]
"""Start and end of a part of a line, ns; its ink and its words."""


def _timed(
    title: str, id: str, lines: Sequence[tuple[str, Sequence[_Part]]], gap: Paint | None = None,
    legend: tuple[tuple[Paint, str], ...] = (),
) -> Picture:  # fmt: skip
    """Lines of bars on one clock, each with its name before it; ``gap`` lies below them."""
    names = [drawable(name) for name, _ in lines]
    head = (max(map(cell_count, names)) + 1) * CELL_WIDTH
    begun = min(part[0] for _, parts in lines for part in parts)
    scale = _BAR / (max(part[1] for _, parts in lines for part in parts) - begun)
    shapes: list[Shape] = []
    for row, (name, (_, parts)) in enumerate(zip(names, lines, strict=True)):
        top = row * CELL_HEIGHT
        shapes += _text_shapes(name, top)
        shapes += [Box(head, top, _BAR, CELL_HEIGHT, gap)] if gap is not None else []
        for low, high, paint, words in parts:
            place = head + (low - begun) * scale, top, (high - low) * scale, CELL_HEIGHT
            shapes += [Box(*place, paint), Tip(*place, f"{drawable(words)} {duration_text(high - low)}")]
    return Picture(title, head + _BAR, CELL_HEIGHT * len(lines), shapes, id, legend, head)


def _by_rank(span: RoleSpan) -> tuple[str, int]:
    return span.place, span.rank


def heat_picture(job: Job, metric: Metric, compared: JobComparison | None = None) -> Iterator[Picture]:
    """``metric`` of each rank, similar ranks in one row; the first columns of a long run."""
    heat = HeatSource(job, compared).heat(metric, "step" if len(job.steps) > 1 else "collective")
    if not heat.columns:
        return
    rows = heat_rows(heat, missing=job.missing)[:_MOST_ROWS]
    labels = [drawable(column.label) for column in heat.columns[:_MOST_COLUMNS]]
    names = [drawable(_heat_name(row)) for row in rows]
    shares = [row.values[:_MOST_COLUMNS].tolist() for row in rows]
    written = partial(time_text, digits=3) if job.has_profiles else share_change_text
    texts = [
        [("?" if row.kind == "missing" else "") if np.isnan(share) else written(share * heat.step) for share in values]
        for row, values in zip(rows, shares, strict=True)
    ]
    cell = max(cell_count(text) for text in (*labels, *(text for line in texts for text in line))) + 2
    head = max(map(cell_count, names), default=0) + 1
    shapes: list[Shape] = []
    for y, (name, line) in enumerate(zip(("", *names), (labels, *texts), strict=True)):
        top = y * CELL_HEIGHT
        for x, share in enumerate(shares[y - 1] if y else ()):
            shade = 0 if np.isnan(share) else int(np.searchsorted(SHADES, share, "right"))
            if shade:
                left = (head + x * cell) * CELL_WIDTH
                shapes.append(Box(left, top, cell * CELL_WIDTH, CELL_HEIGHT, f"heat{shade}"))
        words = padded(name, head) + "".join(f"{padded(text, cell - 1, right=True)} " for text in line)
        shapes += _text_shapes(words, top)
    axis = say(f"ranks.axis.{heat.axis}")
    title = say("ranks.map.title", metric=say(f"ranks.metric.{metric}"), axis=axis)
    title = title if job.role is None else say("job.of_role", role=drawable(job.role), what=title)
    width = (head + len(labels) * cell) * CELL_WIDTH
    yield Picture(title, width, CELL_HEIGHT * (len(rows) + 1), shapes, id="heat")


def _heat_name(row: HeatRow) -> str:
    if row.kind == "missing":
        return f"{', '.join(map(str, row.ranks[:8]))} {say('ranks.missing')}"
    return say("ranks.alike", count=len(row.ranks)) if row.kind == "alike" else str(row.ranks[0])


def _text_shapes(text: str, top: float) -> list[Shape]:
    """``text`` in the ink of the page, a cell for each character."""
    return [shape for shape in row_shapes([(text, "ink", "none", 0)], top) if not isinstance(shape, Box)]


def _collective(job: Job) -> Iterator[Block]:
    """The collective that was waited for the longest, a bar a rank."""
    if not len(job.blamed) or not int(job.blamed.cost.max()):
        return
    blamed = job.blamed[int(job.blamed.cost.argmax())]
    fall, meeting = waterfall(blamed, job.clocks), blamed.meeting
    step = say("ranks.fall.step", step=meeting.step) if meeting.step else ""
    title = say("ranks.fall.title", type=meeting.type, ordinal=meeting.ordinal, group=meeting.group, step=step)
    error = max((bar.error for bar in fall.bars), default=0)
    shapes: list[Shape] = []
    for number, bar in enumerate(fall.bars[:_MOST_BARS]):
        note = say("ranks.fall.waits", time=bar.wait)
        if bar.at_most:
            note = say("ranks.fall.at_most")
        elif bar.rank == blamed.last:
            note = say("ranks.fall.last", time=blamed.cost)
        top = number * 3 * CELL_HEIGHT
        shapes += _text_shapes(drawable(f"{say('job.rank', rank=bar.rank)} · {note}"), top)
        shapes += _rank_bar(fall, bar, top + CELL_HEIGHT)
    words = ("column.works", "ranks.metric.own", "ranks.metric.waits", "column.transfer")
    legend = tuple((paint, say(word)) for paint, word in zip(_PARTS, words, strict=True))
    yield Picture(title, _BAR, 3 * CELL_HEIGHT * min(len(fall.bars), _MOST_BARS), shapes, "waterfall", legend, 0)
    yield Paragraph((say("ranks.fall.aside", spread=blamed.spread, error=error),), "faint")


def _rank_bar(fall: CollectiveWaterfall, bar: Bar, top: float) -> Iterator[Shape]:
    """The ``_PARTS`` of one rank."""
    begin = bar.come if bar.begin is None else bar.begin
    more = max(bar.come - bar.own, begin)
    before = 0
    for paint, stop in zip(("", *_PARTS), (begin, more, bar.come, fall.come, bar.end), strict=True):
        if stop > before:
            place = before / fall.length * _BAR, top, (stop - before) / fall.length * _BAR, CELL_HEIGHT
            if paint != "":
                yield Box(*place, paint)
                yield Tip(*place, duration_text(stop - before))
            before = stop
