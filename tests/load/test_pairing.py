"""Link ends to links: one to one, one to many, ids used again, steps, lone ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import matched

from npu_tui.load.layers import LinkPairs, link_keys, pair_ends

PHASE = {"s": 0, "t": 1, "f": 2}
FAR = st.sampled_from([0, 1, 2, 2**61])


def pairs_of(ends: list[tuple[int, str]]) -> LinkPairs:
    key = np.array([key for key, _ in ends], np.int32)
    return pair_ends(key, np.array([PHASE[phase] for _, phase in ends], np.int8))


@given(st.lists(st.tuples(FAR, st.sampled_from([-2, -1, 0, 1, 2**60]), st.integers(0, 2)), max_size=24))
def test_keys_number_the_distinct_ids_of_each_category(ends: list[tuple[int, int, int]]) -> None:
    low, high = (np.array([end[k] for end in ends], np.int64) for k in (0, 1))
    keys = link_keys(np.array([category for _, _, category in ends], np.int32), low, high)
    order = sorted(set(ends), key=lambda end: (end[0], end[2], end[1]))
    assert keys.tolist() == [order.index(end) for end in ends]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("sstff")), max_size=24))
def test_pairs_equal_the_plain_rule(ends: list[tuple[int, str]]) -> None:
    expected = set()
    for key in range(4):
        own = [i for i, (of, _) in enumerate(ends) if of == key]
        expected |= {(own[s], own[f]) for s, f in matched([ends[i][1] for i in own])}
    found = pairs_of(ends)
    assert set(zip(found.source.tolist(), found.target.tolist(), strict=True)) == expected
    assert len(found.source) == len(expected)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("sstff")), max_size=24))
def test_every_target_is_linked_once_or_counted(ends: list[tuple[int, str]]) -> None:
    found = pairs_of(ends)
    targets = [i for i, (_, phase) in enumerate(ends) if phase != "s"]
    assert len(found.target) + found.lone_targets == len(targets)
    assert len(set(found.target.tolist())) == len(found.target)


@pytest.mark.parametrize(
    ("phases", "links", "lone_sources", "lone_targets"),
    [
        ("sf", {(0, 1)}, 0, 0),
        ("fs", {(1, 0)}, 0, 0),
        ("sff", {(0, 1), (0, 2)}, 0, 0),
        ("sfsf", {(0, 1), (2, 3)}, 0, 0),
        ("ssff", {(0, 2), (1, 3)}, 0, 0),
        ("sffsf", {(0, 1), (0, 2), (3, 4)}, 0, 0),
        ("fsfsf", {(1, 0), (1, 2), (3, 4)}, 0, 0),
        ("stf", {(0, 1), (1, 2)}, 0, 0),
        ("sttf", {(0, 1), (1, 2), (2, 3)}, 0, 0),
        ("tf", {(0, 1)}, 0, 1),
        ("s", set(), 1, 0),
        ("ff", set(), 0, 2),
        ("t", set(), 0, 1),
        ("", set(), 0, 0),
    ],
)
def test_pairs(phases: str, links: set[tuple[int, int]], lone_sources: int, lone_targets: int) -> None:
    found = pairs_of([(0, phase) for phase in phases])
    assert set(zip(found.source.tolist(), found.target.tolist(), strict=True)) == links
    assert (found.lone_sources, found.lone_targets) == (lone_sources, lone_targets)
