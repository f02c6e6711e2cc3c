"""The figures that limits and baselines speak of, taken from a report."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from msgspec import Struct

from npu_tui.gate.evidence import Evidence
from npu_tui.report.schema import Report
from npu_tui.strings import say

BASELINE_MEASURES = ("step_p50", "step_p99", "device", "computing", "exposed_communication", "free", "lost")
"""The measures of a baseline; all but the step's percentiles are per step."""

_REASONS = {
    "step_p50": ("steps",),
    "step_p99": ("steps",),
    "lost": ("device", "dispatch"),
    "host_late": ("device", "overlap", "overlap.free"),
}
_OF_THE_DEVICE = ("device", "overlap")
_BY_LINKS = ("lost", "host_late")
_BY_DEVICE = ("device", "computing", "exposed_communication", "free", "host_late", "lost")


class Measures(Struct, frozen=True):
    """Times in µs by name over the whole selection (None: not measured), and what they are shares of.

    ``steps`` is how many steps they are spread over, at least 1; ``reasons`` says for each unknown one why it is.
    """

    times: dict[str, float | None]
    total: float | None
    steps: int
    reasons: dict[str, str]

    def per_step(self, name: str) -> float | None:
        """The time of ``name`` for one step, µs; a percentile of the steps is one already."""
        time = self.times[name]
        return time if time is None or name.startswith("step_") else round(time / self.steps, 3)


def measures(report: Report, incomplete: Collection[Evidence] = ()) -> Measures:
    """The measures of ``report``; what rests on ``incomplete`` evidence is not measured, nor is a device without time.

    Step lengths are those of the ``ProfilerStep#N`` slices on the host, percentiles as numpy's ``linear``; the other
    times are those of ``overlap`` and ``dispatch``, summed over devices.
    """
    overlap = report.overlap
    lengths = [step.duration_us for step in report.steps if step.duration_us is not None]
    lost = [each.lost_us for each in report.dispatches]
    times: dict[str, float | None] = {
        "step_p50": _percentile(lengths, 50),
        "step_p99": _percentile(lengths, 99),
        "device": overlap.total_us,
        "computing": overlap.computing_us,
        "exposed_communication": overlap.communication_not_overlapped_us,
        "free": overlap.free_us,
        "host_late": overlap.free_host_late_us,
        "lost": None if None in lost else round(sum(each or 0.0 for each in lost), 3),
    }
    why = {each.id: each.reason for each in report.not_checked}
    lost_evidence = {
        name: say(f"gate.incomplete.{kind}")
        for kind in incomplete
        for name in times
        if kind == "slices" or name in _BY_LINKS
    }
    if not overlap.total_us:
        lost_evidence |= {name: say("gate.no_time") for name in _BY_DEVICE if times[name] == 0}
    times |= dict.fromkeys(lost_evidence)
    unknown = [name for name, time in times.items() if time is None]
    reasons = {
        name: next((why[key] for key in _REASONS.get(name, _OF_THE_DEVICE) if key in why), "") for name in unknown
    } | lost_evidence
    return Measures(times, overlap.total_us, max(len(lengths), 1), reasons)


def _percentile(lengths: list[float], rank: int) -> float | None:
    return round(float(np.percentile(lengths, rank)), 3) if lengths else None
