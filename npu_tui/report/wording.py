"""Figures of a report in words; what is unknown is said to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from npu_tui.strings import say
from npu_tui.trace import text as units

Number = TypeVar("Number", int, float)


def time_text(us: float | None) -> str:
    """A time in µs in the unit that suits it."""
    return _known(us, lambda time: units.duration_text(time * 1000) if time else "0")


def moment(us: float | None) -> str:
    """A time in µs since the start of the trace."""
    return _known(us, lambda time: units.moment_text(time * 1000))


def share_text(value: float | None) -> str:
    """A share of 1 as a percentage."""
    return _known(value, units.share_text)


def size_text(size: int | None) -> str:
    """A number of bytes."""
    return _known(size, units.size_text)


def speed_text(gigabytes: float | None) -> str:
    """A bandwidth in GB/s."""
    return _known(gigabytes, units.speed_text)


def count_text(count: int | None) -> str:
    """A whole number."""
    return _known(count, units.count_text)


def or_unknown(value: object) -> object:
    """``value`` itself unless it is None."""
    return say("report.unknown") if value is None else value


def _known(value: Number | None, words: Callable[[Number], str]) -> str:
    return say("report.unknown") if value is None else words(value)
