"""Time texts to whole nanoseconds, exactly.

``ts`` of torch_npu and msprof is text: epoch microseconds with three decimals, 16 digits before the point. Other
writers use numbers, other numbers of decimals or scientific notation. No value passes through a float, which has a
grid of 0.25 us at epoch microseconds.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

import numpy as np
import numpy.typing as npt

INVALID = np.iinfo(np.int64).min
"""Stands for a text that is no time, or one outside int64 nanoseconds."""

_WIDTH = 20
_POINT = 16
_WEIGHTS = np.array([10 ** (18 - i) for i in range(16)] + [0] + [100, 10, 1], np.int64)
_LIMIT = Decimal(2**62)


def parse_time(text: str) -> int:
    """Nanoseconds of a decimal text in microseconds, rounded half up; ``INVALID`` if it is no finite number."""
    whole, _, fraction = text.partition(".")
    if whole.isdecimal() and whole.isascii() and len(whole) <= 16 and len(fraction) == 3 and fraction.isdecimal():
        return int(whole) * 1000 + int(fraction)
    try:
        value = Decimal(text) * 1000
        if not value.is_finite() or abs(value) > _LIMIT:
            return INVALID
        return int(value.to_integral_value(ROUND_HALF_UP))
    except (InvalidOperation, ValueError):
        return INVALID


def parse_times(texts: list[str]) -> npt.NDArray[np.int64]:
    """``parse_time`` of every text; (n,) int64. The common form of 16 digits and 3 decimals is parsed in bulk."""
    joined = "".join(texts)
    if len(joined) == _WIDTH * len(texts) and joined.isascii():
        table = np.frombuffer(joined.encode(), np.uint8).reshape(-1, _WIDTH)
        digits = table - ord("0")
        regular = table[:, _POINT] == ord(".")
        digits[:, _POINT] = 0
        if regular.all() and (digits <= 9).all():
            times: npt.NDArray[np.int64] = digits.astype(np.int64) @ _WEIGHTS
            return times
    return np.fromiter((parse_time(text) for text in texts), np.int64, len(texts))


def nanoseconds(microseconds: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Durations in us to the nearest ns; (n,) int64. Durations carry noise below a nanosecond in real files."""
    scaled = np.rint(microseconds * 1000.0)
    return np.where(np.abs(scaled) < 2.0**62, scaled, 0).astype(np.int64)
