"""The tables of a report, the same for Markdown and HTML: every cell as it reads and as it sorts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from npu_tui.output.document import Cell, Table
from npu_tui.report.finding_words import class_word, line_place, overlap_title, severity_word
from npu_tui.report.foremost import shorter_steps, step_length
from npu_tui.report.schema import CodeLineRow, CollectiveRow, FindingRow, OperatorRow, Report, StepRow
from npu_tui.report.schema_files import CrossCheckRow, FileRow, KernelGroupRow, MemoryPeakRow, PairRow
from npu_tui.report.wording import count_text, or_unknown, share_text, size_text, speed_text, time_text
from npu_tui.strings import say
from npu_tui.trace.units import memory_text

T = TypeVar("T")

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
        (f"{say('report.overlap.free')}: {say(f'report.free.{name}').strip()}", time)
        for name, time in split
        if time is not None
    ]
    total = overlap.total_us
    cells = [
        [Cell(name), _time(value), _share(value / total if total and value is not None else None)]
        for name, value in rows
    ]
    cells.append([Cell(say("table.total")), _time(total), _share(1.0 if total else None)])
    return replace(_table("overlap", cells), title=overlap_title(overlap))


def data_tables(report: Report) -> list[Table]:
    """Code lines, steps, operators and collectives, those without a row left out."""
    lines = [line for each in report.dispatches for line in each.code_lines]
    longest = sorted(report.communication, key=lambda each: -each.elapsed_us)
    steps = [step for step in report.steps if step.computing_us is not None]
    tables = [
        _table("lines", _rows(_line, lines)),
        replace(
            _table("steps", _rows(_step, steps)),
            weights=tuple(map(step_length, steps)),
            more=partial(shorter_steps, steps),
        ),
        _table("operators", _rows(_operator, report.operators)),
        _table("shapes", _rows(_group, report.kernel_groups if _has_shapes(report) else [])),
        _table("memory", _rows(_peak, report.memory.peaks if report.memory is not None else [])),
        _table("cross_check", _rows(_check, report.cross_check)),
        _table("files", _rows(_file, report.files)),
        _table("link_matrix", _rows(_pair, report.link_matrix)),
        _table("communication", _rows(_collective, longest)),
    ]
    return [table for table in tables if table.rows]


def findings_table(report: Report) -> Table:
    """All findings in the order of work."""
    return _table("findings", [_finding(number, each) for number, each in enumerate(report.findings, 1)])


_COLUMNS = {
    "overlap": ("part", "time", "share"),
    "findings": ("number", "severity", "class", "gain", "finding"),
    "lines": ("lost", "launches", "place"),
    "steps": ("step", "length", "computing", "exposed", "free", "stage"),
    "operators": ("type", "core", "count", "total", "share", "average", "longest"),
    "memory": ("component", "amount", "peak", "at"),
    "cross_check": ("file", "rows", "matched", "figures", "differing"),
    "shapes": ("type", "shapes", "count", "total", "median", "longest", "bandwidth", "mte2", "mac", "vec"),
    "link_matrix": ("route", "transport", "bandwidth", "size", "time", "group"),
    "files": ("file", "state", "rows", "tells", "setting"),
    "communication": ("name", "elapsed", "waited", "peer", "size", "bandwidth"),
}
_WORDS = {
    "part",
    "severity",
    "class",
    "finding",
    "place",
    "step",
    "type",
    "core",
    "name",
    "component",
    "amount",
    "file",
    "state",
    "tells",
    "setting",
    "shapes",
    "route",
    "transport",
    "group",
}
"""Columns that hold no numbers."""


def _table(name: str, rows: list[list[Cell]]) -> Table:
    columns = _COLUMNS[name]
    titles = tuple(say(f"column.{column}") for column in columns)
    return Table(name, say(f"table.{name}"), titles, tuple(column not in _WORDS for column in columns), rows)


def _rows(row: Callable[[T], list[Cell]], items: list[T]) -> list[list[Cell]]:
    return [row(each) for each in items]


def _time(us: float | None) -> Cell:
    return Cell(time_text(us), us)


def _share(value: float | None) -> Cell:
    return Cell(share_text(value), value)


def _count(value: int) -> Cell:
    return Cell(count_text(value), value)


def _name(value: str | None) -> Cell:
    return Cell(say("report.unknown") if value is None else value, name=value is not None)


def _finding(number: int, each: FindingRow) -> list[Cell]:
    severity = each.severity
    return [
        Cell(str(number), number, link=f"finding-{number}"),
        Cell(severity_word(severity), SEVERITY_ORDER.get(severity)),
        Cell(class_word(each.cls)),
        Cell(say("page.no_gain"), 0) if each.gain_us == 0 else _time(each.gain_us),
        Cell(each.title),
    ]


def _line(each: CodeLineRow) -> list[Cell]:
    place = Cell(line_place(each), name=each.file is not None)
    return [_time(each.lost_us), _count(each.launches), place]


def _step(each: StepRow) -> list[Cell]:
    name = Cell(say("report.steps.none")) if each.name is None else _name(each.name)
    exposed = each.communication_not_overlapped_us
    times = (each.duration_us, each.computing_us, exposed, each.free_us, each.stage_us)
    return [name, *map(_time, times)]


def _operator(each: OperatorRow) -> list[Cell]:
    return [
        _name(each.type),
        _name(each.core),
        _count(each.count),
        _time(each.total_us),
        _share(each.ratio),
        _time(each.avg_us),
        _time(each.max_us),
    ]


def _peak(each: MemoryPeakRow) -> list[Cell]:
    return [
        _name(each.component),
        Cell(each.amount),
        Cell(memory_text(each.peak_bytes), each.peak_bytes),
        _time(each.at_us),
    ]


def _check(each: CrossCheckRow) -> list[Cell]:
    counts = (each.rows, each.matched, each.figures, each.differing)
    return [Cell(each.file), *map(_count, counts)]


def _has_shapes(report: Report) -> bool:
    return any(each.shapes is not None for each in report.kernel_groups)


def _group(each: KernelGroupRow) -> list[Cell]:
    speed = each.bandwidth_gb_s
    return [
        _name(each.type),
        _name(each.shapes),
        _count(each.count),
        _time(each.total_us),
        _time(each.p50_us),
        _time(each.max_us),
        Cell(speed_text(speed), speed),
        *map(_share, (each.mte2_ratio, each.mac_ratio, each.vec_ratio)),
    ]


def _pair(each: PairRow) -> list[Cell]:
    return [
        Cell(say("links_between.pair", source=each.source, target=each.target)),
        _name(each.transport),
        Cell(speed_text(each.bandwidth_gb_s), each.bandwidth_gb_s),
        Cell(size_text(each.size_bytes), each.size_bytes),
        _time(each.transit_us),
        _name(each.group),
    ]


def _file(each: FileRow) -> list[Cell]:
    return [
        Cell(each.name),
        Cell(say(f"summary.state.{each.state}")),
        Cell("" if each.rows is None else count_text(each.rows), each.rows),
        Cell(each.tells),
        Cell(each.setting),
    ]


def _collective(each: CollectiveRow) -> list[Cell]:
    bandwidth = each.bandwidth_gb_s
    return [
        _name(each.name),
        _time(each.elapsed_us),
        _time(each.longest_wait_us),
        Cell(str(or_unknown(each.peer_rank)), each.peer_rank),
        Cell(size_text(each.size_bytes), each.size_bytes),
        Cell(speed_text(bandwidth), bandwidth),
    ]
