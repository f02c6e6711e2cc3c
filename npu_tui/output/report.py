"""The report of one profile: every part of it measured and put into its JSON document."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np
from msgspec import UNSET, UnsetType, structs

from npu_tui import __version__
from npu_tui.analysis.device import EVERYTHING
from npu_tui.analysis.launches import Dispatch
from npu_tui.analysis.overlap import slow_stage
from npu_tui.analysis.steps import FEWEST_STEPS, step_spread
from npu_tui.output.document import ratio
from npu_tui.output.envelope import NotChecked
from npu_tui.output.report_schema import (
    BorrowedPart,
    CriticalPathPart,
    DispatchPart,
    ExpertsReport,
    HealthPart,
    MemoryPart,
    OverlapPart,
    Report,
    SelectionPart,
    SkippedRow,
    SourcePart,
    StepTimes,
    TracePart,
    experts_at,
)
from npu_tui.profile.finding_tables import CRITICAL_PATH, PATH_OWNERS
from npu_tui.profile.launch_tables import CODE_LINES, DRAINS, RANGES
from npu_tui.profile.memory_tables import MEMORY_PEAKS
from npu_tui.profile.module_tables import BORROWED_CODE
from npu_tui.profile.parts import Selection
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import Record, Table, declared_tables, us
from npu_tui.profile.trace_tables import distinct_events
from npu_tui.profile.work_tables import OVERLAP
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import first_of_largest, length_of
from npu_tui.rules.judged_path import JudgedPath
from npu_tui.strings import say, words
from npu_tui.subjects import subject_named
from npu_tui.trace.model import Trace
from npu_tui.trace.recorder import launched_before, recorder_named
from npu_tui.trace.text import printable


def overlap_part(part: Profile) -> OverlapPart:
    """Sums over all devices, and one object per device where there are several."""
    sheet = OVERLAP.make(part)
    rows = [
        dict(zip(_SUMS, values, strict=True)) for values in zip(*(sheet.values(name) for name in _SUMS), strict=True)
    ]
    total: dict[str, float | None] = dict.fromkeys(_SUMS)
    if rows:
        total = {name: None if None in (values := [row[name] for row in rows]) else sum(values) for name in _SUMS}
    unasked = {facts.part.device: length_of(facts.unasked) for facts in part.facts}
    said = structs.replace(overlap_object(total), free_unasked_us=_unasked(sum(unasked.values())))
    if len(rows) < 2:
        return said
    devices = [
        structs.replace(overlap_object(row, device), free_unasked_us=_unasked(unasked.get(device, 0)))
        for device, row in zip(sheet.values("device"), rows, strict=True)
    ]
    return structs.replace(said, devices=devices)


def _unasked(time: float) -> float | UnsetType | None:
    """``time`` ns of waiting for requests; left out without any."""
    return us(time) if time else UNSET


_SUMS = (
    "total", "computing", "communication", "not_overlapped", "copies", "free", "host_late", "device_side", "unlinked",
)  # fmt: skip


def overlap_object(sums: Mapping[str, float | None], device: int | UnsetType | None = UNSET) -> OverlapPart:
    """The part of the report made of ``sums``, ns by name: total, computing, communication, not_overlapped, free."""
    communication, exposed = sums["communication"], sums["not_overlapped"]
    copies, total, free = sums["copies"], sums["total"], sums["free"]
    return OverlapPart(
        device=device,
        total_us=us(sums["total"]),
        computing_us=us(sums["computing"]),
        communication_us=us(communication),
        communication_not_overlapped_us=us(exposed),
        overlapped_us=None if communication is None or exposed is None else us(communication - exposed),
        free_us=us(sums["free"]),
        computing_ratio=ratio(sums["computing"], sums["total"]),
        communication_not_overlapped_ratio=ratio(exposed, sums["total"]),
        free_ratio=ratio(sums["free"], sums["total"]),
        free_host_late_us=us(sums["host_late"]),
        free_device_side_us=us(sums["device_side"]),
        free_unlinked_us=us(sums["unlinked"]),
        exposed_copies_us=UNSET if copies is None else us(copies),
        busy_us=UNSET if copies is None or total is None or free is None else us(total - free),
    )


def dispatch_part(part: Profile) -> DispatchPart | list[DispatchPart]:
    """The launches: one object, or a list by device where several have any."""
    parts = [_dispatch_object(part, facts, facts.launches) for facts in part.facts if facts.launches is not None]
    if not parts:
        return DispatchPart(device=None, links=0)
    return parts[0] if len(parts) == 1 else parts


def _dispatch_object(part: Profile, facts: Facts, launches: Dispatch) -> DispatchPart:
    floor = launches.floors[0] if len(launches.floors) == 1 else None
    near = int(np.count_nonzero(launches.near_vertical))
    drains = facts.drains
    longest = np.sort(first_of_largest(drains.end - drains.start, MOST_ROWS))
    return DispatchPart(
        device=facts.part.device,
        links=len(launches.link),
        clock_floor_us=us(floor.floor) if floor else None,
        clock_floor_trusted=all(process.trusted for process in launches.floors),
        threshold_us=us(launches.near_limit),
        near_vertical=near,
        near_vertical_ratio=ratio(near, len(launches.link)),
        shallow=int(np.count_nonzero(launches.shallow)),
        queued=int(np.count_nonzero(launches.queued)),
        starved=int(np.count_nonzero(launches.starved)),
        lost_us=us(launches.lost.sum()),
        lost_unasked_us=_unasked(facts.lost_unasked.sum()),
        ranges=RANGES.records(part, facts=facts),
        code_lines=CODE_LINES.records(part, devices=[facts]),
        drains=DRAINS.records(part, dry=drains.taken(longest)),
        drain_causes=dict(drains.counted()),
        interrupted=int(drains.interrupted.sum()),
        slow_stage=slow_stage(facts.dequeue_idle),
        dequeue_idle_ratio=ratio(facts.dequeue_idle, 1),
    )


def critical_path_part(part: Profile) -> CriticalPathPart | list[CriticalPathPart]:
    """The critical path: one object, or a list by device where several did anything."""
    parts = [_path_object(part, told) for told in part.critical_paths]
    if not parts:
        why = say("path.no_device") if part.clock_jump is None else words(part.clock_jump)
        return CriticalPathPart(told=False, reason=why)
    return parts[0] if len(parts) == 1 else parts


def _path_object(part: Profile, told: JudgedPath) -> CriticalPathPart:
    if told.owners is None:
        why = None if told.reason is None else words(told.reason)
        return CriticalPathPart(told=False, reason=why, device=told.device, per=told.unit, count=told.count)
    path = told.owners.path
    longest = np.sort(first_of_largest(path.end - path.start, MOST_ROWS))
    return CriticalPathPart(
        told=True,
        device=told.device,
        per=told.unit,
        count=told.count,
        length_us=us(path.length),
        clock_floor_us=us(told.floor),
        owners=PATH_OWNERS.records(part, paths=[told]),
        stretch_count=len(path),
        stretches=CRITICAL_PATH.rows(CRITICAL_PATH.make(part, paths=[told]).taken(longest)),
    )


def _left_out_steps(profile: Profile) -> int | None:
    """How many first steps the findings leave out; None where they judge none."""
    return len(profile.facts[0].warm_up) if profile.facts and profile.facts[0].is_whole else None


def step_times(
    steps: Sequence[Record], unprofiled: int | None = None, devices: int = 1, warm_up: int | None = None
) -> StepTimes | None:
    """The spread of the lengths of ``steps`` and how many pass in a second; None without steps.

    With ``unprofiled``, ns of a step without the profiler, also what that costs. The first ``warm_up`` steps are left
    out (None: those that take far longer than the others).
    """
    known = [step for step in steps if step.name is not None and step.duration_us]
    lengths = np.array([step.duration_us for step in known], np.float64)
    spread = step_spread((lengths * 1000).astype(np.int64), warm_up)
    if spread is None:
        return None
    mean = float(lengths[spread.warm_up :].mean())
    return StepTimes(
        count=len(lengths), warm_up=spread.warm_up, p50_us=us(spread.p50), p90_us=us(spread.p90), p99_us=us(spread.p99),
        steps_per_s=round(1e6 / mean, 3), unprofiled_us=us(unprofiled),
        profiler_us=None if unprofiled is None else round(mean - unprofiled / 1000, 3),
        device_us=None if unprofiled is None or devices != 1 else _device_time(known[spread.warm_up :]),
    )  # fmt: skip


def _entire(part: Profile, steps: Sequence[Record]) -> list[Record]:
    """The ``steps`` without the one in which recording began."""
    cut = {facts.entered.number for facts in part.facts if facts.entered is not None}
    return [step for step in steps if step.step not in cut]


def _device_time(steps: Sequence[Record]) -> float | None:
    """How long the device works or exchanges data in a step, us; None where that is unknown of one."""
    works = [(step.computing_us, step.communication_not_overlapped_us) for step in steps]
    return None if any(None in work for work in works) else round(sum(map(sum, works)) / len(works), 3)


def not_checked(part: Profile, report: Report) -> list[NotChecked]:
    """What the ``report`` about ``part`` does not know, and the rules that have no answer, with the reasons."""
    profile = part.whole
    parts, source, trace = profile.devices, report.source, profile.trace
    lanes = [part.lanes for part in parts if part.lanes is not None]
    launches = [part.launches for part in parts if part.launches is not None]
    layers = {layer.kind for layer in trace.layers if layer.lanes}
    steps = report.steps if source.step_count else []
    recorder, (before, every) = recorder_named(source.kind), launched_before(trace)
    untimed = [row for row in report.communication if row.wait_us is None]
    applies = {
        "device": not parts,
        "overlap": bool(parts) and not lanes,
        "overlap.before": len(before) > 0,
        "overlap.lanes": any(measured.layer is None for measured in lanes),
        "overlap.free": bool(lanes) and report.overlap.free_host_late_us is None,
        "steps": source.step_count == 0,
        "steps.few": 0 < source.step_count < FEWEST_STEPS,
        "steps.window": bool(lanes) and any(step.stage_us is None for step in steps),
        "dispatch": not launches,
        "dispatch.clock_floor": any(not floor.trusted for dispatch in launches for floor in dispatch.floors),
        "dispatch.clock_floors": any(len(dispatch.floors) > 1 for dispatch in launches),
        "dispatch.code_lines": bool(launches) and not bool((trace.slices.stack >= 0).any()),
        "dispatch.call_lines": bool(launches) and bool(trace.stacks),
        "dispatch.slow_stage": bool(launches) and any(part.slow_stage is None for part in report.dispatches),
        "dispatch.drains.cause": bool(launches) and "cann" not in layers,
        "apis": not report.apis,
        "host_operators": not report.host_operators,
        "operators.core": any(row.core is None for row in report.operators),
        # With the longest wait the planes were recorded, and only the times of communication.json are missing.
        "communication.planes": any(row.longest_wait_us is None for row in untimed),
        "communication.timing": any(row.longest_wait_us is not None for row in untimed),
        "source.rank": source.rank is None,
        "source.device": source.device is None,
        "source.profiler_level": source.profiler_level is None,
    }
    args = {"overlap.before": {"count": len(before), "all": every}}
    # What has no device, without a profile of the NPU beside it, misses one thing: that.
    foreign = recorder.has_one_reason and not parts  # of another tool: one reason for all that is not known
    is_alone = (subject_named(source.kind).is_alone and not parts) or foreign
    told = () if is_alone and not foreign else applies.items()
    missing = [id for id, holds in told if holds and id not in recorder.unsaid]
    missing = [source.kind, *missing] if is_alone else missing
    reasons = {id: recorder.word(f"not_checked.{id}") for id in missing}
    reasons |= dict.fromkeys(missing if foreign else (), f"not_checked.{source.kind}")
    said = {id: say(reasons[id], **args.get(id, {})) for id in missing}
    if profile.clock_jump is not None and "dispatch" in said:
        said["dispatch"] = words(profile.clock_jump)
    answers = [NotChecked(id=id, reason=reason) for id, reason in said.items()]
    if not is_alone or part.judged is not None:  # else no rule has anything to check
        answers += [NotChecked(id=rule, reason=words(reason)) for rule, reason in part.findings.not_checked]
    return answers


MOST_ROWS = 1000
"""Rows of a list of requests or of drains."""

_LISTS = {table.section: table for table in declared_tables("npu_tui.profile") if table.section}
"""The sections that are the rows of a table."""

_PARTS: dict[str, Callable[[Profile, Report], Any]] = {
    "selection": lambda part, said: _selection(part.selection),
    "source": lambda part, said: _source_part(part.whole),
    "trace": lambda part, said: _trace(part.trace),
    "overlap": lambda part, said: overlap_part(part),
    "step_times": lambda part, said: step_times(
        _entire(part, said.steps), part.whole.unprofiled, len(part.whole.devices), _left_out_steps(part.whole)
    ),
    "dispatch": lambda part, said: dispatch_part(part),
    "memory": lambda part, said: _memory_part(part),
    "borrowed": lambda part, said: _borrowed(part),
    "expert_files": lambda part, said: _expert_files(part),
    "steps_from": lambda part, said: part.engine.basis,
    "critical_path": lambda part, said: critical_path_part(part),
    "verdict": lambda part, said: [words(sentence) for sentence in part.findings.verdict],
    "not_checked": lambda part, said: not_checked(part, said),
    "health": lambda part, said: _health(part.whole),
}
"""All other sections, of what is measured and of what other sections say."""


class Sections:
    """The sections of the report about ``part`` by name: each is computed once, when it is asked for.

    They are the attributes of a ``Report``, so that a caller that needs a few of them does not pay for the others.
    Asking raises ``InputError`` if a section needs the file of the trace, and that is gone or has changed.
    """

    def __init__(self, part: Profile) -> None:
        self._part = part
        self._left_out: dict[str, int] = {}

    @property
    def left_out(self) -> dict[str, int]:
        """How many rows are missing in lists that have the longest ones only."""
        for name, table in _LISTS.items():
            if table.longest:
                getattr(self, name)
        return self._left_out

    def __getattr__(self, name: str) -> Any:
        said = cast(Report, self)
        value: Any
        if name in _LISTS:
            value = self._rows(_LISTS[name])
        elif name in _PARTS:
            value = _PARTS[name](self._part, said)
        elif isinstance(derived := getattr(Report, name, None), property) and derived.fget is not None:
            value = derived.fget(said)
        else:
            raise AttributeError(name)
        setattr(self, name, value)
        return value

    def _rows(self, table: Table) -> list[Any]:
        """The rows of ``table`` in its order, of very many the longest."""
        sheet = table.make(self._part, **table.options)
        if table.longest and sheet.rows > MOST_ROWS:
            self._left_out[table.section] = sheet.rows - MOST_ROWS
            lengths = np.array([value or 0 for value in sheet.values(table.longest)], np.int64)
            sheet = sheet.taken(np.sort(first_of_largest(lengths, MOST_ROWS)))
        return table.rows(sheet)


def sections_of(part: Profile) -> Report:
    """The report about ``part`` as its ``Sections``."""
    return cast(Report, Sections(part))


def report(part: Profile, sections: Collection[str] | None = None) -> Report:
    """All that is said about ``part``, or the named ``sections``: the others are not set, and missing in JSON.

    Raises ``InputError`` if the file of the trace is gone or has changed.
    """
    if sections is None:
        part.compute_ahead()
    said = Sections(part)
    names = [name for name in Report.__struct_fields__ if name not in ("schema_version", "kind")]
    values: dict[str, Any] = {
        name: getattr(said, name) if sections is None or name in sections else UNSET for name in names
    }
    return Report(**values)


def _selection(selection: Selection) -> SelectionPart | None:
    if selection.window == EVERYTHING:
        return None
    window = selection.window
    return SelectionPart(
        start_us=us(window.start) if window.start > EVERYTHING.start else None,
        end_us=us(window.end) if window.end < EVERYTHING.end else None,
        step=selection.step,
    )


def _source_part(profile: Profile) -> SourcePart:
    without_trace = not len(profile.trace.slices) and profile.tables.steps
    return SourcePart(
        path=printable(profile.path),
        kind=profile.kind,
        bytes=profile.trace.size,
        rank=profile.trace.rank,
        device=profile.device,
        profiler_level=profile.profiler_level,
        step_count=sum(step.number is not None for step in (without_trace or profile.steps)),
        tool_version=__version__,
        writer=profile.writer,
    )


def _trace(trace: Trace) -> TracePart:
    return TracePart(
        start_ns=trace.start_ns,
        span_us=us(trace.end),
        events=sum(trace.events.values()),
        slices=len(trace.slices),
        links=len(trace.links),
        counters=_counter_events(trace),
        lanes=len(trace.file_lanes),
    )


def _counter_events(trace: Trace) -> int:
    """Counter events that were kept: one with several values gives a sample to as many curves."""
    # Without a skipped sample the events of the file are what was kept; else the fullest curve of a counter counts.
    if not any(reason.code.startswith("skip.sample") for reason in trace.health.skipped):
        return trace.events.get("C", 0)
    counters, most = trace.counters, dict[tuple[int, str, str], int]()
    for series, count in zip(counters.series, np.diff(counters.offset).tolist(), strict=True):
        key = series.layer, series.name, series.instance
        most[key] = max(most.get(key, 0), count)
    return sum(most.values())


def _borrowed(part: Profile) -> BorrowedPart | None:
    """None unless something was borrowed."""
    found = part.whole.borrowed
    if found is None:
        return None
    slices, kernels = part.trace.slices, part.all_kernels
    lengths = slices.end[found.item] - slices.start[found.item]
    outside = found.of(kernels.item) < 0
    return BorrowedPart(
        path=printable(found.path),
        sequences=list(map(printable, found.sequences)),
        fits=bool(found.fits.any()),
        kernels=len(found.item),
        total_us=us(int(lengths.sum())),
        placed=int(found.placed.sum()),
        placed_us=us(int(lengths[found.placed].sum())),
        unique=int(found.unique.sum()),
        unique_us=us(int(lengths[found.unique].sum())),
        with_module=int((found.module.code >= 0).sum()),
        covered_here=round(found.covered_here, 6),
        covered_there=round(found.covered_there, 6),
        eager_kernels=int(outside.sum()),
        eager_us=us(int(kernels.duration[outside].sum())),
        unplaced=list(map(printable, found.unplaced)),
        code=BORROWED_CODE.records(part),
    )


def _expert_files(part: Profile) -> ExpertsReport | None:
    """Expert loads and placements that lie beside the profile."""
    source = part.source
    if source is None or source.kind == "pipe":
        return None
    return experts_at(source.opened if source.is_directory else source.opened.parent, source.survey)


def _memory_part(part: Profile) -> MemoryPart | None:
    """None without files about it."""
    memory = part.memory
    if not memory.is_known:
        return None
    gap, never_released = memory.fragmented(), memory.allocations.kept
    return MemoryPart(
        peaks=MEMORY_PEAKS.records(part),
        gap_bytes=None if gap is None else gap[1],
        gap_at_us=None if gap is None else us(gap[0]),
        allocations=len(memory.allocations),
        never_released=len(never_released),
        never_released_bytes=int(memory.allocations.size[never_released].sum()),
    )


def _health(profile: Profile) -> HealthPart:
    health, trace = profile.health, profile.trace
    links = trace.links
    warnings = [words(warning) for warning in health.warnings]
    warnings += [words(problem) for file in profile.tables.files for problem in file.problems]
    warnings += [
        say("report.health.disagrees", lane=lane, excess=excess / 1000) for lane, excess in profile.lane_excess
    ]
    warnings += [say("report.health.merged", layer=layer) for layer in profile.merged_layers]
    if health.far:
        warnings.append(say("report.health.far", far=health.far, hours=health.far_gap / 3.6e12))
    return HealthPart(
        events=health.events,
        skipped=[SkippedRow(reason=printable(words(reason)), count=count) for reason, count in health.skipped],
        unbound_sources=distinct_events(trace, links.source_event[links.source_slice < 0]),
        unbound_targets=distinct_events(trace, links.target_event[links.target_slice < 0]),
        crossing_slices=health.crossing,
        negative_links=sum(link.negative for link in health.links),
        truncated=health.truncated,
        warnings=[printable(warning) for warning in warnings],
    )
