"""Distinct codes, looked up or sorted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from npu_tui.trace.distinct import distinct


@pytest.mark.parametrize(
    "code",
    [
        np.zeros(0, np.int32),
        np.array([7]),
        np.array([3, -1, 3, 9, -1], np.int32),
        np.array([5, 2**61, -(2**61), 5]),
        np.array([-128, 127, 0, -128], np.int8),
        np.random.default_rng(4).integers(0, 1 << 17, 1_000),
        np.random.default_rng(4).integers(-500, 500, 9_000).astype(np.int32),
    ],
    ids=["none", "one", "few", "far apart", "narrow", "sparse", "dense"],
)
def test_they_are_those_of_numpy(code: npt.NDArray[np.integer]) -> None:
    values, place = distinct(code)
    mine, own = np.unique(code, return_inverse=True)
    assert np.array_equal(values, mine)
    assert np.array_equal(place, own)
    assert values.dtype == place.dtype == np.int64
