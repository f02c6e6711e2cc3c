from __future__ import annotations

import json
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured import dispatch_of, profile_of

from npu_tui.analysis.ranges import edge_at, launch_count, range_sums, self_time
from npu_tui.load.load import load
from npu_tui.trace.model import Trace

NESTED = [
    (1, "outer", 0, 100),
    (1, "inner", 10, 30),
    (1, "inner", 40, 50),
    (1, "leaf", 12, 20),
    (1, "point", 60, 60),
    (2, "outer", 90, 140),
    (1, "crossing", 95, 120),
]
"""(thread, name, start, end), ns."""


@pytest.fixture(scope="module")
def nested(tmp_path_factory) -> Trace:
    file = tmp_path_factory.mktemp("ranges") / "trace_view.json"
    events = [
        {"ph": "X", "pid": 1, "tid": tid, "name": name, "ts": f"7.{start:03d}", "dur": (end - start) / 1000}
        for tid, name, start, end in NESTED
    ]
    file.write_text(json.dumps(events))
    return load(file)


def rows(trace: Trace, start: int, end: int, lanes: tuple[int, ...] | None = None) -> dict[str, tuple[int, int, int]]:
    return {row.label: (row.count, row.total, row.busy) for row in range_sums(trace, start, end, lanes)}


def plain_sums(trace: Trace, start: int, end: int) -> dict[tuple[int, int], tuple[int, int, int]]:
    """(count, sum, busy) by (layer, name), slice by slice."""
    slices = trace.slices
    parts = defaultdict(list)
    for item in range(len(slices)):
        low, high = int(slices.start[item]), int(slices.end[item])
        if low < end and (high > start or low == high >= start):
            layer = trace.lanes[int(slices.lane[item])].layer
            parts[layer, int(slices.name[item])].append((max(low, start), min(high, end)))
    sums = {}
    for key, own in parts.items():
        busy, reach = 0, start
        for low, high in sorted(own):
            busy += max(high - max(low, reach), 0)
            reach = max(reach, high)
        sums[key] = (len(own), sum(high - low for low, high in own), busy)
    return sums


def plain_self(trace: Trace, item: int) -> int:
    slices = trace.slices
    start, end = int(slices.start[item]), int(slices.end[item])
    inside = sorted(
        (int(slices.start[other]), int(slices.end[other]))
        for other in range(item + 1, trace.lanes[int(slices.lane[item])].last)
        if slices.start[other] >= start and slices.end[other] <= end
    )
    left, reach = end - start, start
    for low, high in inside:
        left -= max(high - max(low, reach), 0)
        reach = max(reach, high)
    return left


def test_slices_are_cut_to_the_range(nested):
    assert rows(nested, 15, 45) == {"outer": (1, 30, 30), "inner": (2, 20, 20), "leaf": (1, 5, 5)}


def test_busy_counts_overlapping_slices_of_a_name_once(nested):
    assert rows(nested, 80, 200)["outer"] == (2, 20 + 50, 60)


def test_most_busy_comes_first(nested):
    assert [row.label for row in range_sums(nested, 0, 100)] == [
        "outer", "inner", "leaf", "crossing", "point",
    ]  # fmt: skip


def test_the_longest_is_the_slice_that_covers_most_of_the_range(nested):
    found = {row.label: int(row.items[0]) for row in range_sums(nested, 85, 200)}
    assert int(nested.slices.start[found["outer"]]) == 90


def test_the_end_of_the_range_is_outside_of_it(nested):
    assert set(rows(nested, 0, 10)) == {"outer"}
    assert set(rows(nested, 100, 120)) == {"outer", "crossing"}


@pytest.mark.parametrize(("start", "end", "found"), [(60, 61, True), (59, 60, False), (61, 70, False)])
def test_a_slice_without_duration_counts_where_it_starts(nested, start, end, found):
    assert ("point" in rows(nested, start, end)) is found


def test_only_some_lanes(nested):
    second = next(lane.index for lane in nested.lanes if lane.tid == 2)
    assert rows(nested, 0, 200, (second,)) == {"outer": (1, 50, 50)}


