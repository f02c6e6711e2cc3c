"""The loops of the replay are as their slower twins."""

from __future__ import annotations

import numpy as np
import pytest

from npu_tui.analysis.replay_edges import NEVER
from npu_tui.native.library import library
from npu_tui.native.replay import covered, passing, slow_covered, slow_passing

pytestmark = pytest.mark.skipif(library() is None, reason="no compiled library for this machine")


def test_rows_are_passed_as_in_python() -> None:
    random = np.random.default_rng(3)
    count, edges = 5_000, 12_000
    rows = np.arange(count)
    source, other = (np.maximum(rows - random.integers(1, 40, count), 0) for _ in range(2))
    edge, other_edge = random.integers(0, edges + 2, (2, count))
    lag = np.append(random.integers(-50, 9_000, edges), (NEVER, 0))
    lag[random.random(edges + 2) < 0.1] = NEVER
    edge[random.random(count) < 0.9] %= 1_000
    lag[:1_000] = np.abs(lag[:1_000]) % 9_000
    columns = [each.astype(np.int32) for each in (source, edge, other, other_edge)]
    mine = slow_passing(*columns, lag)
    assert np.array_equal(passing(*columns, lag), mine)
    assert np.count_nonzero(mine > 0) > count // 2


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
            thread = random.integers(0, 3, 900)
            for number in (None, 0, 2, 7):
                place, found = covered(start, end, low, high, thread, number)
                mine = slow_covered(start, end, low, high, thread, number)
                assert np.array_equal(place, mine[0])
                assert np.array_equal(found, mine[1])
                whole = sums[np.minimum(high + 50, 20_200)] - sums[np.minimum(low + 50, 20_200)]
                whole[(thread != number) & (number is not None)] = 0
                assert np.array_equal(place, np.flatnonzero(whole))
                assert np.array_equal(found, whole[whole > 0])
