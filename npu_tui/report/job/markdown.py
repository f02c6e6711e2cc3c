"""The report about a job as Markdown to paste into an issue."""

from __future__ import annotations

import shlex

from npu_tui.report.job.schema import JobFindingRow, JobReport
from npu_tui.report.job.text import (
    clock_cells,
    collective_cells,
    head_line,
    link_lines,
    rank_cells,
    reasons_of,
    shown_clocks,
)
from npu_tui.report.pages.markdown_report import code, plain
from npu_tui.strings import say


def job_markdown(found: JobReport) -> str:
    """The lines of ``found``: verdict, findings, ranks, collectives, links, clock, and what was not checked."""
    lines = [f"## {plain(found.verdict)}", "", plain(head_line(found))]
    lines += _section(
        "findings",
        [
            f"- {code(each.id)} **{plain(each.title)}** {plain(' '.join([each.detail, *_why(found, each)]))}"
            for each in found.findings
        ],
    )
    lines += _section("ranks", _table(rank_cells(found), 2))
    lines += _section("collectives", _table(collective_cells(found), 3))
    lines += _section("links", [f"- {plain(line)}" for line in link_lines(found)])
    lines += _section("clock", [f"- {plain(' '.join(filter(None, clock_cells(row))))}" for row in shown_clocks(found)])
    lines += _section("not_checked", [f"- {plain(line)}" for line in found.not_checked])
    return "\n".join([*lines, "", code(f"npu-tui ranks {shlex.quote(found.source.path)}")]) + "\n"


def _why(found: JobReport, each: JobFindingRow) -> list[str]:
    why = reasons_of(found, each)
    return [say("job.why", why=why)] if why else []


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"### {say(f'job.{title}')}", "", *lines] if lines else []


def _table(cells: list[list[str]], texts: int) -> list[str]:
    """A table under its first row, whose first ``texts`` columns are texts; none without other rows."""
    heads, *rows = cells
    if not rows:
        return []
    rule = " | ".join("---" if number < texts else "---:" for number in range(len(heads)))
    return [f"| {' | '.join(heads)} |", f"| {rule} |", *(f"| {' | '.join(map(plain, row))} |" for row in rows)]
