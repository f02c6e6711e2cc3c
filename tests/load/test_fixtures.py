"""Every situation and every writer: the trace is what the simulator made, and what the reference reader finds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from compare import assert_equal
from measured import dispatch_of
from reference import Reference
from refusals import skipped

from npu_tui.load.load import load
from npu_tui.trace.message import message
from npu_tui.trace.model import UNFINISHED, Layer, Trace

if TYPE_CHECKING:
    from conftest import Sample


def test_equals_the_reference_reader(sample: Sample) -> None:
    assert_equal(sample.trace, sample.reference)


@pytest.mark.parametrize("chunk_size", [64, 777])
def test_chunk_size_changes_nothing(sample: Sample, chunk_size: int) -> None:
    assert_equal(load(sample.path, chunk_size=chunk_size), sample.reference)


def test_events_by_kind(sample: Sample) -> None:
    truth = sample.truth
    assert sample.trace.events == {phase: count for phase, count in truth["events"].items() if count}
    assert sample.trace.start_ns == truth.get("start_ns", sample.trace.start_ns)
    assert not sample.trace.health.truncated
    unfinished = _unfinished(truth)
    assert sample.trace.health.warnings == ([message("odd.unfinished", count=unfinished)] if unfinished else [])


def test_slices_by_layer_and_lane(sample: Sample) -> None:
    trace, truth = sample.trace, sample.truth
    found: dict[str, dict[str, int]] = {}
    asynchronous: dict[str, int] = {}
    paired = trace.slices.category != [*trace.categories, UNFINISHED].index(UNFINISHED)
    for lane in trace.file_lanes:
        count = int(np.count_nonzero(paired[lane.first : lane.last]))
        if not count:
            continue
        if lane.name in truth.get("async_slices", {}):
            asynchronous[lane.name] = count
        else:
            layer = _title(trace, trace.layers[lane.layer], truth["layers"])
            name = lane.name if lane.name in truth["layers"][layer] else str(lane.tid)
            found.setdefault(layer, {})[name] = count
    assert found == truth["layers"]
    assert asynchronous == truth.get("async_slices", {})
    assert len(trace.slices) == truth.get("slices", truth["events"]["X"]) + _unfinished(truth)


def _unfinished(truth: dict[str, Any]) -> int:
    """How many slices have a beginning and no end."""
    unmatched = truth.get("unmatched", {})
    return unmatched.get("B", 0) + unmatched.get("b", 0)


def _title(trace: Trace, layer: Layer, known: dict[str, Any]) -> str:
    return f"{layer.name} [NPU {layer.device}]" if f"{layer.name} [NPU {layer.device}]" in known else layer.name


def test_links_by_category(sample: Sample) -> None:
    trace, links = sample.trace, sample.trace.links
    found = {}
    for category in trace.link_categories:
        own = trace.links_of(category)
        if len(own):
            sources, targets = set(links.source_event[own].tolist()), set(links.target_event[own].tolist())
            steps = {"steps": len(sources & targets)} if sources & targets else {}
            found[category] = {"sources": len(sources - targets), "targets": len(targets - sources)} | steps
    assert found == {category: ends for category, ends in sample.truth["links"].items() if any(ends.values())}


def test_every_link_end_is_bound(sample: Sample) -> None:
    """At Level0 too, where CANN has no slices; only ends that lie on no slice are not."""
    links = sample.trace.links
    loose = _ends_on_no_slice(sample.reference)
    unbound = np.concatenate((links.source_event[links.source_slice < 0], links.target_event[links.target_slice < 0]))
    assert set(unbound.tolist()) == loose
    assert not loose or "steps" in sample.truth["links"]["flow"]


def _ends_on_no_slice(reference: Reference) -> set[int]:
    ends = [(pair.source, pair.source_slice) for pair in reference.pairs]
    ends += [(pair.target, pair.target_slice) for pair in reference.pairs]
    return {end.ordinal for end, bound in ends if bound is None}


def test_what_is_skipped(sample: Sample) -> None:
    truth = sample.truth
    unmatched = truth.get("unmatched", {})
    known = {
        "instant without duration": truth.get("instants", truth["events"].get("i", 0)),
        "link end without id": truth.get("ends_without_id", 0),
        "end without a beginning": unmatched.get("E", 0) + unmatched.get("e", 0),
    }
    assert skipped(sample.trace) == {reason: count for reason, count in known.items() if count}


def test_counters(sample: Sample) -> None:
    trace, truth = sample.trace, sample.truth
    if "counters" not in truth:
        assert sum(trace.events.get(phase, 0) for phase in "C") == truth["events"].get("C", 0)
        return
    found: dict[str, Counter[str]] = {}
    for series in trace.counters.series:
        layer = trace.layers[series.layer]
        samples = int(trace.counters.offset[series.index + 1] - trace.counters.offset[series.index])
        known = truth["counters"].get(_title(trace, layer, truth["counters"]), {})
        name = series.name if series.name in known else f"{series.name}.{series.key}"
        found.setdefault(_title(trace, layer, truth["counters"]), Counter())[name] += samples
    assert found == {layer: counts for layer, counts in truth["counters"].items() if counts}


def test_dispatch(sample: Sample) -> None:
    if "dispatch" not in sample.truth:
        pytest.skip(reason="the truth of this writer holds no launches")
    known = sample.truth["dispatch"]
    (found,) = dispatch_of(sample.trace)
    assert len(found.link) == known["links"]
    for shape in ("near_vertical", "shallow", "queued", "starved"):
        assert np.count_nonzero(getattr(found, shape)) == known[shape], shape
    assert found.lost.sum() == pytest.approx(known["lost_ns"], abs=0.5)
    floor = found.floors[0]
    assert (floor.floor, floor.trusted) == (
        pytest.approx(known["clock_floor_ns"], abs=0.5),
        known["clock_floor_trusted"],
    )
