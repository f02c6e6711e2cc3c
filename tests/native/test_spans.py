"""The loops over spans are as their slower twins."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from npu_tui.native.library import library
from npu_tui.native.spans import (
    I64,
    count_until,
    covered,
    shared,
    slow_covered,
    slow_shared,
    slow_united,
    united,
)

pytestmark = pytest.mark.skipif(library() is None, reason="no compiled library for this machine")
_FAR = np.iinfo(np.int64)


def lists(seed: int) -> Iterator[tuple[I64, I64]]:
    """Lists of spans that overlap, touch and are empty: of none to many, in order and not."""
    random = np.random.default_rng(seed)
    for count in (0, 1, 2, 3, 40, 900):
        for reach in (3, 60, 20_000):
            start = random.integers(-50, 20_050, count)
            for begin in (start, np.sort(start)):
                yield begin, begin + random.integers(-2, reach, count)


def test_unions_are_as_in_python() -> None:
    for start, end in lists(1):
        mine = slow_united(start, end)
        assert np.array_equal(united(start, end), mine)
        assert np.array_equal(united(*mine), mine)
        assert np.array_equal(united(start[::2], end[::2]), slow_united(start[::2], end[::2]))


def test_what_two_lists_share_is_as_in_python() -> None:
    unions = [united(*spans) for spans in lists(2)]
    for one in unions:
        for other in unions:
            assert np.array_equal(shared(*one, *other), slow_shared(*one, *other))
    gaps = np.append(_FAR.min, unions[-1][1]), np.append(unions[-1][0], _FAR.max)
    assert np.array_equal(shared(*unions[-3], *gaps), slow_shared(*unions[-3], *gaps))


def test_places_are_as_in_numpy() -> None:
    random = np.random.default_rng(3)
    for count in (0, 1, 2, 700):
        known = np.sort(random.integers(-50, 900, count))
        for asked in (random.integers(-60, 910, 800), np.arange(-60, 910), np.array([_FAR.min, _FAR.max]), known):
            for time in (asked, asked[::-1], asked.astype(np.float64) + 0.5):
                assert np.array_equal(count_until(known, time), np.searchsorted(known, time, "right"))


def test_spans_cover_as_much_as_in_python() -> None:
    random = np.random.default_rng(5)
    for spans in (0, 1, 2, 3, 400):
        edges = np.sort(random.choice(20_000, 2 * spans, replace=False)).astype(np.int64)
        start, end = edges[::2], edges[1::2]
        inside = np.zeros(20_200, np.int64)
        for one, other in zip(start, end, strict=True):
            inside[one + 50 : other + 50] = 1
        sums = np.append(0, np.cumsum(inside))
        for low in (random.integers(-50, 20_050, 900), np.sort(random.integers(-50, 20_050, 900))):
            high = low + random.integers(0, random.choice([3, 60, 20_000]), 900)
            place, found = covered(start, end, low, high)
            mine = slow_covered(start, end, low, high)
            assert np.array_equal(place, mine[0])
            assert np.array_equal(found, mine[1])
            whole = sums[np.minimum(high + 50, 20_200)] - sums[np.minimum(low + 50, 20_200)]
            assert np.array_equal(place, np.flatnonzero(whole))
            assert np.array_equal(found, whole[whole > 0])
