"""What a report could not know, and why: every null of the JSON report has its reason here."""

from __future__ import annotations

from npu_tui.analysis.overlap import DevicePart
from npu_tui.profile.profile import Profile
from npu_tui.report.schema import NotChecked, Report
from npu_tui.strings import say
from npu_tui.trace.model import Trace

_ORDER = (
    "device",
    "overlap",
    "overlap.lanes",
    "overlap.free",
    "steps",
    "steps.window",
    "dispatch",
    "dispatch.clock_floor",
    "dispatch.clock_floors",
    "dispatch.code_lines",
    "dispatch.slow_stage",
    "dispatch.drains.cause",
    "apis",
    "host_operators",
    "operators.core",
    "communication.planes",
    "communication.timing",
    "source.rank",
    "source.device",
    "source.profiler_level",
)


def not_checked(profile: Profile, report: Report) -> list[NotChecked]:
    """The reasons that apply to the ``report`` about ``profile``, which has none yet."""
    trace, parts = profile.trace, profile.devices
    applies = {
        **_of_source(report),
        **_of_devices(trace, parts, report),
        **_of_dispatch(trace, parts, report),
        **_of_communication(report),
    }
    return [NotChecked(id=each, reason=say(f"not_checked.{each}")) for each in _ORDER if applies.get(each, False)]


def _of_source(report: Report) -> dict[str, bool]:
    source = report.source
    return {
        "source.rank": source.rank is None,
        "source.device": source.device is None,
        "source.profiler_level": source.profiler_level is None,
        "steps": source.step_count == 0,
        "apis": not report.apis,
        "host_operators": not report.host_operators,
        "operators.core": any(row.core is None for row in report.operators),
    }


def _of_devices(trace: Trace, parts: list[DevicePart], report: Report) -> dict[str, bool]:
    measured = [part.lanes for part in parts if part.lanes is not None]
    steps = report.steps if report.source.step_count else []
    return {
        "device": not parts,
        "overlap": bool(parts) and not measured,
        "overlap.lanes": any(lanes.layer is None for lanes in measured),
        "overlap.free": bool(measured) and report.overlap.free_host_late_us is None,
        "steps.window": bool(measured) and any(step.stage_us is None for step in steps),
    }


def _of_dispatch(trace: Trace, parts: list[DevicePart], report: Report) -> dict[str, bool]:
    launches = [part.launches for part in parts if part.launches is not None]
    found = report.dispatches
    layers = {layer.kind for layer in trace.layers if layer.lanes}
    return {
        "dispatch": not launches,
        "dispatch.clock_floor": any(not floor.trusted for each in launches for floor in each.floors),
        "dispatch.clock_floors": any(len(each.floors) > 1 for each in launches),
        "dispatch.code_lines": bool(launches) and not bool((trace.slices.stack >= 0).any()),
        "dispatch.slow_stage": bool(launches) and any(each.slow_stage is None for each in found),
        "dispatch.drains.cause": bool(launches) and "cann" not in layers,
    }


def _of_communication(report: Report) -> dict[str, bool]:
    rows = report.communication
    untimed = [row for row in rows if row.wait_us is None]
    return {
        "communication.planes": any(row.longest_wait_us is None for row in untimed),
        "communication.timing": any(row.longest_wait_us is not None for row in untimed),
    }
