"""The comparison as one HTML file: verdict, both timelines under one ruler, where the step changed, and the tables."""

from __future__ import annotations

import shlex

from npu_tui.compare.drawing.picture import Picture
from npu_tui.compare.drawing.scene import compared_scene
from npu_tui.output.document import Cell, Table
from npu_tui.report.compared import schema
from npu_tui.report.compared.text import attributes_text, line_place, p_text, setting_line, side_lines, verdict_lines
from npu_tui.report.pages.html_parts import listed, page, table_part, text
from npu_tui.report.pages.tables import SEVERITY_ORDER
from npu_tui.report.pages.timeline_picture import explorer_of, explorer_page_picture
from npu_tui.strings import say
from npu_tui.trace.text import change_text, duration_text, mean_count_text, share_text

Columns = tuple[tuple[str, bool], ...]

_PARTS: Columns = (("part", False), ("base", True), ("new", True), ("change", True))
_GROUPS: Columns = (
    ("change_kind", False), ("kernel", False), ("base_calls", True), ("base", True), ("new_calls", True),
    ("new", True), ("change", True), ("by_count", True), ("by_duration", True), ("p", True),
)  # fmt: skip
_LINES: Columns = (("line", False), ("base", True), ("new", True), ("change", True))
_COLLECTIVES: Columns = (
    ("collective", False), ("base", True), ("new", True), ("change", True), ("base_wait", True), ("new_wait", True),
)  # fmt: skip


def html_comparison(found: schema.Compared, picture: Picture) -> str:
    """The page of ``found``, with ``picture`` drawn as on the screen."""
    verdict, *rest = verdict_lines(found)
    body = [f'<p class="faint">{text(line.strip())}</p>' for line in side_lines(found)]
    body += [f'<p class="verdict">{text(verdict)}</p>', *(f"<p>{text(line)}</p>" for line in rest)]
    body += table_part(_parts(found), sortable=False) if found.parts else []
    body += [
        f"<h2>{say('table.timeline')}</h2>",
        f'<div class="scroll">{explorer_page_picture(explorer_of(compared_scene(picture)))}</div>',
        f'<p class="faint">{text(say("compare.picture.legend"))}</p>',
        f"<h2>{text(say('compare.findings'))}</h2>",
        *_findings(found),
    ]
    for table in (_groups(found), _lines(found), _collectives(found)):
        body += table_part(table) if table.rows else []
    settings = [setting_line(each) for each in found.config]
    known = [
        f"{say(f'compare.profile_finding.{each.change}')}: {each.id} {each.title}" for each in found.profile_findings
    ]
    skipped = [each.text for each in found.not_judged]
    for key, lines in (("profile_findings", known), ("config", settings), ("not_judged", skipped)):
        if lines:
            body += [f"<h2>{text(say(f'compare.{key}'))}</h2>", *listed("ul", lines)]
    command = f"npu-tui compare {shlex.quote(found.base.source.path)} {shlex.quote(found.new.source.path)}"
    body.append(f"<p><code>{text(command)}</code></p>")
    return page(f"npu-tui: {found.base.source.path} → {found.new.source.path}", body)


def _table(key: str, columns: Columns, rows: list[list[Cell]]) -> Table:
    names = tuple(say(f"compare.column.{name}") for name, _ in columns)
    return Table(key, say(f"compare.{key}"), names, tuple(numeric for _, numeric in columns), rows)


def _time(us: float | None) -> Cell:
    return Cell(say("report.unknown")) if us is None else Cell(duration_text(us * 1000), us)


def _change(us: float | None) -> Cell:
    return Cell(say("report.unknown")) if us is None else Cell(change_text(us * 1000), us)


def _parts(found: schema.Compared) -> Table:
    known = [row for row in found.parts if row.base_us is not None]
    rows = [
        [Cell(say(f"compare.part.{row.id}")), _time(row.base_us), _time(row.new_us), _change(row.delta_us)]
        for row in known
    ]
    if known:
        base, new = sum(row.base_us or 0.0 for row in known), sum(row.new_us or 0.0 for row in known)
        delta = round(sum(row.delta_us or 0.0 for row in known), 3)
        rows.append([Cell(say("compare.part.sum")), _time(base), _time(new), _change(delta)])
    return _table("parts", _PARTS, rows)


def _findings(found: schema.Compared) -> list[str]:
    """One card per change; what is part of another says so."""
    lines = []
    base = sum(found.step.base_us) / len(found.step.base_us)
    for number, each in enumerate(found.findings, 1):
        severity = each.severity if each.severity in SEVERITY_ORDER else "info"
        lines += [f'<article class="{severity}">', f"<h3>{number}. {text(each.title)}</h3>"]
        words = [each.id]
        if each.delta_us is not None:
            words.append(change_text(each.delta_us * 1000))
            words += [f"{'−' if each.delta_us < 0 else '+'}{share_text(abs(each.delta_us) / base)}"] if base else []
        if each.part_of is not None:
            words.append(say("compared.told.part_of", id=each.part_of))
        lines.append(f'<p class="faint">{text(" · ".join(words))}</p>')
        lines += listed("ul", [_place(place) for place in each.evidence])
        lines += listed("ol", each.advice)
        lines.append("</article>")
    return lines or [f"<p>{text(say('compare.nothing'))}</p>"]


def _place(place: schema.Place) -> str:
    side = say(f"compare.column.{place.side}")
    length = (place.end_us - place.start_us) * 1000
    return say("compare.place.evidence", side=side, at=place.start_us * 1000, length=length, name=place.name)


def _groups(found: schema.Compared) -> Table:
    rows = []
    for row in found.groups:
        if not row.delta_us:
            continue
        name = " ".join(filter(None, (row.type, attributes_text(row))))
        p = Cell(p_text(row.q), row.q) if row.q is not None else Cell("")
        cells = [Cell(say(f"compare.change.{row.change}")), Cell(name, name=True)]
        for side in (row.base, row.new):
            cells += [Cell(mean_count_text(side.count), side.count), _time(side.median_us)]
        rows.append([*cells, _change(row.delta_us), _change(row.by_count_us), _change(row.by_duration_us), p])
    return _table("groups", _GROUPS, rows)


def _lines(found: schema.Compared) -> Table:
    rows = [
        [Cell(line_place(row), name=True), *map(_time, row.lost_us), _change(row.delta_us)]
        for row in found.lines
        if row.delta_us
    ]
    return _table("lines", _LINES, rows)


def _collectives(found: schema.Compared) -> Table:
    rows = []
    for row in found.collectives:
        base, new = row.elapsed_us
        name = say("compare.collective", type=row.type, ordinal=row.ordinal + 1, group=row.group)
        delta = (new or 0.0) - (base or 0.0)
        rows.append([Cell(name, name=True), _time(base), _time(new), _change(delta), *map(_time, row.wait_us)])
    return _table("collectives", _COLLECTIVES, rows)
