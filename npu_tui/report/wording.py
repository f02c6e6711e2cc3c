"""Figures of a report in words; what is unknown is said to be."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.trace.units import duration_text


def time_text(us: float | None) -> str:
    """A time in µs in the unit that suits it."""
    if us is None:
        return say("report.unknown")
    return duration_text(us * 1000) if us else "0"


def share_text(value: float | None) -> str:
    """A share of 1 as a percentage."""
    return say("report.unknown") if value is None else f"{value:.1%}"


def size_text(size: float | None) -> str:
    """A number of bytes."""
    if size is None:
        return say("report.unknown")
    return f"{size / 1e6:.3f} MB" if size >= 1e4 else f"{size:,.0f} B"


def or_unknown(value: object) -> object:
    """``value`` itself unless it is None."""
    return say("report.unknown") if value is None else value
