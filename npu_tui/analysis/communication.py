"""Collectives from the tasks of a trace: how long each waited and transferred, and who a rank waits for.

The rules are those of msprof's communication.json: times come from one plane, the first that talks to another rank
(the master plane), the amount of data from all planes. A collective ends after its last rank has come. Ranks are late
if they explain nearly all waiting; where no task names a peer, a wait is guessed from the siblings of a collective:
those of its type and lane.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.collectives import Arrivals, Collectives, LongestWaits, Timings, TrafficColumns
from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.analysis.limits import (
    ALMOST_ALL,
    BEST_PERCENTILE,
    FEWEST_EQUALS,
    HALF,
    LITTLE,
    LONG_NS,
    MORE_THAN_ONE,
    NEARLY_ALL,
    SHORT_NS,
    SIGMAS,
    SOME,
)
from npu_tui.analysis.operators import collective_types
from npu_tui.trace.args import CommunicationArgs, PlaneArgs
from npu_tui.trace.arrays import F64, I64, Bools, distinct, in_groups, summed
from npu_tui.trace.intervals import difference, union
from npu_tui.trace.model import Trace
from npu_tui.trace.recorder import exchange_kernels, group_slices
from npu_tui.trace.transfers import NOTIFY_WAIT, groups_of, plane_task

ON_CHIP = "ON_CHIP"

# What moves the data over each type of link; traces name the link, the rules the transport.
_TRANSPORT = {"HCCS": "SDMA", "PCIE": "SDMA", "SIO": "SDMA", "SDMA": "SDMA", "ROCE": "RDMA", "RDMA": "RDMA"}


def transports_over(links: Sequence[str]) -> npt.NDArray[np.str_]:
    """What moves the data over each of ``links``, and over the one of code -1; empty where that is not known."""
    types = [link.partition("_")[0].upper() if link != ON_CHIP else "" for link in links]
    return np.array([*(_TRANSPORT.get(kind, "") for kind in types), ""])


_OTHER, _WAITING, _MOVING, _REMOTE = range(4)
"""Kinds of plane tasks, by name."""
_TRANSIT = ("memcpy", "reduce_inline")
_REMOTE_MEMORY = "rdma"


def collectives(trace: Trace, args: CommunicationArgs, window: Window = EVERYTHING) -> Collectives:
    """The collectives that start in ``window``, by start."""
    slices = trace.slices
    item = group_slices(trace)
    item = item[window.holds(slices.start[item])]
    item = item[np.argsort(slices.start[item], kind="stable")]
    begin, end = slices.start[item], slices.end[item]
    tasks = _tasks(trace, args.planes, item)
    args_row = np.searchsorted(args.collectives.item, item)
    arrivals = _peer_arrivals(trace, tasks, begin)
    several = sum(bool(planes) for _, planes in groups_of(trace)) > 1
    return Collectives(
        item,
        end - begin,
        *collective_types(trace, item),
        _timings(tasks, end - begin),
        _traffic_of(tasks, args.planes.links, len(item)),
        _longest_waits(trace, tasks, begin, end, arrivals.latest()),
        arrivals,
        args.collectives.algorithm[args_row],
        args.collectives.algorithms,
        args.collectives.size[args_row],
        slices.lane[item].astype(np.int64) if several else np.full(len(item), -1),
    )


def planes_moving(trace: Trace, args: PlaneArgs, items: I64, transport: str) -> I64:
    """Over how many planes each of the collectives ``items``, which are by start, moves data by ``transport``; (n,).

    Planes move at the same time: the sum of their times is as many times as long.
    """
    owner, plane, item = owned_tasks(trace, items)
    row = np.searchsorted(args.item, item)
    moving = (transports_over(args.links)[args.link[row]] == transport) & (args.size[row] > 0)
    planes = int(plane.max(initial=0)) + 1
    used = np.unique(owner[moving] * planes + plane[moving]) // planes
    return np.bincount(used, minlength=len(items)).astype(np.int64)


class _Tasks(Struct, frozen=True):
    """The plane tasks ``item`` of collectives ``owner`` (0…), by collective, plane and start, with their args; (n,).

    Copies on the chip are of the kind _OTHER: they transfer nothing.
    """

    owner: I64
    plane: npt.NDArray[np.integer]
    item: I64
    length: I64
    kind: npt.NDArray[np.int8]
    source: npt.NDArray[np.integer]
    target: npt.NDArray[np.integer]
    size: I64
    link: npt.NDArray[np.integer]


def owned_tasks(trace: Trace, items: I64) -> tuple[I64, I64, I64]:
    """The tasks of the collectives ``items``, which are by start: the position of its collective, plane and slice.

    They are on the planes of its group. Tasks name no collective: those that start while it runs belong to it.
    """
    slices = trace.slices
    nothing = np.zeros(0, np.int64)
    owners, planes, found = [nothing], [nothing], [nothing]
    for group, lanes in groups_of(trace):
        numbers = np.flatnonzero(slices.lane[items] == group.index)
        for number, plane in enumerate(lanes):
            time = slices.start[plane.first : plane.last]
            low, high = (np.searchsorted(time, edge[items[numbers]]) for edge in (slices.start, slices.end))
            count = np.maximum(high - low, 0)
            owners.append(np.repeat(numbers, count))
            planes.append(np.full(int(count.sum()), number))
            found.append(plane.first + np.repeat(low - (np.cumsum(count) - count), count) + np.arange(count.sum()))
    return np.concatenate(owners), np.concatenate(planes), np.concatenate(found)


def _tasks(trace: Trace, args: PlaneArgs, items: I64) -> _Tasks:
    """The tasks of the collectives ``items``."""
    slices = trace.slices
    owner, plane_of, item = owned_tasks(trace, items)
    place = np.searchsorted(args.item, item)
    # Within a plane the tasks are already by collective: a stable sort keeps plane and start in order.
    order = np.argsort(owner, kind="stable")
    item, place = item[order], place[order]
    kind = np.array([*map(_kind, trace.names), _OTHER], np.int8)[slices.name[item]]
    kind[(kind == _MOVING) & args.over(lambda name: name == ON_CHIP)[place]] = _OTHER
    return _Tasks(
        owner[order],
        plane_of[order],
        item,
        slices.end[item] - slices.start[item],
        kind,
        args.source_rank[place],
        args.target_rank[place],
        args.size[place],
        args.link[place],
    )


def _kind(name: str) -> int:
    name = plane_task(name)
    if name == NOTIFY_WAIT:
        return _WAITING
    if name in _TRANSIT:
        return _MOVING
    return _REMOTE if name.startswith(_REMOTE_MEMORY) else _OTHER


def _timings(tasks: _Tasks, elapsed: I64) -> Timings:
    """The timing of each by its master plane; unknown without one and with RDMA tasks."""
    count = len(elapsed)
    talks = np.flatnonzero((tasks.target >= 0) & (tasks.target != tasks.source))
    talks = talks[_firsts(tasks.owner[talks])]
    master = np.full(count, -1, np.int64)
    master[tasks.owner[talks]] = tasks.plane[talks]
    on_master = np.flatnonzero(tasks.plane == master[tasks.owner])
    owner, length, kind = tasks.owner[on_master], tasks.length[on_master], tasks.kind[on_master]
    at = np.flatnonzero(kind == _MOVING)
    moved = np.full(count, len(on_master))
    first_moves = _firsts(owner[at])
    moved[owner[at[first_moves]]] = at[first_moves]
    waiting = kind == _WAITING
    early = waiting & (np.arange(len(on_master)) < moved[owner])
    masks = (waiting, kind == _MOVING, early)
    wait, transit, synchronization = (summed(owner[mask], length[mask], count) for mask in masks)
    known = master >= 0
    known[owner[kind == _REMOTE]] = False
    return Timings(known, wait, transit, synchronization, elapsed - wait - transit)


def _traffic_of(tasks: _Tasks, links: list[str], count: int) -> TrafficColumns:
    """The traffic of each to other chips by type of link; no row where the size is unknown."""
    moving = np.flatnonzero((tasks.kind == _MOVING) & (tasks.size >= 0))
    kinds = max(len(links), 1)
    # One number per (collective, link): equal numbers are summed.
    keys, code = distinct(tasks.owner[moving] * kinds + tasks.link[moving])
    size, length = (summed(code, column[moving], len(keys)) for column in (tasks.size, tasks.length))
    owner, link = np.divmod(keys, kinds)
    return TrafficColumns(owner, link, size, length, links)


def _longest_waits(trace: Trace, tasks: _Tasks, begin: I64, end: I64, come: I64) -> LongestWaits:
    """The longest wait of each; among equal ones that for the highest rank, then the last.

    ``come`` is how long after the start the last rank with a visible arrival came, ns.
    """
    count = len(begin)
    waits = np.flatnonzero(tasks.kind == _WAITING)
    # Narrow down in turn: the longest waits of each collective, of these the highest ranks, of these the last.
    waits = waits[_largest(tasks.owner[waits], tasks.length[waits])]
    waits = waits[_largest(tasks.owner[waits], tasks.target[waits])]
    waits = waits[np.flatnonzero(np.diff(tasks.owner[waits], append=-1))]
    owner = tasks.owner[waits]
    known, length, peer = np.zeros(count, np.bool_), np.zeros(count, np.int64), np.zeros(count, np.int64)
    known[owner], length[owner], peer[owner] = True, tasks.length[waits], tasks.target[waits]
    return LongestWaits(known, length, peer, _unseen(trace, tasks, begin + come, end))


def _unseen(trace: Trace, tasks: _Tasks, since: I64, end: I64) -> I64:
    """How long each waited after ``since`` without moving data meanwhile, ns; 0 where the transfers explain it.

    In a ring the notifies of a late rank arrive through all ranks between, in a later phase. Every rank of a ring moves
    as much as this one, so that waits which take longer than its own transfers are not for those of others; ranks that
    come together take as long to start. Transfers by RDMA do not show how long they take.
    """
    slices, count = trace.slices, len(since)
    waited = np.zeros(count, np.int64)
    waits = np.flatnonzero(tasks.kind == _WAITING)
    low, high = np.maximum(slices.start[tasks.item[waits]], since[tasks.owner[waits]]), slices.end[tasks.item[waits]]
    long = high - low >= SHORT_NS
    if not long.any():
        return waited
    apart = int(max(slices.end[tasks.item].max(), end.max())) + 1  # collectives of several groups overlap

    def spans(at: I64, low: I64, high: I64) -> tuple[I64, I64]:
        place = tasks.owner[at] * apart
        return union(place + low, place + high)

    moves = np.flatnonzero((tasks.kind == _MOVING) & np.isin(tasks.owner, tasks.owner[waits[long]]))
    moving = spans(moves, slices.start[tasks.item[moves]], slices.end[tasks.item[moves]])
    waiting = difference(*spans(waits[long], low[long], high[long]), *moving)
    moved = np.zeros(count, np.int64)
    for total, span in ((waited, waiting), (moved, moving)):
        np.add.at(total, span[0] // apart, span[1] - span[0])
    by_rdma = np.zeros(count, np.bool_)
    by_rdma[tasks.owner[tasks.kind == _REMOTE]] = True
    return np.where((waited > np.maximum(moved, TOGETHER_NS)) & ~by_rdma, waited, 0)


def _peer_arrivals(trace: Trace, tasks: _Tasks, begin: I64) -> Arrivals:
    """The arrivals of peers: the end of the first wait for each peer, in ns after the start of the collective.

    A Notify_Wait ends when the peer's notify arrives, so the first one shows when the peer entered the collective.
    """
    slices = trace.slices
    waits = np.flatnonzero((tasks.kind == _WAITING) & (tasks.target >= 0) & (tasks.source >= 0))
    ranks = int(tasks.target[waits].max(initial=0)) + 1
    keys, code = distinct(tasks.owner[waits] * ranks + tasks.target[waits])
    start, end = slices.start[tasks.item[waits]], slices.end[tasks.item[waits]]
    begun = _least(code, start, len(keys))
    earliest = start == begun[code]  # of waits that begin together the one that ends first
    arrived = _least(code[earliest], end[earliest], len(keys))
    owner, rank = np.divmod(keys, ranks)
    # This rank arrives at the start.
    first = waits[_firsts(tasks.owner[waits])]
    owner_of_first = tasks.owner[first]
    owners = np.concatenate((owner_of_first, owner))
    peers = np.concatenate((tasks.source[first], rank))
    after = np.concatenate((np.zeros(len(first), np.int64), arrived - begin[owner]))
    order = np.lexsort((after, peers, owners))
    return Arrivals(len(begin), owners[order], peers[order], after[order])


def _least(code: I64, values: I64, count: int) -> I64:
    """The minimum of the ``values`` of each code; (count,)."""
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, code, values)
    return least


def _firsts(owner: I64) -> I64:
    """The first position of each owner; owners are ascending."""
    return np.flatnonzero(np.diff(owner, prepend=-1))


def _largest(owner: I64, value: npt.NDArray[np.integer]) -> I64:
    """The positions of the maximum of each owner, all of several equal ones; owners are ascending."""
    firsts = _firsts(owner)
    if not len(firsts):
        return firsts
    largest = np.maximum.reduceat(value, firsts)
    return np.flatnonzero(value == np.repeat(largest, np.diff(firsts, append=len(owner))))


def faltering(speed: F64) -> Bools | None:
    """Which of the equal transfers over one link, by their ``speed`` (n,), GB/s, are far slower than the others.

    None where fewer than two are, or nearly all: then the link is as fast as it ever is. None, too, where they take
    little of the time of all beyond the usual: of thousands of transfers some are always slow.
    """
    if len(speed) < FEWEST_EQUALS or not (speed > 0).all():
        return None
    slow: Bools = speed < HALF * np.percentile(speed, BEST_PERCENTILE)
    if not MORE_THAN_ONE <= int(slow.sum()) <= NEARLY_ALL * len(speed):
        return None
    beyond = 1 / speed[slow] - 1 / np.median(speed[~slow])  # as long as for equal sizes
    return slow if beyond.sum() >= LITTLE * (1 / speed).sum() else None


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
    """The ``late`` ranks, among all ``arrivals`` that collectives wait for.

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
    """The ranks that are late at collectives of ``elapsed`` ns, beyond the ``fill`` of a pipeline; (count,) each.

    For a collective that ``guessed`` gives a wait nothing else is known: it is for an UNKNOWN rank.
    """
    late = seen.taken(seen.after > (fill / ALMOST_ALL)[seen.owner])
    arrivals = Arrivals(late.count, late.owner, late.rank, np.minimum(late.after, elapsed[late.owner]))
    if guessed is not None and guessed.any():
        known, alone = arrivals.taken(guessed[arrivals.owner] == 0), np.flatnonzero(guessed)
        owner = np.concatenate((known.owner, alone))
        rank = np.concatenate((known.rank, np.full(len(alone), UNKNOWN)))
        after = np.concatenate((known.after, guessed[alone]))
        arrivals = Arrivals(late.count, owner, rank, after).taken(np.argsort(owner, kind="stable"))
    # A rank that passes messages on comes after those it gets them from, late or not.
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
    tokens by itself takes tens of microseconds: a tenth of a millisecond of it counts.
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
