"""The tables of a report, the same for Markdown and HTML: every cell as it reads and as it sorts."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from npu_tui.output.document import Cell, Table
from npu_tui.output.rendered import name_cell, rendered
from npu_tui.profile.file_tables import CHECKS, FILES, LINK_MATRIX, MEMORY_PEAKS
from npu_tui.profile.launch_tables import CODE_LINES, RANGES
from npu_tui.profile.table import Record
from npu_tui.profile.work_tables import COLLECTIVES, KERNEL_GROUPS, OPERATORS, STEPS
from npu_tui.report.finding_words import class_word, line_place, overlap_title, severity_word
from npu_tui.report.foremost import shorter_steps, step_length
from npu_tui.report.schema import FindingRow, RangeRow, Report
from npu_tui.report.wording import count_text, share_text, time_text
from npu_tui.strings import say

SEVERITY_ORDER = {"high": 0, "medium": 1, "low": 2, "info": 3}


def overlap_table(report: Report) -> Table | None:
    """How the time of the device was spent, and whose fault Free is; None without a device."""
    overlap = report.overlap
    if overlap.total_us is None:
        return None
    parts = [
        ("computing", overlap.computing_us),
        ("exposed", overlap.communication_not_overlapped_us),
        ("free", overlap.free_us),
    ]
    split = [
        ("late", overlap.free_host_late_us),
        ("side", overlap.free_device_side_us),
        ("unlinked", overlap.free_unlinked_us),
    ]
    rows = [(say(f"report.overlap.{name}"), time) for name, time in parts]
    rows += [
        (f"{say('report.overlap.free')}: {say(f'report.free.{name}')}", time)
        for name, time in split
        if time is not None
    ]
    total = overlap.total_us
    cells = [
        [Cell(name), _time(value), _share(value / total if total and value is not None else None)]
        for name, value in rows
    ]
    cells.append([Cell(say("table.total")), _time(total), _share(1.0 if total else None)])
    return replace(
        _table("overlap", ("part", "time", "share"), (False, True, True), cells), title=overlap_title(overlap)
    )


def data_tables(report: Report) -> list[Table]:
    """Code lines, steps, operators and collectives, those without a row left out."""
    lines = [line for each in report.dispatches for line in each.code_lines]
    longest = sorted(report.communication, key=lambda each: -each.elapsed_us)
    steps = [step for step in report.steps if step.computing_us is not None]
    shaped = any(each.shapes is not None for each in report.kernel_groups)
    peaks = report.memory.peaks if report.memory is not None else []
    tables = [
        rendered(CODE_LINES, lines, "lines", place=lambda each: Cell(line_place(each), name=each.file is not None)),
        replace(
            rendered(STEPS, steps, step=lambda each: name_cell(each.name, "report.steps.none")),
            weights=tuple(map(step_length, steps)),
            more=partial(shorter_steps, steps),
        ),
        rendered(OPERATORS, report.operators),
        rendered(KERNEL_GROUPS, report.kernel_groups if shaped else [], "shapes"),
        rendered(MEMORY_PEAKS, peaks, "memory"),
        rendered(CHECKS, report.cross_check),
        replace(
            rendered(FILES, report.files, rows=lambda each: Cell(_rows_of(each), each.rows)),
            # What is damaged comes first; a missing file is named elsewhere.
            weights=tuple({"missing": 0, "read": 1}.get(file.state, 2) for file in report.files),
        ),
        rendered(LINK_MATRIX, report.link_matrix, route=lambda each: Cell(_route(each))),
        rendered(COLLECTIVES, longest, "communication"),
    ]
    return [table for table in tables if table.rows]


def _rows_of(each: Record) -> str:
    """How many rows a file has; settings have none."""
    return "" if each.rows is None else count_text(each.rows)


def _route(each: Record) -> str:
    return say("links_between.pair", source=each.source, target=each.target)


def ranges_table(ranges: list[RangeRow]) -> Table:
    """Where launches starve; of many ranges those count that lose most."""
    return replace(
        rendered(RANGES, ranges),
        weights=tuple(row.lost_us for row in ranges),
        more=lambda hidden: say("report.ranges.more", count=hidden),
    )


def findings_table(report: Report) -> Table:
    """All findings in the order of work."""
    rows = [_finding(number, each) for number, each in enumerate(report.findings, 1)]
    return _table(
        "findings", ("number", "severity", "class", "gain", "finding"), (True, False, False, True, False), rows
    )


def _table(name: str, columns: tuple[str, ...], numeric: tuple[bool, ...], rows: list[list[Cell]]) -> Table:
    return Table(name, say(f"table.{name}"), tuple(say(f"column.{each}") for each in columns), numeric, rows)


def _time(us: float | None) -> Cell:
    return Cell(time_text(us), us)


def _share(value: float | None) -> Cell:
    return Cell(share_text(value), value)


def _finding(number: int, each: FindingRow) -> list[Cell]:
    severity = each.severity
    return [
        Cell(str(number), number, link=f"finding-{number}"),
        Cell(severity_word(severity), SEVERITY_ORDER.get(severity)),
        Cell(class_word(each.cls)),
        Cell(say("page.no_gain"), 0) if each.gain_us == 0 else _time(each.gain_us),
        Cell(each.title),
    ]
