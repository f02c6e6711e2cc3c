"""Who a rank waits for at its collectives: late ranks, ranks that no task names, the filling of a pipeline.

A collective ends after its last rank has come. Ranks are late if they explain nearly all waiting; where no task names
a peer, a wait is guessed from the siblings of a collective: those of its type and lane.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
from msgspec import Struct

from npu_tui.analysis.collectives import Arrivals, Collectives
from npu_tui.analysis.limits import ALMOST_ALL, LONG_NS, SHORT_NS, SIGMAS, SOME
from npu_tui.trace.arrays import I64, Bools, in_groups, summed
from npu_tui.trace.model import Trace
from npu_tui.trace.transfers import exchange_kernels

UNKNOWN = -1
"""The rank of an unknown peer."""
TOGETHER_NS = 300_000
"""Ranks that arrive within this time of each other arrive together: they run the same code and move as one."""
HARDLY = 0.1
"""Share of the waiting that may remain unexplained."""
AS_LATE = 0.5
"""Ranks with this share of the longest lateness are late too."""

_PLACES = 1 << 32  # more ranks than a group has


def peers_seen(collectives: Collectives) -> Arrivals:
    """The arrivals at ``collectives`` by peer: ranks of the job, and places that differ from group to group.

    One that waited for a rank that no task names has an arrival of an UNKNOWN peer after all others.
    """
    came = collectives.arrivals
    group = collectives.group[came.owner]
    unseen = np.flatnonzero(collectives.waits.unseen)
    owner = np.concatenate((came.owner, unseen))
    peer = np.concatenate((came.rank + (group + 1) * _PLACES, np.full(len(unseen), UNKNOWN)))
    after = np.concatenate((came.after, came.latest()[unseen] + collectives.waits.unseen[unseen]))
    return Arrivals(came.count, owner, peer, after).taken(np.argsort(owner, kind="stable"))


def peer_at(group: int, place: int) -> int:
    """The number of the peer at ``place`` of the group with this lane, -1 for the job; see ``peers_seen``."""
    return place + (group + 1) * _PLACES


def lane_and_place(peer: int) -> tuple[int, int]:
    """The lane of the group (-1: the job) that ``peer`` has its place in, and this place; UNKNOWN stays."""
    group, rank = divmod(peer, _PLACES)
    return (-1, UNKNOWN) if peer == UNKNOWN else (group - 1, rank)


class Lateness(Struct, frozen=True):
    """Who is waited for: the ``late`` ranks, of all ``arrivals`` that collectives wait for.

    Ranks in time run the same code as this one and move with it: ``others`` is when the last of them came, ns after
    this rank, 0 where none came later; (count,). All arrivals but those of a pipeline that fills are ``seen``.
    """

    seen: Arrivals
    arrivals: Arrivals
    late: frozenset[int]
    others: I64

    def beyond_chance(self, ranks: Collection[int]) -> bool:
        """Whether one of ``ranks`` is last more often than if all ranks took turns."""
        known = np.array([*ranks], np.int64)
        return bool(_beyond_chance(self.seen, lambda rank: np.isin(rank, known).astype(np.int64), 2)[1])

    @property
    def behind(self) -> Arrivals:
        """The arrivals of the late ranks."""
        return self.arrivals.taken(self.arrivals.of(self.late))


def lateness(seen: Arrivals, elapsed: I64, fill: I64, guessed: I64 | None = None) -> Lateness:
    """Who is late at collectives of ``elapsed`` ns, beyond the ``fill`` of a pipeline; (count,) each.

    Of a collective that ``guessed`` gives a wait nothing else is known: it is for an UNKNOWN rank.
    """
    late = seen.taken(seen.after > (fill / ALMOST_ALL)[seen.owner])
    arrivals = Arrivals(late.count, late.owner, late.rank, np.minimum(late.after, elapsed[late.owner]))
    if guessed is not None and guessed.any():
        known, alone = arrivals.taken(guessed[arrivals.owner] == 0), np.flatnonzero(guessed)
        owner = np.concatenate((known.owner, alone))
        rank = np.concatenate((known.rank, np.full(len(alone), UNKNOWN)))
        after = np.concatenate((known.after, guessed[alone]))
        arrivals = Arrivals(late.count, owner, rank, after).taken(np.argsort(owner, kind="stable"))
    # Whoever passes messages on comes after those it gets them from, late or not.
    seen = seen.taken(fill[seen.owner] == 0)
    every = np.unique(seen.rank)
    often = every[_beyond_chance(seen, lambda rank: np.searchsorted(every, rank), len(every))]
    ranks = late_ranks(arrivals, frozenset(often.tolist()))
    return Lateness(seen, arrivals, ranks, arrivals.taken(~arrivals.of(ranks)).latest())


def _beyond_chance(seen: Arrivals, code_of: Callable[[I64], I64], codes: int) -> Bools:
    """Which sets of ranks are last more often than by chance, by which ranks of equal speed take turns; (codes,).

    ``code_of`` gives the set of each rank.
    """
    cells, count = np.unique(seen.owner * codes + code_of(seen.rank), return_counts=True)
    chance = count / np.bincount(seen.owner, minlength=seen.count)[cells // codes]
    expected = np.bincount(cells % codes, chance, codes)
    spread = np.sqrt(np.bincount(cells % codes, chance * (1.0 - chance), codes))
    beyond: Bools = np.bincount(code_of(seen.last().rank), minlength=codes) > expected + SIGMAS * spread
    return beyond


def late_ranks(arrivals: Arrivals, often: frozenset[int] = frozenset()) -> frozenset[int]:
    """The late ranks: the fewest ranks that explain nearly all waiting, and all that are about as late as they are.

    Those that are ``often`` last are late however little it is.
    """
    late: set[int] = set()
    waited = left = int(arrivals.latest().sum())
    while left > HARDLY * waited:
        last = arrivals.taken(~arrivals.of(frozenset(late))).last()
        left = int(last.after.sum())
        behind = last.taken((last.after > TOGETHER_NS) | last.of(often))
        if not len(behind.rank) or left <= HARDLY * waited:
            break
        ranks, code = np.unique(behind.rank, return_inverse=True)
        sums = summed(code, behind.after, len(ranks))
        # Blame the rank that was waited for longest, and look at what is left without it.
        late.add(int(ranks[np.argmax(sums)]))  # of equals the first, which is the lowest
    if late:
        longest = int(arrivals.after[arrivals.of(frozenset(late))].max())
        # Ranks that take turns in being late each explain little of the sum, but arrive as late as the others.
        last = arrivals.longest()
        late |= set(last.rank[(last.after > TOGETHER_NS) & (last.after >= AS_LATE * longest)].tolist())
    return frozenset(late)


def fill_of(fills: Mapping[int, int], items: I64) -> I64:
    """The filling time of each of ``items`` by ``pipeline_fills``, 0 for most; (n,) ns."""
    if not fills:
        return np.zeros(len(items), np.int64)
    return np.array([fills.get(item, 0) for item in items.tolist()], np.int64)


_LONGER = 3.0  # a collective of unknown arrivals waited if it took this many times as long as expected, and long enough
_SLOWEST = 2.0  # bytes per ns that any link between ranks reaches: a collective that takes longer waited


def unknown_waits(trace: Trace, collectives: Collectives) -> dict[int, int]:
    """How long collectives with unknown arrivals waited, ns by slice: their time beyond that of their siblings.

    Siblings are collectives of the same type and lane, and ``beyond_usual`` says what counts. A kernel that exchanges
    tokens by itself takes tens of microseconds: of it a tenth of a millisecond counts.
    """
    waits: dict[int, int] = {}
    by_itself = exchange_kernels(trace)
    chosen = np.flatnonzero(~collectives.has_arrivals)
    item = collectives.item[chosen]
    kind = trace.slices.lane[item].astype(np.int64) * max(len(collectives.types), 1) + collectives.type[chosen]
    lengths, sizes = collectives.elapsed[chosen], np.maximum(collectives.size[chosen], 0)
    for siblings in in_groups(kind):
        least = SHORT_NS if item[siblings[0]] in by_itself else LONG_NS
        beyond = beyond_usual(lengths[siblings], sizes[siblings], least)
        waited = beyond > 0
        waits |= dict(zip(item[siblings[waited]].tolist(), beyond[waited].tolist(), strict=True))
    return waits


def beyond_usual(elapsed: I64, size: I64, least: int) -> I64:
    """How long each collective of one type waited: the time beyond its expected length, ns; (n,).

    It is 0 unless the collective took three times as long as expected, and ``least`` ns longer. Expected is the length
    at the best rate of all if each ``size`` (bytes) is known, else their median; at most the length over a slow link,
    as all of them may have waited.
    """
    length, bytes_ = elapsed.astype(np.float64), size.astype(np.float64)
    if len(length) < SOME:
        expected = length
    elif (size > 0).all():
        expected = np.maximum(bytes_ * float(np.min(length / bytes_)), float(length.min()))
    else:
        expected = np.full(len(length), float(np.median(length)))
    expected = np.where(size > 0, np.minimum(expected, bytes_ / _SLOWEST), expected)
    beyond = length - expected
    return np.where((length >= _LONGER * expected) & (beyond >= least), np.rint(beyond), 0).astype(np.int64)
