"""Calls of several ranks that are one collective, and which rank of the job a peer is.

Calls are paired by type, group and place within the step. Where ranks made different numbers of calls, the ordinals
of the profiler pair them, and what is left over is counted. A send is paired with the receive of the same two ranks.

A task of a collective, and communication_matrix.json, name a rank by its place in the group. No file says which rank
that is; the ranks of a group follow from what several of its ranks recorded together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.jobs.columns import Names, RowColumns, TextCodes, place_in_run, run_begins
from npu_tui.jobs.model import (
    NO_ORDINAL,
    NO_PAIR,
    CallTable,
    Notifies,
    RankProfile,
    RecordedCall,
    Seen,
    Sightings,
    is_barrier,
    is_message,
    is_pair,
    is_receive,
    is_send,
)
from npu_tui.trace.arrays import I64, Bools


class Meeting(Struct, frozen=True):
    """One collective: the call of every rank on disk that took part; ``ordinal`` counts its type in group and step."""

    group: str
    type: str
    step: str
    ordinal: int
    calls: Mapping[int, RecordedCall]


class Unpaired(Struct, frozen=True):
    """Calls of one type, group and step, some of which belong to no call of another rank.

    ``counts`` are the calls of each rank. ``left_out`` of them are in no collective; the others are in ``paired``
    collectives, which the ordinals of the profiler put together.
    """

    group: str
    type: str
    step: str
    counts: dict[int, int]
    paired: int
    left_out: int


@dataclass(frozen=True, slots=True, eq=False)
class RankMeetings(RowColumns[Meeting]):
    """The collectives that at least two ranks recorded, by their first start.

    ``kind`` indexes those of the table, ``ordinal`` counts within them, ``barrier`` says that no rank left before all
    had come, (m,) each. The calls of meeting k are ``call[first[k]:first[k + 1]]`` by rank, rows of the table; ``row``
    is the meeting of each of them, (n,). A message from one rank to another is a meeting of the two.
    """

    table: CallTable
    kind: I64
    ordinal: I64
    barrier: Bools
    first: I64
    call: I64
    row: I64

    def __len__(self) -> int:
        return len(self.kind)

    def row_at(self, place: int) -> Meeting:
        """The collective at ``place``."""
        group, kind, step = self.table.kinds[self.kind[place]]
        rows = self.call[self.first[place] : self.first[place + 1]].tolist()
        calls = {self.table.ranks[self.table.rank[row]]: self.table.call(row) for row in rows}
        return Meeting(group, kind, step, int(self.ordinal[place]), calls)

    @property
    def rank(self) -> I64:
        """The place of the rank of every call, (n,)."""
        return self.table.rank[self.call]

    @property
    def length(self) -> I64:
        """How long every call lasted, ns, (n,)."""
        return (self.table.end - self.table.start)[self.call]

    @property
    def transfer(self) -> I64:
        """The shortest call of each, ns, (m,): that of the last rank to come, which waited for no other."""
        return np.minimum.reduceat(self.length, self.first[:-1])


def meetings(table: CallTable) -> tuple[RankMeetings, list[Unpaired]]:
    """The collectives of ``table``, and what could not be paired.

    Calls are paired by type, group and their place within the step; where ranks made different numbers of them, by the
    ordinals of the profiler. A send is paired with a receive of the same two ranks; which ranks those are is known in a
    group of two, and where the links or notifies of every message show it. Types that are neither barriers nor messages
    are left out: a rank that comes late to a broadcast only keeps itself waiting.
    """
    kind, names = _joined_kinds(table)
    order = np.lexsort((table.start, table.rank, kind))
    kind, rank, call = kind[order], table.rank[order], order
    number = place_in_run(kind, rank)
    members = _per_kind(len(names), kind, rank, number)
    barrier = np.array([is_barrier(name) for _, name, *_ in names], np.bool_)
    two = np.array([is_pair(name) or is_send(name) for _, name, *_ in names], np.bool_)
    apart = np.array([pair != NO_PAIR for *_, pair, _ in names], np.bool_)
    fits = (members.ranks >= 2) & (barrier | (two & (members.of_group(names) == 2)) | (apart & (members.ranks == 2)))
    # Where all ranks made as many calls, the k-th of one belongs to the k-th of the others. Else only the ordinals that
    # the profiler counted can say so, such as where a rank was stopped in the middle of a step.
    even = fits & (members.least == members.most)
    slot, paired_calls = number.copy(), even[kind] if len(kind) else np.zeros(0, np.bool_)
    unpaired = []
    for one in np.flatnonzero(fits & (~even | table.exact)).tolist():
        low, high = np.searchsorted(kind, [one, one + 1])
        ordinals = table.ordinal[call[low:high]]
        paired = _has_shared_ordinal(ordinals, rank[low:high])
        if apart[one]:
            # A rank counts its messages to all others together: ordinal 3 of two ranks need not be one message.
            paired[:] = False
        if even[one] and (paired.all() or not paired.any()):
            continue  # else as many calls, but a rank was recorded a moment later than another
        paired_calls[low:high], slot[low:high] = paired, ordinals
        places, counts = np.unique(rank[low:high], return_counts=True)
        by_rank = {table.ranks[place]: int(count) for place, count in zip(places.tolist(), counts, strict=True)}
        left_out = int(np.count_nonzero(~paired))
        group, name, step, *_ = names[one]
        unpaired.append(Unpaired(group, name, step, by_rank, len(np.unique(ordinals[paired])), left_out))
    kind, rank, call, slot = kind[paired_calls], rank[paired_calls], call[paired_calls], slot[paired_calls]
    order = np.lexsort((rank, slot, kind))
    kind, call, slot = kind[order], call[order], slot[order]
    begins = run_begins(kind, slot)
    early = np.minimum.reduceat(table.start[call], begins) if len(begins) else begins
    by_time, sizes = np.argsort(early, kind="stable"), np.diff(np.append(begins, len(kind)))
    first = np.concatenate(([0], np.cumsum(sizes[by_time])))
    within = np.arange(len(kind)) - np.repeat(first[:-1], sizes[by_time])
    picked = np.repeat(begins[by_time], sizes[by_time]) + within
    kind_of = kind[begins[by_time]]
    messages = np.array([is_send(name) for _, name, *_ in names], np.bool_)
    return RankMeetings(
        table,
        table.kind[call[begins[by_time]]] if len(by_time) else kind_of,
        _place_in_kind(kind_of),
        ~messages[kind_of] if len(kind_of) else np.zeros(0, np.bool_),
        first,
        call[picked],
        np.repeat(np.arange(len(by_time)), sizes[by_time]),
    ), unpaired


_Kind = tuple[str, str, str, int, bool]
"""Group, type, step, the pair of places that messages of a group of more than two ranks are between, and their way.

