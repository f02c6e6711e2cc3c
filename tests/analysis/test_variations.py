"""Launches and overlap of many simulated jobs: both ways to the lanes, and set operations on intervals by points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import parts_of

from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.analysis.overlap import OverlapLanes, computed_lanes, disagreement
from npu_tui.trace.intervals import covered_before, difference, parted, touches

if TYPE_CHECKING:
    from conftest import Sample
    from samples import Simulated


def test_launches(variation: Simulated) -> None:
    found, truth = parts_of(variation.trace).launches, variation.truth["dispatch"]
    assert len(found.link) == truth["links"]
    for shape in ("near_vertical", "shallow", "queued", "starved"):
        assert np.count_nonzero(getattr(found, shape)) == truth[shape], shape
    assert found.lost.sum() == pytest.approx(truth["lost_ns"], abs=0.5)
    assert [(each.floor, each.trusted) for each in found.floors] == [
        (pytest.approx(truth["clock_floor_ns"], abs=0.5), truth["clock_floor_trusted"])
    ]


def sums(lanes: OverlapLanes) -> dict[str, int]:
    found = lanes.sums(EVERYTHING)
    return {
        "computing_ns": found.computing,
        "communication_ns": found.communication,
        "communication_not_overlapped_ns": found.not_overlapped,
        "free_ns": found.free,
    }


def test_overlap_from_the_file_and_from_the_slices(variation: Simulated) -> None:
    parts = parts_of(variation.trace)
    own = computed_lanes(variation.trace, parts.device)
    assert parts.lanes.layer is not None
    assert own.layer is None
    assert sums(parts.lanes) == sums(own) == variation.truth["overlap"]
    for kind in ("computing", "communication", "not_overlapped", "free"):
        for mine, lanes in zip(getattr(own, kind), getattr(parts.lanes, kind), strict=True):
            assert mine.tolist() == lanes.tolist()


def test_the_lanes_of_real_profiles_agree_with_their_slices(real: Sample) -> None:
    parts = parts_of(real.trace)
    assert disagreement(real.trace, parts.lanes, parts.device) == (0, 0)
    own = sums(computed_lanes(real.trace, parts.device))
    for key, time in sums(parts.lanes).items():
        assert own[key] == pytest.approx(time, abs=50), key


def test_a_lane_without_a_slice_disagrees(bundled: Sample) -> None:
    from msgspec.structs import replace

    parts = parts_of(bundled.trace)
    start, end = parts.lanes.computing
    short = replace(parts.lanes, computing=(start[1:], end[1:]))
    assert disagreement(bundled.trace, short, parts.device) == (int(start[0] - end[0]), 0)


INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12).map(
    lambda pairs: (
        np.array([start for start, _ in pairs], np.int64),
        np.array([start + length for start, length in pairs], np.int64),
    )
)


def points(start: np.ndarray, end: np.ndarray) -> set[int]:
    return {time for first, last in zip(start.tolist(), end.tolist(), strict=True) for time in range(first, last)}


@given(INTERVALS, INTERVALS)
def test_difference_point_by_point(own: tuple[np.ndarray, np.ndarray], cut: tuple[np.ndarray, np.ndarray]) -> None:
    start, end = difference(*own, *cut)
    assert points(start, end) == points(*own) - points(*cut)
    assert (end > start).all()
    assert (start[1:] > end[:-1]).all()


@given(INTERVALS, st.integers(-5, 60))
def test_covered_before_point_by_point(own: tuple[np.ndarray, np.ndarray], time: int) -> None:
    expected = sum(point < time for point in points(*own))
    assert covered_before(*own, np.array([time], np.float64)).tolist() == [expected]


@given(INTERVALS, st.integers(-5, 60), st.integers(1, 12))
def test_touches_point_by_point(own: tuple[np.ndarray, np.ndarray], low: int, length: int) -> None:
    lasting = own[1] > own[0]
    own = own[0][lasting], own[1][lasting]
    found = touches(*own, np.array([low], np.float64), np.array([low + length], np.float64))
    assert found.tolist() == [bool(points(*own) & set(range(low, low + length)))]


@given(INTERVALS, st.integers(0, 50), st.integers(0, 20))
def test_length_in_a_window(own: tuple[np.ndarray, np.ndarray], low: int, length: int) -> None:
    window = Window(low, low + length)
    assert window.length(*own) == sum(
        max(min(end, low + length) - max(start, low), 0) for start, end in zip(*own, strict=True)
    )
    until = low + length + 7
    step = Window(low, low + length, whole=True, until=until)
    assert step.length(*own) == sum(
        max(min(end, until) - max(start, low), 0)
        for start, end in zip(*own, strict=True)
        if max(start, low) < low + length
    )


@given(INTERVALS, st.lists(st.integers(-5, 60)).map(sorted))
def test_what_is_cut_is_neither_more_nor_less(own: tuple[np.ndarray, np.ndarray], cuts: list[int]) -> None:
    order = np.argsort(own[0], kind="stable")
    own = own[0][order], own[1][order]
    start, end = parted(*own, np.array(cuts, np.int64))
    assert (np.diff(start) >= 0).all()
    assert not any(low < cut < high for low, high in zip(start, end, strict=True) for cut in cuts)
    assert (end - start).sum() == (own[1] - own[0]).sum()
    assert points(start, end) == points(*own)
