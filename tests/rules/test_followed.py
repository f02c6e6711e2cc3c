"""Advice that a profile shows to be followed is not given."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cause_jobs import GRAPH
from causes import ALL
from jobs import by_id, facts_of, job, measured
from msgspec import structs

from npu_tui.rules.config import in_graphs, still_to_do
from npu_tui.rules.rule import advise


@pytest.mark.parametrize(
    ("advice", "name", "value", "followed"),
    [
        ("task_queue", "TASK_QUEUE_ENABLE", "2", True),
        ("task_queue", "TASK_QUEUE_ENABLE", "1", False),
        ("binding", "CPU_AFFINITY_CONF", "1,npu0:0-3", True),
        ("binding", "CPU_AFFINITY_CONF", "0", False),
        ("cann_cache", "ACLNN_CACHE_LIMIT", "100000", True),
        ("cann_cache", "ACLNN_CACHE_LIMIT", "500", False),
        ("expandable", "PYTORCH_NPU_ALLOC_CONF", "max_split_size_mb:64,expandable_segments:True", True),
        ("expandable", "PYTORCH_NPU_ALLOC_CONF", "expandable_segments:False", False),
    ],
)
def test_a_variable_that_is_set_is_no_advice(advice: str, name: str, value: str, followed: bool) -> None:
    found = job("slow_python")
    facts = facts_of(found, structs.replace(found.setup, environment={name: value}))
    assert still_to_do(facts, advise("outlier_shape", advice)) == advise(*["outlier_shape", advice][: 2 - followed])
    unknown = facts_of(found, structs.replace(found.setup, environment=None))
    assert still_to_do(unknown, advise(advice)) == advise(advice)


def test_replayed_kernels_need_no_graph() -> None:
    found = measured(replace(GRAPH, kernel_ns=9_000, task_gap_ns=6_000, layers=40))
    (facts,) = found.facts
    assert in_graphs(facts)
    assert by_id(found.findings)["DISPATCH.FREE"].advice == advise("graph_gaps", "fused_in_graph")
    assert not in_graphs(facts_of(job("slow_python")))


def test_copies_that_nobody_waits_for_do_not_block() -> None:
    (waited,), free = measured(ALL["uneven: blocking copies"].job).facts, facts_of(job("healthy"))
    assert still_to_do(waited, advise("non_blocking")) == advise("non_blocking")
    assert still_to_do(free, advise("non_blocking")) == ()
