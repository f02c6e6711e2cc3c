"""The part of a profile that a question is about, and values that are the same for all parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from msgspec import Struct

from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.trace.once import once
from npu_tui.trace.text import parse_duration

if TYPE_CHECKING:
    from npu_tui.analysis.steps import Step

T = TypeVar("T")


class shared(once[T]):  # noqa: N801 - like ``once``
    """A value that does not depend on the window: it is computed once for a profile and all its parts."""

    @overload
    def __get__(self, instance: None, owner: type) -> shared[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None or instance.whole is instance:
            return super().__get__(instance, owner)
        return getattr(instance.whole, self._name)

    def is_known(self, instance: Any) -> bool:
        """Whether the value of ``instance`` is there at once."""
        return super().is_known(instance.whole)


class Selection(Struct, frozen=True):
    """Which part of a profile a question is about: a window and, where it is that of one step, its number.

    A range cuts overlap and Free at its edges; launches, kernels and collectives belong to it if they start inside.
    """

    window: Window = EVERYTHING
    step: int | None = None


WHOLE_TRACE = Selection()


def parse_range(text: str) -> Selection | None:
    """The range in a text such as ``12ms..14ms`` (either end may be left out); None if it is none."""
    first, dots, last = text.partition("..")
    start = parse_duration(first) if first.strip() else EVERYTHING.start
    end = parse_duration(last) if last.strip() else EVERYTHING.end
    if not dots or start is None or end is None or start >= end:
        return None
    return Selection(Window(start, end))


def select_step(steps: Sequence[Step], number: int) -> Selection | None:
    """The time on the device of ``ProfilerStep#number``; None without that step, or if it launched nothing."""
    window = next((step.window for step in steps if step.number == number), None)
    return None if window is None else Selection(window, number)
