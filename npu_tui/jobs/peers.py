"""Which rank of the job a peer is, and in which collectives it was seen.

A task of a collective, and communication_matrix.json, name a rank by its place in the group. No file says which rank
that is; the ranks of a group follow from what several of its ranks recorded together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.jobs.columns import I64, Bools, Names, TextCodes
from npu_tui.jobs.meetings import RankMeetings
from npu_tui.jobs.model import Notifies, RankProfile, Seen, Sightings


class Views(Struct, frozen=True, eq=False):
    """What ranks saw of their peers in the meetings ``met``, (n,) each: by rank and order of the sightings.

    ``entry`` indexes ``met.call``, -1 for none: the last of several calls of one name; ``peer`` is a rank of the job.
    """

    entry: I64
    peer: I64
    after: I64
    at_most: Bools


def views(met: RankMeetings, seen: Sequence[Sequence[Seen]]) -> Views:
    """What ``seen`` (one for every rank of the table) says in the meetings ``met``."""
    some = [(rank, Sightings.of(rows)) for rank, rows in enumerate(seen) if len(rows)]
    codes, table = TextCodes(), met.table
    # Every name needs its code before any is looked up, as ``entry_of`` has a place for each.
    seen_names = [codes.of(rows.name) for _, rows in some]
    call_names = [codes.of(Names.of(table.calls[rank].name)) for rank, _ in some]
    by_rank = np.argsort(met.rank, kind="stable")
    first = np.searchsorted(met.rank[by_rank], np.arange(len(table.ranks) + 1))
    entry_of, entries = np.full(len(codes), -1), []
    for (rank, _), seen_name, call_name in zip(some, seen_names, call_names, strict=True):
        of_rank = by_rank[first[rank] : first[rank + 1]]
        name = call_name[met.call[of_rank] - table.first[rank]]
        entry_of[name] = of_rank
        entries.append(entry_of[seen_name])
        entry_of[name] = -1
    nothing = np.zeros(0, np.int64)
    return Views(
        np.concatenate([nothing, *entries]),
        np.concatenate([nothing, *(rows.peer for _, rows in some)]),
        np.concatenate([nothing, *(rows.after for _, rows in some)]),
        np.concatenate([nothing.astype(np.bool_), *(rows.at_most for _, rows in some)]),
    )


def members(profiles: Mapping[int, RankProfile], places: Mapping[int, set[int]], most: int = 0) -> list[int] | None:
    """The ranks of a group in their order, None where nothing tells them.

    ``profiles`` are those that took part, by rank, ``places`` the places that each may have; ``most`` is the highest
    place of all. The ranks are those of the smallest listed group in which every place fits, or all of ``profiles``.
    """
    # Ranks share the tuple of a group, so that each is looked at once.
    listed = {id(ranks): ranks for profile in profiles.values() for ranks in profile.groups.values()}
    for order in (*sorted(listed.values(), key=len), sorted(profiles)):
        place_of = {rank: place for place, rank in enumerate(order)}
        if most < len(order) and all(
            rank in place_of and (of_rank == {place_of[rank]} or len(of_rank) > 1) for rank, of_rank in places.items()
        ):
            return list(order)
    return None


_ByPlace = TypeVar("_ByPlace", Notifies, Sightings)

_NO_GROUP = 0  # the code of the group of what no call of the rank is named like


class _PlacedPeers(Struct, frozen=True, eq=False):
    """A profile that names peers by places, and the code of the group of each notify and sighting, (n,)."""

    profile: RankProfile
    notified_in: I64
    seen_in: I64


def placed(ranks: Sequence[RankProfile]) -> list[RankProfile]:
    """``ranks`` with the peers of their notifies and arrivals as ranks of the job.

    Where nothing tells the ranks of a group, its places are the ranks if that is so for all that are known; otherwise
    its peers are left out.
    """
    groups: dict[str, int] = {"": _NO_GROUP}
    by_place = {peers.profile.rank: peers for peers in _ranks_naming_places(ranks, groups)}
    if not by_place:
        return list(ranks)
    profiles: dict[int, dict[int, RankProfile]] = defaultdict(dict)
    places: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    most = np.zeros(len(groups), np.int64)
    for rank, peers in by_place.items():
        profile = peers.profile
        for columns, group in ((profile.notifies, peers.notified_in), (profile.seen, peers.seen_in)):
            named = columns.place >= 0
            np.maximum.at(most, group[named], np.maximum(columns.place, columns.peer)[named])
            pairs = np.unique(group[named] + columns.place[named] * len(groups))
            for code, place in zip((pairs % len(groups)).tolist(), (pairs // len(groups)).tolist(), strict=True):
                profiles[code][rank] = profile
                places[code][rank].add(place)
    order = {group: members(of_group, places[group], int(most[group])) for group, of_group in profiles.items()}
    same = [group for group, of_group in places.items() if all(here == {rank} for rank, here in of_group.items())]
    known = _GroupRanks.of(order, same, len(groups))
    return [known.of_rank(by_place[profile.rank]) if profile.rank in by_place else profile for profile in ranks]


def _ranks_naming_places(ranks: Sequence[RankProfile], groups: dict[str, int]) -> list[_PlacedPeers]:
    """The ``ranks`` that name peers by places; ``groups`` gets a code for every group."""
    found, codes = [], TextCodes()
    for profile in ranks:
        if not ((profile.notifies.place >= 0).any() or (profile.seen.place >= 0).any()):
            continue
        calls = profile.calls
        names = calls.name, profile.notifies.name, profile.seen.name
        called, notified, seen = (codes.of(Names.of(column)) for column in names)
        of_kind = np.array([groups.setdefault(group, len(groups)) for group, _, _ in calls.kinds], np.int64)
        group_of = np.full(len(codes), _NO_GROUP)
        group_of[called] = of_kind[calls.kind] if len(of_kind) else _NO_GROUP
        found.append(_PlacedPeers(profile, group_of[notified], group_of[seen]))
    return found


class _GroupRanks(Struct, frozen=True, eq=False):
    """The ranks of every group: ``rank[first[group] + place]`` where they are ``known``; (groups,) each.

    Elsewhere the places are ranks where they are the ``same``.
    """

    known: Bools
    same: Bools
    first: I64
    rank: I64

    @staticmethod
    def of(order: Mapping[int, Sequence[int] | None], same: Sequence[int], count: int) -> _GroupRanks:
        ranks: list[int] = [0]
        first, known, alike = np.zeros(count, np.int64), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        for group, of_group in order.items():
            if of_group is not None:
                first[group], known[group] = len(ranks), True
                ranks += of_group
        alike[list(same)] = True
        return _GroupRanks(known, alike, first, np.array(ranks, np.int64))

    def of_rank(self, peers: _PlacedPeers) -> RankProfile:
        """The profile of ``peers`` with ranks of the job as peers."""
        profile = peers.profile
        notifies = self._of_job(profile.notifies, peers.notified_in)
        return replace(profile, notifies=notifies, seen=self._of_job(profile.seen, peers.seen_in))

    def _of_job(self, rows: _ByPlace, group: I64) -> _ByPlace:
        """``rows`` of each ``group`` (n,) with ranks of the job as peers; what is not known is left out."""
        named = rows.place >= 0
        known = named & self.known[group]
        peer = np.where(known, self.rank[np.where(known, self.first[group] + rows.peer, 0)], rows.peer)
        return rows.of_peers(~named | known | self.same[group], peer, np.full(len(rows), -1))
