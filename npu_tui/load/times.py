"""Time texts to whole nanoseconds, exactly.

``ts`` of torch_npu and msprof is text: epoch microseconds with three decimals, 16 digits before the point, such as
``"1736405443863674.400"``. Other writers use numbers, other numbers of decimals or scientific notation. No value passes
through a float, which has a grid of 0.25 us at epoch microseconds.
"""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.arrays import I64, U64

INVALID = np.iinfo(np.int64).min
"""Stands for a text that is no time, or one outside int64 nanoseconds."""

_WIDTH = 20  # ``1736405443863674.400``, as nearly all times are written
_GAP = "\n\n\n\n"
"""Stands between texts, so that those of the common form begin at whole words of 8 bytes."""
_ROW = _WIDTH + len(_GAP)
_BULK = 1 << 12
"""Texts at a time: what is computed with stays in the processor's cache."""
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


class TimeUnit(Struct, frozen=True):
    """How the times of a file count that are no microseconds which fit: ``scale`` us each, after ``origin``.

    Times below a nanosecond are scaled so that each us stands for a ns: the trace is fine. They are rounded where they
    begin and where they end, so that none reaches into the next.
    """

    origin: Decimal = Decimal(0)
    scale: Decimal = Decimal(1)

    @property
    def told(self) -> str:
        """What is said of it: that times are nanoseconds, counted from an origin, or below a nanosecond."""
        return "in_ns" if self.scale < 1 else "far_times" if self.origin else "below_ns"

    def of(self, ts: str, duration: float) -> tuple[str, float]:
        """``ts`` and a duration of the file in us; as they are where they are no numbers."""
        try:
            time = (Decimal(ts) - self.origin) * self.scale
            begin = time.quantize(_NANOSECOND, ROUND_HALF_UP)
            if duration > 0:
                end = (time + Decimal(repr(duration)) * self.scale).quantize(_NANOSECOND, ROUND_HALF_UP)
                duration = float(end - begin)
        except (ArithmeticError, ValueError):
            return ts, duration
        return format(begin, "f"), duration


_TIMES = re.compile(rb'"(ts|dur)"\s*:\s*"?([-+.\deE]{1,40})')
_EPOCH = Decimal(10**18)
"""Nanoseconds from 1970 to 2001; as microseconds they are in the year 33,000."""
_ONLY_NS = Decimal("0.02")  # how far a duration in ns lies off a whole one at most where a float wrote it
_TINY_NS = 100  # slices as short as this lose a notable part by rounding


