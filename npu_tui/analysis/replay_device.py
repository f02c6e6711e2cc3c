"""The device in the replay of a run: streams, collectives and the peers they wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.collectives import Arrivals, Collective, Collectives
from npu_tui.analysis.device import DeviceSlices
from npu_tui.trace.arrays import BySlice, among, in_groups, previous_same
from npu_tui.trace.model import HOST_TO_DEVICE, Trace

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

KERNEL, RECORD, AWAIT, COLLECTIVE = range(4)

_AFTER_EVENT_NS = 30_000
"""How long after an event fired a stream goes on at the latest."""


class DeviceTasks(Struct):
    """Tasks of one device by start, ns on the clock of the device; (n,) each.

    ``stream`` numbers streams; a collective counts for the stream its own tasks run on. ``previous`` is the task before
    on the stream (-1: none), ``event`` for a wait the record it waits for (-1: none known). ``launched`` is when the
    host launched a task, in ``lane`` of the host (both -1 where that is not known); tasks of one ``call`` (-1: unknown)
    were launched together.
    """

    item: I64
    kind: I64
    stream: I64
    start: I64
    end: I64
    previous: I64
    event: I64
    launched: I64
    lane: I64
    call: I64

    def __len__(self) -> int:
        return len(self.item)

    def within_launch(self, tasks: I64) -> I64:
        """The task of the same launch that ended last before each of ``tasks`` began, -1 without one; (m,).

        A graph is one launch of many tasks: where one of them starts long after the launch, it follows another.
        """
        found = np.full(len(tasks), -1, np.int64)
        if not len(tasks):
            return found
        order = np.lexsort((self.end, self.call))
        low = np.searchsorted(self.call[order], self.call[tasks], "left")
        high = np.searchsorted(self.call[order], self.call[tasks], "right")
        for at in np.flatnonzero((self.call[tasks] >= 0) & (high - low > 1)).tolist():
            own = order[low[at] : high[at]]
            last = int(np.searchsorted(self.end[own], self.start[tasks[at]], "right")) - 1
            if last >= 0:
                found[at] = own[last]
        return found


def device_tasks(trace: Trace, device: DeviceSlices) -> DeviceTasks:
    """The tasks of ``device``: kernels, copies, collectives, and the records of and waits for events."""
    slices = trace.slices
    hardware = _hardware_lanes(trace, device)
    of_name = _kinds_of_names(trace)
    chosen = device.busy.copy()
    for span in hardware:
        chosen[span] |= of_name[slices.name[span]] != KERNEL
    item = np.flatnonzero(chosen)
    kind = np.where(device.collective[item], COLLECTIVE, of_name[slices.name[item]])
    stream = slices.lane[item].astype(np.int64)
    for lane, own in _streams_of_groups(trace, item, kind, hardware).items():
        stream[stream == lane] = own
    order = np.lexsort((slices.end[item], slices.start[item]))
    item, kind, stream = item[order], kind[order], stream[order]
    launched, source_lane = _launches(trace, item)
    tasks = DeviceTasks(
        item,
        kind,
        stream,
        slices.start[item],
        slices.end[item],
        previous_same(stream),
        np.full(len(item), -1, np.int64),
        launched,
        source_lane,
        slices.connection[item].astype(np.int64),
    )
    _pair_events(trace, tasks)
    return tasks


def event_pairs(devices: Sequence[DeviceTasks]) -> tuple[I64, I64]:
    """Waits for events, as slices, and the record each waits for; those whose record is not known are left out."""
    waits, records = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for tasks in devices:
        known = np.flatnonzero(tasks.event >= 0)
        waits.append(tasks.item[known])
        records.append(tasks.item[tasks.event[known]])
    return np.concatenate(waits), np.concatenate(records)


def is_of_event(name: str) -> bool:
    """Whether a task of that name records an event or waits for one."""
    return name.upper().replace(" ", "_").startswith(("EVENT_RECORD", "EVENT_WAIT"))


def _kinds_of_names(trace: Trace) -> I64:
    """What a task of the hardware is by its name: the record of an event, a wait for one, else a kernel."""
    found = np.full(len(trace.names) + 1, KERNEL)
    for code, name in enumerate(trace.names):
        if name[:5].upper() == "EVENT":  # few names do, and a prefix is told sooner
            word = name.upper().replace(" ", "_")
            for kind, prefix in ((RECORD, "EVENT_RECORD"), (AWAIT, "EVENT_WAIT")):
                if word.startswith(prefix):
                    found[code] = kind
    return found


def _hardware_lanes(trace: Trace, device: DeviceSlices) -> list[slice]:
    """The slices of each stream of ``device``."""
    layers = [layer for layer in trace.layers if layer.kind == "hardware" and layer.device == device.device]
    lanes = [trace.lanes[lane] for layer in layers for lane in layer.lanes]
    return [slice(lane.first, lane.last) for lane in lanes]


def _streams_of_groups(trace: Trace, item: I64, kind: I64, hardware: list[slice]) -> dict[int, int]:
    """The hardware lane on which the tasks of each group's collectives run, by the connections that both name."""
    slices = trace.slices
    collectives = item[kind == COLLECTIVE]
    known = collectives[slices.connection[collectives] >= 0]
    ids = np.unique(slices.connection[known])
    on_device = np.concatenate(
        [own.start + np.flatnonzero(among(slices.connection[own], ids)) for own in hardware] or [known[:0]]
    )
    if not len(known) or not len(on_device):
        return {}
    on_device = on_device[np.lexsort((slices.start[on_device], slices.connection[on_device]))]
    ids = slices.connection[on_device]
    at = np.minimum(np.searchsorted(ids, slices.connection[known]), len(ids) - 1)
    hit = ids[at] == slices.connection[known]
    groups, streams = slices.lane[known[hit]], slices.lane[on_device[at[hit]]].astype(np.int64)
    return {int(group): int(np.bincount(streams[groups == group]).argmax()) for group in np.unique(groups)}


