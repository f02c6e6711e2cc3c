"""The report as one HTML file that needs nothing else: no network, no script but the one that sorts its tables."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from npu_tui.profile.part import ProfilePart
from npu_tui.report.advice import profile_again, verdict
from npu_tui.report.finding_words import evidence_place, finding_foot, finding_head, source_line
from npu_tui.report.pages.html_style import SCRIPT, STYLE
from npu_tui.report.pages.tables import SEVERITY_ORDER, Cell, Table, data_tables, findings_table, overlap_table
from npu_tui.report.pages.timeline_picture import timeline_pictures
from npu_tui.report.schema import EvidenceRow, Report
from npu_tui.report.wording import share_text
from npu_tui.strings import language, say
from npu_tui.trace.text import brief, printable

_ROWS = 500
_LONGEST = 4_000


def html_report(report: Report, part: ProfilePart) -> str:
    """The page of the ``report`` about ``part``, with a picture of its lanes."""
    light, dark = timeline_pictures(part)
    title = _text(f"npu-tui: {report.source.path}")
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="{language()}">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        f"<h1>{title}</h1>",
        f'<p class="faint">{_text(source_line(report))}</p>',
        *(f'<p class="verdict">{_text(line)}</p>' for line in verdict(report)),
        *_device(report),
        f"<h2>{say('table.timeline')}</h2>",
        f'<div class="scroll light">{light}</div>',
        f'<div class="scroll dark">{dark}</div>',
        *_findings(report),
    ]
    for table in data_tables(report):
        parts += _table(table)
    parts += [f"<h2>{say('table.again')}</h2>", *_list("ul", profile_again(report))]
    reasons = [f"{each.id}: {each.reason}" for each in report.not_checked]
    for key, lines in (("report.not_checked", reasons), ("report.health", report.health.warnings)):
        if lines:
            parts += [f"<h2>{say(key)}</h2>", *_list("ul", lines)]
    parts += [f"<script>{SCRIPT}</script>", "</body>", "</html>"]
    return "\n".join(parts) + "\n"


def _policy() -> str:
    """What the page may load and run: its own style and, known by its digest, its own script."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _text(text: str) -> str:
    """``text`` as it stands, with nothing in it that the page would obey."""
    return escape(brief(text, _LONGEST))


def _device(report: Report) -> list[str]:
    table = overlap_table(report)
    if table is None:
        return []
    overlap = report.overlap
    shares = [
        ("computing", overlap.computing_ratio),
        ("exposed", overlap.communication_not_overlapped_ratio),
        ("free", overlap.free_ratio),
    ]
    words = {name: f"{say(f'report.overlap.{name}')} {share_text(share)}" for name, share in shares if share}
    bar = "".join(
        f'<span class="{name}" style="width:{share:.3%}" title="{_text(words[name])}"></span>'
        for name, share in shares
        if share
    )
    head, *rows = _table(table, sortable=False)
    return [head, f'<div class="bar" aria-hidden="true">{bar}</div>', *rows]


def _findings(report: Report) -> list[str]:
    if not report.findings:
        return []
    parts = _table(findings_table(report))
    for number, each in enumerate(report.findings, 1):
        severity = each.severity if each.severity in SEVERITY_ORDER else "info"
        parts += [f'<article class="{severity}">', f"<h3>{number}. {_text(finding_head(each))}</h3>"]
        parts.append(f"<p>{_text(each.detail)}</p>")
        parts += _list("ul", [_evidence(place) for place in each.evidence])
        if each.advice:
            parts += [f"<p>{say('page.do')}</p>", *_list("ol", each.advice)]
        parts.append(f'<p class="faint">{_text(finding_foot(each))}</p>')
        parts.append("</article>")
    return parts


def _evidence(place: EvidenceRow) -> str:
    words = [evidence_place(place), place.name, place.note]
    return ": ".join(word for word in words if word)


def _list(tag: str, lines: list[str]) -> list[str]:
    return [f"<{tag}>", *(f"<li>{_text(line)}</li>" for line in lines), f"</{tag}>"] if lines else []


def _table(table: Table, sortable: bool = True) -> list[str]:
    heads = "".join(
        f'<th scope="col"{_number(numeric)}>{_text(column)}</th>'
        for column, numeric in zip(table.columns, table.numeric, strict=True)
    )
    rows = [
        f"<tr>{''.join(_cell(cell, numeric) for cell, numeric in zip(row, table.numeric, strict=True))}</tr>"
        for row in table.rows[:_ROWS]
    ]
    kind = ' class="sortable"' if sortable and len(rows) > 1 else ""
    hidden = len(table.rows) - len(rows)
    return [
        f'<h2 id="{table.id}">{printable(table.title)}</h2>',
        f'<div class="scroll"><table{kind}><thead><tr>{heads}</tr></thead><tbody>',
        *rows,
        "</tbody></table></div>",
        *([f'<p class="faint">{say("report.more", count=hidden)}</p>'] if hidden > 0 else []),
    ]


def _number(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


def _cell(cell: Cell, numeric: bool) -> str:
    sort = "" if cell.sort is None else f' data-sort="{cell.sort:.15g}"'
    kind = _number(numeric) or (' class="name"' if cell.name else "")
    return f"<td{kind}{sort}>{_text(cell.text)}</td>"
