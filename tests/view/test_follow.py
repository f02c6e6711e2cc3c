from __future__ import annotations

import numpy as np
import pytest

from npu_tui.trace.model import ASYNC_NPU, FORWARD_BACKWARD, HOST_TO_DEVICE, TASK_QUEUE, Trace
from npu_tui.view.moves import back, forward, inner_links, link_span, links_of

CATEGORIES = (HOST_TO_DEVICE, TASK_QUEUE, ASYNC_NPU, FORWARD_BACKWARD)

HOST, CANN, STREAM = ("Python", "Thread 1"), ("CANN", "Thread 1"), ("Ascend Hardware", "Stream 2")
# Ends of links on a device snap to slices within half a microsecond, so all times here are further apart.
SLICES = [
    (*HOST, "module", 0, 9_000),
    (*HOST, "op", 1_000, 8_000),
    (*CANN, "launch", 2_000, 3_000),
    (*CANN, "copy", 4_000, 5_000),
    (*STREAM, "first", 10_000, 15_000),
    (*STREAM, "second", 20_000, 25_000),
    (*STREAM, "third", 30_000, 35_000),
]


def item(trace: Trace, name: str) -> int:
    return next(at for at in range(len(trace.slices)) if trace.name_of(at) == name)


def name_at(trace: Trace, found: int | None) -> str | None:
    return None if found is None else trace.name_of(found)


def ways(trace: Trace, found: list[int]) -> list[tuple[str, int]]:
    return [(trace.link_categories[trace.links.category[way]], int(trace.links.target_time[way])) for way in found]


@pytest.fixture(scope="session")
def linked(make_trace) -> Trace:
    links = [
        (ASYNC_NPU, "1", (*HOST, 1_000), [(*STREAM, 10_000)]),
        (HOST_TO_DEVICE, "1", (*CANN, 2_500), [(*STREAM, 30_000), (*STREAM, 10_000)]),
        (HOST_TO_DEVICE, "2", (*CANN, 4_500), [(*STREAM, 27_000)]),
        (HOST_TO_DEVICE, "3", ("CANN", "Thread 9", 500), [(*STREAM, 20_000)]),
        ("other", "9", (*HOST, 1_200), [(*STREAM, 31_000)]),
    ]
    return make_trace(SLICES, links)


def test_forward_goes_to_the_first_target_of_a_launch_with_several(linked):
    assert name_at(linked, forward(linked, item(linked, "launch"))) == "first"


def test_all_targets_of_a_launch_are_listed_by_time(linked):
    assert ways(linked, links_of(linked, item(linked, "launch")).out) == [
        (HOST_TO_DEVICE, 10_000),
        (HOST_TO_DEVICE, 30_000),
    ]


def test_back_from_each_target_of_a_launch(linked):
    assert [name_at(linked, back(linked, item(linked, name))) for name in ("first", "third")] == ["launch", "launch"]


def test_the_chosen_category_comes_first(linked):
    first = item(linked, "first")
    assert name_at(linked, back(linked, first)) == "launch"
    assert name_at(linked, back(linked, first, ASYNC_NPU)) == "op"


def test_known_categories_come_before_others(linked):
    assert [category for category, _ in ways(linked, links_of(linked, item(linked, "op")).out)] == [ASYNC_NPU, "other"]


def test_forward_from_a_slice_without_links_takes_those_inside_it(linked):
    assert name_at(linked, forward(linked, item(linked, "module"))) == "first"
    assert ways(linked, inner_links(linked, item(linked, "module"))) == [(ASYNC_NPU, 10_000), ("other", 31_000)]


def test_an_end_that_is_bound_to_no_slice_leads_nowhere(linked):
    assert forward(linked, item(linked, "copy")) is None
    assert back(linked, item(linked, "second")) is None


def test_no_link_leads_nowhere(linked):
    assert back(linked, item(linked, "module")) is None
    assert forward(linked, item(linked, "second")) is None


def test_link_span_covers_both_ends_and_the_slices_there(linked):
    assert link_span(linked, item(linked, "launch")) == (2_500, 30_000)
    assert link_span(linked, item(linked, "first")) == (1_000, 10_000)
    assert link_span(linked, item(linked, "copy")) == (4_500, 27_000)
    assert link_span(linked, item(linked, "module")) is None


def test_link_span_of_a_target_before_its_source(make_trace):
    # The trace begins with its first slice, at 1_000.
    trace = make_trace(
        [(*CANN, "launch", 2_000, 3_000), (*STREAM, "kernel", 1_000, 1_500), (*STREAM, "free", 9_000, 9_500)],
        [
            (HOST_TO_DEVICE, "1", (*CANN, 2_500), [(*STREAM, 1_000)]),
            (HOST_TO_DEVICE, "2", (*CANN, 2_600), [(*STREAM, 300)]),
        ],
    )
    assert link_span(trace, item(trace, "kernel")) == (0, 1_500)
    assert link_span(trace, item(trace, "launch")) == (-700, 1600)


@pytest.mark.parametrize("category", CATEGORIES)
def test_forward_then_back_returns_on_every_link_of_a_bundled_profile(bundled, category):
    trace = bundled.trace
    links = trace.links
    chosen = trace.links_of(category)
    assert len(chosen)
    assert (links.source_slice[chosen] >= 0).all()
    assert (links.target_slice[chosen] >= 0).all()
    for way in chosen.tolist():
        source, target = int(links.source_slice[way]), int(links.target_slice[way])
        assert way in links_of(trace, source, category).out
        assert way in links_of(trace, target, category).into
        assert back(trace, target, category) == source
        reached = forward(trace, source, category)
        assert reached == min(
            (int(links.target_slice[other]) for other in chosen[links.source_slice[chosen] == source]),
            key=lambda found: trace.slices.start[found],
        )


def test_every_bound_link_of_a_real_profile_leads_on(real):
    trace = real.trace
    links = trace.links
    bound = np.flatnonzero((links.source_slice >= 0) & (links.target_slice >= 0))
    for way in bound[:: max(len(bound) // 2_000, 1)].tolist():
        category = trace.link_categories[links.category[way]]
        assert forward(trace, int(links.source_slice[way]), category) is not None
        assert back(trace, int(links.target_slice[way]), category) is not None
        low, high = link_span(trace, int(links.source_slice[way])) or (0, -1)
        assert low <= links.source_time[way] <= high
        assert low <= links.target_time[way] <= high
