"""The report as Markdown to paste into an issue: verdict, findings with evidence, tables, how to profile again."""

from __future__ import annotations

import re

from npu_tui.output.document import Cell, Table
from npu_tui.report.advice import profile_again, verdict
from npu_tui.report.finding_words import evidence_place, finding_foot, finding_head, source_line, split_findings
from npu_tui.report.pages.tables import data_tables, overlap_table
from npu_tui.report.schema import FindingRow, Report
from npu_tui.strings import say
from npu_tui.trace.text import brief, printable

_ROWS = 10
_EVIDENCE = 5
_LONGEST_NAME = 160
_SPECIAL = re.compile(r"[\\`*\[\]<|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|&(?=[#\w])")
_LEADING = re.compile(r"^(\d*)(?=[-+>=#]|[.)](?:\s|$))")
_BREAK = "<!-- -->"


def markdown_report(report: Report) -> str:
    """The lines of ``report``."""
    lines = [f"## npu-tui: {code(report.source.path)}", "", plain(source_line(report))]
    if said := verdict(report):
        lines += ["", *(f"> {plain(line)}  " for line in said)]
    device = overlap_table(report)
    if device is not None:
        lines += _section(device.title) + _table(device)
    lines += _findings(report.findings)
    for table in data_tables(report):
        lines += _section(table.title) + _table(table)
    lines += _section(say("table.again")) + [f"- {plain(line)}" for line in profile_again(report)]
    if report.not_checked:
        lines += _section(say("report.not_checked"))
        lines += [f"- {code(each.id)}: {plain(each.reason)}" for each in report.not_checked]
    if report.health.warnings:
        lines += _section(say("report.health")) + [f"- {plain(each)}" for each in report.health.warnings]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """``text`` as Markdown that reads as it stands: no markup, link, mention or number of an issue comes out of it."""
    safe = _SPECIAL.sub(r"\\\g<0>", printable(text).strip())
    safe = re.sub(r"([@#])(?=\w)", rf"\1{_BREAK}", safe)
    safe = re.sub(r"(?i)(?<=[a-z]):(?=//)", "&#58;", safe)
    safe = re.sub(r"(?i)\b(www)\.", r"\1&#46;", safe)
    return _LEADING.sub(r"\1\\", safe, count=1)


def code(text: str, table: bool = False) -> str:
    """``text`` as a code span, whatever is in it; ``table`` where it stands in a table's cell."""
    safe = brief(text, _LONGEST_NAME)
    if table:
        safe = safe.replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", safe)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if safe.startswith("`") or safe.endswith("`") or not safe.strip() else ""
    return f"{fence}{pad}{safe}{pad}{fence}" if safe else ""


def _section(title: str) -> list[str]:
    return ["", f"### {title}", ""]


def _findings(findings: list[FindingRow]) -> list[str]:
    if not findings:
        return []
    lines = _section(say("table.findings"))
    full, rest = split_findings(findings)
    for number, each in enumerate(full, 1):
        lines += [f"**{number}. {plain(finding_head(each))}**  ", plain(each.detail), ""]
        lines += _proof(each) if each.part_of is None else _advice(each)
    if rest:
        lines += [say("page.brief"), "", *(f"- {code(each.id)} {plain(each.title)}" for each in rest), ""]
    return lines[:-1]


def _advice(finding: FindingRow) -> list[str]:
    """What to do, with an empty line after it."""
    if not finding.advice:
        return []
    return [say("page.do"), "", *(f"{k}. {plain(text)}" for k, text in enumerate(finding.advice, 1)), ""]


def _proof(finding: FindingRow) -> list[str]:
    """Where to see it, what to do, and who says so."""
    lines = []
    shown = finding.evidence[:_EVIDENCE]
    for place in shown:
        name = f" {code(place.name)}" if place.name else ""
        note = f": {plain(place.note)}" if place.note else ""
        lines.append(f"- {plain(evidence_place(place))}{name}{note}")
    if len(finding.evidence) > len(shown):
        lines.append(f"- {say('report.more', count=len(finding.evidence) - len(shown))}")
    if finding.advice:
        lines += ["", *_advice(finding)[:-1]]
    foot = f"<sub>{plain(finding_foot(finding))}</sub>"
    return [*lines, "", foot, ""] if lines else [foot, ""]


def _table(table: Table) -> list[str]:
    rule = " | ".join("---:" if numeric else "---" for numeric in table.numeric)
    lines = [f"| {' | '.join(table.columns)} |", f"| {rule} |"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in table.shown(_ROWS)]
    hidden = table.hidden(_ROWS)
    return [*lines, "", hidden] if hidden else lines


def _cell(cell: Cell) -> str:
    return code(cell.text, table=True) if cell.name else plain(cell.text)
