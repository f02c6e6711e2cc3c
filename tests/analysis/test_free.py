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
    "single_card": 0.848,
}
UNLINKED_US = {"single_card": 43.94}


def test_split_of_the_real_profiles(real: Sample) -> None:
    parts = parts_of(real.trace)
    late, side, unlinked = parts.split.sums(EVERYTHING)
    free = parts.lanes.sums(EVERYTHING).free
    assert late + side + unlinked == pytest.approx(free, abs=0.01)
    assert late / free == pytest.approx(HOST_LATE[real.name], abs=0.0005)
    assert unlinked / 1000 == pytest.approx(UNLINKED_US.get(real.name, 0.0), abs=0.001)


def test_each_part_of_free_by_its_definition(variation: Simulated) -> None:
    """Part by part in plain Python: what ends each time between copies was launched then; copies are the device's."""
    parts, trace = parts_of(variation.trace), variation.trace
    floor, starts, ends = variation.truth["dispatch"]["clock_floor_ns"], trace.slices.start, trace.slices.end
    busy = sorted((int(starts[item]), item) for item in np.flatnonzero(parts.device.busy).tolist())
    source: dict[int, int] = {}
    for link in parts.pairs.link.tolist():
        source.setdefault(int(trace.links.target_slice[link]), int(trace.links.source_time[link]))
    copies, free, split = np.flatnonzero(parts.device.copy), parts.lanes.free, parts.split
    assert (split.end - split.start).sum() == covered(*free)
    assert covered(split.start[split.copying], split.end[split.copying]) == covered(
        *intersection(*free, starts[copies], ends[copies])
    )
    assert set(split.begun.tolist()) <= set(free[0].tolist())
    rows = zip(*(getattr(split, name).tolist() for name in split.__struct_fields__), strict=True)
    for start, end, late_until, linked, begun, copying in rows:
        assert begun <= start
        first = next((begin for begin, _ in busy if start <= begin <= end + 2), None)
        known = [source[item] for begin, item in busy if begin == first and item in source and not copying]
        assert linked == bool(known or copying)
        late = min(max(known[0] + floor - start, 0), end - start) if known else 0
        assert late_until - start == pytest.approx(late, abs=0.01)


def test_ranges_add_up(variation: Simulated) -> None:
    split, end = parts_of(variation.trace).split, variation.trace.end
    cuts = [0, end // 5, end // 3, end // 2, end + 1]
    pieces = [split.sums(Window(low, high)) for low, high in itertools.pairwise(cuts)]
    for own, whole in zip(np.sum(pieces, axis=0), split.sums(EVERYTHING), strict=True):
        assert own == pytest.approx(whole, abs=0.01)
