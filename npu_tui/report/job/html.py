"""The report about a job as one HTML file: verdict, heat map, the dearest collective, and the tables."""

from __future__ import annotations

import shlex

import numpy as np

from npu_tui.job.heat import SHADES, HeatRow, HeatSource, heat_rows
from npu_tui.job.job import Job
from npu_tui.job.waterfall import Bar, Waterfall, waterfall
from npu_tui.output.document import Cell, Table
from npu_tui.report.job.schema import JobReport
from npu_tui.report.job.text import clock_cells, exposed_waits, head_line, link_lines, tells_exposed_waits
from npu_tui.report.pages.html_parts import listed, page, table_part, text
from npu_tui.report.pages.tables import SEVERITY_ORDER
from npu_tui.strings import say
from npu_tui.trace.text import duration_text, share_text

_MOST_ROWS = 64
_MOST_COLUMNS = 60
_MOST_BARS = 16
_FILLS = ("", "rgb(179 38 30 / .15)", "rgb(179 38 30 / .35)", "rgb(179 38 30 / .6)", "rgb(179 38 30 / .9)")
"""The ground of a cell by its shade: red is what a rank is to blame for."""

_RANKS = ("rank", "host", "step", "computing", "exposed", "free", "own", "last", "waits", "gain")
_COLLECTIVES = ("type", "step", "last", "waits", "transfer", "ends")


def html_job(found: JobReport, job: Job) -> str:
    """The page of ``found``, the report about ``job``."""
    body = [f'<p class="faint">{text(head_line(found))}</p>', f'<p class="verdict">{text(found.verdict)}</p>']
    for each in found.findings:
        severity = each.severity if each.severity in SEVERITY_ORDER else "info"
        body += [f'<article class="{severity}">', f"<h3>{text(each.id)} {text(each.title)}</h3>"]
        body += [f"<p>{text(each.detail)}</p>", "</article>"]
    body += _heat(job)
    body += _collective(job)
    body += table_part(_ranks(found)) if found.rank_table else []
    body += table_part(_collectives(found)) if found.collectives else []
    clocks = [" ".join(filter(None, clock_cells(row))) for row in found.clock]
    for key, lines in (("links", link_lines(found)), ("clock", clocks), ("not_checked", found.not_checked)):
        if lines:
            body += [f"<h2>{text(say(f'job.{key}'))}</h2>", *listed("ul", lines)]
    body.append(f"<p><code>{text(f'npu-tui {shlex.quote(found.source.path)}')}</code></p>")
    return page(f"npu-tui: {found.source.path}", body)


def _heat(job: Job) -> list[str]:
    """The heat map of own excess, those that are alike in one row; the first columns of a long run."""
    heat = HeatSource(job).heat("own", "step" if len(job.steps) > 1 else "collective")
    rows = heat_rows(heat, missing=job.missing)[:_MOST_ROWS]
    if not heat.columns:
        return []
    axis = say(f"ranks.axis.{heat.axis}")
    title = say("ranks.map.title", metric=say("ranks.metric.own"), axis=axis)
    labels = [column.label for column in heat.columns[:_MOST_COLUMNS]]
    heads = "".join(f'<th scope="col" class="number">{text(label)}</th>' for label in ("", *labels))
    lines = [f"<tr>{_heat_row(row, heat.step)}</tr>" for row in rows]
    return [
        f"<h2>{text(title)}</h2>",
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>',
        *lines,
        "</tbody></table></div>",
    ]


def _heat_row(row: HeatRow, step: float) -> str:
    if row.kind == "missing":
        name = f"{', '.join(map(str, row.ranks[:8]))} {say('ranks.missing')}"
    else:
        name = say("ranks.alike", count=len(row.ranks)) if row.kind == "alike" else str(row.ranks[0])
    cells = [f'<th scope="row">{text(name)}</th>']
    for share in row.values[:_MOST_COLUMNS].tolist():
        if np.isnan(share):
            cells.append(f'<td class="number faint">{"?" if row.kind == "missing" else ""}</td>')
            continue
        fill = _FILLS[int(np.searchsorted(SHADES, share, "right"))]
        style = f' style="background:{fill}"' if fill else ""
        cells.append(f'<td class="number"{style}>{text(duration_text(share * step, 3))}</td>')
    return "".join(cells)


