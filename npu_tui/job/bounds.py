"""What bounds the clocks of ranks against each other: notifies, messages and barriers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.job.course import Course
from npu_tui.job.meetings import Meetings
from npu_tui.job.model import RankProfile, is_send
from npu_tui.job.names import Codes
from npu_tui.job.views import Notifies

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

_MOST_HOPS = 256
"""Bounds that a shortest path leads over at most; what still gets shorter then goes around a negative cycle."""


class Pairs(Struct, frozen=True, eq=False):
    """Something began on ``source`` and cannot have ended on ``target`` before: places and times of both; (n,) each."""

    source: I64
    target: I64
    began: I64
    ended: I64


class Bounds(Struct, frozen=True, eq=False):
    """All bounds of a job, ns by the clock of each rank as if it ran evenly; ``edges`` counts those of every rank.

    ``pairs`` as (source, target, clock[target] − clock[source] at most); of the barriers ``row``, ``rank``, ``start``
    and ``end`` of every call: no end of a row comes before any start of it.
    """

    pairs: tuple[I64, I64, F64]
    row: I64
    rank: I64
    start: F64
    end: F64
    edges: I64

    @staticmethod
    def of(met: Meetings, notified: Pairs, messages: Pairs, zero: I64, run: Course) -> Bounds:
        """Times count from ``zero`` of their rank, and are those of a clock that runs evenly; (ranks,)."""

        def straight(time: I64, rank: I64) -> F64:
            since = (time - zero[rank]).astype(np.float64)
            return np.asarray(np.rint(since - run.gained(since, rank)))

        pairs = [np.concatenate(both) for both in ((notified.source, messages.source),
                 (notified.target, messages.target), (notified.began, messages.began),
                 (notified.ended, messages.ended))]  # fmt: skip
        source, target, began, ended = pairs
        kept = met.barrier[met.row]
        rank, call = met.rank[kept], met.call[kept]
        edges = np.bincount(np.concatenate((source, target, rank)), minlength=len(zero))
        return Bounds(
            (source, target, straight(ended, target) - straight(began, source)),
            met.row[kept],
            rank,
            straight(met.table.start[call], rank),
            straight(met.table.end[call], rank),
            edges,
        )


def notify_bounds(ranks: Sequence[RankProfile], index: dict[int, int]) -> Pairs:
    """The k-th wait for a record ends after the k-th record starts, within one collective and id."""
    told = [(index[profile.rank], Notifies.of(profile.notifies)) for profile in ranks if len(profile.notifies)]
    if not told:
        return _no_pairs()
    codes = Codes()
    name = np.concatenate([codes.of(own.name) for _, own in told])
    waits = np.concatenate([own.waits for _, own in told])
    place = np.repeat([place for place, _ in told], [len(own) for _, own in told])
    peer = _places(np.concatenate([own.peer for _, own in told]), index)
    key = np.concatenate([own.key for _, own in told])
    time = np.concatenate([np.where(own.waits, own.end, own.start) for _, own in told])
    source, target = np.where(waits, peer, place), np.where(waits, place, peer)
    kept = np.flatnonzero(peer >= 0)
    same = ((source * len(index) + target) * len(codes) + name)[kept]
    order = np.lexsort((time[kept], waits[kept], key[kept], same))
    picked, same = kept[order], same[order]
    begins = np.flatnonzero(np.append(True, (np.diff(same) != 0) | (np.diff(key[picked]) != 0))[: len(same)])
    size = np.diff(np.append(begins, len(same)))
    waiting = np.add.reduceat(waits[picked].astype(np.int64), begins) if len(begins) else size
    even = waiting * 2 == size
    first = np.repeat(begins[even], waiting[even])
    number = np.arange(len(first)) - np.repeat(np.cumsum(waiting[even]) - waiting[even], waiting[even])
    began = picked[first + number]
    ended = picked[first + number + np.repeat(waiting[even], waiting[even])]
    return Pairs(source[began], target[began], time[began], time[ended])


def _places(ranks: I64, index: dict[int, int]) -> I64:
    """The place of each rank, -1 for one that ``index`` does not have."""
    there = np.array(sorted(index), np.int64)
    at = np.minimum(np.searchsorted(there, ranks), len(there) - 1)
    places = np.array([index[rank] for rank in there.tolist()], np.int64)
    return np.where(there[at] == ranks, places[at], -1)


def message_bounds(met: Meetings) -> Pairs:
    """Nobody has received before the sender began."""
    sends = np.array([is_send(kind) for _, kind, _ in met.table.kinds], np.bool_)
    at = met.first[:-1][~met.barrier]
    if not len(at):
        return _no_pairs()
    first, second = met.call[at], met.call[at + 1]
    by_first, by_second = sends[met.table.kind[first]], sends[met.table.kind[second]]
    sender, receiver = np.where(by_first, first, second), np.where(by_first, second, first)
    sender, receiver = sender[by_first != by_second], receiver[by_first != by_second]
    table = met.table
    return Pairs(table.rank[sender], table.rank[receiver], table.start[sender], table.end[receiver])


def _no_pairs() -> Pairs:
    nothing = np.zeros(0, np.int64)
    return Pairs(nothing, nothing, nothing, nothing)


def islands(count: int, met: Meetings, notified: Pairs) -> I64:
    """Which ranks anything ties together: the number of the island of each, (ranks,), by their lowest rank."""
    lowest = np.arange(count)
    rank, row = met.rank, met.row
    while True:
        before = lowest.copy()
        if len(row):
            of_row = np.minimum.reduceat(lowest[rank], met.first[:-1])
            np.minimum.at(lowest, rank, of_row[row])
        both = np.minimum(lowest[notified.source], lowest[notified.target])
        np.minimum.at(lowest, notified.source, both)
        np.minimum.at(lowest, notified.target, both)
        lowest = lowest[lowest]
        if (lowest == before).all():
            return np.asarray(np.unique(lowest, return_inverse=True)[1])


def intervals(bounds: Bounds, references: I64) -> tuple[F64, F64]:
    """The lowest and the highest clock of each rank against its reference's that all ``bounds`` allow, (ranks,) each.

    Where bounds contradict each other (a clock that is not constant) both are NaN.
    """
    source, target, most = bounds.pairs
    high = _shortest(bounds, references, source, target, most, -bounds.start, bounds.end)
    low = _shortest(bounds, references, target, source, most, bounds.end, -bounds.start)
    return -low, high


def _shortest(bounds: Bounds, references: I64, source: I64, target: I64, most: F64, into: F64, out: F64) -> F64:
    """Shortest paths from each reference (Bellman–Ford), inf where there is none, NaN on a negative cycle.

    A barrier is a place on the way: ``into`` it from every rank, ``out`` of it to every rank.
    """
    count = len(references)
    distance = np.where(references == np.arange(count), 0.0, np.inf)
    order = np.lexsort((bounds.row,))
    rank, row = bounds.rank[order], bounds.row[order]
    begins = np.flatnonzero(np.append(True, np.diff(row) != 0)) if len(row) else np.zeros(0, np.int64)
    sizes = np.diff(np.append(begins, len(row)))
    into, out = into[order], out[order]
    for _ in range(min(count + 1, _MOST_HOPS)):
        reached = distance.copy()
        np.minimum.at(reached, target, distance[source] + most)
        if len(row):
            nearest = np.repeat(np.minimum.reduceat(distance[rank] + into, begins), sizes)
            np.minimum.at(reached, rank, nearest + out)
        if np.array_equal(reached, distance):
            return distance
        if (reached[references == np.arange(count)] < 0).any():
            break  # a way back to where it began is negative
        distance = reached
    return np.where(np.isfinite(distance), np.nan, distance)
