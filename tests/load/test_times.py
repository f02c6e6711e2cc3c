"""Time texts to nanoseconds, exactly as decimal arithmetic has it."""

from __future__ import annotations

import itertools
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from npu_tui.load.times import INVALID, nanoseconds, parse_time, parse_times

EARLIEST, LATEST = -(2**60), 2**62
DIGITS = st.text("0123456789", min_size=1, max_size=45)
REGULAR = st.from_regex(r"[0-9]{16}\.[0-9]{3}", fullmatch=True)
DECIMALS = st.builds(lambda whole, rest: f"{whole}.{rest}", DIGITS, DIGITS)
SIGNED = st.builds(str.__add__, st.sampled_from(["-", "+", ""]), DIGITS | DECIMALS)
SCIENTIFIC = st.builds(lambda text, e, power: f"{text}{e}{power}", SIGNED, st.sampled_from("eE"), st.integers(-40, 40))
FLOATS = st.floats().map(repr)
HALVES = st.builds(
    lambda whole, rest: f"{whole}.{rest}",
    st.integers(0, 2**50),
    st.from_regex(r"[0-9]{3}(49*|50*[01])", fullmatch=True),
)
NEAR_MISSES = st.text("0123456789. -+eE_x٣", min_size=20, max_size=20)
JUNK = st.sampled_from(
    ["", ".", "-", "inf", "-inf", "nan", "sNaN", "Infinity", "null", "1e999999999", "1e-999999999", "0x10"]
)
TEXTS = st.one_of(REGULAR, DIGITS, DECIMALS, SIGNED, SCIENTIFIC, FLOATS, HALVES, NEAR_MISSES, JUNK, st.text(max_size=8))


def exact(text: str) -> int:
    """The slow way: as many digits as it takes, then half up to whole ns."""
    with localcontext() as context:
        context.prec = 400
        try:
            value = Decimal(text)
            if value == 0 or (value.is_finite() and value.adjusted() < -30):
                return 0
            if not value.is_finite() or value.adjusted() > 30:
                return INVALID
            time = int((value * 1000).to_integral_value(ROUND_HALF_UP))
        except InvalidOperation:
            return INVALID
    return time if EARLIEST <= time <= LATEST else INVALID


@given(TEXTS)
@example("4611686018427387.904")
@example("4611686018427387.905")
@example("9999999999999999.999")
@example("1736405443863674.4004999999999999999999999")
@example("1736405443863674.٣٣٣")
@example("0E31")
def test_parse_time_is_exact(text: str) -> None:
    assert parse_time(text) == exact(text)


@given(st.lists(REGULAR, max_size=6) | st.lists(TEXTS, max_size=6) | st.lists(REGULAR | NEAR_MISSES, max_size=6))
@example(["9999999999999999.999", "1736405443863674.400"])
def test_bulk_equals_one_by_one(texts: list[str]) -> None:
    times = parse_times(texts)
    assert times.dtype == np.int64
    assert times.tolist() == [exact(text) for text in texts]


@pytest.mark.parametrize("position", range(20))
def test_one_wrong_character_in_the_regular_form(position: int) -> None:
    good = "1736405443863674.400"
    texts = [good[:position] + char + good[position + 1 :] for char in ("x", ".", "-", " ", "٣", "/", ":")]
    for text in texts:
        assert parse_times([good, text, good]).tolist() == [exact(good), exact(text), exact(good)]


def test_lengths_that_add_up_are_no_regular_form() -> None:
    pairs = itertools.pairwise(["1736405443863674.4", "1736405443863674.400", "1736405443863674.40050", "1", "2.0"])
    for texts in pairs:
        assert parse_times(list(texts)).tolist() == [exact(text) for text in texts]


@given(st.lists(st.floats() | st.floats(0, 1e9), max_size=8))
def test_durations(microseconds: list[float]) -> None:
    found = nanoseconds(np.array(microseconds, np.float64))
    for value, ns in zip(microseconds, found.tolist(), strict=True):
        endless = not abs(value * 1000) <= 2**61
        assert ns == (INVALID if endless else round(value * 1000))
