"""The answers about one trace as JSON, schema 1: times in us with three decimals, ratios with six, unknown is null."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from npu_tui.analysis.health import trace_health
from npu_tui.analysis.overlap.lanes import disagreement
from npu_tui.analysis.overlap.steps import Step, StepSums, step_sums
from npu_tui.analysis.parts import DevicePart
from npu_tui.analysis.thresholds import Thresholds
from npu_tui.analysis.window import EVERYTHING
from npu_tui.analysis.work.apis import apis
from npu_tui.analysis.work.host_operators import HostOperators
from npu_tui.ingest.companions.files import Companions
from npu_tui.report.device_part import communication_part, dispatch_part, operator_part, overlap_part
from npu_tui.report.findings_part import findings_part
from npu_tui.report.measured import Measured
from npu_tui.report.not_checked import not_checked
from npu_tui.report.selection import WHOLE_TRACE, Selection
from npu_tui.report.values import text, us
from npu_tui.trace.model import Trace

SCHEMA_VERSION = 1

_DISAGREES = (
    "the {lane} lane of Overlap Analysis is {excess:+.3f} us off what the slices of the device give: the lane counts"
)
_FAR = "{far} slices lie {hours:.1f} h apart from the others"


def json_report(
    trace: Trace,
    selection: Selection = WHOLE_TRACE,
    opened: str | Path | None = None,
    thresholds: Thresholds | None = None,
) -> bytes:
    """The report of ``selection`` as UTF-8 text with a line end.

    ``opened`` is the path that the user gave, where that is not the file of the trace. Raises ``InputError`` if that
    file is gone or has changed.
    """
    return orjson.dumps(
        report(trace, selection, opened, thresholds), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )


def report(
    trace: Trace,
    selection: Selection = WHOLE_TRACE,
    opened: str | Path | None = None,
    thresholds: Thresholds | None = None,
) -> dict[str, Any]:
    """The object that ``json_report`` writes.

    ``source``, ``trace``, ``layers`` and ``health`` are those of the whole file whatever the selection.
    """
    measured = Measured(trace, selection, thresholds)
    parts, all_steps = measured.parts, measured.steps
    found = {
        "schema_version": SCHEMA_VERSION,
        "selection": _selection(selection),
        "source": _source(trace, parts, measured.companions, Path(opened or trace.path), all_steps),
        "trace": _trace(trace),
        "layers": _layers(trace),
        "overlap": overlap_part(parts, selection),
        "steps": _steps(trace, parts, selection, all_steps),
        "links": _links(trace, selection),
        "dispatch": dispatch_part(measured.facts),
        "operators": operator_part(measured),
        "communication": communication_part(trace, measured.collectives),
        "apis": _apis(trace, selection),
        "host_operators": _host_operators(trace, selection, measured.hosts),
        "verdict": list(measured.findings.verdict),
        "findings": findings_part(trace, measured.findings),
    }
    unchecked = [{"id": rule, "reason": reason} for rule, reason in measured.findings.not_checked]
    found["not_checked"] = not_checked(trace, parts, found) + unchecked
    found["health"] = _health(trace, parts)
    return found


def _selection(selection: Selection) -> dict[str, Any] | None:
    if selection.window == EVERYTHING:
        return None
    window = selection.window
    return {
        "start_us": us(window.start) if window.start > EVERYTHING.start else None,
        "end_us": us(window.end) if window.end < EVERYTHING.end else None,
        "step": selection.step,
    }


def _source(
    trace: Trace, parts: list[DevicePart], companions: Companions | None, path: Path, all_steps: list[Step]
) -> dict[str, Any]:
    devices = {part.device for part in parts}
    level = companions.profiler_level if companions else None
    unnamed = any(layer.kind == "cann" and not layer.lanes for layer in trace.layers)
    return {
        "path": text(str(path)),
        "kind": _kind(trace, path),
        "bytes": trace.size,
        "rank": trace.rank,
        "device": devices.pop() if len(devices) == 1 else None,
        # Only Level0 leaves the name and slices of CANN out.
        "profiler_level": 0 if level is None and unnamed else level,
        "step_count": sum(step.number is not None for step in all_steps),
    }


def _kind(trace: Trace, path: Path) -> str:
    """What ``path`` is: a directory, a file by the name the profilers give it, else by the layers of ``trace``."""
    if path.is_dir():
        return "profile_directory"
    if path.name.startswith("msprof"):
        return "msprof_json"
    kinds = {layer.name for layer in trace.layers}
    if kinds & {"Ascend Hardware", "Overlap Analysis", "HCCL", "Communication"} or path.name.startswith("trace_view."):
        python = any(layer.kind == "python" for layer in trace.layers)
        return "trace_view_json" if python or path.name.startswith("trace_view.") else "msprof_json"
    return "chrome_trace"


def _trace(trace: Trace) -> dict[str, Any]:
    return {
        "start_ns": trace.start_ns,
        "span_us": us(trace.end),
        "events": sum(trace.events.values()),
        "slices": len(trace.slices),
        "links": len(trace.links),
        "counters": _counter_events(trace),
        "lanes": len(trace.file_lanes),
    }


def _counter_events(trace: Trace) -> int:
    """Counter events that were kept: one with several values gives a sample to as many curves."""
    if not any(reason.startswith("counter") for reason in trace.health.skipped):
        return trace.events.get("C", 0)
    counters, most = trace.counters, dict[tuple[int, str, str], int]()
    for series, count in zip(counters.series, np.diff(counters.offset).tolist(), strict=True):
        key = series.layer, series.name, series.instance
        most[key] = max(most.get(key, 0), count)
    return sum(most.values())


def _layers(trace: Trace) -> list[dict[str, Any]]:
    return [
        {
            "name": text(layer.name),
            "kind": layer.kind,
            "rank": layer.rank,
            "device": layer.device,
            "lanes": len(layer.lanes),
            "slices": sum(trace.lanes[lane].last - trace.lanes[lane].first for lane in layer.lanes),
        }
        for layer in trace.layers
    ]


def _steps(trace: Trace, parts: list[DevicePart], selection: Selection, all_steps: list[Step]) -> list[dict[str, Any]]:
    """The rows of the steps that the selection touches, each as a whole; sums over all devices."""
    chosen = []
    for step in all_steps:
        window = step.window or EVERYTHING
        touched = window.end > selection.window.start and window.start < selection.window.end
        if touched and selection.step in (None, step.number):
            chosen.append(step)
    measured = [part.lanes for part in parts if part.lanes is not None]
    if all(step.window is None for step in all_steps):
        measured = []  # without a linked launch nothing tells when a step is on the device
    sums = [step_sums(trace, chosen, lanes) for lanes in measured]
    return [_step_row(trace, step, [each[k] for each in sums]) for k, step in enumerate(chosen)]


def _step_row(trace: Trace, step: Step, sums: list[StepSums]) -> dict[str, Any]:
    alone = sums[0] if len(sums) == 1 else None  # what spans from first to last has no sum over devices
    known = bool(sums)
    communication = sum(each.overlap.communication for each in sums) if known else None
    exposed = sum(each.overlap.not_overlapped for each in sums) if known else None
    return {
        "name": text(step.name),
        "step": step.number,
        "computing_us": us(sum(each.overlap.computing for each in sums)) if known else None,
        "communication_not_overlapped_us": us(exposed),
        "overlapped_us": None if communication is None or exposed is None else us(communication - exposed),
        "communication_us": us(communication),
        "free_us": us(sum(each.overlap.free for each in sums)) if known else None,
        "stage_us": us(alone.stage) if alone else None,
        "bubble_us": us(sum(each.bubble for each in sums)) if known else None,
        "preparing_us": us(alone.preparing) if alone else None,
        "duration_us": us(int(trace.slices.end[step.item] - trace.slices.start[step.item])) if step.item >= 0 else None,
    }


def _links(trace: Trace, selection: Selection) -> list[dict[str, Any]]:
    links, rows = trace.links, []
    for category in trace.link_categories:
        own = trace.links_of(category)
        own = own[selection.window.holds(links.target_time[own])]
        if not len(own):
            continue
        latency = links.latency[own].astype(np.float64)
        rows.append(
            {
                "category": text(category),
                "sources": _distinct(trace, links.source_event[own]),
                "targets": _distinct(trace, links.target_event[own]),
                "bound_sources": _distinct(trace, links.source_event[own[links.source_slice[own] >= 0]]),
                "bound_targets": _distinct(trace, links.target_event[own[links.target_slice[own] >= 0]]),
                "latency_us": {
                    "min": us(latency.min()),
                    "median": us(np.percentile(latency, 50)),
                    "p90": us(np.percentile(latency, 90)),
                    "max": us(latency.max()),
                },
                "negative": int(np.count_nonzero(latency < 0)),
            }
        )
    return rows


def _distinct(trace: Trace, events: npt.NDArray[np.int64]) -> int:
    """How many events there are among the ordinals ``events``."""
    seen = np.zeros(sum(trace.events.values()), np.bool_)
    seen[events] = True
    return int(np.count_nonzero(seen))


def _apis(trace: Trace, selection: Selection) -> list[dict[str, Any]]:
    return [
        {
            "level": text(row.level),
            "name": text(row.name),
            "count": row.count,
            "total_us": us(row.total),
            "min_us": us(row.shortest),
            "avg_us": us(row.total / row.count),
            "max_us": us(row.longest),
        }
        for row in apis(trace, selection.window)
    ]


def _host_operators(trace: Trace, selection: Selection, found: HostOperators) -> list[dict[str, Any]]:
    """Operations that start in the selection by name, the most host time of their own first."""
    own = np.flatnonzero(selection.window.holds(trace.slices.start[found.item]))
    names, code = np.unique(trace.slices.name[found.item[own]], return_inverse=True)
    count = np.bincount(code, minlength=len(names))
    host, device = (np.bincount(code, each[own], len(names)) for each in (found.host_self, found.device_self))
    rows = [
        {
            "name": text(trace.names[name]),
            "count": int(count[k]),
            "host_self_us": us(host[k]),
            "device_self_us": us(device[k]),
        }
        for k, name in enumerate(names.tolist())
    ]
    return [rows[k] for k in np.argsort(-host, kind="stable").tolist()]


def _health(trace: Trace, parts: list[DevicePart]) -> dict[str, Any]:
    health = trace_health(trace)
    links = trace.links
    warnings = list(health.warnings)
    for part in parts:
        if part.lanes is not None and part.lanes.layer is not None and part.slices is not None:
            for lane, excess in zip(
                ("Computing", "Communication"), disagreement(trace, part.lanes, part.slices), strict=True
            ):
                if excess:
                    warnings.append(_DISAGREES.format(lane=lane, excess=excess / 1000))
    if health.far:
        warnings.append(_FAR.format(far=health.far, hours=health.far_gap / 3.6e12))
    return {
        "events": health.events,
        "skipped": [{"reason": text(reason), "count": count} for reason, count in health.skipped],
        "unbound_sources": _distinct(trace, links.source_event[links.source_slice < 0]),
        "unbound_targets": _distinct(trace, links.target_event[links.target_slice < 0]),
        "crossing_slices": health.crossing,
        "negative_links": sum(link.negative for link in health.links),
        "truncated": health.truncated,
        "warnings": [text(warning) for warning in warnings],
    }
