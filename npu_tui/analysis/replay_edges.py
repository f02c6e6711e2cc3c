"""What must come before what: the edges of the model, with the time each needed as the trace recorded it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.replay_device import AWAIT, KERNEL, RECORD, DeviceTasks, Meeting
from npu_tui.analysis.replay_host import WAIT_BEGIN, WAIT_END, HostPoints

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEVER = -(2**61)
"""A time that holds nothing up."""

_WAKE_NS = 200_000
"""Longest time after the device is done in which a wait of the host for it ends."""
_CALL_NS = 15_000
"""How long a call that waits takes at least where there is nothing to wait for."""
_STAGED_NS = 100_000
"""A task of an idle stream that starts later than this after its launch waited for the host to stage its data."""
_PAUSE_NS = 1_000_000
"""A longer pause in front of a task whose launch is not known is no pause of its stream."""


class Work(Struct, frozen=True):
    """The edges ``edge`` that have work of a host thread, ``[low, high)`` of the one with number ``thread``; (n,)."""

    edge: I64
    low: I64
    high: I64
    thread: I64


class Owned(Struct, frozen=True):
    """The edges ``edge`` that belong to something, and the number of it; (n,) each."""

    edge: I64
    number: I64


class Edges(Struct):
    """What must come before: ``target`` is passed at the earliest ``fixed`` ns after ``source``, besides what follows.

    Besides, that is the ``work`` of host threads and the length of the device's ``task``. An edge of ``wait`` (a slice)
    is what a wait of the host stands for, one of ``meeting`` the peers of a collective; ``call`` is the slice of a
    wait, or the record of an event, that takes ``fixed`` itself. Few edges have each of these.
    """

    source: I32
    target: I32
    fixed: I64
    work: Work
    task: Owned
    wait: Owned
    meeting: Owned
    call: Owned

    def __len__(self) -> int:
        return len(self.source)


class Builder:
    """Collects edges as blocks of arrays."""

    def __init__(self) -> None:
        self._count = 0
        self._ends: list[tuple[I32, I32]] = []
        self._fixed: list[I64] = []
        self._work: list[tuple[I64, I64, I64, I64]] = []
        self._owned: dict[str, list[tuple[I64, I64]]] = {name: [] for name in ("task", "wait", "meeting", "call")}

    def add(
        self,
        source: I32,
        target: I32,
        fixed: I64,
        work: tuple[I64, I64, I64] | None = None,
        task: I64 | None = None,
        wait: I64 | None = None,
        meeting: I64 | None = None,
        call: I64 | None = None,
    ) -> None:
        """More edges; see ``Edges``. ``work`` is low, high and thread of each; elsewhere -1 stands for none."""
        self._ends.append((source, target))
        self._fixed.append(fixed)
        if work is not None:
            low, high, thread = work
            own = np.flatnonzero(high > low)
            self._work.append((self._count + own, low[own], high[own], thread[own]))
        for name, number in (("task", task), ("wait", wait), ("meeting", meeting), ("call", call)):
            if number is not None:
                own = np.flatnonzero(number >= 0)
                self._owned[name].append((self._count + own, number[own]))
        self._count += len(source)

    def ends(self) -> tuple[I32, I32]:
        """Source and target of all of them, in the order in which they came; the builder keeps neither."""
        source, target = (np.concatenate(own, dtype=np.int32) for own in zip(*self._ends, strict=True))
        self._ends.clear()
        return source, target

    def edges(self, source: I32, target: I32, place: I64, count: int) -> Edges:
        """``count`` of them from ``source`` to ``target``, each where ``place`` tells: one of ``count`` is left out."""

        def placed(blocks: Sequence[tuple[I64, ...]], columns: int) -> list[I64]:
            none = (np.zeros(0, np.int64),) * columns
            edge, *others = (np.concatenate(own) for own in zip(none, *blocks, strict=True))
            edge = place[edge]
            kept = edge < count
            return [edge, *others] if kept.all() else [edge[kept], *(each[kept] for each in others)]

        fixed = np.empty(count + 1, np.int64)
        low = 0
        for each in self._fixed:
            fixed[place[low : low + len(each)]] = each
            low += len(each)
        owned = {name: Owned(*placed(blocks, 2)) for name, blocks in self._owned.items()}
        return Edges(source, target, fixed[:count], Work(*placed(self._work, 4)), **owned)


def host_edges(builder: Builder, points: HostPoints, node: I32, end: I64) -> None:
    """Program order, and what releases a point besides; ``end`` are the ends of all slices, ns."""
    follows = np.flatnonzero(points.before >= 0)
    before = points.before[follows]
    low, high = points.time[before], np.maximum(points.until[follows], points.time[before])
    waits = (points.kind[follows] == WAIT_BEGIN) | (points.kind[follows] == WAIT_END)
    builder.add(
        node[before],
        node[follows],
        points.rest[follows],
        (low, high, points.thread[follows]),
        call=np.where(waits, points.item[follows], -1),
    )
    first = np.flatnonzero(points.before < 0)
    alone = first[points.source[first] < 0]
    builder.add(np.zeros(len(alone), np.int32), node[alone], points.time[alone])
    released = np.flatnonzero(points.source >= 0)
    source = points.source[released]
    waits = points.kind[released] == WAIT_BEGIN
    # A wait begins after the work of the queue for its last entry.
    low = points.time[source]
    high = np.where(waits, end[points.item[source]], low)
    builder.add(
        node[source],
        node[released],
        points.delay[released],
        (low, high, points.thread[source]),
        wait=np.where(waits, points.item[released], -1),
    )


def wait_edges(
    builder: Builder, points: HostPoints, tasks: DeviceTasks, host_node: I32, end_node: I32, floor: int
) -> None:
    """Each wait ends after the last task that had been launched before its end and was done by then."""
    own = np.flatnonzero(points.kind == WAIT_END)
    launched = np.where(tasks.launched >= 0, tasks.launched, tasks.start - floor)
    if not len(own) or not len(tasks):
        return
    done = tasks.end - floor
    begins = np.flatnonzero(points.kind == WAIT_BEGIN)
    begun_at = np.zeros(int(points.item.max()) + 1, np.int64)
    begun_at[points.item[begins]] = points.time[begins]
    until, begun = points.time[own], begun_at[points.item[own]]
    found = np.full(len(own), -1, np.int64)
    for stream in np.unique(tasks.stream):
        of_stream = np.flatnonzero(tasks.stream == stream)
        made = np.maximum.accumulate(launched[of_stream])
        at = np.searchsorted(made, until, "left") - 1
        # What was launched last may have been launched after the wait began, by another thread: step back to what fits.
        for _ in range(4):
            late = (at >= 0) & (done[of_stream[np.maximum(at, 0)]] > until)
            if not late.any():
                break
            at = np.where(late, at - 1, at)
        candidate = np.where(at >= 0, of_stream[np.maximum(at, 0)], -1)
        fits = (candidate >= 0) & (done[np.maximum(candidate, 0)] <= until)
        better = fits & ((found < 0) | (done[np.maximum(candidate, 0)] > done[np.maximum(found, 0)]))
        found = np.where(better, candidate, found)
    known = found >= 0
    own, found, until, begun = own[known], found[known], until[known], begun[known]
    after = until - done[found]
    real = (done[found] > begun) & (after <= np.maximum(_WAKE_NS, (until - begun) // 4))
    usual = int(np.median(after[real])) if real.any() else 0
    # A wait that found the device done would still have waited for it, had the host come earlier.
    idle = (done[found] <= begun) & (after >= 0)
    chosen = real | idle
    lag = np.where(real, after, np.minimum(after, usual))
    kernel = tasks.kind[found] == KERNEL
    builder.add(
        end_node[found[chosen]],
        host_node[own[chosen]],
        lag[chosen],
        task=np.where(kernel, found, -1)[chosen],
        wait=points.item[own[chosen]],
    )
    # Where the device was not done, the call itself takes what it took after that; a call that nothing explains keeps
    # its length.
    points.until[own[real]] = begun[real]
    points.rest[own[real]] = np.minimum((until - begun)[real], np.maximum(after[real], _CALL_NS))


def device_edges(
    builder: Builder,
    points: HostPoints,
    tasks: DeviceTasks,
    host_node: I32,
    start_node: I32,
    end_node: I32,
    floor: int,
    thread_of: I64,
) -> None:
    """Launches, the order of streams, events."""
    known = np.flatnonzero((tasks.launched >= 0) & (tasks.lane >= 0))
    thread = thread_of[tasks.lane[known]]
    anchor = points.anchor(thread, tasks.launched[known])
    held = anchor >= 0
    known, thread, anchor = known[held], thread[held], anchor[held]
    start = np.where(tasks.kind[known] == RECORD, tasks.end[known], tasks.start[known]) - floor
    previous = tasks.previous[known]
    ready = np.where(previous >= 0, tasks.end[np.maximum(previous, 0)] - floor, NEVER)
    arrival = tasks.launched[known]
    bound = ready < arrival
    late = bound & (start - arrival > _STAGED_NS)
    inner = np.full(len(known), -1, np.int64)
    inner[late] = tasks.within_launch(known[late])
    # A copy out of pageable memory starts when its bytes have been staged: until then the host works.
    arrival = np.where(late & (inner < 0), start, arrival)
    latency = np.where(bound & (inner < 0), start - arrival, np.minimum(0, start - arrival))
    forked = inner >= 0
    before = inner[forked]
    builder.add(
        end_node[before],
        start_node[known[forked]],
        start[forked] + floor - tasks.end[before],
        task=np.where(tasks.kind[before] == KERNEL, before, -1),
        call=_of_event(tasks, known[forked]),
    )
    builder.add(
        host_node[anchor],
        start_node[known],
        latency,
        (points.time[anchor], arrival, thread),
        call=_of_event(tasks, known),
    )
    launch_bound = np.zeros(len(tasks), np.bool_)
    launch_bound[known[bound]] = True
    launched = np.zeros(len(tasks), np.bool_)
    launched[known] = True
    follows = np.flatnonzero(tasks.previous >= 0)
    before = tasks.previous[follows]
    gap = tasks.start[follows] - tasks.end[before]
    queued = ~launch_bound[follows] & (gap >= 0) & (gap < _PAUSE_NS) & (tasks.kind[follows] == KERNEL)
    usual = int(np.median(gap[queued])) if queued.any() else 0
    gap = np.where(launch_bound[follows], np.minimum(gap, usual), gap)
    apart = ~launched[follows] & (gap >= _PAUSE_NS)
    near, far = follows[~apart], np.concatenate((follows[apart], np.flatnonzero((tasks.previous < 0) & ~launched)))
    before, gap = tasks.previous[near], gap[~apart]
    ends = tasks.kind[near] == AWAIT
    ends |= tasks.kind[near] == RECORD
    length = np.where(ends, np.minimum(tasks.end[near] - tasks.start[near], 1_000), 0)
    length = np.where(tasks.kind[near] == RECORD, tasks.end[near] - tasks.start[near], length)
    # A wait for an event that cannot be told lasts as long as it did.
    unknown = (tasks.kind[near] == AWAIT) & (tasks.event[near] < 0)
    length = np.where(unknown, tasks.end[near] - tasks.start[near], length)
    kernel = tasks.kind[before] == KERNEL
    builder.add(
        end_node[before],
        start_node[near],
        gap + length,
        task=np.where(kernel, before, -1),
        call=np.where(unknown, tasks.item[near], _of_event(tasks, near)),
    )
    _apart(builder, tasks, far, launched, start_node, floor)
    waits = np.flatnonzero((tasks.kind == AWAIT) & (tasks.event >= 0))
    fired = tasks.event[waits]
    lasted = tasks.end[waits] - tasks.start[waits] > 1_000
    after = tasks.end[waits] - tasks.end[fired]
    builder.add(end_node[fired], end_node[waits], np.where(lasted, after, np.minimum(after, 0)), wait=tasks.item[waits])


def _of_event(tasks: DeviceTasks, chosen: I64) -> I64:
    """The slices of those of ``chosen`` that record an event, -1 for others; (m,)."""
    return np.where(tasks.kind[chosen] == RECORD, tasks.item[chosen], -1)


def _apart(builder: Builder, tasks: DeviceTasks, far: I64, launched: Bools, start_node: I32, floor: int) -> None:
    """Tasks of unknown launch: as far after the last launched task on any stream as they were."""
    if not len(far):
        return
    known = np.flatnonzero(launched)
    at = np.searchsorted(known, far) - 1
    some = at >= 0
    builder.add(
        start_node[known[at[some]]],
        start_node[far[some]],
        tasks.start[far[some]] - tasks.start[known[at[some]]],
    )
    alone = far[~some]
    builder.add(np.zeros(len(alone), np.int32), start_node[alone], tasks.start[alone] - floor)


def meeting_edges(builder: Builder, met: Sequence[Meeting], tasks: DeviceTasks, start_node: I32, end_node: I32) -> None:
    """A collective ends its transfer after its own start, and after the last peer has come.

    Peers leave the collective before with this rank, so that their arrivals move with its end; those that follow this
    rank move with its start.
    """
    if not met:
        return
    task = np.array([each.task for each in met], np.int64)
    builder.add(start_node[task], end_node[task], np.zeros(len(task), np.int64), task=task)
    previous = np.array([each.previous for each in met], np.int64)
    source = np.where(previous >= 0, end_node[task[np.maximum(previous, 0)]], 0)
    source = np.where([each.following for each in met], start_node[task], source)
    builder.add(source, end_node[task], np.zeros(len(task), np.int64), task=task, meeting=np.arange(len(met)))
