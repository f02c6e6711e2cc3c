from __future__ import annotations

import json

import pytest

from npu_tui.analysis.chain import chain_of
from npu_tui.trace.model import ASYNC_NPU, HOST_TO_DEVICE, TASK_QUEUE, Trace

STAGES = ("op", "enqueue", "queue", "dequeue", "launch", "wait", "run")


def first_link(trace: Trace, kernel: int) -> int:
    chosen = trace.links_of(HOST_TO_DEVICE)
    return int(chosen[trace.links.target_slice[chosen] == kernel][0])


@pytest.fixture(scope="session")
def launches(bundled) -> list[tuple[int, dict]]:
    """(link, entry of the simulator's truth) of every launch."""
    truth = json.loads((bundled.path / "truth.json").read_text())["launches"]
    links = bundled.trace.links
    chosen = bundled.trace.links_of(HOST_TO_DEVICE)
    found = {(int(links.source_time[link]), int(links.target_time[link])): int(link) for link in chosen}
    return [(found[entry["source_ns"], entry["start_ns"]], entry) for entry in truth]


def test_the_chain_of_every_kernel_is_that_of_the_simulation(bundled, launches):
    trace = bundled.trace
    for link, entry in launches:
        kernel = int(trace.links.target_slice[link])
        chain = chain_of(trace, kernel)
        assert (chain.kernel, chain.link) == (kernel, link)
        stages = {stage.name: stage for stage in chain.stages}
        assert (stages["wait"].start, stages["wait"].end) == (entry["source_ns"], entry["start_ns"])
        assert (stages["run"].item, stages["run"].start) == (kernel, entry["start_ns"])
        assert trace.name_of(kernel) == entry["kernel"]
        assert (chain.start, chain.end) == (chain.stages[0].start, int(trace.slices.end[kernel]))


def test_stages_come_in_order_without_gaps(bundled, launches):
    trace = bundled.trace
    for link, _ in launches:
        stages = chain_of(trace, int(trace.links.target_slice[link])).stages
        names = [stage.name for stage in stages]
        assert names == [name for name in STAGES if name in names]
        assert {"op", "launch", "wait", "run"} <= set(names)
        assert all(stage.start <= stage.end for stage in stages)
        assert [stage.end for stage in stages[:-1]] == [stage.start for stage in stages[1:]]


def test_kernels_of_the_task_queue_have_all_stages(bundled, launches):
    trace, links = bundled.trace, bundled.trace.links
    dequeued = {int(links.target_slice[way]) for way in trace.links_of(TASK_QUEUE)}
    category = trace.categories.index("dequeue")
    full = 0
    for link, _ in launches:
        stages = {stage.name: stage for stage in chain_of(trace, int(links.target_slice[link])).stages}
        assert ("dequeue" in stages) == ("queue" in stages) == ("enqueue" in stages)
        if "dequeue" in stages:
            full += 1
            item = stages["dequeue"].item
            assert item in dequeued
            assert trace.slices.category[item] == category
            assert trace.slices.start[item] <= links.source_time[link] <= trace.slices.end[item]
    assert full > 100


def test_the_op_is_the_source_of_the_async_npu_link(bundled, launches):
    trace, links = bundled.trace, bundled.trace.links
    source_of = {int(links.target_slice[way]): int(links.source_slice[way]) for way in trace.links_of(ASYNC_NPU)}
    for link, _ in launches:
        kernel = int(links.target_slice[link])
        assert chain_of(trace, kernel).stages[0].item == source_of[kernel]


def test_every_slice_on_the_way_tells_the_chain_of_its_first_launch(bundled, launches):
    trace = bundled.trace
    first = {}
    for link, _ in launches:
        chain = chain_of(trace, int(trace.links.target_slice[link]))
        for stage in chain.stages:
            first.setdefault(stage.item, chain)
    for item, chain in first.items():
        if item >= 0:
            assert chain_of(trace, item) == chain


def test_what_launches_nothing_has_no_chain(bundled):
    trace = bundled.trace
    overlap = next(layer for layer in trace.layers if layer.kind == "overlap")
    assert chain_of(trace, trace.lanes[overlap.lanes[0]].first) is None


def test_chains_of_a_real_profile_end_in_their_kernel(real):
    trace = real.trace
    chosen = trace.links_of(HOST_TO_DEVICE)
    for link in chosen[trace.links.target_slice[chosen] >= 0].tolist():
        kernel = int(trace.links.target_slice[link])
        chain = chain_of(trace, kernel)
        names = [stage.name for stage in chain.stages]
        assert names == [name for name in STAGES if name in names]
        assert names[-2:] == ["wait", "run"]
        assert (chain.kernel, chain.link) == (kernel, first_link(trace, kernel))
        assert chain.end >= trace.slices.end[kernel]
        assert chain.start <= trace.links.source_time[chain.link]
