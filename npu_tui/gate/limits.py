"""Limits as a user writes them: a share of the device time such as ``10%``, or a time such as ``5ms``."""

from __future__ import annotations

from msgspec import Struct

from npu_tui.gate.measures import Measures
from npu_tui.trace.text import parse_duration

LIMITS = {
    "max_free": "free",
    "max_host_late": "host_late",
    "max_lost": "lost",
    "max_exposed_communication": "exposed_communication",
    "max_step": "step_p99",
}
"""The measure that each option limits."""

SHARED = ("max_free", "max_host_late", "max_lost", "max_exposed_communication")
"""The options that take a share too; a step is no part of anything."""


class Limit(Struct, frozen=True):
    """The most that ``measure`` may be: ``share`` of the device time (0..1), or ``time`` in µs."""

    measure: str
    share: float | None = None
    time: float | None = None


_MOST_PERCENT = 1e9


def parse_share(text: str) -> float | None:
    """0.1 for ``10%``; None if it is no percentage from 0."""
    number, sign, rest = text.strip().partition("%")
    try:
        value = float(number)
    except ValueError:
        return None
    return value / 100 if sign and not rest and 0 <= value <= _MOST_PERCENT else None


def parse_limit(option: str, text: str) -> Limit | None:
    """The limit in the value of ``option``; None if it is none. A number without a unit is none: it may mean either."""
    measure, share = LIMITS[option], parse_share(text)
    if share is not None:
        return Limit(measure, share=share) if option in SHARED else None
    time = parse_duration(text) if text.strip()[-1:].isalpha() else None
    return None if time is None or time < 0 else Limit(measure, time=time / 1000)


def allowed(limit: Limit, measured: Measures) -> float | None:
    """The most µs that ``limit`` allows on this profile, None where the device time it is a share of is unknown."""
    if limit.share is None:
        return limit.time
    return limit.share * measured.total if measured.total else None
