"""Whose fault Free is, and which stage of the host is slow."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from samples import parts_of

from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.trace.intervals import covered, intersection

if TYPE_CHECKING:
    from conftest import Sample
    from samples import Simulated

HOST_LATE = {
    "level0/rank0": 0.795,
    "level0/rank1": 0.807,
    "level1/rank0": 0.780,
    "level1/rank1": 0.777,
    "single_card": 0.841,
}
UNLINKED_US = {"single_card": 147.01}


def test_split_of_the_real_profiles(real: Sample) -> None:
    parts = parts_of(real.trace)
    late, side, unlinked = parts.split.sums(EVERYTHING)
    free = parts.lanes.sums(EVERYTHING).free
    assert late + side + unlinked == pytest.approx(free, abs=0.01)
    assert late / free == pytest.approx(HOST_LATE[real.name], abs=0.0005)
    assert unlinked / 1000 == pytest.approx(UNLINKED_US.get(real.name, 0.0), abs=0.001)


def test_each_free_slice_by_its_definition(variation: Simulated) -> None:
    """Slice by slice in plain Python, from the truth of the launches."""
    parts, truth = parts_of(variation.trace), variation.truth
    floor = truth["dispatch"]["clock_floor_ns"]
    trace = variation.trace
    busy = sorted((int(trace.slices.start[item]), int(item)) for item in np.flatnonzero(parts.device.busy))
    source = {}
    for link in parts.pairs.link.tolist():
        source.setdefault(int(trace.links.target_slice[link]), int(trace.links.source_time[link]))
    for k, (start, end) in enumerate(zip(*(part.tolist() for part in parts.lanes.free), strict=True)):
        first = next((begin for begin, _ in busy if start <= begin <= end + 2), None)
        items = [item for begin, item in busy if begin == first]
        launched = [source[item] for item in items if item in source]
        assert parts.split.linked[k] == bool(launched)
        if launched:
            late = min(max(launched[0] + floor - start, 0), end - start)
            assert parts.split.late_until[k] - start == pytest.approx(late, abs=0.01)


def test_each_gap_between_copies_by_what_ends_it(variation: Simulated) -> None:
    parts, trace = parts_of(variation.trace), variation.trace
    launched = dict(zip(trace.links.target_slice[parts.pairs.link].tolist(), parts.pairs.launch.tolist(), strict=True))
    starts, ends = trace.slices.start, trace.slices.end
    busy = sorted((int(starts[item]), item) for item in np.flatnonzero(parts.device.busy).tolist())
    copies = np.flatnonzero(parts.device.copy)
    free, gaps = parts.lanes.free, parts.gaps
    assert covered(gaps.start, gaps.end) == covered(*free) - covered(*intersection(*free, starts[copies], ends[copies]))
    for start, end, late, linked in zip(gaps.start, gaps.end, gaps.late_until, gaps.linked, strict=True):
        first = next((begin for begin, _ in busy if start <= begin <= end + 2), None)
        known = [launched[item] for begin, item in busy if begin == first and item in launched]
        assert linked == bool(known)
        assert late == (pytest.approx(np.clip(known[0], start, end), abs=0.01) if known else start)


def test_ranges_add_up(variation: Simulated) -> None:
    split, end = parts_of(variation.trace).split, variation.trace.end
    cuts = [0, end // 5, end // 3, end // 2, end + 1]
    pieces = [split.sums(Window(low, high)) for low, high in itertools.pairwise(cuts)]
    for own, whole in zip(np.sum(pieces, axis=0), split.sums(EVERYTHING), strict=True):
        assert own == pytest.approx(whole, abs=0.01)
