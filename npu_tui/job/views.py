"""What a rank recorded of its peers, as columns: notifies, and when they came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.job.meetings import Meetings
from npu_tui.job.model import Notify, Seen
from npu_tui.job.names import Codes, Names

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Notifies(Sequence[Notify]):
    """The notifies of one rank, columns of (n,) with the fields of ``Notify``."""

    name: Names
    waits: Bools
    peer: I64
    key: U64
    start: I64
    end: I64
    place: I64

    @staticmethod
    def of(rows: Sequence[Notify]) -> Notifies:
        """``rows`` as columns; themselves where they are."""
        if isinstance(rows, Notifies):
            return rows
        return Notifies(
            Names.of([row.name for row in rows]),
            np.array([row.waits for row in rows], np.bool_),
            _column(row.peer for row in rows),
            np.array([row.key for row in rows], np.uint64),
            _column(row.start for row in rows),
            _column(row.end for row in rows),
            _column(row.place for row in rows),
        )

    def __len__(self) -> int:
        return len(self.peer)

    @overload
    def __getitem__(self, at: int) -> Notify: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Notify, ...]: ...
    def __getitem__(self, at: int | slice) -> Notify | tuple[Notify, ...]:
        if isinstance(at, slice):
            return tuple(self[number] for number in range(*at.indices(len(self))))
        times = int(self.start[at]), int(self.end[at])
        return Notify(
            bool(self.waits[at]), int(self.peer[at]), self.name[at], int(self.key[at]), *times, int(self.place[at])
        )

    def of_peers(self, kept: Bools, peer: I64, place: I64) -> Notifies:
        """Those that are ``kept`` (n,), of other peers and places."""
        name = replace(self.name, code=self.name.code[kept])
        times = self.start[kept], self.end[kept]
        return Notifies(name, self.waits[kept], peer[kept], self.key[kept], *times, place[kept])


@dataclass(frozen=True, slots=True, eq=False)
class Sightings(Sequence[Seen]):
    """When the peers of one rank came, columns of (n,) with the fields of ``Seen``."""

    name: Names
    peer: I64
    after: I64
    at_most: Bools
    place: I64

    @staticmethod
    def of(rows: Sequence[Seen]) -> Sightings:
        """``rows`` as columns; themselves where they are."""
        if isinstance(rows, Sightings):
            return rows
        return Sightings(
            Names.of([row.name for row in rows]),
            _column(row.peer for row in rows),
            _column(row.after for row in rows),
            np.array([row.at_most for row in rows], np.bool_),
            _column(row.place for row in rows),
        )

    def __len__(self) -> int:
        return len(self.peer)

    @overload
    def __getitem__(self, at: int) -> Seen: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Seen, ...]: ...
    def __getitem__(self, at: int | slice) -> Seen | tuple[Seen, ...]:
        if isinstance(at, slice):
            return tuple(self[number] for number in range(*at.indices(len(self))))
        return Seen(self.name[at], int(self.peer[at]), int(self.after[at]), bool(self.at_most[at]), int(self.place[at]))

    def of_peers(self, kept: Bools, peer: I64, place: I64) -> Sightings:
        """Those that are ``kept`` (n,), of other peers and places."""
        name = replace(self.name, code=self.name.code[kept])
        return Sightings(name, peer[kept], self.after[kept], self.at_most[kept], place[kept])


def _column(values: Iterable[int]) -> I64:
    return np.fromiter(values, np.int64)


class Views(Struct, frozen=True, eq=False):
    """What ranks saw of their peers in the meetings ``met``, (n,) each: by rank and order of the sightings.

    ``entry`` indexes ``met.call``, -1 for none: the last of several calls of one name; ``peer`` is a rank of the job.
    """

    entry: I64
    peer: I64
    after: I64
    at_most: Bools


def views(met: Meetings, seen: Sequence[Sequence[Seen]]) -> Views:
    """What ``seen`` (one for every rank of the table) says in the meetings ``met``."""
    told = [(place, Sightings.of(own)) for place, own in enumerate(seen) if len(own)]
    codes, table = Codes(), met.table
    named = [codes.of(own.name) for _, own in told]
    calls = [codes.of(Names.of(table.calls[place].name)) for place, _ in told]
    by_rank = np.argsort(met.rank, kind="stable")
    first = np.searchsorted(met.rank[by_rank], np.arange(len(table.ranks) + 1))
    entry_of, entries = np.full(len(codes), -1), []
    for (place, _), own, called in zip(told, named, calls, strict=True):
        mine = by_rank[first[place] : first[place + 1]]
        called = called[met.call[mine] - table.first[place]]
        entry_of[called] = mine
        entries.append(entry_of[own])
        entry_of[called] = -1
    nothing = np.zeros(0, np.int64)
    return Views(
        np.concatenate([nothing, *entries]),
        np.concatenate([nothing, *(own.peer for _, own in told)]),
        np.concatenate([nothing, *(own.after for _, own in told)]),
        np.concatenate([nothing.astype(np.bool_), *(own.at_most for _, own in told)]),
    )
