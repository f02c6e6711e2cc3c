"""Numbers of JSON: whole ones, floats to the nearest bit, times to the nanosecond."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import (
    Region,
    below,
    compiled,
    float_of_bits,
    high_product,
    leading_zeros,
    read8,
    read64,
    shifted_right,
)

_ZEROS = 0x3030303030303030
_SIXES = 0x0606060606060606
_HIGH_HALVES = -0x0F0F0F0F0F0F0F10
_LOW_HALVES = 0x0F0F0F0F0F0F0F0F
_THREES = 0x3333333333333333
_EXACT = 1 << 53
_MOST_DIGITS = 18
"""So many digits fit into 64 bits with room to spare."""


@compiled
def are_digits(word: int) -> bool:
    """Whether all eight bytes are digits."""
    return ((word & _HIGH_HALVES) | (shifted_right((word + _SIXES) & _HIGH_HALVES, 4))) == _THREES


@compiled
def eight_digits(word: int) -> int:
    """The number of eight digits, the first in the lowest byte."""
    word = shifted_right((word & _LOW_HALVES) * 2561, 8)
    word = shifted_right((word & 0x00FF00FF00FF00FF) * 6553601, 16)
    return shifted_right((word & 0x0000FFFF0000FFFF) * 42949672960001, 32)


@compiled
def digits(buffer: Region, at: int, value: int) -> tuple[int, int]:
    """``value`` continued by the digits at ``at``, and where they end; it overflows after 18 digits."""
    word = read64(buffer, at)
    while are_digits(word):
        value = value * 100000000 + eight_digits(word)
        at += 8
        word = read64(buffer, at)
    byte = word & 255
    while 48 <= byte <= 57:
        value = value * 10 + byte - 48
        at += 1
        word = shifted_right(word, 8)
        byte = word & 255
    return value, at


@compiled
def whole(buffer: Region, at: int) -> tuple[int, int]:
    """A whole number of at most 18 digits and where it ends, or a negative offset where it is none."""
    begin = at
    negative = read8(buffer, at) == 45
    if negative:
        begin += 1
    value, end = digits(buffer, begin, 0)
    length = end - begin
    first = read8(buffer, begin)
    if length == 0 or length > _MOST_DIGITS or (first == 48 and (length > 1 or negative)):
        return 0, -1 - end
    if negative:
        value = -value
    return value, end


@compiled
def quotient(mantissa: int, decimals: int, powers: Region) -> float:
    """``mantissa / 10**decimals`` to the nearest float, for mantissas of at most 18 digits and up to 18 decimals.

    Eisel and Lemire's method with a product of 128 bits, which is exact in this range.
    """
    if mantissa < _EXACT or decimals == 0:
        return float(mantissa) / float_of_bits(read64(powers, 24 * decimals + 16))
    zeros = leading_zeros(mantissa)
    scaled = mantissa << zeros
    high_power, low_power = read64(powers, 24 * decimals), read64(powers, 24 * decimals + 8)
    high, low = high_product(scaled, high_power), scaled * high_power
    if high & 0x1FF == 0x1FF:
        more = high_product(scaled, low_power)
        low = low + more
        if below(low, more):
            high = high + 1
    upper = shifted_right(high, 63)
    shift = upper + 9
    bits = shifted_right(high, shift)
    exponent = ((-(152170 + 65536) * decimals) >> 16) + 63 + upper - zeros + 1023
    if (low == 0 or low == 1) and decimals <= 4 and bits & 3 == 1 and (bits << shift) == high:
        bits &= ~1
    bits += bits & 1
    bits = bits >> 1
    if bits >= 1 << 53:
        bits = 1 << 52
        exponent += 1
    return float_of_bits((bits & ((1 << 52) - 1)) | (exponent << 52))


@compiled
def decimal(buffer: Region, at: int, powers: Region) -> tuple[float, int, bool]:
    """A number of JSON to the nearest float, where it ends (a negative offset: it is none), and whether it is exact.

    What has more than 18 digits or an exponent is left to others.
    """
    begin = at
    negative = read8(buffer, at) == 45
    if negative:
        begin += 1
    mantissa, end = digits(buffer, begin, 0)
    whole_digits = end - begin
    if whole_digits == 0 or (read8(buffer, begin) == 48 and whole_digits > 1):
        return 0.0, -1 - end, False
    decimals = 0
    if read8(buffer, end) == 46:
        first = end + 1
        mantissa, end = digits(buffer, first, mantissa)
        decimals = end - first
        if decimals == 0:
            return 0.0, -1 - end, False
    exact = whole_digits + decimals <= _MOST_DIGITS
    byte = read8(buffer, end)
    if byte == 101 or byte == 69:
        exact = False
        end += 1
        byte = read8(buffer, end)
        if byte == 43 or byte == 45:
            end += 1
        first = end
        _, end = digits(buffer, first, 0)
        if end == first or end - first > 2:
            return 0.0, -1 - end, False
    if end - at > 200:
        return 0.0, -1 - end, False
    if not exact:
        return 0.0, end, False
    if negative and mantissa == 0:
        return 0.0, -1 - end, False
    value = quotient(mantissa, decimals, powers)
    if negative:
        value = -value
    return value, end, True


@compiled
def nanoseconds(buffer: Region, at: int) -> tuple[int, int, bool]:
    """Microseconds with up to three decimals in ns, where they end, and whether that is all of the number.

    ``at`` must be followed by a character that belongs to no number.
    """
    value, end = digits(buffer, at, 0)
    if end == at or end - at > 16:
        return 0, end, False
    if read8(buffer, end) != 46:
        return value * 1000, end, value < 1 << 52
    first = end + 1
    thousands, end = digits(buffer, first, 0)
    decimals = end - first
    if decimals == 1:
        thousands *= 100
    elif decimals == 2:
        thousands *= 10
    elif decimals != 3:
        return 0, end, False
    return value * 1000 + thousands, end, value < 1 << 52