def _launches(trace: Trace, item: I64) -> tuple[I64, I64]:
    """When and in which lane each task was launched: by its HostToDevice link, else by the call of its connection."""
    slices, links = trace.slices, trace.links
    time, lane = np.full(len(item), -1, np.int64), np.full(len(item), -1, np.int64)
    connection = slices.connection[item]
    link = trace.links_of(HOST_TO_DEVICE)
    link = link[links.target_slice[link] >= 0]
    led = BySlice(links.target_slice[link], np.arange(len(link))).of(item)
    linked = link[led[led >= 0]]
    time[led >= 0], lane[led >= 0] = links.source_time[linked], links.source_lane[linked]
    other = np.flatnonzero((led < 0) & (connection >= 0))
    calls = _calls_of(trace, np.unique(connection[other]))
    if len(calls):
        ids = slices.connection[calls]
        at = np.minimum(np.searchsorted(ids, connection[other]), len(ids) - 1)
        hit = ids[at] == connection[other]
        time[other[hit]], lane[other[hit]] = slices.start[calls[at[hit]]], slices.lane[calls[at[hit]]]
    known = np.flatnonzero((lane >= 0) & (connection >= 0))
    lost = np.flatnonzero((lane < 0) & (connection >= 0))
    if len(known) and len(lost):
        # Connections are numbered as they are made: the launch before is the nearest that is known.
        known = known[np.argsort(connection[known], kind="stable")]
        at = np.searchsorted(connection[known], connection[lost], "right") - 1
        near = known[np.maximum(at, 0)]
        time[lost], lane[lost] = np.where(at >= 0, time[near], -1), np.where(at >= 0, lane[near], -1)
    return time, lane


def _calls_of(trace: Trace, connections: I64) -> I64:
    """The calls of CANN with one of ``connections``, by connection and then by start."""
    slices = trace.slices
    lanes = [trace.lanes[each] for layer in trace.layers if layer.kind == "cann" for each in layer.lanes]
    found = [np.zeros(0, np.int64)]
    for own in sorted(lanes, key=lambda lane: lane.first):
        found.append(own.first + np.flatnonzero(among(slices.connection[own.first : own.last], connections)))
    calls = np.concatenate(found)
    return calls[np.lexsort((slices.start[calls], slices.connection[calls]))]


