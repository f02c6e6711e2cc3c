"""Which of many steps a reader gets, and what is said of the others."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from npu_tui.report.schema import StepRow
from npu_tui.report.wording import time_text
from npu_tui.strings import say


def step_length(step: StepRow) -> float:
    """How long ``step`` takes on the device, on the host where that is not known, in us."""
    return step.stage_us if step.stage_us is not None else step.duration_us or 0.0


def shorter_steps(steps: Sequence[StepRow], hidden: int) -> str:
    """That so many of ``steps`` are not shown, none of which takes longer than those that are."""
    return say("report.steps.more", count=hidden, length=time_text(median(map(step_length, steps))))
