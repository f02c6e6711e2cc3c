"""The part of a profile that a caller names: a range of time or a step."""

from __future__ import annotations

from npu_tui.analysis.engine_steps import EngineStep
from npu_tui.profile.parts import WHOLE_TRACE, Selection, parse_range, select_step
from npu_tui.profile.profile import Profile
from npu_tui.trace.message import SaidError, message
from npu_tui.trace.text import exact_text


class NoPartError(SaidError):
    """A part that a profile does not have."""


def part_of(profile: Profile, span: str | None = None, step: int | str | None = None) -> Profile:
    """The part of ``profile`` in the range ``span`` such as ``12ms..14ms``, or of the step ``step``; else all.

    A step is given by its number, or by its kind such as ``decode``: then the one of median length is meant.

    Raises ``NoPartError`` for both at once, a text that is no range, and what the profile does not have.
    """
    if span is not None and step is not None:
        raise NoPartError(message("query.both"))
    selection = WHOLE_TRACE if span is None else parse_range(span)
    if selection is None:
        raise NoPartError(message("cli.bad_range"))
    if selection.window.start > profile.trace.end or selection.window.end < 0:
        raise NoPartError(message("cli.outside", end=exact_text(profile.trace.end)))
    if step is not None:
        selection = _median_step_of_kind(profile, step) if isinstance(step, str) else _step_with_number(profile, step)
        if selection is None:
            raise NoPartError(message("cli.no_step", step=step))
    return profile.part(selection)


def _step_with_number(profile: Profile, number: int) -> Selection | None:
    """The step of the profiler or of an engine with that number; None where it has none on the device."""
    if (selection := select_step(profile.steps, number)) is not None:
        return selection
    of_engine = next((step for step in profile.engine.steps if step.number == number), None)
    return None if of_engine is None else _selected(of_engine)


def _median_step_of_kind(profile: Profile, kind: str) -> Selection | None:
    """The step of median length among those of ``kind``; None without any on the device."""
    steps = [step for step in profile.engine.steps if step.kind == kind and step.window is not None]
    steps.sort(key=lambda step: step.span or 0)
    return _selected(steps[len(steps) // 2]) if steps else None


def _selected(step: EngineStep) -> Selection | None:
    if step.window is None:
        return None
    return Selection(step.window, step.number if step.item >= 0 else None)
