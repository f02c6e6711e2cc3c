"""The part of a profile that a question is about, values that are the same for all parts, and parts that are named."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from msgspec import Struct

from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.trace.message import SaidError, message
from npu_tui.trace.once import once
from npu_tui.trace.text import exact_text, parse_duration

if TYPE_CHECKING:
    from npu_tui.analysis.engine_steps import EngineStep
    from npu_tui.analysis.steps import Step
    from npu_tui.profile.profile import Profile


T = TypeVar("T")
P = TypeVar("P", bound="Parted")


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
_MOST_PARTS = 8
"""Ranges that a user marks come and go; the last ones stay measured."""


class Parted(ABC):
    """What is asked about as a whole or in parts, each of which is measured once."""

    def __init__(self) -> None:
        self.selection = self.usual = WHOLE_TRACE  # ``usual`` is what is asked about where nothing else is said
        self._whole: Parted | None = None  # a reference to itself would keep a large trace until the next collection
        self._parts: OrderedDict[Selection, Parted] = OrderedDict()
        self._parts_lock = Lock()

    @abstractmethod
    def _again(self) -> Parted:
        """The same, with nothing measured yet."""

    @property
    def whole(self: P) -> P:
        """The profile of the whole trace."""
        return self if self._whole is None else cast(P, self._whole)

    @property
    def window(self) -> Window:
        """The time that is selected, ns."""
        return self.selection.window

    @property
    def step(self) -> int | None:
        """The number of the step that is selected, None for a range or everything."""
        return self.selection.step

    def part(self: P, selection: Selection) -> P:
        """The part that ``selection`` names, measured once as long as it is among the last that were asked for."""
        whole = self.whole
        if selection == WHOLE_TRACE:
            selection = whole.usual
        if selection == WHOLE_TRACE:
            return whole
        with whole._parts_lock:
            part = whole._parts.pop(selection, None)
            if part is None:
                part = self._again()
                part.selection, part._whole = selection, whole
            whole._parts[selection] = part  # the last one asked for goes to the end
            while len(whole._parts) > _MOST_PARTS:
                whole._parts.popitem(last=False)
            return cast(P, part)


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


class NoPartError(SaidError):
    """A part that a profile does not have."""


def part_of(profile: Profile, span: str | None = None, step: int | str | None = None) -> Profile:
    """The part of ``profile`` in the range ``span`` such as ``12ms..14ms``, or of the step ``step``; else all.

    A step is told by its number, or by its kind such as ``decode``: then it is that of median length.

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
        selection = _of_kind(profile, step) if isinstance(step, str) else _numbered(profile, step)
        if selection is None:
            raise NoPartError(message("cli.no_step", step=step))
    return profile.part(selection)


def _numbered(profile: Profile, number: int) -> Selection | None:
    """The step of the profiler or of an engine with that number; None where it has none on the device."""
    if (selection := select_step(profile.steps, number)) is not None:
        return selection
    of_engine = next((step for step in profile.engine.steps if step.number == number), None)
    return None if of_engine is None else _selected(of_engine)


def _of_kind(profile: Profile, kind: str) -> Selection | None:
    """The step of median length among those of ``kind``; None without any on the device."""
    steps = [step for step in profile.engine.steps if step.kind == kind and step.window is not None]
    steps.sort(key=lambda step: step.span or 0)
    return _selected(steps[len(steps) // 2]) if steps else None


def _selected(step: EngineStep) -> Selection | None:
    if step.window is None:
        return None
    return Selection(step.window, step.number if step.item >= 0 else None)