def time_unit(sample: bytes) -> TimeUnit | None:
    """The unit of the times in the beginning of a text trace; None for microseconds that fit, as nearly all are."""
    found: dict[bytes, list[Decimal]] = {b"ts": [], b"dur": []}
    for match in _TIMES.finditer(sample):
        with suppress(ArithmeticError):
            value = Decimal(match[2].decode())
            if value.is_finite() and value:
                found[match[1]].append(value)
                begin = abs(value) * 1000
                # Counted from 1970 the first time fits, and a thousandth of a nanosecond of it leaves int64.
                if found[b"ts"] == [value] and begin <= _LATEST < begin * 1000:
                    return None
    times, durations = found.values()
    if not times:
        return None
    if abs(times[0]) * 1000 > _LATEST:
        whole = all(value == value.to_integral_value() for value in (*times, *durations))
        in_ns = whole and _EPOCH <= times[0] < 4 * _EPOCH
        return TimeUnit(scale=_NANOSECOND) if in_ns else TimeUnit(origin=times[0])
    lengths = sorted(abs(value) * 1000 for value in durations)
    parts = [value for value in lengths if abs(value - value.to_integral_value()) > _ONLY_NS]
    is_fine = 2 * len(parts) > len(lengths) and lengths[len(lengths) // 2] < _TINY_NS
    return TimeUnit(scale=Decimal(1000)) if is_fine else None


class TimeTexts:
    """Time texts in the order they come; a few thousand at a time are parsed together."""

    def __init__(self) -> None:
        self._joined: list[str] = []
        self._count = 0
        self._parsed: list[I64] = []

    def extend(self, texts: list[str]) -> None:
        """Append ``texts``."""
        if not texts:
            return
        joined = _GAP.join(texts)
        if joined.count("\n") != len(_GAP) * (len(texts) - 1):
            joined = _GAP.join([text.replace("\n", " ") for text in texts])
        self._joined.append(joined)
        self._count += len(texts)
        if self._count >= _BULK:
            self._parsed.append(_parse_joined(self._joined))
            self._joined, self._count = [], 0

    def take(self) -> I64:
        """``parse_time`` of all texts since the last call; (n,) int64 ns."""
        times = np.concatenate([*self._parsed, _parse_joined(self._joined)])
        self._joined, self._count, self._parsed = [], 0, []
        return times


def parse_times(texts: list[str]) -> I64:
    """``parse_time`` of every text; (n,) int64 ns."""
    times = TimeTexts()
    times.extend(texts)
    return times.take()


def _parse_joined(parts: list[str]) -> I64:
    """``parse_time`` of the texts in ``parts``, each of which holds some with a gap between; (n,) int64.

    The common form of 16 digits and 3 decimals is parsed in bulk; a part with other texts slows down itself only.
    """
    lines = _GAP.join([*parts, ""])
    if len(lines) % _ROW == 0 and lines.isascii():
        times, is_regular = _parse_common(lines)
        if is_regular.all():
            return times
    if len(parts) > 1:
        return np.concatenate([_parse_joined([part]) for part in parts])
    texts = lines.split(_GAP)[:-1]
    common = [i for i, text in enumerate(texts) if len(text) == _WIDTH and text.isascii()]
    times = np.full(len(texts), INVALID)
    if common:
        times[common] = _parse_common("".join([texts[i] + _GAP for i in common]))[0]
    for i in np.flatnonzero(times == INVALID).tolist():
        times[i] = parse_time(texts[i])
    return times


def _parse_common(rows: str) -> tuple[I64, npt.NDArray[np.bool_]]:
    """The times of rows of 16 digits, a point, 3 digits and the gap, and which rows have that form; (n,) each.

    The times of others, and of what lies beyond int64, are ``INVALID``.
    """
    words = np.frombuffer(rows.encode(), "<u8").reshape(-1, 3)
    leading = words[:1] if (words[:, 0] == words[:1, 0]).all() else words  # they change every 100 seconds
    left, right, rest = leading[:, 0] - _ZEROS, words[:, 1] - _ZEROS, words[:, 2] - _POINT_AND_GAP
    # A byte is a digit if neither it nor itself plus 6 leaves its low half.
    strange = right + _SIXES
    strange |= right
    strange |= left | (left + _SIXES)
    strange &= _HIGH_HALVES
    strange |= (rest | (rest + _SIXES & _THREE_BYTES)) & _NOT_DECIMALS
    microseconds = (_eight_digits(left) * np.uint64(10**8) + _eight_digits(right)).view(np.int64)
    decimals = (rest >> np.uint64(8) & _BYTE) * np.uint64(100) + (rest >> np.uint64(16) & _BYTE) * np.uint64(10)
    decimals += rest >> np.uint64(24) & _BYTE
    is_regular = (strange == 0) & (microseconds <= _LATEST // 1000)
    times = microseconds * 1000 + decimals.view(np.int64)
    is_regular &= times <= _LATEST
    return np.where(is_regular, times, INVALID), is_regular


def _eight_digits(digits: U64) -> U64:
    """The numbers of eight digits each, the first in the lowest byte: neighbours are joined, then pairs, then fours."""
    digits = (digits * np.uint64(10) + (digits >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    digits = (digits * np.uint64(100) + (digits >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    digits = digits * np.uint64(10000) + (digits >> np.uint64(32))
    digits &= np.uint64(0x00000000FFFFFFFF)
    return digits


_ZEROS = np.uint64(0x3030303030303030)  # the digit 0 in each byte
_SIXES = np.uint64(0x0606060606060606)  # added to a digit it carries into the high half if that is above 9
_HIGH_HALVES = np.uint64(0xF0F0F0F0F0F0F0F0)
_POINT_AND_GAP = np.uint64(0x0A0A0A0A3030302E)  # ``.000`` and ``_GAP``, the first byte lowest
_THREE_BYTES = np.uint64(0x00000000FFFFFF00)
_NOT_DECIMALS = np.uint64(0xFFFFFFFFF0F0F0FF)
_BYTE = np.uint64(0xFF)


def nanoseconds(microseconds: npt.NDArray[np.float64]) -> I64:
    """Durations in us to the nearest ns, ``INVALID`` for endless ones; (n,) int64.

    Durations carry noise below a nanosecond in real files.
    """
    with np.errstate(over="ignore"):
        scaled = np.rint(microseconds * 1000.0)
    is_finite = np.abs(scaled) <= _LONGEST
    return np.where(is_finite, np.where(is_finite, scaled, 0.0).astype(np.int64), INVALID)
