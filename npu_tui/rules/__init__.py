"""What is wrong with a job, proved by places of the trace: a rule is one object in the file of its family.

A family is a module with ``RULES``; its thresholds are beside the check that compares with them, its texts in
``npu_tui/strings/<language>/rules.toml``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npu_tui.analysis.limits import Thresholds
    from npu_tui.rules.model import SubjectVerdict
    from npu_tui.trace.model import Trace

FAMILIES = (
    "left_out", "dispatch", "waits", "launching", "late_ranks", "communication", "links", "compute", "affinity",
    "odd_steps", "outliers", "cpu", "pauses", "host_work", "engine", "batches", "data", "kernels", "cores",
    "needless", "moves", "bandwidth", "transfers", "memory", "config",
)  # fmt: skip
"""The modules with rules, in the order in which findings that could not be checked are listed; ``find`` reads them."""


def judge(trace: Trace, limits: Thresholds) -> SubjectVerdict | None:
    """The verdict of the rules that the subject of ``trace`` has; None where the rules of devices apply."""
    if not trace.nature.rules:
        return None
    judged: SubjectVerdict = import_module(f"npu_tui.rules.{trace.nature.rules}").judged(trace, limits)
    return judged
