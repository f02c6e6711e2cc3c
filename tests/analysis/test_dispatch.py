"""Launches of the bundled profiles against the simulator's truth, and the clock floor against its definition."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import dispatch_of

from npu_tui.analysis.device import EVERYTHING, device_slices
from npu_tui.analysis.launches import Dispatch, clock_floor
from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.overlap import overlap_lanes

if TYPE_CHECKING:
    from conftest import Sample


def truth_of(bundled: Sample) -> dict:
    return json.loads((bundled.path / "truth.json").read_text())


def test_sums_are_those_of_the_simulation(bundled: Sample) -> None:
    (found,) = dispatch_of(bundled.trace)
    truth = truth_of(bundled)["dispatch"]
    assert len(found.link) == truth["links"]
    for shape in ("near_vertical", "shallow", "queued", "starved"):
        assert np.count_nonzero(getattr(found, shape)) == truth[shape], shape
    assert found.lost.sum() == pytest.approx(truth["lost_ns"], abs=0.5)
    assert [(floor.floor, floor.trusted) for floor in found.floors] == [
        (pytest.approx(truth["clock_floor_ns"], abs=0.5), truth["clock_floor_trusted"])
    ]


def test_every_launch_is_that_of_the_simulation(bundled: Sample) -> None:
    (found,) = dispatch_of(bundled.trace)
    links, launches = bundled.trace.links, sorted(truth_of(bundled)["launches"], key=lambda row: row["start_ns"])
    assert links.target_time[found.link].tolist() == [row["start_ns"] for row in launches]
    assert links.source_time[found.link].tolist() == [row["source_ns"] for row in launches]
    assert links.latency[found.link].tolist() == [row["latency_ns"] for row in launches]
    assert found.lost.tolist() == pytest.approx([row["lost_ns"] for row in launches], abs=0.5)
    assert found.starved.tolist() == [row["starved"] for row in launches]
    assert found.ready.tolist() == [-1 if row["ready_ns"] is None else row["ready_ns"] for row in launches]
    names = [bundled.trace.name_of(int(item)) for item in links.target_slice[found.link]]
    assert names == [row["kernel"] for row in launches]
    shapes = np.select([found.near_vertical, found.shallow], ["near-vertical", "shallow"], "queued")
    assert shapes.tolist() == [row["class"] for row in launches]


def test_overlap_is_that_of_the_simulation(bundled: Sample) -> None:
    (found,) = (lanes.sums(EVERYTHING) for lanes in overlap_lanes(bundled.trace, device_slices(bundled.trace)))
    assert truth_of(bundled)["overlap"] == {
        "computing_ns": found.computing,
        "communication_ns": found.communication,
        "communication_not_overlapped_ns": found.not_overlapped,
        "free_ns": found.free,
    }
    assert sum(found.ratio(part) for part in (found.computing, found.not_overlapped, found.free)) == pytest.approx(1)


def test_operators_add_up_to_the_simulation(bundled: Sample) -> None:
    (device,) = device_slices(bundled.trace)
    slices = bundled.trace.slices
    rows = truth_of(bundled)["operators"]
    assert np.count_nonzero(device.compute) == sum(row["count"] for row in rows)
    assert (slices.end - slices.start)[device.compute].sum() == sum(row["total_ns"] for row in rows)
    assert not (device.compute & device.copy).any()
    assert not (device.compute & device.collective).any()


def test_layers_and_links_are_those_of_the_simulation(bundled: Sample) -> None:
    trace, truth = bundled.trace, truth_of(bundled)
    assert trace.events == truth["events"]
    assert trace.start_ns == truth["start_ns"]
    for layer in trace.layers:
        if layer.kind != "counter":
            lanes = (trace.lanes[index] for index in layer.lanes)
            counts = {lane.name.removeprefix("Thread "): lane.last - lane.first for lane in lanes}
            assert counts == truth["layers"][layer.name]
    for category, ends in truth["links"].items():
        own = trace.links_of(category)
        assert len(own) == ends["targets"]
        assert len(np.unique(trace.links.source_event[own])) == ends["sources"]


LATENCIES = st.lists(st.integers(-200_000, 100_000_000), min_size=1, max_size=120)


def test_clock_floor_equals_its_definition() -> None:
    """For every few launches at the floor and at the edge of what confirms it, before many that waited for long."""
    counts, bases = (1, 20, 21, 40, 41, 99, 100, 101, 120), (-7_000, 29_999, 30_000, 30_001, 400_000)
    for count, at_base, base, beyond in product(counts, (1, 2, 3), bases, (0, 1)):
        for at_edge in range(min(4, count)):
            latencies = np.full(count, base + 10_000_000.0)
            latencies[:at_edge] = base + 20_000 + beyond
            latencies[-at_base:] = base
            found = clock_floor(latencies)
            expected = np.percentile(latencies, 1) if count >= 100 else base
            near = sum(expected <= latency <= expected + 20_000 for latency in latencies.tolist())
            assert found.trusted == (near >= 0.05 * count)
            assert found.floor == (expected if found.trusted else min(expected, 30_000))


@given(LATENCIES, st.integers(-10_000_000, 10_000_000))
def test_a_trusted_floor_moves_with_the_clock(latencies: list[int], offset: int) -> None:
    """What a device clock is off by changes no relative latency."""
    here, there = (clock_floor(np.array(latencies, np.float64) + shift) for shift in (0, offset))
    assert here.trusted == there.trusted
    if here.trusted:
        assert there.floor - here.floor == pytest.approx(offset, abs=1e-3)


def test_the_settings_draw_the_classes(bundled: Sample) -> None:
    (usual,) = dispatch_of(bundled.trace)
    (strict,) = dispatch_of(bundled.trace, Thresholds(near_vertical_us=0.5, starved_us=200.0))
    assert np.array_equal(strict.near_vertical, usual.relative <= 500)
    assert np.array_equal(strict.starved, usual.lost >= 200_000)
    assert np.count_nonzero(strict.starved) < np.count_nonzero(usual.starved)
    classes = strict.near_vertical.astype(int) + strict.shallow + strict.queued
    assert (classes == 1).all()


@pytest.mark.parametrize("near_limit", [20_000, 150_000])
def test_a_launch_at_a_limit_is_of_the_class_below_it_but_starved(near_limit: int) -> None:
    at = np.array(sorted({-1, *(limit + more for limit in (20_000, 100_000, 150_000) for more in (-1, 0, 1))}), float)
    found = Dispatch(None, np.arange(len(at)), at, at, at.astype(np.int64), (), near_limit, near_limit)
    assert found.near_vertical.tolist() == [each <= near_limit for each in at]
    assert found.shallow.tolist() == [near_limit < each <= 100_000 for each in at]
    assert found.queued.tolist() == [each > max(100_000, near_limit) for each in at]
    assert found.starved.tolist() == [each >= near_limit for each in at]