def _pair_events(trace: Trace, tasks: DeviceTasks) -> None:
    """The record each wait waits for: of another stream, launched before it, that had fired when the wait ended.

    The file does not name events. A wait that lasted ends as its event fires; one that did not is paired with the
    last record launched before it.
    """
    awaits, records = np.flatnonzero(tasks.kind == AWAIT), np.flatnonzero(tasks.kind == RECORD)
    if not len(awaits) or not len(records):
        return
    connection = trace.slices.connection
    made = connection[tasks.item]
    launched = np.where(made >= 0, made, tasks.start)
    until, stream = tasks.end[awaits], tasks.stream[awaits]
    by_launch = records[np.argsort(launched[records], kind="stable")]
    made = _last_of_others(tasks, by_launch, np.searchsorted(launched[by_launch], launched[awaits], "left") - 1, stream)
    after = until - tasks.end[made]
    found = np.where((made >= 0) & (after >= -_AFTER_EVENT_NS), made, -1)
    by_end = records[np.argsort(tasks.end[records], kind="stable")]
    fired = _last_of_others(tasks, by_end, np.searchsorted(tasks.end[by_end], until, "right") - 1, stream)
    fired[until - tasks.end[fired] > _AFTER_EVENT_NS] = -1
    lasted = until - tasks.start[awaits] > _AFTER_EVENT_NS
    tasks.event[awaits] = np.where(lasted & ((found < 0) | (after > _AFTER_EVENT_NS)), fired, found)


def _last_of_others(tasks: DeviceTasks, records: I64, at: I64, stream: I64) -> I64:
    """The last of ``records`` up to position ``at`` that is of another stream than ``stream``, -1 without one; (n,)."""
    own = tasks.stream[records]
    position = np.arange(len(records))
    first = np.maximum.accumulate(np.where(np.diff(own, prepend=-1) != 0, position, 0))  # of its run of one stream
    safe = np.maximum(at, 0)
    at = np.where((at >= 0) & (own[safe] == stream), first[safe] - 1, at)
    return np.where(at >= 0, records[np.maximum(at, 0)], -1)


UNKNOWN = -1
"""The rank of a peer that is not known."""
TOGETHER_NS = 300_000
"""Ranks that come within this time of each other come together: they run the same code and move as one."""
_NOTABLE = 0.05
"""An arrival within this share of a collective is part of it: this rank itself had to get ready."""
_HARDLY = 0.1
_FILLS = 0.9
"""A first receive of which this share is the filling of the pipeline is not late."""
_AS_LATE = 0.5


def late_arrivals(arrivals: Arrivals, elapsed: I64, fill: I64) -> Arrivals:
    """Those that a collective of ``elapsed`` ns waited for, beyond the ``fill`` of a pipeline; (count,) each."""
    least = np.maximum(_NOTABLE * elapsed, fill / _FILLS)
    found = arrivals.taken(arrivals.after > least[arrivals.owner])
    return Arrivals(found.count, found.owner, found.rank, np.minimum(found.after, elapsed[found.owner]))


def late_ranks(arrivals: Arrivals) -> frozenset[int]:
    """The fewest ranks without which hardly anything is left of the waiting, and all who are as late as they are."""
    late: set[int] = set()
    waited = left = int(arrivals.latest().sum())
    while left > _HARDLY * waited:
        last = arrivals.taken(~arrivals.of(frozenset(late))).last()
        left = int(last.after.sum())
        behind = last.taken(last.after > TOGETHER_NS)
        if not len(behind.rank) or left <= _HARDLY * waited:
            break
        ranks, code = np.unique(behind.rank, return_inverse=True)
        sums = np.zeros(len(ranks), np.int64)
        np.add.at(sums, code, behind.after)
        late.add(int(ranks[np.argmax(sums)]))  # of equals the first, which is the lowest
    if late:
        longest = int(arrivals.after[arrivals.of(frozenset(late))].max())
        # Of many that take turns each one's share is small.
        order = np.lexsort((-np.arange(len(arrivals.rank)), arrivals.after, arrivals.owner))
        last = arrivals.taken(order[np.flatnonzero(np.diff(arrivals.owner[order], append=-1))])
        late |= set(last.rank[(last.after > TOGETHER_NS) & (last.after >= _AS_LATE * longest)].tolist())
    return frozenset(late)


_FEWEST_PASSES = 3


