"""The tables of a report, and its words for findings, advice and health."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from npu_tui.analysis.steps import FEWEST_STEPS
from npu_tui.output.document import (
    Cell,
    Table,
    finding_cells,
    first_owners,
    made_table,
    name_cell,
    ratio,
    rendered,
    report_share,
    report_time,
    time_cell,
)
from npu_tui.output.report_schema import CriticalPathPart, OverlapPart, Report
from npu_tui.profile.finding_tables import PATH_OWNERS
from npu_tui.profile.launch_tables import RANGES
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import Record, declared_tables
from npu_tui.profile.table import Table as DataTable
from npu_tui.rules.model import Base
from npu_tui.strings import say, words
from npu_tui.subjects import subject_named
from npu_tui.trace.recorder import recorder_named
from npu_tui.trace.text import brief, duration_text, memory_text


def class_word(cls: str) -> str:
    """A class of findings in words."""
    return say(f"finding.kind.{cls}")


def overlap_title(overlap: OverlapPart) -> str:
    """The title of how the device spent its time: with several devices, that it is their sum."""
    if not overlap.devices:
        return say("report.overlap")
    return say("report.overlap.sum", count=len(overlap.devices))


def line_place(line: Record) -> str:
    """Where a line of code stands, or that no call stack says so."""
    if line.file is None:
        return say("report.lines.none")
    place = say("report.lines.place", file=line.file, line=line.line, function=line.function)
    return say("borrow.mark", name=place) if getattr(line, "borrowed", False) else place


def gain_words(gain: str, after: int) -> str:
    """``gain`` with the findings that must be fixed before it is gained: the first ``after`` ones."""
    if not after:
        return gain
    if after == 1:
        return say("finding.gain_after", gain=gain)
    return say("finding.gain_after_many", gain=gain, after=after)


def step_length(step: Record) -> float:
    """How long ``step`` takes on the device, on the host where that is not known, in us."""
    return step.stage_us if step.stage_us is not None else step.duration_us or 0.0


def shorter_steps(steps: Sequence[Record], hidden: int) -> str:
    """How many of ``steps`` are not shown, and that none of these takes longer than those that are."""
    return say("report.steps.more", count=hidden, length=report_time(median(map(step_length, steps))))


def is_alone(report: Report) -> bool:
    """Whether ``report`` is about a subject without devices, and no profile of the NPU lies beside it."""
    return any(missing.id == report.source.kind for missing in report.not_checked)


def profile_again(report: Report) -> list[str]:
    """What to collect next time, from what this report could not check, then what always holds."""
    missing = {missing_answer.id for missing_answer in report.not_checked}
    kind, writer = report.source.kind, report.source.writer
    recorder = recorder_named(kind, writer)
    if recorder.has_one_reason and is_alone(report):
        return []
    lines = [say(f"again.{kind}")] if is_alone(report) else []
    lines += [say(key) for key, ids in recorder.again if missing.intersection(ids)]
    if 0 < report.source.step_count < FEWEST_STEPS:
        lines.append(say("again.few", steps=report.source.step_count))
    overhead = [] if is_alone(report) else [say(key) for key in recorder.overhead]
    ways = subject_named(report.source.kind).ways
    return [*lines, *overhead, *([say(ways)] if ways else [])]


def verdict(report: Report) -> list[str]:
    """The verdict in one or a few lines; empty where the report has none."""
    return report.verdict or [finding.title for finding in report.findings if finding.id == "VERDICT"]


def health_lines(profile: Profile) -> list[str]:
    """What was skipped and why, ends without a slice, crossings, clocks, and counters outside the slices."""
    trace, health = profile.trace, profile.health
    lines = [say("health.events", events=f"{health.events:,}", kept=f"{len(trace.slices):,}")]
    if health.is_clean:
        lines.append(say("health.clean"))
    if health.truncated:
        lines.append(say("health.truncated", events=f"{health.events:,}"))
    lines += [say("health.skipped", count=f"{count:,}", reason=why) for why, count in health.skipped]
    if health.far:
        lines.append(say("health.far", count=f"{health.far:,}", gap=duration_text(health.far_gap)))
    lines += [brief(words(warning), 1_000) for warning in health.warnings]
    lines += [say("report.health.merged", layer=brief(layer)) for layer in profile.merged_layers]
    for link in health.links:
        for key, count in (
            ("health.unbound_sources", link.unbound_sources),
            ("health.unbound_targets", link.unbound_targets),
            ("health.negative", link.negative),
        ):
            if count:
                total = f"{link.links:,}"
                lines.append(say(key, count=f"{count:,}", category=brief(link.category), links=total))
    if health.crossing:
        lines.append(say("health.crossing", count=f"{health.crossing:,}"))
    devices = profile.dispatch
    for device in devices:
        prefix = f"{say('header.device', device=device.device)}: " if len(devices) > 1 else ""
        for floor in device.floors:
            key = "health.clock" if floor.trusted else "health.clock_untrusted"
            lines.append(prefix + say(key, floor=duration_text(floor.floor)))
    if health.samples_outside:
        lines.append(say("health.outside", count=f"{health.samples_outside:,}"))
    return lines


def overlap_table(report: Report) -> Table | None:
    """How the time of the device was spent, and what caused Free; None without a device."""
    overlap = report.overlap
    if overlap.total_us is None:
        return None
    parts = [
        ("computing", overlap.computing_us),
        ("exposed", overlap.communication_not_overlapped_us),
        ("copies", overlap.exposed_copies_us),
        ("free", overlap.free_us),
    ]
    split: list[tuple[str, float | UnsetType | None]] = [
        ("late", overlap.free_host_late_us),
        ("side", overlap.free_device_side_us),
        ("unlinked", overlap.free_unlinked_us),
        ("unasked", overlap.free_unasked_us),
    ]
    rows = [(say(f"report.overlap.{name}"), time) for name, time in parts if time is not UNSET]
    rows += [
        (say("list.colon").join((say("report.overlap.free"), say(f"report.free.{name}"))), time)
        for name, time in split
        if time is not None and time is not UNSET
    ]
    total = overlap.total_us
    rows.append((say("table.total"), total))
    cells = [
        [Cell(name), Cell(report_time(time), time), Cell(report_share(ratio(time, total)), ratio(time, total))]
        for name, time in rows
    ]
    title, times = overlap_title(overlap), report.step_times
    if times is not None and times.warm_up and report.selection is None:
        title = say("report.overlap.warm_up", title=title, count=times.warm_up)
    return made_table("overlap", "part time# share#", cells, title)


_SOME = 0.005  # the share from which on a part of a latency stands on a page; all are in JSON


def base_of(report: Report) -> Base:
    """What saved and lost times refer to, such as a step."""
    return next((Base(row.per, row.count) for row in report.findings if row.count is not None), Base("run"))


def _section_table(table: DataTable, report: Report) -> Table:
    """All rows of the section of ``table``."""
    return rendered(table, getattr(report, table.section), "", False, "", base_of(report))


def _code_lines(table: DataTable, report: Report) -> Table:
    lines = [line for dispatch in report.dispatches for line in dispatch.code_lines]
    cells = {"place": lambda line: Cell(line_place(line), name=line.file is not None)}
    return rendered(table, lines, "lines", False, "", base_of(report), **cells)


def _steps_table(table: DataTable, report: Report) -> Table:
    steps = [step for step in report.steps if step.computing_us is not None]
    return replace(
        rendered(table, steps, step=lambda step: name_cell(step.name, "report.steps.none")),
        weights=tuple(map(step_length, steps)),
        more=partial(shorter_steps, steps),
    )


def _latency_parts(table: DataTable, report: Report) -> Table:
    return rendered(table, [row for row in report.latency_parts if max(row.share, row.slowest_share) >= _SOME])


def _engine_steps(table: DataTable, report: Report) -> Table:
    return replace(
        rendered(table, report.engine_steps, graph=lambda row: Cell(_graph_word(row))),
        weights=tuple(row.device_span_us or 0.0 for row in report.engine_steps),
    )


def _kernel_groups(table: DataTable, report: Report) -> Table:
    shaped = any(row.shapes is not None for row in report.kernel_groups)
    return rendered(table, report.kernel_groups if shaped else [], "shapes")


def _modules(table: DataTable, report: Report) -> Table:
    return replace(
        rendered(table, report.modules, "", False, "", base_of(report), module=_module_cell),
        weights=tuple(row.total_us for row in report.modules),
        sortable=False,
    )


def _borrowed_code(table: DataTable, report: Report) -> Table:
    borrowed = rendered(
        table,
        [] if report.borrowed is None else report.borrowed.code,
        "",
        False,
        "",
        base_of(report),
        operation=lambda row: name_cell(row.operation, "borrow.unplaced"),
        place=lambda line: name_cell(None if line.file is None else line_place(line), "borrow.unplaced"),
    )
    return replace(borrowed, sortable=False)


def _memory_peaks(table: DataTable, report: Report) -> Table:
    peaks = report.memory.peaks if report.memory else []

    def more(hidden: int) -> str:
        """The components of CANN stand last: where not all fit, their peaks are named in a line."""
        return say("report.memory.more", rows=[_peak_words(peak) for peak in peaks[-hidden:]])

    return replace(rendered(table, peaks, "memory"), more=more)


def _peak_words(peak: Record) -> str:
    return f"{peak.component} {peak.amount} {memory_text(peak.peak_bytes)}"


def _files_table(table: DataTable, report: Report) -> Table:
    files = [file for file in report.files if file.state != "missing"]
    # Where not all fit, damaged files stay.
    weights = tuple(0 if file.state == "read" else 1 for file in files)
    return replace(rendered(table, files), weights=weights)


# The tables whose rows are chosen, named or written for a page in a way of their own.
_WRITTEN: dict[str, Callable[[DataTable, Report], Table]] = {
    "code_lines": _code_lines,
    "steps": _steps_table,
    "latency_parts": _latency_parts,
    "engine_steps": _engine_steps,
    "kernel_groups": _kernel_groups,
    "modules": _modules,
    "borrowed_code": _borrowed_code,
    "memory_peaks": _memory_peaks,
    "files": _files_table,
    "link_matrix": lambda table, report: rendered(table, report.link_matrix, route=lambda row: Cell(_route(row))),
    "collectives": lambda table, report: rendered(
        table, sorted(report.communication, key=lambda row: -row.elapsed_us), "communication"
    ),
}

_CHAPTERS = (
    "launch_tables", "steps", "service_tables", "cpu_time", "cpu_waits", "engine_tables",
    "expert_tables", "work_tables", "module_tables", "memory_tables",
    "file_tables", "collective_tables",
)  # fmt: skip
"""Files of tables, or a table of another file, in the order of a page; those of other files come last."""


def data_tables(report: Report) -> list[Table]:
    """The tables below the findings in their order; some may have no row."""
    place = {file: number for number, file in enumerate(_CHAPTERS)}
    shown = [
        table for table in declared_tables("npu_tui.profile") if table.page and (table.section or table.id in _WRITTEN)
    ]
    shown.sort(key=lambda table: place.get(table.id, place.get(table.file, len(place))))
    return [_WRITTEN.get(table.id, _section_table)(table, report) for table in shown]


def _module_cell(row: Record) -> Cell:
    """The name of a module, further in the deeper it is."""
    if row.name is None:
        return name_cell(None, "report.modules.none")
    name = "  " * row.depth + row.name
    return name_cell(say("borrow.mark", name=name) if row.borrowed else name)


def _graph_word(row: Record) -> str:
    """Whether graphs replay a step; empty where launches are unknown."""
    words: dict[bool | str, str] = {True: "graph", False: "eager"}
    return "" if row.graph is None else say(f"engine.graph.{words.get(row.graph, row.graph)}")


def _route(row: Record) -> str:
    return say("links_between.pair", source=row.source, target=row.target)


def ranges_table(ranges: list[Record]) -> Table:
    """Where launches starve; among many ranges those count that lose most."""
    return replace(
        rendered(RANGES, ranges),
        weights=tuple(row.lost_us for row in ranges),
        more=lambda hidden: say("report.ranges.more", count=hidden),
    )


def owners_table(path: CriticalPathPart) -> Table:
    """The owners of ``path``: those with most time, and all others in one row, so that they add up to all of it."""
    rows = first_owners(path.owners, "on_path_us ratio", "number gain_us finding")
    several = path.count if path.count is not None and path.count > 1 else 0
    table = rendered(
        PATH_OWNERS,
        rows,
        "path_owners",
        True,
        "",
        Base(path.per or "run", path.count or 1),
        number=lambda row: Cell("" if row.number is None else str(row.number), row.number),
        owner=lambda row: Cell(row.title, name=True),
        each=lambda row: time_cell(row.on_path_us / several) if several else Cell(""),
    )
    return replace(table, sortable=False)


def findings_table(report: Report) -> Table:
    """All findings in the order of work."""
    rows = [
        [
            *finding_cells(number, row.severity),
            Cell(class_word(row.cls)),
            Cell(say("page.no_gain"), 0) if row.gain_us == 0 else Cell(report_time(row.gain_us), row.gain_us),
            Cell(row.title),
        ]
        for number, row in enumerate(report.findings, 1)
    ]
    return made_table("findings", "number# severity class gain# finding", rows, base=base_of(report))
