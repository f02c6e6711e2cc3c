"""The loop of the replay is as its slower twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.analysis.graph import NEVER
from npu_tui.native.library import library
from npu_tui.native.spans import passing, slow_passing, slow_walking, walking

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


@given(st.integers(0, 2**32 - 1), st.integers(2, 300), st.integers(-100, 2_000))
def test_rows_are_walked_as_in_python(seed: int, count: int, until: int) -> None:
    random = np.random.default_rng(seed)
    rows, edges = np.arange(count), 2 * count
    source, other = (np.maximum(rows - random.integers(1, 9, count), 0) for _ in range(2))
    edge, other_edge = random.integers(0, edges + 2, (2, count))  # the last two never delay and take no time
    lag = np.append(random.integers(0, 50, edges), (NEVER, 0))
    columns = [each.astype(np.int32) for each in (source, edge, other, other_edge)]
    time = passing(*columns, lag)
    mine, twin = (walk(*columns, lag, time, count - 1, until) for walk in (walking, slow_walking))
    for one, also in zip(mine, twin, strict=True):
        assert one.dtype == also.dtype
        assert one.tolist() == also.tolist()
    walked, passed_by = mine
    assert (np.diff(walked) < 0).all()
    assert (time[walked] > until).all()
    assert (passed_by < edges + 1).all()
