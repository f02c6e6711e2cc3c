"""The report as one HTML file that needs nothing else: no network, no script but the one that sorts its tables."""

from __future__ import annotations

from npu_tui.profile.profile import Profile
from npu_tui.report.advice import profile_again, verdict
from npu_tui.report.finding_words import evidence_place, finding_foot, finding_head, source_line
from npu_tui.report.pages.html_parts import listed, page, table_part, text
from npu_tui.report.pages.tables import SEVERITY_ORDER, data_tables, findings_table, overlap_table
from npu_tui.report.pages.timeline_picture import page_picture
from npu_tui.report.schema import EvidenceRow, Report
from npu_tui.report.wording import share_text
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.view.palette import DARK, LIGHT, bar


def html_report(report: Report, part: Profile) -> str:
    """The page of the ``report`` about ``part``, with a picture of its lanes."""
    parts = [
        f'<p class="faint">{text(source_line(report))}</p>',
        *(f'<p class="verdict">{text(line)}</p>' for line in verdict(report)),
        *_device(report),
        f'<h2 id="timeline">{say("table.timeline")}</h2>',
        f'<div class="scroll">{page_picture(part)}</div>',
        _legend(),
        *_findings(report),
    ]
    for table in data_tables(report):
        parts += table_part(table)
    parts += [f"<h2>{say('table.again')}</h2>", *listed("ul", profile_again(report))]
    reasons = [f"{each.id}: {each.reason}" for each in report.not_checked]
    for key, lines in (("report.not_checked", reasons), ("report.health", report.health.warnings)):
        if lines:
            parts += [f"<h2>{say(key)}</h2>", *listed("ul", lines)]
    parts.append(f'<p class="faint">{text("npu-tui " + report.source.tool_version)}</p>')
    return page(f"npu-tui: {report.source.path}", parts)


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
        f'<span class="{name}" style="width:{share:.3%}" title="{text(words[name])}"></span>'
        for name, share in shares
        if share
    )
    head, *rows = table_part(table, sortable=False)
    return [head, f'<div class="bar" aria-hidden="true">{bar}</div>', *rows]


def _findings(report: Report) -> list[str]:
    if not report.findings:
        return []
    parts = table_part(findings_table(report))
    for number, each in enumerate(report.findings, 1):
        severity = each.severity if each.severity in SEVERITY_ORDER else "info"
        is_open = " open" if severity == "high" else ""
        parts.append(f'<details class="{severity}" id="finding-{number}"{is_open}>')
        parts.append(f"<summary><h3>{number}. {text(finding_head(each))}</h3></summary>")
        parts.append(f"<p>{text(each.detail)}</p>")
        parts += listed("ul", [_evidence(place) for place in each.evidence])
        if each.advice:
            parts += [f"<p>{say('page.do')}</p>", *listed("ol", each.advice)]
        parts.append(f'<p class="faint">{text(finding_foot(each))}</p>')
        places = ((f"row-finding-{number}", "page.to_table"), ("timeline", "page.to_timeline"))
        back = " · ".join(f'<a href="#{place}">{say(key)}</a>' for place, key in places)
        parts.append(f'<p class="faint screen">{back}</p>')
        parts.append("</details>")
    return parts


def _legend() -> str:
    """What the colours of the timeline mean."""
    rules, words = [], []
    for op_class in OpClass:
        light, dark = ("#{:02x}{:02x}{:02x}".format(*palette.rgb[bar(op_class)].tolist()) for palette in (LIGHT, DARK))
        name = f"c{int(op_class)}"
        rules.append(f".{name}{{background:light-dark({light},{dark})}}")
        word = text(say(f"class.{op_class.name.lower()}"))
        words.append(f'<span class="whole"><span class="swatch {name}"></span>{word}</span>')
    return f'<p class="faint"><style>{"".join(rules)}</style>{" ".join(words)}</p>'


def _evidence(place: EvidenceRow) -> str:
    words = [evidence_place(place), place.name, place.note]
    return ": ".join(word for word in words if word)
