"""Collectives as columns say what they say one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from npu_tui.analysis.collectives import Collectives, with_ranks_of_job
from npu_tui.analysis.communication import collectives
from npu_tui.analysis.operators import collective_type
from npu_tui.load.load import load
from npu_tui.trace.arrays import in_groups
from npu_tui.trace.model import Trace
from npu_tui.trace.recorder import communication_args


@pytest.fixture(params=["healthy", "communication_bound", "two_ranks/rank1_ascend_pt", "level0"])
def both(request: pytest.FixtureRequest) -> tuple[Trace, Collectives]:
    trace = load(f"fixtures/{request.param}")
    return trace, collectives(trace, communication_args(trace))


def test_columns_are_those_of_the_rows(both: tuple[Trace, Collectives]) -> None:
    trace, found = both
    rows = list(found)
    assert len(rows) == len(found) > 0
    assert [each.item for each in rows] == found.item.tolist()
    assert all(a <= b for a, b in pairwise(trace.slices.start[found.item].tolist()))
    assert [found.types[code] for code in found.type.tolist()] == [
        collective_type(trace.name_of(each.item)) for each in rows
    ]
    assert found.types == list(dict.fromkeys(found.types[code] for code in found.type.tolist()))
    assert [each.arrivals is not None for each in rows] == found.has_arrivals.tolist()
    size, transfer = found.moved.sums(len(found))
    assert [sum(link.size for link in each.traffic or []) for each in rows] == size.tolist()
    assert [sum(link.transfer for link in each.traffic or []) for each in rows] == transfer.tolist()
    latest = [max((after for _, after in each.arrivals or []), default=0) for each in rows]
    assert latest == found.arrivals.latest().tolist()


def test_some_of_them_are_the_same_ones(both: tuple[Trace, Collectives]) -> None:
    _, found = both
    every, numbers = found.rows, np.arange(len(found))
    assert found.taken(numbers % 2 == 1).rows == every[1::2]
    assert found.taken(numbers[:0]).rows == []
    assert found.taken(numbers >= 0) is found
    assert found.at(numbers[::-1]) == every[::-1]
    assert [found.taken(numbers)[k] for k in (0, -1)] == [every[0], every[-1]]


def test_ranks_of_the_job_take_the_place_of_those_of_the_group() -> None:
    trace = load("fixtures/healthy")
    found = collectives(trace, communication_args(trace))
    name = next(lane.name for lane in trace.lanes if lane.name.startswith("Group "))
    group = name.removeprefix("Group ").removesuffix(" Communication")
    count = int(found.arrivals.rank.max()) + 1
    moved = with_ranks_of_job(trace, found, {group: tuple(range(100, 100 + count))})
    here = [trace.lanes[lane].name == name for lane in trace.slices.lane[found.item].tolist()]
    assert any(here)
    for old, new, own in zip(found, moved, here, strict=True):
        more = 100 if own and old.arrivals else 0
        assert new.peer == (None if old.peer is None else old.peer + more)
        assert new.arrivals == (old.arrivals and [(rank + more, after) for rank, after in old.arrivals])
    few = with_ranks_of_job(trace, found, {group: (7,)})
    assert few.rows == found.rows


def test_groups_come_as_their_first_member_does() -> None:
    assert [own.tolist() for own in in_groups(np.array([5, 2, 5, 9, 2]))] == [[0, 2], [1, 4], [3]]
    assert in_groups(np.zeros(0, np.int64)) == []
