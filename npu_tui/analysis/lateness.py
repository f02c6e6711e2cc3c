"""Who a rank waits for at its collectives: late ranks, ranks that no task names, the filling of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npu_tui.analysis.collectives import Arrivals, Collectives
from npu_tui.trace.arrays import I64, in_groups, summed
from npu_tui.trace.model import Trace

UNKNOWN = -1
"""The rank of an unknown peer."""
TOGETHER_NS = 300_000
"""Ranks that arrive within this time of each other arrive together: they run the same code and move as one."""
_NOTABLE = 0.05
"""An arrival within this share of a collective is part of it: every rank needs time to get ready."""
_HARDLY = 0.1
"""Share of the waiting that may remain unexplained."""
_FILLS = 0.9
"""A first receive is not late if the filling of the pipeline explains this share of its wait."""
AS_LATE = 0.5
"""Ranks with this share of the longest lateness are late too."""

_PLACES = 1 << 32
"""More ranks than a group has."""


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


def place_of(peer: int) -> tuple[int, int]:
    """The lane of the group (-1: the job) that ``peer`` has its place in, and this place; UNKNOWN stays."""
    group, rank = divmod(peer, _PLACES)
    return (-1, UNKNOWN) if peer == UNKNOWN else (group - 1, rank)


def late_arrivals(arrivals: Arrivals, elapsed: I64, fill: I64) -> Arrivals:
    """The arrivals that collectives of ``elapsed`` ns waited for, beyond the ``fill`` of a pipeline; (count,) each."""
    least = np.maximum(_NOTABLE * elapsed, fill / _FILLS)
    late = arrivals.taken(arrivals.after > least[arrivals.owner])
    return Arrivals(late.count, late.owner, late.rank, np.minimum(late.after, elapsed[late.owner]))


def late_ranks(arrivals: Arrivals) -> frozenset[int]:
    """The late ranks: the fewest ranks that explain nearly all waiting, and all that are about as late as they are."""
    late: set[int] = set()
    waited = left = int(arrivals.latest().sum())
    while left > _HARDLY * waited:
        last = arrivals.taken(~arrivals.of(frozenset(late))).last()
        left = int(last.after.sum())
        behind = last.taken(last.after > TOGETHER_NS)
        if not len(behind.rank) or left <= _HARDLY * waited:
            break
        ranks, code = np.unique(behind.rank, return_inverse=True)
        sums = summed(code, behind.after, len(ranks))
        # Blame the rank that was waited for longest, and look at what is left without it.
        late.add(int(ranks[np.argmax(sums)]))  # of equals the first, which is the lowest
    if late:
        longest = int(arrivals.after[arrivals.of(frozenset(late))].max())
        # Ranks that take turns in being late each explain little of the sum, but arrive as late as the others.
        order = np.lexsort((-np.arange(len(arrivals.rank)), arrivals.after, arrivals.owner))
        last = arrivals.taken(order[np.flatnonzero(np.diff(arrivals.owner[order], append=-1))])
        late |= set(last.rank[(last.after > TOGETHER_NS) & (last.after >= AS_LATE * longest)].tolist())
    return frozenset(late)


def fill_of(fills: Mapping[int, int], items: I64) -> I64:
    """The filling time of each of ``items`` by ``pipeline_fills``, 0 for most; (n,) ns."""
    if not fills:
        return np.zeros(len(items), np.int64)
    return np.array([fills.get(item, 0) for item in items.tolist()], np.int64)


_LONGER = 3.0
"""A collective of unknown arrivals waited if it took this many times as long as expected..."""
_LEAST_NS = 1_000_000
"""... and this much longer."""
SIBLINGS = 3
"""With fewer collectives of a type and lane nothing can be expected from them."""
_SLOWEST = 2.0
"""Bytes per ns that any link between ranks reaches: a collective that takes longer waited."""


def unknown_waits(trace: Trace, collectives: Collectives) -> dict[int, int]:
    """How long collectives with unknown arrivals waited, ns by slice: their time beyond that of their siblings.

    Siblings are collectives of the same type and lane. The expected length is that at their best rate where sizes are
    known, else their median length; it is never longer than over a slow link, as all siblings may have waited. Only
    collectives of three times that length, and a millisecond longer, count.
    """
    waits: dict[int, int] = {}
    chosen = np.flatnonzero(~collectives.has_arrivals)
    item = collectives.item[chosen]
    kind = trace.slices.lane[item].astype(np.int64) * max(len(collectives.types), 1) + collectives.type[chosen]
    lengths, sizes = collectives.elapsed[chosen], np.maximum(collectives.size[chosen], 0)
    for siblings in in_groups(kind):
        elapsed, size = lengths[siblings].astype(np.float64), sizes[siblings].astype(np.float64)
        if len(siblings) < SIBLINGS:
            expected = elapsed.copy()
        elif (size > 0).all():
            expected = np.maximum(size * float(np.min(elapsed / size)), float(elapsed.min()))
        else:
            expected = np.full(len(siblings), float(np.median(elapsed)))
        expected = np.where(size > 0, np.minimum(expected, size / _SLOWEST), expected)
        beyond = elapsed - expected
        waited = (lengths[siblings] >= _LONGER * expected) & (beyond >= _LEAST_NS)
        rows = zip(item[siblings[waited]].tolist(), beyond[waited].tolist(), strict=True)
        waits |= {waiting: round(more) for waiting, more in rows}
    return waits
