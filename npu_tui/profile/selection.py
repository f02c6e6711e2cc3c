"""Which part of a profile a question is about: all of it, a range of time or one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.trace.text import parse_duration

if TYPE_CHECKING:
    from npu_tui.analysis.steps import Step

_BETWEEN = ".."


class Selection(Struct, frozen=True):
    """A window and, where it is that of one step, its number.

    A range cuts overlap and Free at its edges; launches, kernels and collectives belong to it if they start inside.
    """

    window: Window = EVERYTHING
    step: int | None = None


WHOLE_TRACE = Selection()


def parse_range(text: str) -> Selection | None:
    """The range in a text such as ``12ms..14ms`` (either end may be left out); None if it is none."""
    first, between, last = text.partition(_BETWEEN)
    start = parse_duration(first) if first.strip() else EVERYTHING.start
    end = parse_duration(last) if last.strip() else EVERYTHING.end
    if not between or start is None or end is None or start >= end:
        return None
    return Selection(Window(start, end))


def select_step(steps: Sequence[Step], number: int) -> Selection | None:
    """The time on the device of ``ProfilerStep#number``; None without that step, or if it launched nothing."""
    found = next((step for step in steps if step.number == number), None)
    return None if found is None or found.window is None else Selection(found.window, number)
