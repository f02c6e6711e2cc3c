"""How values are written in JSON and in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, overload

from npu_tui.strings import say
from npu_tui.trace import text as units
from npu_tui.trace.text import printable


def ratio(part: float | None, whole: float | None) -> float | None:
    """``part`` of ``whole``, None where either is unknown or the whole is 0."""
    return None if part is None or not whole else round(part / whole, 6)


@overload
def text(value: str) -> str: ...
@overload
def text(value: str | None) -> str | None: ...
def text(value: str | None) -> str | None:
    """A text of the trace without characters that act on a terminal; None stays None."""
    return None if value is None else printable(value)


Number = TypeVar("Number", int, float)


def time_text(us: float | None) -> str:
    """A time in µs in the unit that suits it."""
    return _or_unknown(us, lambda time: units.duration_text(time * units.ticks_per_us()) if time else "0")


def moment(us: float | None) -> str:
    """A time in µs since the start of the trace."""
    return _or_unknown(us, lambda time: units.moment_text(time * units.ticks_per_us()))


def share_text(value: float | None) -> str:
    """A share of 1 as a percentage."""
    return _or_unknown(value, units.share_text)


def size_text(size: int | None) -> str:
    """A number of bytes."""
    return _or_unknown(size, units.size_text)


def count_text(count: int | None) -> str:
    """A whole number."""
    return _or_unknown(count, units.count_text)


def severity_word(severity: str) -> str:
    """A severity in words."""
    return say(f"severity.{severity}")


def or_unknown(value: object) -> object:
    """``value`` itself unless it is None."""
    return say("report.unknown") if value is None else value


def _or_unknown(value: Number | None, words: Callable[[Number], str]) -> str:
    return say("report.unknown") if value is None else words(value)
