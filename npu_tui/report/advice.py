"""How to profile again, so that a report can say what this one could not."""

from __future__ import annotations

from npu_tui.report.schema import Report
from npu_tui.strings import say

_NEEDS = (
    ("again.level", ("apis", "communication.planes", "communication.timing", "dispatch.drains.cause")),
    ("again.stack", ("dispatch.code_lines",)),
    ("again.steps", ("steps", "steps.window")),
    ("again.directory", ("source.rank", "source.profiler_level", "operators.core")),
)
"""What to change for which missing answers."""

_FEW_STEPS = 3


def profile_again(report: Report) -> list[str]:
    """What to collect next time, from what this report could not check, then what always holds."""
    missing = {each.id for each in report.not_checked}
    lines = [say(key) for key, ids in _NEEDS if missing.intersection(ids)]
    if 0 < report.source.step_count < _FEW_STEPS:
        lines.append(say("again.few", steps=report.source.step_count))
    return [*lines, say("again.overhead"), say("again.compare")]


def verdict(report: Report) -> list[str]:
    """The verdict in one or a few lines; empty where the report has none."""
    return report.verdict or [each.title for each in report.findings if each.id == "VERDICT"]
