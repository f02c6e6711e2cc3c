"""The loader on the real profiles and the bundled ones: the reference reader's trace, and the known figures."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from compare import assert_equal

from npu_tui.load.args import json_args
from npu_tui.load.load import load
from npu_tui.trace.model import HOST_TO_DEVICE, Trace

if TYPE_CHECKING:
    from conftest import Sample

PHASES = {
    "level0/rank0": {"X": 3379, "C": 3716, "s": 606, "f": 611, "M": 63},
    "level0/rank1": {"X": 3379, "C": 3735, "s": 606, "f": 611, "M": 63},
    "level1/rank0": {"X": 4384, "C": 4431, "s": 606, "f": 611, "M": 80},
    "level1/rank1": {"X": 4385, "C": 4287, "s": 606, "f": 611, "M": 80},
    "single_card": {"X": 2212, "s": 713, "f": 713, "M": 32},
}
WITHOUT_ARGS = {"level0/rank0": 382, "level0/rank1": 382, "level1/rank0": 382, "level1/rank1": 382, "single_card": 547}
ZERO_LONG = {"level0/rank0": 36, "level0/rank1": 32, "level1/rank0": 76, "level1/rank1": 75, "single_card": 0}
SPAN_MS = {
    "level0/rank0": 137.2,
    "level0/rank1": 121.3,
    "level1/rank0": 177.6,
    "level1/rank1": 177.0,
    "single_card": 14.1,
}
STEPS = dict.fromkeys(PHASES, "ProfilerStep#50") | {"single_card": "ProfilerStep#1"}

LEVEL0 = {
    "Python": (3, 2460),
    "Ascend Hardware": (3, 533),
    "Overlap Analysis": (4, 382),
    "HCCL": (1, 4),
    "CANN": (0, 0),
}
LEVEL1 = {"Python": (3, 2460), "Ascend Hardware": (4, 535), "Overlap Analysis": (4, 382), "HCCL": (9, 300)}
SINGLE = {"Python": (3, 1007), "CANN": (4, 382), "Ascend Hardware": (1, 276), "Overlap Analysis": (2, 547)}
LANES_AND_SLICES = {
    "level0/rank0": LEVEL0,
    "level0/rank1": LEVEL0,
    "level1/rank0": LEVEL1 | {"CANN": (4, 707)},
    "level1/rank1": LEVEL1 | {"CANN": (4, 708)},
    "single_card": SINGLE,
}
COUNTER_EVENTS = {
    "level0/rank0": {"NPU MEM": 78, "HBM": 96, "LLC": 48, "QoS": 1230, "Acc PMU": 2236, "Stars Soc Info": 26},
    "level0/rank1": {"NPU MEM": 78, "HBM": 96, "LLC": 48, "QoS": 1249, "Acc PMU": 2236, "Stars Soc Info": 26},
    "level1/rank0": {"NPU MEM": 84, "HBM": 104, "LLC": 52, "QoS": 1405, "Acc PMU": 2752, "Stars Soc Info": 32},
    "level1/rank1": {"NPU MEM": 87, "HBM": 112, "LLC": 52, "QoS": 1424, "Acc PMU": 2580, "Stars Soc Info": 30},
}
ROWS = {
    "level0/rank0": {"Python": 30, "Ascend Hardware": 7, "HCCL": 1, "Overlap Analysis": 1},
    "level0/rank1": {"Python": 30, "Ascend Hardware": 7, "HCCL": 1, "Overlap Analysis": 1},
    "level1/rank0": {"Python": 30, "CANN": 3, "Ascend Hardware": 7, "HCCL": 1, "Overlap Analysis": 1},
    "level1/rank1": {"Python": 30, "CANN": 3, "Ascend Hardware": 7, "HCCL": 1, "Overlap Analysis": 1},
    "single_card": {"Python": 8, "CANN": 2, "Ascend Hardware": 1, "Overlap Analysis": 1},
}
TEXT_LINKS = {
    "async_task_queue": (159, 159),
    "fwdbwd": (27, 27),
    "async_npu": (210, 210),
    HOST_TO_DEVICE: (210, 215),
}
LINK_ENDS = dict.fromkeys(("level0/rank0", "level0/rank1", "level1/rank0", "level1/rank1"), TEXT_LINKS) | {
    "single_card": {
        "async_task_queue": (148, 148),
        "fwdbwd": (17, 17),
        "async_npu": (274, 274),
        HOST_TO_DEVICE: (274, 274),
    }
}
#: HostToDevice target start - source: links, minimum, median, p90, maximum in us, negative ones.
LATENCY = {
    "level0/rank0": (215, 4.0, 722.0, 64003.7, 76695.2, 0),
    "level0/rank1": (215, 25.5, 656.9, 46439.5, 59192.0, 0),
    "level1/rank0": (215, -13.6, 688.1, 66853.0, 94033.4, 34),
    "level1/rank1": (215, -27.5, 635.6, 60555.1, 88287.3, 38),
    "single_card": (274, -18.6, -8.3, 5.3, 300.5, 218),
}


def test_equals_the_reference_reader(real: Sample) -> None:
    assert_equal(real.trace, real.reference)


def test_bundled_equals_the_reference_reader(bundled: Sample) -> None:
    assert_equal(bundled.trace, bundled.reference)


@pytest.mark.parametrize("chunk_size", [700, 4099, 1 << 20])
def test_chunk_size_changes_nothing(bundled: Sample, chunk_size: int) -> None:
    trace = load(bundled.path, chunk_size=chunk_size)
    assert_equal(trace, bundled.reference)
    assert len(trace.chunks.offset) > 1 or chunk_size > trace.size


def test_events_by_phase(real: Sample) -> None:
    assert real.trace.events == PHASES[real.name]
    assert not real.trace.health.skipped
    assert not real.trace.health.truncated


def test_slices_without_args_or_duration(real: Sample) -> None:
    slices = real.trace.slices
    bare = [item for item in real.reference.all_slices if "args" not in item.event]
    assert len(bare) == WITHOUT_ARGS[real.name]
    assert {real.reference.process_name[item.thread[0]] for item in bare} == {"Overlap Analysis"}
    assert np.count_nonzero(slices.start == slices.end) == ZERO_LONG[real.name]


def test_span(real: Sample) -> None:
    assert real.trace.slices.start.min() == 0
    assert round(real.trace.end / 1e6, 1) == SPAN_MS[real.name]


def test_lanes_and_slices_of_every_layer(real: Sample) -> None:
    trace = real.trace
    found = {
        layer.name: (len(layer.lanes), sum(trace.lanes[lane].last - trace.lanes[lane].first for lane in layer.lanes))
        for layer in trace.layers
        if layer.kind != "counter"
    }
    assert found == LANES_AND_SLICES[real.name]


def test_counter_layers(real: Sample) -> None:
    trace = real.trace
    found: Counter[str] = Counter()
    for series in trace.counters.series:
        if real.reference.process_name[trace.layers[series.layer].pid] == trace.layers[series.layer].name:
            found[trace.layers[series.layer].name] += int(np.diff(trace.counters.offset)[series.index])
    assert found == (COUNTER_EVENTS[real.name] | {"AI Core Freq": 2} if real.name in COUNTER_EVENTS else {})


def test_rows_of_the_highest_lane(real: Sample) -> None:
    trace = real.trace
    found = {layer.name: max(trace.lanes[lane].rows for lane in layer.lanes) for layer in trace.layers if layer.lanes}
    assert found == ROWS[real.name]


def test_rows_hold_every_slice_once(real: Sample) -> None:
    trace = real.trace
    seen = np.concatenate(
        [
            trace.rows.item[trace.rows.offset[lane.first_row] : trace.rows.offset[lane.first_row + lane.rows]]
            for lane in trace.file_lanes
        ]
    )
    assert np.array_equal(np.sort(seen), np.arange(len(trace.slices)))
    for row in range(len(trace.rows)):
        own = slice(trace.rows.offset[row], trace.rows.offset[row + 1])
        assert (trace.rows.start[own][1:] >= trace.rows.end[own][:-1]).all()


def test_steps_lane(real: Sample) -> None:
    trace = real.trace
    (steps,) = [lane for lane in trace.lanes if lane.derived]
    items = trace.rows.item[trace.rows.offset[steps.first_row] : trace.rows.offset[steps.first_row + 1]]
    marks = [item for item in real.reference.all_slices if item.event["name"].startswith("ProfilerStep#")]
    assert trace.slices.event[items].tolist() == [item.ordinal for item in sorted(marks, key=lambda item: item.start)]
    assert [trace.name_of(int(item)) for item in items] == [STEPS[real.name]]
    assert steps.first == steps.last


def test_link_ends_by_category(real: Sample) -> None:
    trace, links = real.trace, real.trace.links
    for category, (sources, targets) in LINK_ENDS[real.name].items():
        own = trace.links_of(category)
        assert len(np.unique(links.source_event[own])) == sources
        assert len(np.unique(links.target_event[own])) == len(own) == targets
        assert len(np.unique(links.key[own])) == sources
    assert sorted(trace.link_categories) == sorted(LINK_ENDS[real.name])


def test_every_link_end_is_bound(real: Sample) -> None:
    assert (real.trace.links.source_slice >= 0).all()
    assert (real.trace.links.target_slice >= 0).all()
    assert np.array_equal(real.trace.slices.start[real.trace.links.target_slice], real.trace.links.target_time)


def test_host_to_device_latency(real: Sample) -> None:
    latency = real.trace.links.latency[real.trace.links_of(HOST_TO_DEVICE)]
    found = (latency.min(), np.median(latency), np.percentile(latency, 90), latency.max())
    count, *expected, negative = LATENCY[real.name]
    assert len(latency) == count
    assert [value / 1000 for value in found] == pytest.approx(expected, abs=0.0501)
    assert np.count_nonzero(latency < 0) == negative


def test_host_to_device_sources_lie_on_the_host(real: Sample) -> None:
    """At Level0 CANN has no slices: the launch is bound to the Dequeue slice of the same thread."""
    trace = real.trace
    layers = {trace.layer_of(int(trace.links.source_lane[link])).name for link in trace.links_of(HOST_TO_DEVICE)}
    assert layers == ({"Python"} if real.name.startswith("level0") else {"CANN"})
    if real.name.startswith("level0"):
        sources = trace.links.source_slice[trace.links_of(HOST_TO_DEVICE)]
        assert {trace.name_of(int(item)).partition("@")[0] for item in sources} == {"Dequeue"}


def test_every_event_can_be_fetched(bundled: Sample) -> None:
    events, args = bundled.reference.events, json_args(bundled.trace)
    texts = [text for _, block in args.texts() for text in block]
    assert [json.loads(text) for text in texts] == events
    assert [args.event_bytes(ordinal) for ordinal in range(0, len(events), 5)] == texts[::5]
    _check_fetch(bundled.trace, events, range(0, len(events), 7))


def test_events_can_be_fetched(real: Sample) -> None:
    events = real.reference.events
    _check_fetch(real.trace, events, range(0, len(events), 17))


def _check_fetch(trace: Trace, events: list[dict[str, object]], ordinals: range) -> None:
    data, at = Path(trace.path).read_bytes(), 0
    for ordinal in ordinals:
        assert json_args(trace).event(ordinal) == events[ordinal]
        found = json_args(trace).event_bytes(ordinal)
        at = data.index(found, at) + len(found)  # each lies after the one before
