"""Collectives as records and columns: timing, traffic, waits and arrivals of peers; ranks of groups; transfers.

``communication.py`` computes them from the tasks of a trace, other rooms from the tables of a profile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.arrays import I64, Bools, summed
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once


class Arrivals(Struct, frozen=True):
    """``rank`` arrived at the collective ``owner`` ``after`` ns after this rank (negative: before it); (n,) each.

    ``owner`` is ascending, 0 to ``count`` - 1.
    """

    count: int
    owner: I64
    rank: I64
    after: I64

    def taken(self, chosen: Bools | I64) -> Arrivals:
        """The ``chosen`` arrivals, still of ``count`` collectives."""
        return Arrivals(self.count, self.owner[chosen], self.rank[chosen], self.after[chosen])

    def of(self, ranks: frozenset[int]) -> Bools:
        """Which arrivals are those of ``ranks``; (n,)."""
        mask: Bools = np.isin(self.rank, np.array(sorted(ranks), np.int64))
        return mask

    def latest(self) -> I64:
        """How long after this rank the last rank arrived at each collective, ns; 0 if none came later; (count,)."""
        latest = np.zeros(self.count, np.int64)
        np.maximum.at(latest, self.owner, self.after)
        return latest

    def last(self) -> Arrivals:
        """The last arrival at each collective that has any; among several at one time the highest rank."""
        order = np.lexsort((self.rank, self.after, self.owner))
        return self.taken(order[np.flatnonzero(np.diff(self.owner[order], append=-1))])

    def longest(self) -> Arrivals:
        """The last arrival at each collective that has any; among several at one time the first one."""
        order = np.lexsort((-np.arange(len(self.owner)), self.after, self.owner))
        return self.taken(order[np.flatnonzero(np.diff(self.owner[order], append=-1))])

    def by_owner(self) -> list[list[tuple[int, int]]]:
        """Rank and time of the arrivals at each collective; (count,)."""
        rows: list[list[tuple[int, int]]] = [[] for _ in range(self.count)]
        for owner, rank, after in zip(self.owner.tolist(), self.rank.tolist(), self.after.tolist(), strict=True):
            rows[owner].append((rank, after))
        return rows


T = TypeVar("T")


class Timing(Struct, frozen=True, gc=False):
    """Times of a collective on its master plane, ns; ``synchronization`` is the wait before the first transfer."""

    wait: int
    transit: int
    synchronization: int
    idle: int


class Traffic(Struct, frozen=True, gc=False):
    """Traffic of a collective over one type of link: ``size`` in bytes, ``transfer`` the summed durations in ns."""

    link_type: str
    size: int
    transfer: int


class Collective(Struct, frozen=True, gc=False):
    """One collective; None is unknown.

    ``traffic`` is that to other chips. ``longest_wait`` is the longest Notify_Wait on any plane (ns), for ``peer``.
    ``arrivals`` are (rank, arrival in ns after the start), this rank at 0; after the last of them it waited ``unseen``
    ns for a rank that no task names; all had come ``waited`` ns after the start. Ranks are those of the group, or of
    the job where its groups are known. ``algorithm`` is the ``alg_type``, ``size`` the size of the data in bytes.
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
    unseen: int = 0


def is_ring(algorithm: str) -> bool:
    """Whether ranks exchange only with their neighbours. ``MESH-RING`` is a ring between servers: inside all peers."""
    return algorithm.upper().split("-")[-1] == "RING" and "MESH" not in algorithm.upper()


class Timings(Struct, frozen=True):
    """``Timing`` of each collective where it is ``known``, ns; (n,) each."""

    known: Bools
    wait: I64
    transit: I64
    synchronization: I64
    idle: I64


class LongestWaits(Struct, frozen=True):
    """The longest wait of each collective where it is ``known``; (n,) each.

    ``length`` in ns, ``peer`` -1 without one. ``unseen`` is how long it waited once all ranks with an arrival in its
    tasks had come, ns: for a rank that they do not name.
    """

    known: Bools
    length: I64
    peer: I64
    unseen: I64


class TrafficColumns(Struct, frozen=True):
    """``Traffic`` as columns: of the collectives ``owner``, ascending, over ``links[link]``; (m,) each."""

    owner: I64
    link: I64
    size: I64
    transfer: I64
    links: Sequence[str]

    def sums(self, count: int, chosen: Bools | slice = slice(None)) -> tuple[I64, I64]:
        """Bytes and ns of each of ``count`` collectives, over all links or the ``chosen`` rows; (count,) each."""
        owner = self.owner[chosen]
        return summed(owner, self.size[chosen], count), summed(owner, self.transfer[chosen], count)


