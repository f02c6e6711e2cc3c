"""Whole numbers that files and people write, as far as they can be true."""

from __future__ import annotations

BOUND = 1 << 62
"""Sums and differences of numbers below it stay in 64 bits, which is what NumPy and JSON can hold."""

_LONGEST = 40
"""Python refuses texts of some thousand digits and takes quadratic time for those below."""


def whole_number(value: object) -> int | None:
    """``value``, a number or its digits, as a whole number; None if it is none or not within ``BOUND``."""
    if isinstance(value, str) and len(value) > _LONGEST:
        return None
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -BOUND <= number <= BOUND else None
