"""Time texts to whole nanoseconds, exactly.

``ts`` of torch_npu and msprof is text: epoch microseconds with three decimals, 16 digits before the point. Other
writers use numbers, other numbers of decimals or scientific notation. No value passes through a float, which has a
grid of 0.25 us at epoch microseconds.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import numpy.typing as npt

INVALID = np.iinfo(np.int64).min
"""Stands for a text that is no time, or one outside int64 nanoseconds."""

_WIDTH = 20
_POINT = 16
_WEIGHTS = np.array([10 ** (18 - i) for i in range(16)] + [0] + [100, 10, 1], np.int64)
_EARLIEST, _LATEST, _LONGEST = -(2**60), 2**62, 2**61  # so that no sum or difference leaves int64
_NANOSECOND = Decimal("0.001")


def parse_time(text: str) -> int:
    """Nanoseconds of a decimal text in microseconds, rounded half up; ``INVALID`` if it is no finite number."""
    whole, _, fraction = text.partition(".")
    if whole.isdecimal() and whole.isascii() and len(whole) <= 15 and len(fraction) == 3 and fraction.isdecimal():
        return int(whole) * 1000 + int(fraction)
    try:
        time = int(Decimal(text).quantize(_NANOSECOND, ROUND_HALF_UP).scaleb(3))
    except (ArithmeticError, ValueError):
        return INVALID
    return time if _EARLIEST <= time <= _LATEST else INVALID


def parse_times(texts: list[str]) -> npt.NDArray[np.int64]:
    """``parse_time`` of every text; (n,) int64. The common form of 16 digits and 3 decimals is parsed in bulk."""
    common = np.fromiter(map(len, texts), np.int64, len(texts)) == _WIDTH
    joined = "".join(texts if common.all() else [text for text in texts if len(text) == _WIDTH])
    times = np.full(len(texts), INVALID)
    if joined.isascii():
        table = np.frombuffer(joined.encode(), np.uint8).reshape(-1, _WIDTH)
        digits = table - ord("0")
        point = table[:, _POINT] == ord(".")
        digits[:, _POINT] = 0
        found = digits.astype(np.int64) @ _WEIGHTS
        regular = point & (digits <= 9).all(axis=1) & (found >= 0) & (found <= _LATEST)
        times[common] = np.where(regular, found, INVALID)
    for i in np.flatnonzero(times == INVALID).tolist():
        times[i] = parse_time(texts[i])
    return times


def nanoseconds(microseconds: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Durations in us to the nearest ns, ``INVALID`` for endless ones; (n,) int64.

    Durations carry noise below a nanosecond in real files.
    """
    with np.errstate(over="ignore"):
        scaled = np.rint(microseconds * 1000.0)
    lasting = np.abs(scaled) <= _LONGEST
    return np.where(lasting, np.where(lasting, scaled, 0.0).astype(np.int64), INVALID)
