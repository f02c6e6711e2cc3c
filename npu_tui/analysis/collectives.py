"""Collectives: their waits, arrivals of the peers, groups, transfers and the links between ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.model import Trace
from npu_tui.trace.once import once

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Arrivals(Struct, frozen=True):
    """``rank`` came to the collective ``owner`` (0 … ``count`` - 1, ascending) ``after`` ns after this rank; (n,)."""

    count: int
    owner: I64
    rank: I64
    after: I64

    def taken(self, chosen: Bools | I64) -> Arrivals:
        """Some of them."""
        return Arrivals(self.count, self.owner[chosen], self.rank[chosen], self.after[chosen])

    def of(self, ranks: frozenset[int]) -> Bools:
        """Which are those of ``ranks``; (n,)."""
        found: Bools = np.isin(self.rank, np.array(sorted(ranks), np.int64))
        return found

    def latest(self) -> I64:
        """How long after this rank the last one came to each collective, ns; 0 without one after it; (count,)."""
        found = np.zeros(self.count, np.int64)
        np.maximum.at(found, self.owner, self.after)
        return found

    def last(self) -> Arrivals:
        """The one who came last to each collective that has any, of several the highest rank."""
        order = np.lexsort((self.rank, self.after, self.owner))
        return self.taken(order[np.flatnonzero(np.diff(self.owner[order], append=-1))])


T = TypeVar("T")


class Timing(Struct, frozen=True, gc=False):
    """What the master plane did during a collective, ns; ``synchronization`` is the wait before the first transfer."""

    wait: int
    transit: int
    synchronization: int
    idle: int


class Traffic(Struct, frozen=True, gc=False):
    """What all tasks over one type of link moved: ``size`` in bytes, the sum of their durations in ns."""

    link_type: str
    size: int
    transfer: int


class Collective(Struct, frozen=True, gc=False):
    """One collective; None is what its plane tasks do not tell.

    ``traffic`` is what went to other chips. ``longest_wait`` is the longest Notify_Wait on any plane (ns), for
    ``peer``; it ended ``waited`` ns after the start. ``arrivals`` are (rank, ns after the start at which it was
    there), this rank at 0; ranks are those of the group, or of the job where its groups are known. ``algorithm`` is the
    ``alg_type`` that was used, ``size`` what the collective works on, in bytes.
    """

    item: int
    elapsed: int
    timing: Timing | None
    traffic: list[Traffic] | None
    longest_wait: int | None
    peer: int | None
    arrivals: list[tuple[int, int]] | None
    waited: int | None = None
    algorithm: str = ""
    size: int | None = None

    @property
    def neighbours_only(self) -> bool:
        """Whether its ranks only talk to those beside them, so that who is late farther away cannot be seen."""
        return self.algorithm.upper().split("-")[-1] == "RING" and "MESH" not in self.algorithm.upper()


class Timings(Struct, frozen=True):
    """``Timing`` of each collective where it is ``known``, ns; (n,) each."""

    known: Bools
    wait: I64
    transit: I64
    synchronization: I64
    idle: I64


class Waits(Struct, frozen=True):
    """The longest wait of each collective where it is ``known``, ns, and its ``peer``, -1 for none; (n,) each."""

    known: Bools
    length: I64
    peer: I64
    until: I64


class Moved(Struct, frozen=True):
    """``Traffic`` of the collectives ``owner``, ascending: over ``link``, a place in ``links``; (m,) each."""

    owner: I64
    link: I64
    size: I64
    transfer: I64
    links: Sequence[str]

    def sums(self, count: int, chosen: Bools | slice = slice(None)) -> tuple[I64, I64]:
        """Bytes and ns of all of them, or of some, for each of ``count`` collectives; (count,) each."""
        size, transfer = np.zeros(count, np.int64), np.zeros(count, np.int64)
        np.add.at(size, self.owner[chosen], self.size[chosen])
        np.add.at(transfer, self.owner[chosen], self.transfer[chosen])
        return size, transfer


@dataclass(frozen=True, eq=False)
class Collectives(Sequence[Collective]):
    """Collectives by start: a sequence of them, none of which is made before it is asked for, and their columns.

    ``type`` is a place in ``types``, such as ``hcom_allReduce_``, ``algorithm`` one in ``algorithms``; ``size`` is -1
    where it is not known; (n,).
    """

    item: I64
    elapsed: I64
    type: I64
    types: Sequence[str]
    timings: Timings
    moved: Moved
    waits: Waits
    arrivals: Arrivals
    algorithm: npt.NDArray[np.integer]
    algorithms: Sequence[str]
    size: I64

    @once
    def rows(self) -> list[Collective]:
        """Every one of them."""
        timings, moved, waits, arrivals = self.timings, self.moved, self.waits, self.arrivals
        times = lists(timings.wait, timings.transit, timings.synchronization, timings.idle)
        timing = [
            Timing(*values) if known else None for known, *values in zip(timings.known.tolist(), *times, strict=True)
        ]
        traffic = by_owner(
            [
                Traffic(moved.links[link], size, time)
                for link, size, time in zip(*lists(moved.link, moved.size, moved.transfer), strict=True)
            ],
            moved.owner,
            len(self),
        )
        came = by_owner(list(zip(*lists(arrivals.rank, arrivals.after), strict=True)), arrivals.owner, len(self))
        columns = self.item, self.elapsed, waits.known, waits.length, waits.peer, waits.until, self.algorithm, self.size
        return [
            Collective(
                item,
                elapsed,
                time,
                links,
                length if waited else None,
                peer if waited and peer >= 0 else None,
                ranks,
                until if waited else None,
                self.algorithms[algorithm],
                size if size >= 0 else None,
            )
            for time, links, ranks, item, elapsed, waited, length, peer, until, algorithm, size in zip(
                timing, traffic, came, *lists(*columns), strict=True
            )
        ]

    @once
    def has_arrivals(self) -> Bools:
        """Of which it is known who came when; (n,)."""
        return np.bincount(self.arrivals.owner, minlength=len(self)) > 0

    def taken(self, chosen: Bools | I64) -> Collectives:
        """Some of them, in order."""
        if chosen.dtype == np.bool_:
            if chosen.all():
                return self
            chosen = np.flatnonzero(chosen)
        place = np.full(len(self), -1)
        place[chosen] = np.arange(len(chosen))
        moved, arrivals = place[self.moved.owner], place[self.arrivals.owner]
        kept, here = moved >= 0, arrivals >= 0
        came = self.arrivals.taken(here)
        return Collectives(
            self.item[chosen],
            self.elapsed[chosen],
            self.type[chosen],
            self.types,
            Timings(*(getattr(self.timings, name)[chosen] for name in Timings.__struct_fields__)),
            Moved(
                moved[kept], self.moved.link[kept], self.moved.size[kept], self.moved.transfer[kept], self.moved.links
            ),
            Waits(*(getattr(self.waits, name)[chosen] for name in Waits.__struct_fields__)),
            Arrivals(len(chosen), arrivals[here], came.rank, came.after),
            self.algorithm[chosen],
            self.algorithms,
            self.size[chosen],
        )

    def at(self, numbers: I64) -> list[Collective]:
        """Those at ``numbers``, in the order of these."""
        own = np.unique(numbers)
        rows = self.taken(own).rows
        return [rows[k] for k in np.searchsorted(own, numbers).tolist()]

    def with_ranks(self, peer: I64, rank: I64) -> Collectives:
        """The same with other ranks for the peers and those who came."""
        waits, arrivals = self.waits, self.arrivals
        return replace(
            self,
            waits=Waits(waits.known, waits.length, peer, waits.until),
            arrivals=Arrivals(arrivals.count, arrivals.owner, rank, arrivals.after),
        )

    def __len__(self) -> int:
        return len(self.item)

    @overload
    def __getitem__(self, index: int) -> Collective: ...
    @overload
    def __getitem__(self, index: slice) -> list[Collective]: ...
    def __getitem__(self, index: int | slice) -> Collective | list[Collective]:
        if isinstance(index, int) and not Collectives.rows.is_known(self):
            return self.taken(np.array([index])).rows[0]
        return self.rows[index]

    def __iter__(self) -> Iterator[Collective]:
        return iter(self.rows)


def lists(*columns: npt.NDArray[Any]) -> list[list[Any]]:
    """The values of each of ``columns`` as plain ones."""
    return [column.tolist() for column in columns]


def by_owner(rows: list[T], owner: I64, count: int) -> list[list[T] | None]:
    """The ``rows`` of each of ``count`` owners, who are ascending; None without any."""
    bounds = np.searchsorted(owner, np.arange(count + 1)).tolist()
    return [rows[low:high] or None for low, high in pairwise(bounds)]


Groups = Mapping[str, tuple[int, ...]]
"""The ranks of the job in every group, by the name of the group: ``parallel_group_info`` of profiler_metadata.json."""

_LANE = re.compile(r"Group (?P<name>.+?) Communication(?: Aicpu)?")


def with_ranks_of_job(trace: Trace, found: Collectives, groups: Groups) -> Collectives:
    """``found`` with ranks of the job in place of ranks of the group, where ``groups`` has the group of the lane."""
    came = found.arrivals
    most = np.full(len(found), -1, np.int64)
    np.maximum.at(most, came.owner, came.rank)
    lanes = trace.slices.lane[found.item]
    peer, rank = found.waits.peer.copy(), came.rank.copy()
    for lane in np.unique(lanes[found.has_arrivals]).tolist():
        ranks = np.array(_ranks(trace.lanes[lane].name, groups), np.int64)
        told = found.has_arrivals & (lanes == lane) & (most < len(ranks))
        own = told[came.owner]
        rank[own] = ranks[rank[own]]
        known = told & (peer >= 0) & (peer < len(ranks))
        peer[known] = ranks[peer[known]]
    return found.with_ranks(peer, rank)


def _ranks(lane: str, groups: Groups) -> tuple[int, ...]:
    """The ranks of the group that a lane is named after; where only one group has peers at all, those of it."""
    match = _LANE.fullmatch(lane)
    if match is None:
        return ()
    if match["name"] in groups:
        return groups[match["name"]]
    shared = {ranks for ranks in groups.values() if len(ranks) > 1}
    return next(iter(shared)) if len(shared) == 1 else ()


class Transfer(Struct, frozen=True):
    """What one collective moved over one ``transport`` (SDMA, RDMA, HCCS, PCIE, SIO).

    ``item`` is its slice, -1 without one; ``start`` and ``end`` are those of the collective in ns; ``size`` in bytes
    took ``time`` ns; ``packets`` are (bytes of one, how many).
    """

    name: str
    item: int
    start: int
    end: int
    transport: str
    size: float
    time: int
    large_ratio: float | None
    packets: tuple[tuple[float, int], ...]

    @property
    def speed(self) -> float | None:
        """GB/s, None where nothing took time."""
        return self.size / self.time if self.time > 0 else None


class Preprocessing(Struct, frozen=True):
    """One row of data_preprocess.csv: the node ``name``, its ``start`` (None: not told) and ``total`` in ns."""

    name: str
    start: int | None
    total: int


LOCAL = "LOCAL"
"""The transport of a copy that stays on the chip."""


class PairSum(Struct, frozen=True):
    """From rank ``source`` to ``target`` of ``group`` by ``transport``: ``size`` in bytes, ``time`` in ns."""

    group: str
    source: int
    target: int
    transport: str
    size: float
    time: int
    operations: int

    @property
    def speed(self) -> float | None:
        """GB/s, None where nothing took time."""
        return self.size / self.time if self.time > 0 else None


Cells = tuple[str | None, str | None, int, int, str | None, float | None, int | None]
"""Operation, group, source, target, transport, MB and ns of one row of communication_matrix.json."""


def pair_sums(rows: Iterable[Cells]) -> list[PairSum]:
    """The rows by group and pair; the operations that sum up others (``…-total``) count where there are any.

    Beside them the file has the fastest, slowest and middle operations of each type once more.
    """
    every = list(rows)
    totals = [row for row in every if (row[0] or "").endswith("-total")]
    found: dict[tuple[str, int, int, str], list[float]] = {}
    for _, group, source, target, transport, size, time in totals or every:
        sums = found.setdefault((group or "", source, target, transport or ""), [0.0, 0, 0])
        sums[0] += (size or 0.0) * 1e6
        sums[1] += time or 0
        sums[2] += 1
    return [
        PairSum(group, source, target, transport, size, int(time), int(count))
        for (group, source, target, transport), (size, time, count) in sorted(found.items())
    ]
