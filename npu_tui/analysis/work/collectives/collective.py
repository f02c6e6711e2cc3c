"""Collectives: one of them, and all of a part of a trace as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.work.collectives.arrivals import Arrivals
from npu_tui.trace.once import once

T = TypeVar("T")
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


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
