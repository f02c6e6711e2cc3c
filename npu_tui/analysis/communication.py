"""Collectives from the tasks of a trace: how long each waited and transferred, and for which peer.

The rules are those of msprof's communication.json: times come from one plane, the first that talks to another rank
(the master plane), the amount of data from all planes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.collectives import Arrivals, Collectives, LongestWaits, Timings, TrafficColumns
from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.analysis.lateness import TOGETHER_NS
from npu_tui.analysis.limits import FEWEST_EQUALS, HALF, MORE_THAN_ONE, NEARLY_ALL, SHORT_NS
from npu_tui.analysis.operators import collective_types
from npu_tui.trace.args import CommunicationArgs, PlaneArgs
from npu_tui.trace.arrays import F64, I64, Bools, distinct, summed
from npu_tui.trace.intervals import difference, union
from npu_tui.trace.model import Trace
from npu_tui.trace.transfers import NOTIFY_WAIT, group_slices, groups_of, plane_task

ON_CHIP = "ON_CHIP"

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
    """The longest wait of each; of equal ones that for the highest rank, then the last.

    ``come`` is how long after the start the last rank came whose arrival shows, ns.
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


_FAST = 90.0
"""The percentile of the speeds of equal transfers that tells what a link can do: it is rarely faster, often slower."""


def faltering(speed: F64) -> Bools | None:
    """Which of the equal transfers over one link, by their ``speed`` (n,), find it far slower than the others do.

    None where fewer than two do, or nearly all: then the link is as fast as it ever is.
    """
    if len(speed) < FEWEST_EQUALS:
        return None
    slow: Bools = speed < HALF * np.percentile(speed, _FAST)
    return slow if MORE_THAN_ONE <= int(slow.sum()) <= NEARLY_ALL * len(speed) else None
