"""Numbers as people write and read them, one function per kind; inside times are whole nanoseconds."""

from __future__ import annotations

import re

from npu_tui.trace.whole import whole_number

_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "": 1_000_000}
_TIME = re.compile(r"\s*([-+]?\d+(?:\.\d*)?|[-+]?\.\d+)\s*(ns|us|µs|μs|ms|s|)\s*", re.IGNORECASE)
_LONGEST = 100
_SCALES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))


def parse_duration(text: str) -> int | None:
    """Nanoseconds of a text such as ``12.3ms``, ``40 us`` or ``1.5s`` (a bare number is in ms); None if it is none."""
    match = _TIME.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    from decimal import ROUND_HALF_UP, Decimal  # only times that are typed are worth its import

    return whole_number((Decimal(match[1]) * _UNITS[match[2].lower()]).to_integral_value(ROUND_HALF_UP))


def duration_text(ns: float, digits: int = 4, gap: str = " ") -> str:
    """A duration in the unit that suits it with about ``digits`` significant digits: ``16.80 µs``, ``173.5 ms``.

    ``gap`` stands between number and unit.
    """
    size = abs(ns)
    for scale, unit in _SCALES:
        if size >= scale * 0.99995:
            value = ns / scale
            whole = len(str(int(abs(value) + 0.5)))
            return f"{value:.{max(digits - whole, 0)}f}{gap}{unit}"
    return f"{ns:.0f}{gap}ns"


def about_text(ns: float) -> str:
    """A duration that is known roughly: ``93 µs``."""
    return duration_text(ns, 2)


def limit_text(ns: float) -> str:
    """A duration that somebody has set: ``10 ms``, ``2.5 ms``."""
    scale, unit = next(((scale, unit) for scale, unit in _SCALES if abs(ns) >= scale), (1, "ns"))
    return f"{ns / scale:g} {unit}"


def exact_text(ns: int) -> str:
    """A time in milliseconds with all its digits: ``54.904512 ms``."""
    sign = "-" if ns < 0 else ""
    whole, rest = divmod(abs(ns), 1_000_000)
    return f"{sign}{whole}.{rest:06d} ms"


def moment_text(ns: float) -> str:
    """A time since the start of the trace, to the microsecond: ``54.905 ms``."""
    return f"{ns / 1e6:.3f} ms"


def share_text(share: float) -> str:
    """A share of 1: ``6.5%``; all of it is ``100%``."""
    return f"{share:.1%}" if 0.0 < share < 0.9995 else f"{share:.0%}"


def percent_text(share: float) -> str:
    """A share of 1 that somebody has set: ``60%``, ``2.5%``."""
    return f"{100 * share:g}%"


def count_text(count: int) -> str:
    """A whole number: ``12,345``."""
    return f"{count:,}"


def size_text(size: float) -> str:
    """A number of bytes: ``16.777 MB``, below ten thousand ``512 B``."""
    return f"{size / 1e6:.3f} MB" if size >= 1e4 else f"{size:,.0f} B"


def memory_text(size: float) -> str:
    """Bytes of memory in binary units, as allocators count: ``1,452.0 MiB``, ``10.13 GiB``, ``512 B``."""
    for power, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(size) >= power * (10 if unit == "GiB" else 1):
            return f"{size / power:,.2f} {unit}" if unit == "GiB" else f"{size / power:,.1f} {unit}"
    return f"{size:,.0f} B"


def speed_text(gigabytes: float) -> str:
    """A bandwidth in GB/s: ``18.25 GB/s``."""
    return f"{gigabytes:.2f} GB/s"


def change_text(ns: float) -> str:
    """A difference of times with its sign: ``+13.70 ms``, ``−210.0 µs``, ``±0``."""
    if not ns:
        return "±0"
    return f"{'+' if ns > 0 else '−'}{duration_text(abs(ns))}"


def share_change_text(share: float) -> str:
    """A difference as a share with its sign: ``+9.2%``."""
    return f"{'+' if share >= 0 else '−'}{share_text(abs(share))}"


def mean_count_text(count: float) -> str:
    """A mean number of calls: ``24``, ``2.5``, without digits where it is whole."""
    return f"{count:,.0f}" if count == round(count) else f"{count:,.1f}"
