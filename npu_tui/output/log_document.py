"""The history of a run as a document: what changed, then the runs of each series with a picture."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from npu_tui.jobs.history import RunTimes
from npu_tui.output.document import (
    CHART_HEIGHT,
    CHART_MARGIN,
    CHART_WIDTH,
    Block,
    Box,
    Cell,
    Code,
    Document,
    Heading,
    Items,
    Line,
    Look,
    Paragraph,
    Picture,
    Shape,
    Table,
    Tip,
    Words,
)
from npu_tui.output.log_report import LogReport, RunSeries, described, key_of
from npu_tui.output.rendered import made_table, time_cell
from npu_tui.strings import say
from npu_tui.trace.text import duration_text, share_change_text, shortened
from npu_tui.view.palette import Ink

ROWS = 40
"""Runs that a terminal or an issue gets, the last ones."""
_LABEL = 16
_COURSE = 8
_POINTS = 300


def log_document(report: LogReport) -> Document:
    """What ``report`` says."""
    blocks: list[Block] = [Paragraph(tuple(report.verdict), "verdict")]
    for number, series in enumerate(report.series):
        first, last = (_day(report.runs[series.runs[end]].when) for end in (0, -1))
        key, kind, how = key_of(series), series.kind or "", described(series)
        title = say(f"log.title.{key}", kind=kind, how=how, first=first, last=last)
        picture = say("log.course", what=say(f"log.what.{key}", kind=kind), how=how)
        shapes = list(_shapes(report, series))
        blocks.append(Picture(picture, CHART_WIDTH, CHART_HEIGHT, shapes, f"course_{number}", head=CHART_MARGIN))
        blocks.append(_runs(report, series, f"runs_{number}", title))
    if report.not_checked:
        blocks += [Heading(say("log.not_checked")), Items(tuple(row.reason for row in report.not_checked))]
    blocks.append(Code((f"npu-tui log --log {shlex.quote(report.source.path)} --format json",)))
    return Document(say("log.head", path=report.source.path, count=len(report.runs)), blocks)


def _runs(report: LogReport, series: RunSeries, id: str, title: str) -> Table:
    begun = {change.before_run: change.delta_ratio for change in report.changes if change.kind == series.kind}
    steps = [report.runs[place].time(series.kind) or 0.0 for place in series.runs]
    low, high = min(steps), max(steps)
    rows = []
    for place, step in zip(series.runs, steps, strict=True):
        run = report.runs[place]
        at = round((step - low) / (high - low) * (_COURSE - 1)) if high > low else 0
        change = begun.get(place)
        rows.append(
            [
                Cell(shortened(run.label, _LABEL), name=True),
                Cell("" if change is None else share_change_text(change), change),
                *(time_cell(run.time(series.kind, name)) for name in ("step_us", *RunTimes.PARTS)),
                Cell("." * at + "*" + "." * (_COURSE - 1 - at), name=True),
            ]
        )
    table = made_table(id, "label change# step# computing# exposed# free# lost# course", rows, title)
    return Table(
        table.id, table.title, table.columns, table.numeric, table.rows, weights=tuple(map(float, range(len(rows)))),
        sortable=False, more=lambda hidden: say("log.earlier", count=hidden),
    )  # fmt: skip


def _day(when: str) -> str:
    return datetime.fromisoformat(when.replace("Z", "+00:00")).astimezone().strftime("%Y-%m-%d")


def _shapes(report: LogReport, series: RunSeries) -> Iterator[Shape]:
    """The step of each run as a dot, a line for each level, the place of each change with its interval."""
    places = series.runs[-_POINTS:]
    steps = [report.runs[place].time(series.kind) or 0.0 for place in places]
    low, high = min(steps), max(steps)
    pad = 0.1 * (high - low) or 0.01 * high
    low, high = low - pad, high + pad
    pitch = (CHART_WIDTH - CHART_MARGIN) / max(len(places), 1)

    def left(number: float) -> float:
        return CHART_MARGIN + number * pitch

    def top(step: float) -> float:
        return (high - step) / (high - low) * CHART_HEIGHT

    for step in (max(steps), min(steps)):
        yield Words(0, top(step) + 5, CHART_MARGIN - 9, duration_text(step * 1e3).rjust(9), "ink")
    changes = [row for row in report.changes if row.after_run in places and row.kind == series.kind]
    for change in changes:
        first, last = (places.index(max(at, places[0])) for at in (change.first_after_run, change.last_before_run))
        yield Box(left(first + 0.5), 0, left(last + 0.5) - left(first + 0.5), CHART_HEIGHT, "heat1")
    bounds = [0, *(places.index(change.before_run) for change in changes), len(places)]
    for begin, end in pairwise(bounds):
        if series.drift_us is None:
            level = sorted(steps[begin:end])[(end - begin) // 2]
            yield Line(left(begin), top(level), left(end), top(level), Ink.ACCENT, Look(2))
    for number, (place, step) in enumerate(zip(places, steps, strict=True)):
        yield Box(left(number + 0.5) - 2.5, top(step) - 2.5, 5, 5, "ink")
        run = report.runs[place]
        tip = f"{run.label} {_day(run.when)} {duration_text(step * 1e3)}"
        yield Tip(left(number), 0, pitch, CHART_HEIGHT, tip)
