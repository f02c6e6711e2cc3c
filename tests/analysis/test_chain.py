from __future__ import annotations

import json

import pytest
from by_hand import ByHand

from npu_tui.analysis.calls import chain_of
from npu_tui.load.load import load
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


PYTHON, QUEUE, CANN, DEVICE = (4001, 4001), (4001, 4002), (2, 4002), (3, 2)


def linked(hand: ByHand, kind: str, key: int, source: tuple[int, int], at: float, target: tuple[int, int], to: float):
    for phase, (pid, tid), time in (("s", source, at), ("f", target, to)):
        hand.events.append(
            {"ph": phase, "bp": "e", "pid": pid, "tid": tid, "ts": hand._ts(time), "cat": kind, "name": kind,
             "id": str(key)}
        )  # fmt: skip


@pytest.fixture(scope="module")
def every_way(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """A kernel for each way to one: through the queue or past it, from a call of CANN or from none."""
    hand = ByHand()
    hand.host("earlier", 0, 1)
    for key, (name, begin) in enumerate({"full": 100, "no_call": 200, "later_op": 700, "shared": 800}.items()):
        if name != "later_op":
            hand.host(f"op_{name}", begin, 10)
        hand.add(*PYTHON, f"Enqueue@{name}", begin + 4, 2, cat="enqueue", args={})
        hand.add(*QUEUE, f"Dequeue@{name}", begin + 20, 20, cat="dequeue", args={})
        linked(hand, TASK_QUEUE, key, PYTHON, begin + 4, QUEUE, begin + 20)
        if name != "no_call":
            hand.add(*CANN, f"launch_{name}", begin + 27, 4, args={})
        hand.kernel(f"kernel_{name}", begin + 50, 5)
        linked(hand, HOST_TO_DEVICE, key, QUEUE if name == "no_call" else CANN, begin + 30, DEVICE, begin + 50)
        if name != "later_op":
            linked(hand, ASYNC_NPU, key, PYTHON, begin, DEVICE, begin + 50)
    hand.host("op_later_op", 760, 10)
    linked(hand, ASYNC_NPU, 2, PYTHON, 760, DEVICE, 750)
    # A second kernel of the same entry, launched first and run last, on another stream.
    hand.add(*CANN, "launch_first", 822, 3, args={})
    hand.kernel("kernel_first", 870, 5, stream=7)
    linked(hand, HOST_TO_DEVICE, 10, CANN, 824, (3, 7), 870)
    hand.host("op_direct", 300, 20)
    hand.add(2, 4001, "launch_direct", 304, 5, args={})
    hand.kernel("kernel_direct", 330, 5)
    linked(hand, HOST_TO_DEVICE, 11, (2, 4001), 308, DEVICE, 330)
    linked(hand, ASYNC_NPU, 11, PYTHON, 300, DEVICE, 330)
    hand.host("op_nowhere", 400, 10)
    hand.kernel("kernel_nowhere", 430, 5)
    linked(hand, HOST_TO_DEVICE, 12, (2, 4001), 412, DEVICE, 430)
    linked(hand, ASYNC_NPU, 12, PYTHON, 400, DEVICE, 430)
    hand.host("nothing", 500, 10)
    return load(hand.write(tmp_path_factory.mktemp("chains")))


def slice_of(trace: Trace, name: str) -> int:
    return next(item for item in range(len(trace.slices)) if trace.name_of(item) == name)


def told(trace: Trace, name: str) -> list[tuple[str, str, float, float]]:
    """Stage, slice, start and end (us since the first slice) of the chain that slice ``name`` is part of."""
    chain = chain_of(trace, slice_of(trace, name))
    return [
        (stage.name, trace.name_of(stage.item) if stage.item >= 0 else "", stage.start / 1000, stage.end / 1000)
        for stage in chain.stages
    ]


def through_queue(name: str, begin: float) -> list[tuple[str, str, float, float]]:
    return [
        ("enqueue", f"Enqueue@{name}", begin + 4, begin + 6), ("queue", "", begin + 6, begin + 20),
        ("dequeue", f"Dequeue@{name}", begin + 20, begin + 27), ("launch", f"launch_{name}", begin + 27, begin + 30),
        ("wait", "", begin + 30, begin + 50), ("run", f"kernel_{name}", begin + 50, begin + 55),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["op_full", "Enqueue@full", "Dequeue@full", "launch_full", "kernel_full"])
def test_each_slice_on_the_way_through_the_queue_tells_all_of_it(every_way, name):
    assert told(every_way, name) == [("op", "op_full", 100, 104), *through_queue("full", 100)]


def test_without_a_call_of_cann_the_entry_of_the_queue_launches(every_way):
    assert told(every_way, "kernel_no_call") == [
        ("op", "op_no_call", 200, 204), ("enqueue", "Enqueue@no_call", 204, 206), ("queue", "", 206, 220),
        ("dequeue", "Dequeue@no_call", 220, 230), ("wait", "", 230, 250), ("run", "kernel_no_call", 250, 255),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["op_direct", "launch_direct", "kernel_direct"])
def test_past_the_queue_an_operation_lasts_until_its_launch(every_way, name):
    assert told(every_way, name) == [
        ("op", "op_direct", 300, 304), ("launch", "launch_direct", 304, 308), ("wait", "", 308, 330),
        ("run", "kernel_direct", 330, 335),
    ]  # fmt: skip


def test_a_launch_in_no_slice_leaves_the_operation_and_the_wait(every_way):
    assert told(every_way, "kernel_nowhere") == [
        ("op", "op_nowhere", 400, 412), ("wait", "", 412, 430), ("run", "kernel_nowhere", 430, 435)
    ]  # fmt: skip


def test_an_operation_that_begins_after_the_launch_is_not_part_of_it(every_way):
    assert told(every_way, "kernel_later_op") == through_queue("later_op", 700)


def test_of_several_launches_a_host_slice_tells_the_first(every_way):
    for name in ("Enqueue@shared", "Dequeue@shared"):
        assert told(every_way, name)[-1][1] == "kernel_first", name
    assert told(every_way, "kernel_shared") == [("op", "op_shared", 800, 804), *through_queue("shared", 800)]
    assert chain_of(every_way, slice_of(every_way, "nothing")) is None


def test_keys_go_from_stage_to_stage_and_no_further(every_way):
    chain = chain_of(every_way, slice_of(every_way, "kernel_full"))
    items = [
        slice_of(every_way, name) for name in ("op_full", "Enqueue@full", "Dequeue@full", "launch_full", "kernel_full")
    ]
    assert [chain.beside(item, 1) for item in items] == [*items[1:], None]
    assert [chain.beside(item, -1) for item in items] == [None, *items[:-1]]
    other = slice_of(every_way, "nothing")
    assert chain.beside(other, 1) is None
    assert [chain.holds(item) for item in (*items, other)] == [True] * 5 + [False]