def test_nothing_in_an_empty_part(nested):
    assert range_sums(nested, 150, 160) == []


@pytest.mark.parametrize(("name", "own"), [("outer", 70), ("inner", 12), ("leaf", 8), ("point", 0), ("crossing", 25)])
def test_self_time_leaves_out_what_runs_inside(nested, name, own):
    item = next(at for at in range(len(nested.slices)) if nested.name_of(at) == name)
    assert self_time(nested, item) == own


@settings(max_examples=10)
@given(st.floats(0, 1), st.floats(0, 1))
def test_sums_of_any_range_agree_with_a_plain_computation(bundled, first, last):
    trace = bundled.trace
    start, end = sorted((round(first * trace.end), round(last * trace.end) + 1))
    found = {
        (row.layer, trace.names.index(row.label)): (row.count, row.total, row.busy)
        for row in range_sums(trace, start, end)
    }
    assert found == plain_sums(trace, start, end)


def test_self_time_of_every_slice_agrees_with_a_plain_computation(bundled):
    trace = bundled.trace
    for item in range(len(trace.slices)):
        assert self_time(trace, item) == plain_self(trace, item)


def test_durations_are_those_of_the_whole_slices(nested):
    [inner] = [row for row in range_sums(nested, 45, 120) if row.label == "inner"]
    assert (inner.count, inner.total, inner.shortest, inner.longest, inner.average) == (1, 5, 10, 10, 10.0)
    [inner] = [row for row in range_sums(nested, 0, 120) if row.label == "inner"]
    assert (inner.shortest, inner.average, inner.longest, inner.p90) == (10, 15.0, 20, 19.0)


def test_kernels_are_added_up_by_operator_type(bundled):
    trace = bundled.trace
    profile = profile_of(trace)
    by_name, by_type = (
        range_sums(trace, 0, trace.end),
        range_sums(trace, 0, trace.end, None, "type", profile.compute, profile.types_of),
    )
    assert sum(row.count for row in by_name) == sum(row.count for row in by_type)
    assert sum(row.total for row in by_name) == sum(row.total for row in by_type)
    labels = {row.label for row in by_type if trace.layers[row.layer].kind == "hardware"}
    assert "Gelu" in labels
    assert not any(label.startswith("aclnnGelu") for label in labels)


def test_launches_belong_to_the_range_that_they_start_in(bundled):
    trace = bundled.trace
    for device in dispatch_of(trace):
        starts = trace.links.target_time[device.link]
        middle = int(starts[len(starts) // 3])
        parts = [launch_count(device, trace, 0, middle), launch_count(device, trace, middle, trace.end + 1)]
        assert sum(part.starved for part in parts) == int(device.starved.sum())
        assert sum(part.near_vertical + part.shallow + part.queued for part in parts) == len(device.link)
        assert sum(part.lost for part in parts) == pytest.approx(float(device.lost.sum()))


def test_lost_time_belongs_to_where_the_device_waits(bundled):
    trace = bundled.trace
    for device in dispatch_of(trace):
        worst = int(device.lost.argmax())
        ready, start = int(device.ready[worst]), int(trace.links.target_time[device.link[worst]])
        before = launch_count(device, trace, ready, start)
        assert before.starved == 1
        assert before.lost == pytest.approx(float(device.lost[worst]))
        half = launch_count(device, trace, ready, ready + round(before.lost / 2))
        assert half.lost == pytest.approx(before.lost / 2, abs=1)
        end = int(trace.slices.end[trace.links.target_slice[device.link[worst]]])
        assert launch_count(device, trace, start, end).lost < before.lost


def test_the_edges_of_a_gap_are_the_slices_around_it(nested):
    lane = next(lane.index for lane in nested.file_lanes if lane.tid == 1)
    first, last = edge_at(nested, 30, lane), edge_at(nested, 40, lane)
    assert first is not None
    assert last is not None
    assert (nested.name_of(first[0]), first[1]) == ("inner", True)
    assert (nested.name_of(last[0]), last[1]) == ("inner", False)
    assert edge_at(nested, 31, lane) is None
