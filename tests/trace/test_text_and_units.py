"""Times as text, and texts made harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.trace.text import duration_text, exact_text, parse_duration, printable


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("12.3ms", 12_300_000),
        ("40 us", 40_000),
        ("40µs", 40_000),
        ("1.5s", 1_500_000_000),
        ("7", 7_000_000),
        (" -3 ns ", -3),
        ("0.0000005ms", 1),
        ("", None),
        ("ms", None),
        ("1e3", None),
        ("3 min", None),
    ],
)
def test_parse_duration(text: str, ns: int | None) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1000, "1.000 µs"),
        (16_800, "16.80 µs"),
        (173_500_000, "173.5 ms"),
        (999_960, "1.000 ms"),
        (-2_500, "−2.500 µs"),
        (61_000_000_000, "61.00 s"),
    ],
)
def test_duration_text(ns: int, text: str) -> None:
    assert duration_text(ns) == text


@given(st.integers(-(2**62), 2**62))
def test_exact_text_keeps_every_nanosecond(ns: int) -> None:
    assert parse_duration(exact_text(ns)) == ns


def test_printable_replaces_what_could_steer_a_terminal() -> None:
    assert printable("a\x1b[31mb\r\n\u202ec\x9b\ud800 算子") == "a?[31mb???c?? 算子"


@given(st.text())
def test_printable_keeps_the_length_and_has_no_controls(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in shown)
