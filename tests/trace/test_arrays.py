"""Distinct codes, looked up or sorted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from npu_tui.trace.arrays import among, distinct, summed


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


@pytest.mark.parametrize(
    "wanted",
    [
        np.zeros(0, np.int64),
        np.array([7]),
        np.array([3, 12, 3], np.int32),
        np.array([5, 2**61, -(2**61)]),
        np.random.default_rng(5).integers(-40, 40, 30),
        np.random.default_rng(5).integers(0, 1 << 18, 2_000),
    ],
    ids=["none", "one", "few", "far apart", "dense", "sparse"],
)
def test_those_among_others_are_those_of_numpy(wanted: npt.NDArray[np.integer]) -> None:
    code = np.concatenate((np.arange(-50, 50), [2**62, -(2**62), 2**61], wanted[:5], wanted[:5] + 1))
    found = among(code, wanted)
    assert found.tolist() == [each in set(wanted.tolist()) for each in code.tolist()]
    assert among(code.astype(np.int64)[:0], wanted).tolist() == []


def test_sums_that_64_bits_do_not_hold_are_the_most_that_they_do() -> None:
    most = np.iinfo(np.int64).max
    values = np.array([most - 1, 1, most, most, 5], np.int64)
    assert summed(np.array([0, 0, 1, 1, 2]), values, 4).tolist() == [most, most, 5, 0]
