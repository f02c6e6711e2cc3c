"""How durations spread, which pass of the step slices belong to, and calls added up by their path."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from measured import profile_of

from npu_tui.analysis.calls import call_tree
from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.analysis.ranges import PHASES, phases, range_sums, self_time
from npu_tui.analysis.statistics import by_code, distribution
from npu_tui.load.load import load
from npu_tui.profile.profile import Profile

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def profile() -> Profile:
    return profile_of(load(ROOT / "fixtures" / "healthy"))


def test_a_distribution_is_that_of_the_durations_slowest_first(profile):
    trace = profile.trace
    items = np.flatnonzero(profile.compute)
    found, lengths = distribution(trace, items), (trace.slices.end - trace.slices.start)[items]
    assert (found.count, found.total, found.longest) == (len(items), int(lengths.sum()), int(lengths.max()))
    assert found.p90 == pytest.approx(np.percentile(lengths, 90))
    assert found.union <= found.total
    assert found.items.tolist() == sorted(items.tolist(), key=lambda item: -lengths[items.tolist().index(item)])
    assert (found.shortest, found.p50) == (int(lengths.min()), pytest.approx(np.percentile(lengths, 50)))
    code = trace.slices.name[items].astype(np.int64)
    parts = by_code(trace, items, code - code.min())
    assert sum(each.total for _, each in parts) == found.total
    totals = [each.total for _, each in parts]
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) > 2
    assert {value for value, _ in parts} == set((code - code.min()).tolist())
    assert by_code(trace, items, np.full(len(items), -1)) == []
    assert distribution(trace, items[:0]) is None


def test_slices_of_equal_length_stay_in_their_order():
    start = np.arange(100) * 10
    slices = SimpleNamespace(start=start, end=start + np.tile([1, 5], 50))
    found = distribution(SimpleNamespace(slices=slices), np.arange(100))
    assert found.items.tolist() == [*range(1, 100, 2), *range(0, 100, 2)]
    assert (found.total, found.union) == (300, 300)


def test_kernels_of_backward_operations_are_backward_and_those_of_the_forward_pass_come_before(profile):
    trace = profile.trace
    items = np.flatnonzero(profile.compute)
    code = phases(trace, items)
    forward, backward = (items[code == PHASES.index(name)] for name in ("forward", "backward"))
    assert len(forward)
    assert len(backward)
    names = {trace.name_of(int(item)) for item in backward}
    assert names != {trace.name_of(int(item)) for item in forward}
    assert trace.slices.start[forward].min() < trace.slices.start[backward].min()


def test_the_calls_of_a_lane_add_up_to_its_own_times(profile):
    trace = profile.trace
    lane = max(trace.file_lanes, key=lambda lane: lane.rows)
    found = call_tree(trace, lane, EVERYTHING)
    assert sum(call.count for call in found) == lane.last - lane.first
    assert next(call.depth for call in found) == 0
    top = [call for call in found if not call.depth]
    assert [call.total for call in top] == sorted((call.total for call in top), reverse=True)
    assert all(0 <= call.own <= call.total for call in found)
    part = call_tree(trace, lane, Window(0, trace.end // 4))
    assert sum(call.total for call in part) < sum(call.total for call in found)


def test_own_time_in_a_range_is_that_of_each_slice(profile):
    trace = profile.trace
    rows = range_sums(trace, 0, trace.end + 1)
    best = max((row for row in rows if row.count < 40), key=lambda row: row.own)
    assert best.own == pytest.approx(sum(self_time(trace, int(item)) for item in best.items), abs=best.count)
    assert all(row.own <= row.total for row in rows)