A message goes one way or, from the higher rank to the lower one, the other.
"""


def _joined_kinds(table: CallTable) -> tuple[I64, list[_Kind]]:
    """The kind of every call, (n,), in which a receive stands with the sends between the same ranks; and all kinds."""
    codes: dict[_Kind, int] = {}
    # A receive is called another type than its send, but is the other half of the same message.
    sends, receives = (np.array([test(kind) for _, kind, _ in table.kinds], np.bool_) for test in (is_send, is_receive))
    one_way = sends | receives
    joined = [("send" if way else kind) for (_, kind, _), way in zip(table.kinds, one_way.tolist(), strict=True)]
    joined_codes = [
        codes.setdefault((group, kind, step, NO_PAIR, False), len(codes))
        for (group, _, step), kind in zip(table.kinds, joined, strict=True)
    ]
    if not len(table.kind):
        return table.kind, list(codes)
    kinds = np.array(joined_codes, np.int64)[table.kind]
    is_told = np.ones(len(codes), np.bool_)
    is_told[kinds[messages_without_pair(table)]] = False  # with one of them missing, the k-th is not the k-th
    pair = np.where(_messages_of_large_groups(table) & is_told[kinds], table.pair, NO_PAIR)
    at = np.flatnonzero(one_way[table.kind] | (pair != NO_PAIR))
    rank, kind = table.rank[at], table.kind[at]
    among, both = np.unique((kinds[at], pair[at]), axis=1, return_inverse=True)
    lowest = np.full(among.shape[1], len(table.ranks))
    np.minimum.at(lowest, both, rank)
    back = one_way[kind] & (sends[kind] != (rank == lowest[both]))
    names, (ways, of_way) = list(codes), np.unique(2 * both + back, return_inverse=True)
    told = [
        codes.setdefault((*names[kind][:3], places, way % 2 == 1), len(codes))
        for way, (kind, places) in zip(ways.tolist(), among[:, ways // 2].T.tolist(), strict=True)
    ]
    kinds[at] = np.array(told, np.int64)[of_way]
    return kinds, list(codes)


def messages_without_pair(table: CallTable) -> Bools:
    """Which calls are messages of a group of more than two ranks that do not say which two they are between, (n,)."""
    return np.asarray(_messages_of_large_groups(table) & (table.pair == NO_PAIR))


def _messages_of_large_groups(table: CallTable) -> Bools:
    """Which calls are messages in a group that more than two ranks made calls in, (n,)."""
    if not len(table.kind):
        return np.zeros(0, np.bool_)
    message = np.array([is_message(kind) for _, kind, _ in table.kinds], np.bool_)[table.kind]
    codes: dict[str, int] = {}
    group = np.array([codes.setdefault(name, len(codes)) for name, _, _ in table.kinds], np.int64)[table.kind]
    both = np.unique(group * len(table.ranks) + table.rank) // len(table.ranks)
    return np.asarray(message & (np.bincount(both, minlength=len(codes))[group] > 2))


class _Members(Struct, frozen=True):
    """Of every kind: how many ranks made such calls, the least and the most of them a rank, (kinds,) each."""

    ranks: I64
    least: I64
    most: I64

    def of_group(self, names: list[_Kind]) -> I64:
        """The most ranks that any kind of the same group has, (kinds,)."""
        most: dict[str, int] = {}
        for (group, *_), ranks in zip(names, self.ranks.tolist(), strict=True):
            most[group] = max(most.get(group, 0), ranks)
        return np.array([most[group] for group, *_ in names], np.int64)


def _per_kind(count: int, kind: I64, rank: I64, number: I64) -> _Members:
    last = np.flatnonzero(np.append((np.diff(kind) != 0) | (np.diff(rank) != 0), True)[: len(kind)])
    ranks = np.bincount(kind[last], minlength=count)
    least, most = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(least, kind[last], number[last])
    np.maximum.at(most, kind[last], number[last])
    return _Members(ranks, least, most)


def _place_in_kind(kind: I64) -> I64:
    """The place of every value among the equal ones."""
    order = np.argsort(kind, kind="stable")
    places = np.empty(len(kind), np.int64)
    places[order] = place_in_run(kind[order])
    return places


def _has_shared_ordinal(ordinal: I64, rank: I64) -> Bools:
    """Which calls have an ordinal that several ranks recorded; none where a rank has one twice, or has none."""
    nothing = np.zeros(len(ordinal), np.bool_)
    if (ordinal == NO_ORDINAL).any():
        return nothing
    order = np.lexsort((ordinal, rank))
    if ((np.diff(ordinal[order]) == 0) & (np.diff(rank[order]) == 0)).any():
        return nothing
    _, inverse, counts = np.unique(ordinal, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse] >= 2)


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
    """The ranks of a group in their order; None if unknown.

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


class _PlacedPeers(Struct, frozen=True, eq=False):
    """A profile that names peers by places, and the code of the group of each notify and sighting, (n,)."""

    profile: RankProfile
    notified_in: I64
    seen_in: I64


def placed(ranks: Sequence[RankProfile]) -> list[RankProfile]:
    """``ranks`` with the peers of their notifies and arrivals as ranks of the job.

    Where the ranks of a group are unknown, its places are the ranks if that is so for all that are known; otherwise its
    peers are left out.
    """
    groups = {"": 0}  # of what no call of the rank is named like
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
        group_of = np.zeros(len(codes), np.int64)
        group_of[called] = of_kind[calls.kind] if len(of_kind) else 0
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
