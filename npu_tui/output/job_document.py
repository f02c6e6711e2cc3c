"""The report about a job as a document: verdict, findings, heat map, the dearest collective, ranks, links, clocks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from npu_tui.jobs import tables
from npu_tui.jobs.heat import SHADES, HeatRow, HeatSource, heat_rows
from npu_tui.jobs.job import Job
from npu_tui.jobs.timelines import Bar, Waterfall, waterfall
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
    Paragraph,
    Picture,
    Shape,
    Table,
    Tip,
)
from npu_tui.output.job_report import ClockBend, ClockRow, JobFindingRow, JobReport, RankRow
from npu_tui.output.rendered import rendered, time_cell
from npu_tui.output.report_tables import severity_word
from npu_tui.output.svg import CELL_HEIGHT, CELL_WIDTH, row_shapes
from npu_tui.strings import say
from npu_tui.trace.text import cell_count, drawable, duration_text, padded, share_text

RANKS = 16
"""Rows of a table that a terminal or an issue gets: all ranks of two hosts."""
_MOST_LINKS = 8
_MOST_ROWS = 64
_MOST_COLUMNS = 60
_MOST_BARS = 16
_BAR = 900
"""Pixels of the longest bar."""


def job_document(report: JobReport, job: Job | None = None) -> Document:
    """What ``report`` says; with the ``job`` that it is about, pictures of it too."""
    blocks: list[Block] = [Paragraph((_about(report),), "faint"), Paragraph((report.verdict,), "verdict")]
    if report.findings:
        findings = tuple(_finding(report, number, row) for number, row in enumerate(report.findings, 1))
        blocks.append(Findings(say("job.findings"), None, findings, frozenset(range(1, len(findings) + 1))))
    if job is not None:
        blocks += _heat(job)
        blocks += _collective(job)
    blocks += [table for table in (_ranks(report), _collectives(report)) if table.rows]
    if report.links:
        blocks += [Heading(say("job.links")), Items(tuple(_links(report)))]
    if report.clock:
        blocks.append(_clock(report))
    if report.not_checked:
        blocks += [Heading(say("job.not_checked")), Items(tuple(report.not_checked))]
    blocks.append(Code((f"npu-tui {shlex.quote(report.source.path)}",)))
    return Document(f"npu-tui: {report.source.path}", blocks)


def exposed_waits(row: RankRow) -> float | None:
    """What of the time that the job waits for a rank is not hidden by computing, us; None where no trace tells."""
    return 0.0 if not row.job_waits_us else row.job_waits_exposed_us


def greatest_bend(row: ClockRow) -> ClockBend | None:
    """Where a clock that does not drift evenly is the farthest from an even drift; None where it drifts evenly."""
    return max(row.bends, key=lambda bend: abs(bend.gained_us), default=None)


def _about(report: JobReport) -> str:
    """What of the job is there."""
    steps = say("job.no_steps")
    if report.steps:
        first, last = report.steps[0], report.steps[-1]
        steps = say("job.steps.one", step=first) if first == last else say("job.steps", first=first, last=last)
    where = {"ranks": len(report.rank_table), "hosts": len(report.hosts), "traces": report.source.traces}
    return say("job.head", steps=steps, **where)


def _finding(report: JobReport, number: int, row: JobFindingRow) -> Finding:
    """A finding, and why the rank that it names alone is slow."""
    slow = row.ranks if row.id == "RANK.SLOW" else []
    why: list[str] = next((rank.why for rank in report.rank_table if len(slow) == 1 and rank.rank == slow[0]), [])
    notes = (say("job.why", why=" · ".join(why)),) if why else ()
    head = f"{severity_word(row.severity).upper()} · {row.title}"
    return Finding(number, row.id, row.severity, head, "", row.detail, notes=notes)


def _ranks(report: JobReport) -> Table:
    """All ranks, those first whose repair saves most."""
    rows = sorted(report.rank_table, key=lambda row: (-(row.gain_us or 0), -row.own_excess_us, row.rank))
    exposed = any(row.job_waits_exposed_us is not None for row in rows)
    table = rendered(
        tables.RANKS,
        rows,
        rank=lambda row: Cell(say("job.rank", rank=row.rank), row.rank),
        last=_came_last,
        waits_exposed=lambda row: time_cell(exposed_waits(row)) if exposed else Cell(""),
        why=lambda row: Cell(say("list.comma").join(row.why)),
    )
    return replace(table, more=lambda hidden: say("job.more_ranks", count=hidden))


def _came_last(row: RankRow) -> Cell:
    share = row.came_last / row.collectives if row.collectives else 0.0
    text = f"{row.came_last}/{row.collectives} {share_text(share) if row.collectives else ''}"
    return Cell(text.rstrip(), share)


def _collectives(report: JobReport) -> Table:
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


def _links(report: JobReport) -> Iterator[str]:
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


def _clock(report: JobReport) -> Table:
    """The clock of each rank; of many ranks those stay that are not tied, or are known the least."""
    names = ("rank", "offset", "interval", "method")
    weights = tuple(np.inf if row.offset_us is None else row.error_us or 0.0 for row in report.clock)
    columns = tuple(say(f"job.column.{name}") for name in names)
    rows = list(map(_clock_cells, report.clock))
    return Table("clock", say("job.clock"), columns, (False, True, False, False), rows, weights=weights)


def _clock_cells(row: ClockRow) -> list[Cell]:
    """Rank, offset with its ±, the interval that is certain, and how it is known."""
    rank = Cell(say("job.rank", rank=row.rank), row.rank)
    if row.offset_us is None or row.error_us is None:
        return [rank, Cell(""), Cell(""), Cell(say("job.method.none"))]
    interval = ""
    if row.method != "reference" and row.low_us is not None and row.high_us is not None:
        interval = say("job.interval", low=row.low_us, high=row.high_us)
    offset = Cell(say("job.offset", offset=row.offset_us, error=row.error_us), row.offset_us)
    course = say("job.drifts", drift=row.drift_us_per_s) if row.drift_us_per_s else ""
    if (bend := greatest_bend(row)) is not None:
        course += say("job.bends", gained=bend.gained_us, after=bend.after_us * 1e3)
    return [rank, offset, Cell(interval), Cell(say(f"job.method.{row.method}") + course)]


def _heat(job: Job) -> Iterator[Picture]:
    """By how much each rank works longer than its peers, similar ranks in one row; the first columns of a long run."""
    heat = HeatSource(job).heat("own", "step" if len(job.steps) > 1 else "collective")
    if not heat.columns:
        return
    rows = heat_rows(heat, missing=job.missing)[:_MOST_ROWS]
    labels = [drawable(column.label) for column in heat.columns[:_MOST_COLUMNS]]
    names = [drawable(_heat_name(row)) for row in rows]
    shares = [row.values[:_MOST_COLUMNS].tolist() for row in rows]
    texts = [
        [
            ("?" if row.kind == "missing" else "") if np.isnan(share) else duration_text(share * heat.step, 3)
            for share in values
        ]
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
        shapes += _words(words, top)
    axis = say(f"ranks.axis.{heat.axis}")
    title = say("ranks.map.title", metric=say("ranks.metric.own"), axis=axis)
    width = (head + len(labels) * cell) * CELL_WIDTH
    yield Picture(title, width, CELL_HEIGHT * (len(rows) + 1), shapes, id="heat")


def _heat_name(row: HeatRow) -> str:
    if row.kind == "missing":
        return f"{', '.join(map(str, row.ranks[:8]))} {say('ranks.missing')}"
    return say("ranks.alike", count=len(row.ranks)) if row.kind == "alike" else str(row.ranks[0])


def _words(text: str, top: float) -> list[Shape]:
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
        shapes += _words(drawable(f"{say('job.rank', rank=bar.rank)} · {note}"), top)
        shapes += _bar(fall, bar, top + CELL_HEIGHT)
    yield Picture(title, _BAR, 3 * CELL_HEIGHT * min(len(fall.bars), _MOST_BARS), shapes, id="waterfall")
    yield Paragraph((say("ranks.fall.aside", spread=blamed.spread, error=error),), "faint")


def _bar(fall: Waterfall, bar: Bar, top: float) -> Iterator[Shape]:
    """Work, what of it was more than the peers needed, waiting, transfer."""
    begin = bar.come if bar.begin is None else bar.begin
    more = max(bar.come - bar.own, begin)
    before = 0
    stops = (("", begin), ("computing", more), ("excess", bar.come), ("free", fall.come), ("exposed", bar.end))
    for kind, stop in stops:
        if stop > before:
            place = before / fall.length * _BAR, top, (stop - before) / fall.length * _BAR, CELL_HEIGHT
            if kind:
                yield Box(*place, kind)
                yield Tip(*place, duration_text(stop - before))
            before = stop
