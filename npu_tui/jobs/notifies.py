"""What a rank recorded of its peers: notifies and when they came, and which rank of the job a peer is.

A task of a collective, and communication_matrix.json, name a rank by its place in the group; only what several ranks
say together tells which rank that is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from npu_tui.jobs.meetings import Meetings
from npu_tui.jobs.model import Calls, Codes, Names, Notify, RankProfile, Seen

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


_Columns = TypeVar("_Columns", Notifies, Sightings)

_NO_GROUP = 0
"""The code of the group of what no call of the rank is named like."""


def members(own: Mapping[int, RankProfile], places: Mapping[int, set[int]], most: int = 0) -> tuple[int, ...] | None:
    """The ranks of a group in their order, None where nothing tells them.

    ``own`` are the profiles that took part, ``places`` the places that each may have; ``most`` is the highest
    place of all. The ranks are those of the smallest listed group in which every place fits, or all of ``own``.
    """
    listed = {id(ranks): ranks for profile in own.values() for ranks in profile.groups.values()}
    candidates = sorted(listed.values(), key=len)
    for order in (*candidates, tuple(sorted(own))):
        place = {rank: number for number, rank in enumerate(order)}
        if most < len(order) and all(
            rank in place and (found == {place[rank]} or len(found) > 1) for rank, found in places.items()
        ):
            return order
    return None


class _Told(Struct, frozen=True, eq=False):
    """What ``profile`` tells by places; codes of the group of each, (n,)."""

    profile: RankProfile
    notifies: Notifies
    seen: Sightings
    notified_in: I64
    seen_in: I64


def placed(ranks: Sequence[RankProfile]) -> list[RankProfile]:
    """``ranks`` with the peers of their notifies and arrivals as ranks of the job.

    Where nothing tells the ranks of a group, its places are the ranks if that is so for all that are known; else what
    was told of its peers is left out.
    """
    groups: dict[str, int] = {"": _NO_GROUP}
    told = {each.profile.rank: each for each in _by_places(ranks, groups)}
    if not told:
        return list(ranks)
    own: dict[int, dict[int, RankProfile]] = defaultdict(dict)
    place: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    most = np.zeros(len(groups), np.int64)
    for rank, each in told.items():
        for columns, group in ((each.notifies, each.notified_in), (each.seen, each.seen_in)):
            named = columns.place >= 0
            np.maximum.at(most, group[named], np.maximum(columns.place, columns.peer)[named])
            both = np.unique(group[named] + columns.place[named] * len(groups))
            for code, here in zip((both % len(groups)).tolist(), (both // len(groups)).tolist(), strict=True):
                own[code][rank] = each.profile
                place[code][rank].add(here)
    order = {group: members(mine, place[group], int(most[group])) for group, mine in own.items()}
    same = [group for group, mine in place.items() if all(found == {rank} for rank, found in mine.items())]
    known = _Known.of(order, same, len(groups))
    return [known.of_rank(told[profile.rank]) if profile.rank in told else profile for profile in ranks]


def _by_places(ranks: Sequence[RankProfile], groups: dict[str, int]) -> list[_Told]:
    """Those of ``ranks`` that name peers by places; ``groups`` gets a code for every group."""
    found, codes = [], Codes()
    for profile in ranks:
        if not len(profile.notifies) and not len(profile.seen):
            continue
        notifies, seen = Notifies.of(profile.notifies), Sightings.of(profile.seen)
        if not ((notifies.place >= 0).any() or (seen.place >= 0).any()):
            continue
        calls = profile.calls if isinstance(profile.calls, Calls) else Calls.of(profile.calls)
        called, *named = (codes.of(Names.of(each)) for each in (calls.name, notifies.name, seen.name))
        of_kind = np.array([groups.setdefault(group, len(groups)) for group, _, _ in calls.kinds], np.int64)
        group_of = np.full(len(codes), _NO_GROUP)
        group_of[called] = of_kind[calls.kind] if len(of_kind) else _NO_GROUP
        found.append(_Told(profile, notifies, seen, group_of[named[0]], group_of[named[1]]))
    return found


class _Known(Struct, frozen=True, eq=False):
    """The ranks of every group: ``rank[first[group] + place]`` where they are ``known``; (groups,) each.

    Else the places are ranks where they are the ``same``.
    """

    known: npt.NDArray[np.bool_]
    same: npt.NDArray[np.bool_]
    first: I64
    rank: I64

    @staticmethod
    def of(order: Mapping[int, tuple[int, ...] | None], same: Sequence[int], count: int) -> _Known:
        ranks: list[int] = [0]
        first, known, alike = np.zeros(count, np.int64), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        for group, mine in order.items():
            if mine is not None:
                first[group], known[group] = len(ranks), True
                ranks += mine
        alike[list(same)] = True
        return _Known(known, alike, first, np.array(ranks, np.int64))

    def of_rank(self, each: _Told) -> RankProfile:
        """The profile of what ``each`` tells, with ranks of the job as peers."""
        notifies, seen = self._of_job(each.notifies, each.notified_in), self._of_job(each.seen, each.seen_in)
        return structs.replace(each.profile, notifies=notifies, seen=seen)

    def _of_job(self, told: _Columns, group: I64) -> _Columns:
        """``told`` of each ``group`` (n,) with ranks of the job as peers; what is not known is left out."""
        named = told.place >= 0
        known = named & self.known[group]
        peer = np.where(known, self.rank[np.where(known, self.first[group] + told.peer, 0)], told.peer)
        return told.of_peers(~named | known | self.same[group], peer, np.full(len(told), -1))