def _collective(job: Job) -> list[str]:
    """The collective that was waited for the longest, a bar a rank."""
    if not len(job.blamed) or not int(job.blamed.cost.max()):
        return []
    blamed = job.blamed[int(job.blamed.cost.argmax())]
    found, meeting = waterfall(blamed, job.clocks), blamed.meeting
    step = say("ranks.fall.step", step=meeting.step) if meeting.step else ""
    title = say("ranks.fall.title", type=meeting.type, ordinal=meeting.ordinal, group=meeting.group, step=step)
    error = max((bar.error for bar in found.bars), default=0)
    lines = [
        f"<h2>{text(title)}</h2>",
        f'<p class="faint">{text(say("ranks.fall.aside", spread=blamed.spread, error=error))}</p>',
    ]
    for bar in found.bars[:_MOST_BARS]:
        note = say("ranks.fall.waits", time=bar.wait)
        if bar.at_most:
            note = say("ranks.fall.at_most")
        elif bar.rank == blamed.last:
            note = say("ranks.fall.last", time=blamed.cost)
        lines.append(f"<div>{text(say('job.rank', rank=bar.rank))} · {text(note)}</div>{_bar(found, bar)}")
    return lines


def _bar(found: Waterfall, bar: Bar) -> str:
    """Work, what of it was more than the peers needed, waiting, transfer."""
    begin = bar.come if bar.begin is None else bar.begin
    more = max(bar.come - bar.own, begin)
    stops = (("", begin), ("computing", more), ("excess", bar.come), ("free", found.come), ("exposed", bar.end))
    parts, before = [], 0
    for kind, stop in stops:
        if stop > before:
            style = f"width:{(stop - before) / found.length:.3%}" + (
                ";background:var(--high)" if kind == "excess" else ""
            )
            parts.append(f'<span class="{kind}" style="{style}"></span>')
            before = stop
    return f'<div class="bar" aria-hidden="true">{"".join(parts)}</div>'


def _time(us: float | None) -> Cell:
    return Cell(say("report.unknown")) if us is None else Cell(duration_text(us * 1e3), us)


def _ranks(found: JobReport) -> Table:
    rows, exposed = [], tells_exposed_waits(found)
    for row in sorted(found.rank_table, key=lambda row: (-(row.gain_us or 0), -row.own_excess_us, row.rank)):
        share = row.came_last / row.collectives if row.collectives else 0.0
        times = (row.step_us, row.computing_us, row.communication_not_overlapped_us, row.free_us, row.own_excess_us)
        last = Cell(f"{row.came_last}/{row.collectives} {share_text(share)}", share)
        waits = [_time(row.job_waits_us), *([_time(exposed_waits(row))] if exposed else [])]
        costs = (*waits, _time(row.gain_us), Cell(say("list.comma").join(row.why)))
        rows.append([Cell(str(row.rank), row.rank), Cell(row.host), *map(_time, times), last, *costs])
    columns = [*_RANKS[:-1], *(["waits_exposed"] if exposed else []), *_RANKS[-1:]]
    names = (*(say(f"job.column.{name}") for name in columns), say("ranks.head.why"))
    return Table("ranks", say("job.ranks"), names, (True, False, *[True] * (len(columns) - 2), False), rows)


def _collectives(found: JobReport) -> Table:
    rows = []
    for row in sorted((row for row in found.collectives if row.second_us), key=lambda row: -row.second_us):
        last = say("job.nobody") if row.last_rank is None else say("job.last", rank=row.last_rank)
        times = map(_time, (row.second_us, row.transfer_us, row.end_spread_us))
        rows.append([Cell(f"{row.type} {row.ordinal}", name=True), Cell(row.step), Cell(last), *times])
    names = tuple(say(f"job.column.{name}") for name in _COLLECTIVES)
    return Table("collectives", say("job.collectives"), names, (False, False, False, True, True, True), rows)
