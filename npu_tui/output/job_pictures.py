"""Pictures of a job for a page: by how much each rank works longer than its peers, and the dearest collective."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle

import numpy as np

from npu_tui.analysis.graph import KINDS
from npu_tui.jobs.against import JobComparison
from npu_tui.jobs.heat import SHADES, HeatRow, HeatSource, Metric, heat_rows
from npu_tui.jobs.job import Job
from npu_tui.jobs.passes import PipelineRun
from npu_tui.jobs.roles import Roles, RoleSpan
from npu_tui.jobs.timelines import Bar, Waterfall, waterfall
from npu_tui.output.document import Block, Box, Paint, Paragraph, Picture, Shape, Tip
from npu_tui.output.svg import CELL_HEIGHT, CELL_WIDTH, row_shapes
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import cell_count, drawable, duration_text, padded, share_change_text, time_text
from npu_tui.view import palette

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
    """When every rank worked as which role, a line each, and what of it lies behind the median of its role."""
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


def _rank_bar(fall: Waterfall, bar: Bar, top: float) -> Iterator[Shape]:
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
