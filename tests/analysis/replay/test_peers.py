"""Who is late, and which collectives of unknown arrivals waited."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from npu_tui.analysis.collectives import Arrivals, Collectives, LongestWaits, Timings, TrafficColumns
from npu_tui.analysis.communication import late_ranks, lateness, unknown_waits
from npu_tui.trace.once import ValueCache

MS = 1_000_000


def arrivals(*late: tuple[int, int]) -> Arrivals:
    """A collective of eight ranks for each (rank, ns after this one); the others come 50 us after this one."""
    ranks = np.tile(np.arange(1, 8), len(late))
    owner = np.repeat(np.arange(len(late)), 7)
    own, after = np.array(late).T[:, owner]
    return Arrivals(len(late), owner, ranks, np.where(ranks == own, after, 50_000))


def test_all_who_take_turns_are_late() -> None:
    turns = arrivals(*((number % 7 + 1, (6 + number % 3) * MS) for number in range(12)))
    assert late_ranks(turns) == frozenset(range(1, 8))


def test_one_late_rank_is_alone_with_it() -> None:
    assert late_ranks(arrivals((5, 96 * MS), (5, 2 * MS), (3, 400_000))) == {5}
    assert late_ranks(arrivals((5, 50_000), (3, 50_000))) == frozenset()


def test_little_lateness_counts_where_it_is_no_chance() -> None:
    def late_by_little(*last: int) -> frozenset[int]:
        seen = arrivals(*((rank, 200_000) for rank in last))
        return lateness(seen, np.full(len(last), MS), np.zeros(len(last), np.int64)).late

    assert late_by_little(*[5] * 12) == {5}
    assert late_by_little(*range(1, 8), *range(1, 8)) == frozenset()


def waits(elapsed: list[int], sizes: list[int]) -> dict[int, int]:
    count = len(elapsed)
    nothing, never = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    trace: Any = SimpleNamespace(slices=SimpleNamespace(lane=nothing), names=[], categories=[], known=ValueCache())
    collectives = Collectives(
        np.arange(count),
        np.array(elapsed),
        nothing,
        ["hcom_allReduce_"],
        Timings(never, nothing, nothing, nothing, nothing),
        TrafficColumns(nothing[:0], nothing[:0], nothing[:0], nothing[:0], []),
        LongestWaits(never, nothing, nothing, nothing),
        Arrivals(count, nothing[:0], nothing[:0], nothing[:0]),
        nothing,
        [""],
        np.array([size or -1 for size in sizes]),
        nothing - 1,
    )
    return unknown_waits(trace, collectives)


def test_bytes_that_no_link_is_so_slow_for_waited() -> None:
    found = waits([12 * MS, 10 * MS, 14 * MS], [2_000_000] * 3)
    assert found == {0: 11 * MS, 1: 9 * MS, 2: 13 * MS}
    assert waits([8 * MS, 9 * MS, 8 * MS], [300_000_000] * 3) == {}
    assert waits([12 * MS], [2_000_000]) == {0: 11 * MS}


def test_without_sizes_only_siblings_tell() -> None:
    assert waits([12 * MS, 10 * MS, 14 * MS], [0] * 3) == {}
    assert waits([MS, MS, 12 * MS, MS], [0] * 4) == {2: 11 * MS}
    assert waits([12 * MS], [0]) == {}