@dataclass(frozen=True, eq=False)
class Collectives(Sequence[Collective]):
    """Collectives by start, as columns and as a sequence of records that are made at their first use.

    ``type`` indexes ``types``, such as ``hcom_allReduce_``, ``algorithm`` indexes ``algorithms``; ``size`` is -1 where
    unknown; ``group`` is the lane of the group that ranks are places in, -1 where they are those of the job or where
    there is one group only; (n,) each.
    """

    item: I64
    elapsed: I64
    type: I64
    types: Sequence[str]
    timings: Timings
    moved: TrafficColumns
    waits: LongestWaits
    arrivals: Arrivals
    algorithm: npt.NDArray[np.integer]
    algorithms: Sequence[str]
    size: I64
    group: I64

    @once
    def rows(self) -> list[Collective]:
        """All records."""
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
        columns = (
            self.item, self.elapsed, waits.known, waits.length, waits.peer, self.waited, self.algorithm, self.size,
            waits.unseen,
        )  # fmt: skip
        return [
            Collective(
                item,
                elapsed,
                time,
                links,
                length if waited else None,
                peer if waited and peer >= 0 else None,
                ranks,
                until if until >= 0 else None,
                self.algorithms[algorithm],
                size if size >= 0 else None,
                unseen,
            )
            for time, links, ranks, item, elapsed, waited, length, peer, until, algorithm, size, unseen in zip(
                timing, traffic, came, *lists(*columns), strict=True
            )
        ]

    @property
    def neighbours_only(self) -> Bools:
        """In which collectives each rank exchanges with its neighbours alone: it sees no other's arrival; (n,)."""
        rings: Bools = np.array([*map(is_ring, self.algorithms), False])[self.algorithm]
        return rings

    @once
    def has_arrivals(self) -> Bools:
        """Which collectives have known arrivals; (n,)."""
        return np.bincount(self.arrivals.owner, minlength=len(self)) > 0

    @once
    def waited(self) -> I64:
        """When all ranks had come to each, ns after its start: only then does it move data; -1 is unknown; (n,)."""
        waits = self.waits
        came = np.minimum(self.arrivals.latest() + waits.unseen, self.elapsed)
        return np.where(self.has_arrivals | waits.known, came, -1)

    def taken(self, chosen: Bools | I64) -> Collectives:
        """The ``chosen`` collectives, in order."""
        if chosen.dtype == np.bool_:
            # Most often nothing is left out, and the columns can be shared.
            if chosen.all():
                return self
            chosen = np.flatnonzero(chosen)
        place = np.full(len(self), -1)
        place[chosen] = np.arange(len(chosen))
        moved, arrivals = place[self.moved.owner], place[self.arrivals.owner]
        moved_chosen, arrivals_chosen = moved >= 0, arrivals >= 0
        arrived = self.arrivals.taken(arrivals_chosen)
        return Collectives(
            self.item[chosen],
            self.elapsed[chosen],
            self.type[chosen],
            self.types,
            Timings(*(getattr(self.timings, name)[chosen] for name in Timings.__struct_fields__)),
            TrafficColumns(
                moved[moved_chosen],
                self.moved.link[moved_chosen],
                self.moved.size[moved_chosen],
                self.moved.transfer[moved_chosen],
                self.moved.links,
            ),
            LongestWaits(*(getattr(self.waits, name)[chosen] for name in LongestWaits.__struct_fields__)),
            Arrivals(len(chosen), arrivals[arrivals_chosen], arrived.rank, arrived.after),
            self.algorithm[chosen],
            self.algorithms,
            self.size[chosen],
            self.group[chosen],
        )

    def at(self, numbers: I64) -> list[Collective]:
        """The records at the positions ``numbers``, in that order; only these are made."""
        distinct_numbers = np.unique(numbers)
        rows = self.taken(distinct_numbers).rows
        return [rows[k] for k in np.searchsorted(distinct_numbers, numbers).tolist()]

    def with_ranks(self, peer: I64, rank: I64, group: I64) -> Collectives:
        """A copy with other ranks for the peers of waits and for the arrivals, which are places in ``group``."""
        waits, arrivals = self.waits, self.arrivals
        return replace(
            self,
            waits=LongestWaits(waits.known, waits.length, peer, waits.unseen),
            arrivals=Arrivals(arrivals.count, arrivals.owner, rank, arrivals.after),
            group=group,
        )

    def __len__(self) -> int:
        return len(self.item)

    @overload
    def __getitem__(self, index: int) -> Collective: ...
    @overload
    def __getitem__(self, index: slice) -> list[Collective]: ...
    def __getitem__(self, index: int | slice) -> Collective | list[Collective]:
        # One record of many thousands: do not make all of them for it.
        if isinstance(index, int) and not Collectives.rows.is_known(self):
            return self.taken(np.array([index])).rows[0]
        return self.rows[index]

    def __iter__(self) -> Iterator[Collective]:
        return iter(self.rows)


