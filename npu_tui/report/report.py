"""The report about a profile, or about a range or step of it, made of what was measured."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import structs

from npu_tui import __version__
from npu_tui.analysis.overlap.steps import Step, StepSums
from npu_tui.analysis.window import EVERYTHING
from npu_tui.analysis.work.host_operators import HostOperators
from npu_tui.profile.part import ProfilePart
from npu_tui.profile.profile import Profile
from npu_tui.profile.selection import Selection
from npu_tui.report.parts.communication_part import communication_part
from npu_tui.report.parts.device_part import dispatch_part, operator_part, overlap_part
from npu_tui.report.parts.files_part import cross_check_part, file_part, kernel_group_part, matrix_part, memory_part
from npu_tui.report.parts.findings_part import findings_part
from npu_tui.report.parts.from_tables import with_tables
from npu_tui.report.parts.not_checked import not_checked
from npu_tui.report.schema import (
    ApiRow,
    HealthPart,
    HostOperatorRow,
    Latency,
    LayerRow,
    LinkRow,
    NotChecked,
    Report,
    SelectionPart,
    SkippedRow,
    SourcePart,
    StepRow,
    TracePart,
)  # fmt: skip
from npu_tui.report.values import text, us
from npu_tui.strings import say, words
from npu_tui.trace.distinct import distinct
from npu_tui.trace.model import Trace


def report(part: ProfilePart) -> Report:
    """All that is said about ``part``. Raises ``InputError`` if the file of the trace is gone or has changed."""
    profile, trace, selection = part.profile, part.trace, part.selection
    part.compute_ahead()
    found = Report(
        selection=_selection(selection),
        source=_source(profile),
        trace=_trace(trace),
        layers=_layers(trace),
        overlap=overlap_part(profile.devices, selection),
        steps=[_step_row(trace, step, sums) for step, sums in part.step_sums],
        links=_links(trace, selection),
        dispatch=dispatch_part(part.facts),
        operators=operator_part(part.operators),
        kernel_groups=kernel_group_part(part.kernel_table),
        memory=memory_part(profile.memory),
        cross_check=cross_check_part(part.checks),
        files=file_part(profile.files),
        link_matrix=matrix_part(profile.link_matrix),
        communication=communication_part(trace, part.collectives),
        apis=_apis(part),
        host_operators=_host_operators(trace, selection, part.hosts),
        verdict=[words(said) for said in part.findings.verdict],
        findings=findings_part(trace, part.findings),
        not_checked=[],
        health=_health(profile),
    )
    if not len(trace.slices):
        found = with_tables(found, profile)
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
        step_count=sum(step.number is not None for step in profile.steps),
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


def _layers(trace: Trace) -> list[LayerRow]:
    return [
        LayerRow(
            name=text(layer.name),
            kind=layer.kind,
            rank=layer.rank,
            device=layer.device,
            lanes=len(layer.lanes),
            slices=sum(trace.lanes[lane].last - trace.lanes[lane].first for lane in layer.lanes),
        )
        for layer in trace.layers
    ]


def _step_row(trace: Trace, step: Step, sums: list[StepSums]) -> StepRow:
    alone = sums[0] if len(sums) == 1 else None  # what spans from first to last has no sum over devices
    known = bool(sums)
    communication = sum(each.overlap.communication for each in sums) if known else None
    exposed = sum(each.overlap.not_overlapped for each in sums) if known else None
    return StepRow(
        name=text(step.name),
        step=step.number,
        computing_us=us(sum(each.overlap.computing for each in sums)) if known else None,
        communication_not_overlapped_us=us(exposed),
        overlapped_us=None if communication is None or exposed is None else us(communication - exposed),
        communication_us=us(communication),
        free_us=us(sum(each.overlap.free for each in sums)) if known else None,
        stage_us=us(alone.stage) if alone else None,
        bubble_us=us(sum(each.bubble for each in sums)) if known else None,
        preparing_us=us(alone.preparing) if alone else None,
        duration_us=us(int(trace.slices.end[step.item] - trace.slices.start[step.item])) if step.item >= 0 else None,
    )


def _links(trace: Trace, selection: Selection) -> list[LinkRow]:
    links = trace.links
    rows: list[LinkRow] = []
    for category in trace.link_categories:
        own = trace.links_of(category)
        own = own[selection.window.holds(links.target_time[own])]
        if not len(own):
            continue
        latency = links.latency[own].astype(np.float64)
        rows.append(
            LinkRow(
                category=text(category),
                sources=_distinct(trace, links.source_event[own]),
                targets=_distinct(trace, links.target_event[own]),
                bound_sources=_distinct(trace, links.source_event[own[links.source_slice[own] >= 0]]),
                bound_targets=_distinct(trace, links.target_event[own[links.target_slice[own] >= 0]]),
                latency_us=Latency(
                    min=us(latency.min()),
                    median=us(np.percentile(latency, 50)),
                    p90=us(np.percentile(latency, 90)),
                    max=us(latency.max()),
                ),
                negative=int(np.count_nonzero(latency < 0)),
            )
        )
    return rows


def _distinct(trace: Trace, events: npt.NDArray[np.int64]) -> int:
    """How many events there are among the ordinals ``events``."""
    seen = np.zeros(sum(trace.events.values()), np.bool_)
    seen[events] = True
    return int(np.count_nonzero(seen))


def _apis(part: ProfilePart) -> list[ApiRow]:
    return [
        ApiRow(
            level=text(row.level),
            name=text(row.name),
            count=row.count,
            total_us=us(row.total),
            min_us=us(row.shortest),
            avg_us=us(row.total / row.count),
            max_us=us(row.longest),
        )
        for row in part.apis
    ]


def _host_operators(trace: Trace, selection: Selection, found: HostOperators) -> list[HostOperatorRow]:
    """Operations that start in the selection by name, the most host time of their own first."""
    own = np.flatnonzero(selection.window.holds(trace.slices.start[found.item]))
    names, code = distinct(trace.slices.name[found.item[own]])
    count = np.bincount(code, minlength=len(names))
    host, device = (np.bincount(code, each[own], len(names)) for each in (found.host_self, found.device_self))
    rows = [
        HostOperatorRow(
            name=text(trace.names[name]),
            count=int(count[k]),
            host_self_us=us(host[k]),
            device_self_us=us(device[k]),
        )
        for k, name in enumerate(names.tolist())
    ]
    return [rows[k] for k in np.argsort(-host, kind="stable").tolist()]


def _health(profile: Profile) -> HealthPart:
    health, trace = profile.health, profile.trace
    links = trace.links
    warnings = [words(warning) for warning in health.warnings]
    warnings += [words(problem) for each in profile.files for problem in each.problems]
    warnings += [
        say("report.health.disagrees", lane=lane, excess=excess / 1000) for lane, excess in profile.lane_excess
    ]
    if health.far:
        warnings.append(say("report.health.far", far=health.far, hours=health.far_gap / 3.6e12))
    return HealthPart(
        events=health.events,
        skipped=[SkippedRow(reason=text(words(reason)), count=count) for reason, count in health.skipped],
        unbound_sources=_distinct(trace, links.source_event[links.source_slice < 0]),
        unbound_targets=_distinct(trace, links.target_event[links.target_slice < 0]),
        crossing_slices=health.crossing,
        negative_links=sum(link.negative for link in health.links),
        truncated=health.truncated,
        warnings=[text(warning) for warning in warnings],
    )
