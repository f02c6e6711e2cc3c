"""Several profiles as one table: text, Markdown, HTML, and JSON (schema 1, kind ``sweep``)."""

from __future__ import annotations

import msgspec

from npu_tui.compare.sweep import SweepRow, knee
from npu_tui.output.document import Cell, Table
from npu_tui.report.pages.html_parts import page, table_part
from npu_tui.report.pages.html_parts import text as html_text
from npu_tui.report.pages.markdown_report import plain
from npu_tui.report.values import text, us
from npu_tui.strings import say
from npu_tui.trace.text import cell_count, padded, printable
from npu_tui.trace.units import change_text, duration_text, share_change_text

_COLUMNS = (
    ("profile", False), ("steps", True), ("step", True), ("change", True), ("share", True), ("verdict", False),
    ("computing", True), ("exposed", True), ("idle", True), ("outside", True), ("steps_per_s", True),
    ("samples_per_s", True),
)  # fmt: skip


class Profile(msgspec.Struct):
    """One profile of a sweep, µs per step; ``verdict`` and what follows hold it against the first one."""

    label: str
    path: str
    rank: int | None
    steps: int
    left_out: int
    batch: int | None
    step_us: list[float]
    median_us: float
    computing_us: float | None
    exposed_us: float | None
    idle_us: float | None
    outside_us: float | None
    steps_per_s: float | None
    samples_per_s: float | None
    verdict: str | None
    delta_us: float | None
    share: float | None
    ci_us: tuple[float, float] | None
    p: float | None


class Sweep(msgspec.Struct):
    """The whole table; ``knee`` is the label of the smallest batch that does nearly as many samples a second as any."""

    schema_version: int
    kind: str
    profiles: list[Profile]
    knee: str | None = None


def swept(rows: list[SweepRow]) -> Sweep:
    """``rows`` as programs read them."""
    best = knee(rows)
    return Sweep(1, "sweep", [_profile(row) for row in rows], None if best is None else text(best.label))


def _profile(row: SweepRow) -> Profile:
    judged = row.judged
    shift = None if judged is None else judged.shift
    base = 0.0 if judged is None else float(judged.base.mean())
    rates = [None if each is None else round(each, 6) for each in (row.steps_per_second, row.samples_per_second)]
    return Profile(
        text(row.label) or "",
        text(row.side.profile.path) or "",
        row.side.trace.rank,
        len(row.side.windows),
        len(row.side.sample.left_out),
        row.batch,
        [_us(wall) for wall in row.side.walls.tolist()],
        _us(row.median),
        us(row.computing),
        us(row.exposed),
        us(row.idle),
        us(row.outside),
        rates[0],
        rates[1],
        None if judged is None else judged.verdict,
        None if judged is None else us(judged.delta),
        round(judged.delta / base, 6) if judged is not None and base else None,
        None if shift is None else (_us(shift.low), _us(shift.high)),
        None if shift is None else round(shift.p, 6),
    )


def _us(ns: float) -> float:
    return round(float(ns) / 1000, 3)


def _rows(found: Sweep) -> list[list[Cell]]:
    return [
        [
            Cell(row.label, name=True),
            Cell(str(row.steps), row.steps),
            _time(row.median_us),
            Cell("" if row.delta_us is None else change_text(row.delta_us * 1000), row.delta_us),
            Cell("" if row.share is None else share_change_text(row.share), row.share),
            Cell("" if row.verdict is None else say(f"compare.verdict.{row.verdict}")),
            *map(_time, (row.computing_us, row.exposed_us, row.idle_us, row.outside_us)),
            _rate(row.steps_per_s),
            _rate(row.samples_per_s),
        ]
        for row in found.profiles
    ]


def _time(value: float | None) -> Cell:
    return Cell("") if value is None else Cell(duration_text(value * 1000), value)


def _rate(value: float | None) -> Cell:
    return Cell("") if value is None else Cell(f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}", value)


def sweep_table(found: Sweep) -> tuple[Table, tuple[str, ...]]:
    """The table without the columns that no profile has anything in, and the ids of its columns."""
    rows = _rows(found)
    kept = [k for k in range(len(_COLUMNS)) if any(row[k].text for row in rows)]
    table = Table(
        "sweep",
        say("sweep.title"),
        tuple(say(f"sweep.{_COLUMNS[k][0]}") for k in kept),
        tuple(_COLUMNS[k][1] for k in kept),
        [[row[k] for k in kept] for row in rows],
    )
    return table, tuple(_COLUMNS[k][0] for k in kept)


def text_sweep(found: Sweep) -> str:
    """The table for a terminal."""
    table, _ = sweep_table(found)
    lines = [list(table.columns), *([cell.text for cell in row] for row in table.rows)]
    widths = [max(cell_count(line[k]) for line in lines) for k in range(len(table.columns))]
    told = [
        "  ".join(
            padded(cell, width, right=numeric) for cell, width, numeric in zip(line, widths, table.numeric, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join(printable(line) for line in [*told, *sweep_notes(found)]) + "\n"


def markdown_sweep(found: Sweep) -> str:
    """The table for a pull request."""
    table, _ = sweep_table(found)
    lines = [
        f"## {say('sweep.title')}",
        "",
        f"| {' | '.join(table.columns)} |",
        f"| {' | '.join('---:' if numeric else '---' for numeric in table.numeric)} |",
        *(f"| {' | '.join(plain(cell.text) for cell in row)} |" for row in table.rows),
    ]
    notes = sweep_notes(found)
    return "\n".join([*lines, *(["", *map(plain, notes)] if notes else [])]) + "\n"


def html_sweep(found: Sweep) -> str:
    """The table as a page."""
    notes = [f"<p>{html_text(note)}</p>" for note in sweep_notes(found)]
    return page(f"npu-tui: {say('sweep.title')}", [*table_part(sweep_table(found)[0]), *notes])


def sweep_notes(found: Sweep) -> list[str]:
    """Where more of a batch no longer pays, or what is missing to tell."""
    if not any(row.batch for row in found.profiles):
        return [say("sweep.no_batch")]
    known = {row.label: row for row in found.profiles}
    if found.knee is None:
        return []
    knee = known[found.knee]
    best = max(found.profiles, key=lambda row: row.samples_per_s or 0.0)
    words = {"label": knee.label, "share": (knee.samples_per_s or 0.0) / (best.samples_per_s or 1.0)}
    return [say("sweep.knee", **words, best=best.label, step=knee.median_us * 1000, rate=f"{knee.samples_per_s:,.4g}")]