def lists(*columns: npt.NDArray[Any]) -> list[list[Any]]:
    """The values of each column as Python objects."""
    return [column.tolist() for column in columns]


def by_owner(rows: list[T], owner: I64, count: int) -> list[list[T] | None]:
    """The ``rows`` of each of ``count`` owners; ``owner`` is ascending. None for an owner without rows."""
    bounds = np.searchsorted(owner, np.arange(count + 1)).tolist()
    return [rows[low:high] or None for low, high in pairwise(bounds)]


Groups = Mapping[str, tuple[int, ...]]
"""The ranks (of the job) of each group by its name: ``parallel_group_info`` of profiler_metadata.json."""

_LANE = re.compile(r"Group (?P<name>.+?) Communication(?: Aicpu)?")


def with_ranks_of_job(trace: Trace, collectives: Collectives, groups: Groups) -> Collectives:
    """``collectives`` with ranks of the job in place of ranks of the group, where ``groups`` has the lane's group."""
    came = collectives.arrivals
    highest = np.full(len(collectives), -1, np.int64)
    np.maximum.at(highest, came.owner, came.rank)
    lanes = trace.slices.lane[collectives.item]
    peer, rank, group = collectives.waits.peer.copy(), came.rank.copy(), collectives.group.copy()
    for lane in np.unique(lanes[collectives.has_arrivals]).tolist():
        ranks = np.array(ranks_of_group(trace.lanes[lane].name, groups), np.int64)
        # A rank beyond the group means that the lane was matched to the wrong group: it stays as it is.
        translated = collectives.has_arrivals & (lanes == lane) & (highest < len(ranks))
        arrived_of_lane = translated[came.owner]
        rank[arrived_of_lane] = ranks[rank[arrived_of_lane]]
        known = translated & (peer >= 0) & (peer < len(ranks))
        peer[known] = ranks[peer[known]]
        group[translated] = -1
    return collectives.with_ranks(peer, rank, group)


def ranks_of_group(lane: str, groups: Groups) -> tuple[int, ...]:
    """The ranks of the group in a lane's name; an unknown name means the only group with several ranks, if it is."""
    match = _LANE.fullmatch(lane)
    if match is None:
        return ()
    if match["name"] in groups:
        return groups[match["name"]]
    shared = {ranks for ranks in groups.values() if len(ranks) > 1}
    return next(iter(shared)) if len(shared) == 1 else ()


class Transfer(Struct, frozen=True):
    """The data that one collective moved over one ``transport`` (SDMA, RDMA, HCCS, PCIE, SIO).

    ``item`` is its slice, -1 without one; ``start`` and ``end`` are those of the collective in ns; ``size`` bytes took
    ``time`` ns; ``packets`` are (bytes per packet, packets).
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
    """One row of data_preprocess.csv: the node ``name``, its ``start`` (None: unknown) and ``total`` in ns."""

    name: str
    start: int | None
    total: int


LOCAL = "LOCAL"
"""The transport of a copy that stays on the chip."""


class PairSum(Struct, frozen=True):
    """Transfers from rank ``source`` to ``target`` of ``group`` by ``transport``: ``size`` in bytes, ``time`` in ns."""

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
    """The rows summed by group, pair and transport.

    A file with rows of totals (``…-total``) repeats the fastest, slowest and middle operation of each type beside
    them: then only the totals count.
    """
    others: dict[tuple[str, int, int, str], list[float]] = {}
    totals: dict[tuple[str, int, int, str], list[float]] = {}
    for name, group, source, target, transport, size, time in rows:
        sums_of = totals if (name or "").endswith("-total") else others
        pair = sums_of.setdefault((group or "", source, target, transport or ""), [0.0, 0, 0])
        pair[0] += (size or 0.0) * 1e6
        pair[1] += time or 0
        pair[2] += 1
    return [
        PairSum(group, source, target, transport, size, int(time), int(count))
        for (group, source, target, transport), (size, time, count) in sorted((totals or others).items())
    ]
