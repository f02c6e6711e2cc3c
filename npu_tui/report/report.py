"""The report about a profile, or about a range or step of it, made of what was measured."""

from __future__ import annotations

import numpy as np
from msgspec import structs

from npu_tui import __version__
from npu_tui.analysis.device import EVERYTHING
from npu_tui.profile.file_tables import CHECKS, FILES, LINK_MATRIX, MEMORY_PEAKS
from npu_tui.profile.profile import Profile
from npu_tui.profile.selection import Selection
from npu_tui.profile.table import us
from npu_tui.profile.trace_tables import LAYERS, LINK_CATEGORIES, OPERATIONS, distinct_events
from npu_tui.profile.work_tables import APIS, COLLECTIVES, KERNEL_GROUPS, OPERATORS, STEPS
from npu_tui.report.parts.device_part import dispatch_part, overlap_part
from npu_tui.report.parts.findings_part import findings_part
from npu_tui.report.parts.not_checked import not_checked
from npu_tui.report.schema import (
    HealthPart,
    MemoryPart,
    NotChecked,
    Report,
    SelectionPart,
    SkippedRow,
    SourcePart,
    TracePart,
)  # fmt: skip
from npu_tui.report.values import text
from npu_tui.strings import say, words
from npu_tui.trace.model import Trace


def report(part: Profile) -> Report:
    """All that is said about ``part``. Raises ``InputError`` if the file of the trace is gone or has changed."""
    profile, trace, selection = part.whole, part.trace, part.selection
    part.compute_ahead()
    found = Report(
        selection=_selection(selection),
        source=_source(profile),
        trace=_trace(trace),
        layers=LAYERS.records(part),
        overlap=overlap_part(part),
        steps=STEPS.records(part, together=True),
        links=LINK_CATEGORIES.records(part),
        dispatch=dispatch_part(part),
        operators=OPERATORS.records(part),
        kernel_groups=KERNEL_GROUPS.records(part),
        memory=_memory(part),
        cross_check=CHECKS.records(part),
        files=FILES.records(part),
        link_matrix=LINK_MATRIX.records(part),
        communication=COLLECTIVES.records(part),
        apis=APIS.records(part),
        host_operators=OPERATIONS.records(part),
        verdict=[words(said) for said in part.findings.verdict],
        findings=findings_part(trace, part.findings),
        not_checked=[],
        health=_health(profile),
    )
    unapplied = [NotChecked(id=rule, reason=words(reason)) for rule, reason in part.findings.not_checked]
    return structs.replace(found, not_checked=not_checked(profile, found) + unapplied)


def _selection(selection: Selection) -> SelectionPart | None:
    if selection.window == EVERYTHING:
        return None
    window = selection.window
    return SelectionPart(
        start_us=us(window.start) if window.start > EVERYTHING.start else None,
        end_us=us(window.end) if window.end < EVERYTHING.end else None,
        step=selection.step,
    )


def _source(profile: Profile) -> SourcePart:
    return SourcePart(
        path=text(profile.path),
        kind=profile.kind,
        bytes=profile.trace.size,
        rank=profile.trace.rank,
        device=profile.device,
        profiler_level=profile.profiler_level,
        step_count=sum(number is not None for number in STEPS.make(profile, together=True).values("step")),
        tool_version=__version__,
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
    if not any(reason.code.startswith("skip.sample") for reason in trace.health.skipped):
        return trace.events.get("C", 0)
    counters, most = trace.counters, dict[tuple[int, str, str], int]()
    for series, count in zip(counters.series, np.diff(counters.offset).tolist(), strict=True):
        key = series.layer, series.name, series.instance
        most[key] = max(most.get(key, 0), count)
    return sum(most.values())


def _memory(part: Profile) -> MemoryPart | None:
    """None without files that tell of it."""
    memory = part.memory
    if not memory.is_known:
        return None
    gap, kept = memory.fragmented(), memory.allocations.kept
    return MemoryPart(
        peaks=MEMORY_PEAKS.records(part),
        gap_bytes=None if gap is None else gap[1],
        gap_at_us=None if gap is None else us(gap[0]),
        allocations=len(memory.allocations),
        never_released=len(kept),
        never_released_bytes=int(memory.allocations.size[kept].sum()),
    )


def _health(profile: Profile) -> HealthPart:
    health, trace = profile.health, profile.trace
    links = trace.links
    warnings = [words(warning) for warning in health.warnings]
    warnings += [words(problem) for each in profile.tables.files for problem in each.problems]
    warnings += [
        say("report.health.disagrees", lane=lane, excess=excess / 1000) for lane, excess in profile.lane_excess
    ]
    if health.far:
        warnings.append(say("report.health.far", far=health.far, hours=health.far_gap / 3.6e12))
    return HealthPart(
        events=health.events,
        skipped=[SkippedRow(reason=text(words(reason)), count=count) for reason, count in health.skipped],
        unbound_sources=distinct_events(trace, links.source_event[links.source_slice < 0]),
        unbound_targets=distinct_events(trace, links.target_event[links.target_slice < 0]),
        crossing_slices=health.crossing,
        negative_links=sum(link.negative for link in health.links),
        truncated=health.truncated,
        warnings=[text(warning) for warning in warnings],
    )
