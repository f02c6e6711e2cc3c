"""The history of a run, kind ``log``: its runs, where their steps change, and the document with a picture."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.changes import MOST, LevelChange, course, usual_of
from npu_tui.analysis.limits import NAMED
from npu_tui.analysis.statistics import FEWEST, shift
from npu_tui.jobs.history import Log, LoggedRun, Per, RunTimes
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
    made_table,
    time_cell,
)
from npu_tui.output.envelope import PATH, REASONS, NotChecked, PathSource, Root, not_checked
from npu_tui.strings import say
from npu_tui.trace.text import duration_text, printable, share_change_text, shortened
from npu_tui.view.palette import Ink


class Altered(Struct, frozen=True, kw_only=True):
    """A version that is another one after a change; null is unknown."""

    key: str
    base: str | None
    new: str | None


class LoggedChange(Struct, frozen=True, kw_only=True):
    """The steps of ``kind`` change between the runs labelled ``after`` and ``before`` by ``delta_us``.

    ``low_us`` to ``high_us`` is the 95 % interval of that, and so is from ``first_after`` to ``last_before`` for where.
    Names with ``_run`` are places in ``runs``. ``p`` is of the rank test of both levels. ``parts`` are differences of
    their medians by name, such as ``computing_us``.
    """

    kind: str | None
    after: str
    before: str
    after_run: int
    before_run: int
    first_after: str
    first_after_run: int
    last_before: str
    last_before_run: int
    delta_us: float
    low_us: float
    high_us: float
    delta_ratio: float
    p: float
    parts: dict[str, float]
    setup: list[Altered]


class RunSeries(Struct, frozen=True, kw_only=True):
    """Runs that were recorded alike, by their places in ``runs``, and the steps of one ``kind`` in them.

    ``step_us`` is the median of the level that they have now, from run ``first`` on, ``noise_ratio`` the standard
    deviation between its runs, ``visible_us`` the change that four more runs would show; null where too few runs show
    it. ``drift_us`` is how much the steps grow from run to run, from ``drift_first`` to ``drift_last`` (places in
    ``runs``), where that says more than levels do. The last ``undecided`` runs are off the level by ``off_us``, too few
    to judge. ``outliers`` (places in ``runs``) are far off their level, and count in none.
    """

    kind: str | None
    per: Per
    ranks: int
    level: int | None
    chip: str | None
    runs: list[int]
    first: int
    step_us: float
    noise_ratio: float | None
    visible_us: float | None
    drift_us: float | None
    drift_first: int | None
    drift_last: int | None
    undecided: int
    off_us: float | None
    outliers: list[int]


class LogReport(Root, frozen=True, kw_only=True):
    """The history of a run; ``not_checked`` are files other than its runs."""

    OLD: ClassVar = {"source": PATH, "not_checked": REASONS}

    schema_version: Literal[2] = 2
    kind: Literal["log"] = "log"
    source: PathSource
    verdict: list[str]
    runs: list[LoggedRun]
    series: list[RunSeries]
    changes: list[LoggedChange]
    not_checked: list[NotChecked]


def log_report(log: Log) -> LogReport:
    """What ``log`` shows; the series of the newest run comes first."""
    report = LogReport(
        source=PathSource(printable(log.path)),
        verdict=[],
        runs=log.runs,
        series=[],
        changes=[],
        not_checked=[not_checked(problem) for problem in log.problems],
    )
    groups: dict[tuple[object, ...], list[int]] = {}
    for place in reversed(range(len(log.runs))):
        groups.setdefault(log.runs[place].series, []).insert(0, place)
    for places in groups.values():
        for kind in dict.fromkeys(kind for place in places for kind in log.runs[place].steps_of):
            known = [place for place in places if log.runs[place].time(kind)]
            if known:
                series, changes = _judged_series(log.runs, known, kind)
                report.series.append(series)
                report.changes.extend(changes)
                report.verdict.extend(
                    say("log.of", how=described(series), sentence=sentence) if len(groups) > 1 else sentence
                    for sentence in _sentences(log.runs, series, changes)
                )
    if not report.series:
        report.verdict.append(say("log.empty"))
    return report


def _judged_series(
    runs: Sequence[LoggedRun], every: list[int], kind: str | None
) -> tuple[RunSeries, list[LoggedChange]]:
    places = every[-MOST:]
    values = np.array([runs[place].time(kind) for place in places], np.float64)
    told = course(values)
    bounds = [0, *(change.place for change in told.changes), len(places)]
    level = usual_of(values[told.begin : len(values) - told.ahead])
    several = told.drift is None and len(level) >= FEWEST
    run = runs[places[-1]]
    series = RunSeries(
        kind=kind, per=run.per, ranks=run.ranks, level=run.level, chip=run.setup.get("chip"), runs=every,
        first=places[told.begin],
        step_us=round(float(np.median(level)), 3),
        noise_ratio=round(float(level.std(ddof=1) / level.mean()), 6) if several else None,
        visible_us=None if told.visible is None else round(told.visible, 3),
        drift_us=None if told.drift is None else round(told.drift, 3),
        drift_first=None if told.drift is None else places[told.grows[0]],
        drift_last=None if told.drift is None else places[told.grows[1]],
        undecided=told.ahead,
        off_us=round(float(np.median(values[-told.ahead :]) - np.median(level)), 3) if told.ahead else None,
        outliers=[places[run] for run in told.outliers],
    )  # fmt: skip
    changes = [
        _logged_change(runs, places, kind, change, (begin, end))
        for change, begin, end in zip(told.changes, bounds, bounds[2:], strict=False)
    ]
    return series, changes


def _logged_change(
    runs: Sequence[LoggedRun], places: list[int], kind: str | None, change: LevelChange, reach: tuple[int, int]
) -> LoggedChange:
    """``change`` of the runs at ``places``; the old and the new level fill ``reach``."""
    first, last = places[change.first - 1], places[change.last]
    # Runs of one commit do not part: of the possible places the nearest one between two commits is named.
    apart = [at for at in range(change.first, change.last + 1) if runs[places[at]].label != runs[places[at - 1]].label]
    place = min(apart, key=lambda at: abs(at - change.place), default=change.place)
    old, new = places[reach[0] : place], places[place : reach[1]]
    parts = {}
    for name in RunTimes.PARTS:
        sides = [[time for place in side if (time := runs[place].time(kind, name)) is not None] for side in (old, new)]
        if all(sides):
            parts[name] = round(statistics.median(sides[1]) - statistics.median(sides[0]), 3)
    values = [np.array([runs[at].time(kind) or 0.0 for at in side], np.float64) for side in (old, new)]
    moved = None if place == change.place else shift(values[0], values[1])
    if moved is not None:
        change = change._replace(delta=moved.estimate, low=moved.low, high=moved.high, p=moved.p)
    base = float(np.median(values[0]))
    before, after = runs[old[-1]].setup, runs[new[0]].setup
    return LoggedChange(
        kind=kind,
        after=runs[old[-1]].label, after_run=old[-1], before=runs[new[0]].label, before_run=new[0],
        first_after=runs[first].label, first_after_run=first, last_before=runs[last].label, last_before_run=last,
        delta_us=round(change.delta, 3), low_us=round(change.low, 3), high_us=round(change.high, 3),
        delta_ratio=round(change.delta / base, 6), p=change.p, parts=parts,
        setup=[
            Altered(key=key, base=before.get(key), new=after.get(key))
            for key in sorted({*before, *after})
            if before.get(key) != after.get(key)
        ],
    )  # fmt: skip


def described(series: RunSeries) -> str:
    """How the runs of ``series`` were recorded."""
    told = [say("log.ranks", count=series.ranks)]
    told += [say("log.level", level=series.level)] if series.level is not None else []
    told += [series.chip] if series.chip else []
    return say("list.comma").join(told)


def key_of(series: RunSeries) -> str:
    """Which texts say what the times of ``series`` measure."""
    return series.per if series.kind is None else "of_kind"


def _sentences(runs: Sequence[LoggedRun], series: RunSeries, changes: list[LoggedChange]) -> Iterator[str]:
    what = say(f"log.what.{key_of(series)}", kind=series.kind or "")
    count, looked = len(series.runs), min(len(series.runs), MOST)
    for row in changes:
        delta, share = row.delta_us * 1e3, row.delta_ratio
        key = "log.slower" if delta > 0 else "log.faster"
        yield say(key, what=what, delta=abs(delta), share=share, after=row.after, before=row.before)
        low, high = row.low_us * 1e3, row.high_us * 1e3
        yield say("log.interval", low=low, high=high, first=row.first_after, last=row.last_before)
        if row.parts:
            yield say("log.parts", parts=[say(f"log.part.{name}", delta=row.parts[name] * 1e3) for name in row.parts])
        for altered in row.setup:
            yield say("log.setup", key=altered.key, base=altered.base or "?", new=altered.new or "?")
    if series.drift_us is not None and series.drift_first is not None and series.drift_last is not None:
        grew = sum(series.drift_first <= place <= series.drift_last for place in series.runs)
        ends = {"first": runs[series.drift_first].label, "last": runs[series.drift_last].label}
        share = series.drift_us * (grew - 1) / series.step_us
        key = "log.drift" if grew == looked else "log.drift_part"
        yield say(key, what=what, drift=series.drift_us * 1e3, share=share, count=grew, **ends)
    elif not changes and count < 2 * FEWEST:
        yield say("log.few", what=what, count=count, more=2 * FEWEST - count)
    elif not changes:
        yield say("log.none_found", what=what, count=looked - series.undecided)
    if series.visible_us is not None and count >= 2 * FEWEST:
        yield say("log.visible", share=series.visible_us / series.step_us)
    if series.off_us is not None:
        share = series.off_us / series.step_us
        key = "log.undecided" if series.undecided > 1 else "log.undecided_one"
        yield say(key, count=series.undecided, share=share, more=FEWEST - series.undecided)
    if far := series.outliers:
        yield say("log.outliers", names=[runs[place].label for place in far[:NAMED]], count=len(far))
    if count > MOST:
        yield say("log.most", count=MOST)


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
        shapes = list(_run_shapes(report, series))
        blocks.append(Picture(picture, CHART_WIDTH, CHART_HEIGHT, shapes, f"course_{number}", head=CHART_MARGIN))
        blocks.append(_runs_table(report, series, f"runs_{number}", title))
    if report.not_checked:
        blocks += [Heading(say("log.not_checked")), Items(tuple(row.reason for row in report.not_checked))]
    blocks.append(Code((f"npu-tui log --log {shlex.quote(report.source.path)} --format json",)))
    return Document(say("log.head", path=report.source.path, count=len(report.runs)), blocks)


def _runs_table(report: LogReport, series: RunSeries, id: str, title: str) -> Table:
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


def _run_shapes(report: LogReport, series: RunSeries) -> Iterator[Shape]:
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