def pipeline_fills(trace: Trace, collectives: Collectives, steps: int) -> dict[int, int]:
    """How long the first receive of each of ``steps`` steps would wait if no stage was slower than this one, ns.

    By slice. Of the wait for the first pass as large a part is the slow stage's as of every later pass, and each stage
    before this one needs no more than a pass. Only where every step receives as often from the same rank.
    """
    rows: dict[tuple[int, int, int], list[Collective]] = {}
    receives = np.array([_receives(kind) for kind in collectives.types], np.bool_)[collectives.type]
    chosen = np.flatnonzero(
        receives & collectives.has_arrivals & collectives.waits.known & (collectives.waits.peer >= 0)
    )
    kinds = collectives.type[chosen].tolist()
    for each, kind in zip(collectives.at(chosen), kinds, strict=True):
        rows.setdefault((int(trace.slices.lane[each.item]), kind, each.peer or 0), []).append(each)
    found: dict[int, int] = {}
    for (_, _, peer), own in rows.items():
        if not steps or len(own) % steps or len(own) < _FEWEST_PASSES * steps:
            continue
        waits = np.array([max((after for _, after in each.arrivals or []), default=0) for each in own], np.float64)
        waits = waits.reshape(steps, -1)
        start = trace.slices.start[[each.item for each in own]].reshape(steps, -1)
        interval, waited = float(np.median(np.diff(start[:, 1:]))), float(np.median(waits[:, 1:]))
        work = max(interval - waited, 0.0)
        left = np.minimum(waits[:, 0] * work / max(interval, 1.0), (peer + 1) * work)
        firsts = own[:: len(own) // steps]
        found |= {each.item: round(rest) for each, rest in zip(firsts, left.tolist(), strict=True)}
    return found


def fill_of(fills: Mapping[int, int], items: I64) -> I64:
    """What ``pipeline_fills`` has for each of ``items``, 0 for most; (n,)."""
    if not fills:
        return np.zeros(len(items), np.int64)
    return np.array([fills.get(item, 0) for item in items.tolist()], np.int64)


def _receives(kind: str) -> bool:
    return "receive" in kind.lower() or "recv" in kind.lower()


_LONGER = 3.0
_SIBLINGS = 3
_LEAST_NS = 1_000_000
_STEADY = 0.3
"""A lateness that varies by less than this share of how the work before varies does not depend on it."""
_SLOWEST = 2.0
"""Bytes per ns that any link between ranks of a job moves: what takes longer than that waited."""


class Meeting(Struct, frozen=True, gc=False):
    """One collective: ``task`` of the device's tasks, ``item`` its slice, ``previous`` the meeting before in its group.

    ``late`` are the late ranks of the run as (rank of the group, ns after this rank), UNKNOWN where only the length
    tells that it waited. ``others`` is when the last of all other peers had come, ns after this rank: they run the same
    code and move with this rank. ``transfer`` is the time from the last arrival to the end, ns, ``peers`` are all ranks
    that are seen. Where the last one is as late however long this rank takes, it does the same work: the meeting is
    ``following`` this rank.
    """

    task: int
    item: int
    previous: int
    late: tuple[tuple[int, int], ...]
    others: int
    transfer: int
    peers: frozenset[int] = frozenset()
    following: bool = False

    def wait(self, in_time: frozenset[int] = frozenset()) -> int:
        """How long this rank waits for late ranks, without those ``in_time``, ns; 0 where it does not."""
        last = max((after for rank, after in self.late if rank not in in_time), default=0)
        return last if last > self.others else 0


def meetings(trace: Trace, collectives: Collectives, tasks: DeviceTasks, steps: int = 0) -> tuple[Meeting, ...]:
    """The meetings of the device's ``tasks`` by start; ``steps`` is how many steps the run has."""
    guessed = unknown_waits(trace, collectives)
    fills = pipeline_fills(trace, collectives, steps)
    chosen = np.flatnonzero(tasks.kind == COLLECTIVE)
    seen, elapsed = _seen(collectives, tasks.item[chosen]), tasks.end[chosen] - tasks.start[chosen]
    fill = fill_of(fills, tasks.item[chosen])
    items = tasks.item[chosen].tolist()
    arrivals = _with_guessed(late_arrivals(seen, elapsed, fill), items, guessed)
    late = late_ranks(arrivals)
    previous = previous_same(trace.slices.lane[tasks.item[chosen]])
    before = tasks.start[chosen] - tasks.end[chosen[np.maximum(previous, 0)]]
    follow = _following(seen.taken(previous[seen.owner] >= 0), before, late)
    is_late = arrivals.of(late)
    behind: dict[int, list[tuple[int, int]]] = {}
    own = arrivals.taken(is_late)
    for owner, rank, after in zip(own.owner.tolist(), own.rank.tolist(), own.after.tolist(), strict=True):
        behind.setdefault(owner, []).append((rank, after))
    others = arrivals.taken(~is_late).latest()
    columns = chosen, previous, others, fill, elapsed - arrivals.latest()
    return tuple(
        Meeting(
            task,
            item,
            before_it,
            tuple(waited),
            max(other, filling) if waited else other,
            transfer,
            peers,
            bool(waited) and max(waited, key=lambda one: one[1])[0] in follow,
        )
        for item, peers, waited, task, before_it, other, filling, transfer in zip(
            items,
            _peers(seen),
            (behind.get(k, ()) for k in range(len(items))),
            *(each.tolist() for each in columns),
            strict=True,
        )
    )


def _seen(collectives: Collectives, items: I64) -> Arrivals:
    """Who came when to each of the slices ``items``."""
    order = np.argsort(items)
    at = np.searchsorted(items, collectives.item, sorter=order)
    row = np.append(order, -1)[at]
    row[np.append(items, -1)[row] != collectives.item] = -1
    arrivals = collectives.arrivals
    owner = row[arrivals.owner]
    own = np.argsort(owner, kind="stable")
    own = own[owner[own] >= 0]
    return Arrivals(len(items), owner[own], arrivals.rank[own], arrivals.after[own])


def _peers(seen: Arrivals) -> list[frozenset[int]]:
    """The ranks that come to each collective; those of a group are the same again and again."""
    known: dict[bytes, frozenset[int]] = {}
    bounds = np.searchsorted(seen.owner, np.arange(seen.count + 1)).tolist()
    rows = [seen.rank[low:high] for low, high in pairwise(bounds)]
    keys = [row.tobytes() for row in rows]
    for key, row in zip(keys, rows, strict=True):
        if key not in known:
            known[key] = frozenset(row.tolist())
    return [known[key] for key in keys]


def _with_guessed(arrivals: Arrivals, items: Sequence[int], guessed: Mapping[int, int]) -> Arrivals:
    """``arrivals``, for the slices that are ``guessed`` to have waited one of an unknown rank instead."""
    own = np.array([k for k, item in enumerate(items) if item in guessed], np.int64)
    if not len(own):
        return arrivals
    kept = arrivals.taken(~np.isin(arrivals.owner, own))
    owner = np.concatenate((kept.owner, own))
    rank = np.concatenate((kept.rank, np.full(len(own), UNKNOWN)))
    after = np.concatenate((kept.after, np.array([guessed[items[k]] for k in own.tolist()], np.int64)))
    return Arrivals(arrivals.count, owner, rank, after).taken(np.argsort(owner, kind="stable"))


def _following(arrivals: Arrivals, before: I64, late: frozenset[int]) -> set[int]:
    """Those of the ``late`` ranks that come as late to every collective, whatever this rank had to do ``before`` it."""
    found = set()
    for rank in late - {UNKNOWN}:
        own = arrivals.taken(arrivals.rank == rank)
        lateness = own.after
        if len(lateness) < _SIBLINGS or lateness.min() < _AS_LATE * float(np.median(lateness)):
            continue
        if float(np.std(lateness)) < _STEADY * float(np.std(before[own.owner])):
            found.add(rank)
    return found


def unknown_waits(trace: Trace, collectives: Collectives) -> dict[int, int]:
    """How long collectives of unknown arrivals waited, ns by slice: what they took beyond their siblings.

    Siblings are the others of the same type and lane; where their sizes are known a collective is held against the best
    rate of them, else against their median length, and against a slow link, as all of them may have waited. Only what
    takes three times as long, and a millisecond, counts.
    """
    found: dict[int, int] = {}
    chosen = np.flatnonzero(~collectives.has_arrivals)
    item = collectives.item[chosen]
    kind = trace.slices.lane[item].astype(np.int64) * max(len(collectives.types), 1) + collectives.type[chosen]
    lengths, sizes = collectives.elapsed[chosen], np.maximum(collectives.size[chosen], 0)
    for own in in_groups(kind):
        elapsed, size = lengths[own].astype(np.float64), sizes[own].astype(np.float64)
        if len(own) < _SIBLINGS:
            expected = elapsed.copy()
        elif (size > 0).all():
            expected = np.maximum(size * float(np.min(elapsed / size)), float(elapsed.min()))
        else:
            expected = np.full(len(own), float(np.median(elapsed)))
        expected = np.where(size > 0, np.minimum(expected, size / _SLOWEST), expected)
        beyond = elapsed - expected
        waited = (lengths[own] >= _LONGER * expected) & (beyond >= _LEAST_NS)
        rows = zip(item[own[waited]].tolist(), beyond[waited].tolist(), strict=True)
        found |= {each: round(more) for each, more in rows}
    return found
