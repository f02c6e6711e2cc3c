"""The host in the replay of a run: threads, what each launch waits for, and pauses nobody recorded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.calls import BLOCKING_OPERATIONS, is_blocking_call
from npu_tui.analysis.device import named_on
from npu_tui.analysis.launches import dequeue_slices, enqueue_of, enqueue_slices
from npu_tui.trace.arrays import BySlice, previous_same
from npu_tui.trace.model import Trace
from npu_tui.trace.once import of_trace

I64 = npt.NDArray[np.int64]

_NONE = np.zeros(0, np.int64)


class Silence:
    """When threads of Python begin or end anything."""

    def __init__(self, trace: Trace, number: I64) -> None:
        """Of the threads that ``number`` numbers by lane."""
        self._slices = trace.slices
        # The slices of a lane stand together: no mask over all slices is needed.
        self._parts: dict[int, list[slice]] = {}
        for lane in trace.lanes:
            if trace.layers[lane.layer].kind in ("python", "other") and lane.first < lane.last:
                self._parts.setdefault(int(number[lane.index]), []).append(slice(lane.first, lane.last))
        self._known: dict[int, tuple[I64, I64]] = {}

    def _edges_of(self, thread: int) -> tuple[I64, I64]:
        """Starts and ends of the slices of a thread, each sorted: nobody needs them mixed."""
        if thread not in self._known:
            parts = self._parts.get(thread, [])
            begun, ended = ([times[part] for part in parts] for times in (self._slices.start, self._slices.end))
            # Calls end nearly in the order in which they begin: a stable sort, which merges runs, is many times faster.
            ended = [np.sort(times, kind="stable") for times in ended]
            self._known[thread] = _merged(begun), _merged(ended)
        return self._known[thread]

    def edges(self, thread: I64, low: I64, high: I64) -> I64:
        """How many slices of each ``thread`` begin or end in ``(low, high)``; (n,)."""
        found = np.zeros(len(low), np.int64)
        for number in np.unique(thread).tolist():
            own = np.flatnonzero(thread == number)
            for known in self._edges_of(number):
                found[own] += np.searchsorted(known, high[own], "left") - np.searchsorted(known, low[own], "right")
        return found

    def last_edge(self, thread: I64, time: I64) -> I64:
        """The last beginning or end on each ``thread`` before ``time``, -1 without one; (n,)."""
        last = np.full(len(time), -1, np.int64)
        for number in np.unique(thread).tolist():
            own = np.flatnonzero(thread == number)
            for known in self._edges_of(number):
                at = np.searchsorted(known, time[own], "left") - 1
                own, at = own[at >= 0], at[at >= 0]
                last[own] = np.maximum(last[own], known[at])
        return last

    def gaps(self, least: int) -> tuple[I64, I64, I64]:
        """Thread, beginning and end of every silence of ``least`` ns or more between two edges; (m,) each."""
        found = [(_NONE, _NONE, _NONE)]
        for number in sorted(self._parts):
            known = np.sort(np.concatenate(self._edges_of(number)))
            long = np.flatnonzero(np.diff(known) >= least)
            found.append((np.full(len(long), number), known[long], known[long + 1]))
        thread, low, high = (np.concatenate(each) for each in zip(*found, strict=True))
        return thread, low, high


def _merged(parts: list[I64]) -> I64:
    """Columns that ascend as one that does."""
    return parts[0] if len(parts) == 1 else np.sort(np.concatenate([*parts, _NONE]), kind="stable")


I8 = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

MARK, ENQUEUE, DEQUEUE, LAUNCH, WAIT_BEGIN, WAIT_END = range(6)

_QUEUE_GAP_NS = 2_000
"""Least pause of the dequeue thread between two entries; a recorded one that is shorter counts as it is."""


class HostPoints(Struct):
    """Points of the host, ns on its clock, by time; (n,) each.

    A point follows ``before`` (-1: none) on its thread or on the one that handed over: the host works from that
    point until ``until``, then needs ``rest`` and may wait. ``time`` is when the point was passed. ``source`` is the
    point that releases it besides (a queue entry its Enqueue, a wait the last entry of the queue; -1: none), after
    ``delay``. ``thread`` numbers ``tids``, and ``item`` is the slice a point stands for.
    """

    time: I64
    kind: I8
    thread: I64
    item: I64
    before: I64
    until: I64
    rest: I64
    source: I64
    delay: I64
    tids: I64

    def __len__(self) -> int:
        return len(self.time)

    def anchor(self, thread: I64, time: I64) -> I64:
        """The last point of ``thread`` at or before each ``time``, -1 without one; (m,)."""
        found = np.full(len(time), -1, np.int64)
        for number in np.unique(thread):
            own, asked = np.flatnonzero(self.thread == number), thread == number
            if not len(own):
                continue
            at = np.searchsorted(self.time[own], time[asked], "right") - 1
            found[asked] = np.where(at >= 0, own[np.maximum(at, 0)], -1)
        return found


def thread_numbers(trace: Trace) -> tuple[I64, I64]:
    """The thread ids of the host's lanes, and for every lane which of them is its own (-1 for a device's lane)."""
    host = [trace.layers[lane.layer].kind in ("python", "cann", "other") for lane in trace.lanes]
    tid = np.array([lane.tid for lane in trace.lanes] + [0], np.int64)
    own = np.array([*host, False])
    tids = np.unique(tid[own])
    number = np.where(own, np.searchsorted(tids, tid), -1)
    return tids, number.astype(np.int64)


@of_trace
def waits_of(trace: Trace) -> I64:
    """The slices in which the host waits for the device, none inside another, by thread and start.

    Calls of CANN count; an operation of the framework does where no such call is recorded inside it.
    """
    slices = trace.slices
    calls = named_on(trace, ("cann",), is_blocking_call)
    named = named_on(trace, ("python", "other"), BLOCKING_OPERATIONS.__contains__)
    _, number = thread_numbers(trace)
    items = np.concatenate((calls, named))
    if not len(items):
        return items
    is_call = np.repeat([True, False], [len(calls), len(named)])
    thread = number[slices.lane[items]]
    order = np.lexsort((-slices.end[items], slices.start[items], thread))
    items, is_call, thread = items[order], is_call[order], thread[order]
    kept: list[int] = []
    open_operation: int | None = None
    reach, last_thread = -1, -1
    columns = items, is_call, thread, slices.start[items], slices.end[items]
    for item, call, own, start, end in zip(*(each.tolist() for each in columns), strict=True):
        inside = own == last_thread and start < reach
        if not inside:
            if open_operation is not None:
                kept.append(open_operation)
            open_operation, reach, last_thread = (None, end, own) if call else (item, end, own)
            if call:
                kept.append(item)
        elif call:
            kept.append(item)
            open_operation = None
    if open_operation is not None:
        kept.append(open_operation)
    return np.array(kept, np.int64)


def host_points(
    trace: Trace,
    steps: I64,
    launch_time: I64,
    launch_lane: I64,
    woken: tuple[I64, I64] = (_NONE, _NONE),
) -> HostPoints:
    """The points of the host: ends of Enqueue, starts of Dequeue, waits, steps, and launches made without a queue.

    ``steps`` are the slices of the steps; ``launch_time`` and ``launch_lane`` tell where launches were made, ``woken``
    which threads stopped waiting when, where no slice tells.
    """
    slices = trace.slices
    tids, number = thread_numbers(trace)
    enqueues, dequeues = enqueue_slices(trace), dequeue_slices(trace)
    waits = waits_of(trace)
    queue_threads = np.unique(number[np.flatnonzero(np.bincount(slices.lane[dequeues]))])
    serves = np.zeros(len(tids) + 1, np.bool_)  # the last one is no thread of the host
    serves[queue_threads] = True
    direct = ~serves[number[launch_lane]] & (number[launch_lane] >= 0)
    parts = (
        (ENQUEUE, enqueues, slices.end[enqueues], slices.start[enqueues]),
        (DEQUEUE, dequeues, slices.start[dequeues], slices.start[dequeues]),
        (WAIT_BEGIN, waits, slices.start[waits], slices.start[waits]),
        (WAIT_END, waits, slices.end[waits], slices.start[waits]),
        (MARK, steps, slices.start[steps], slices.start[steps]),
        (MARK, steps, slices.end[steps], slices.end[steps]),
    )
    made, count = int(direct.sum()), len(woken[1])
    counts = [len(items) for _, items, _, _ in parts] + [made, count]
    kind = np.repeat(np.array([*(code for code, _, _, _ in parts), LAUNCH, MARK], np.int8), counts)
    item = np.concatenate([items for _, items, _, _ in parts] + [np.full(made + count, -1)])
    time = np.concatenate([each for _, _, each, _ in parts] + [launch_time[direct], woken[1]])
    begin = np.concatenate([each for _, _, _, each in parts] + [launch_time[direct], woken[1]])
    lane = np.concatenate([slices.lane[items] for _, items, _, _ in parts] + [launch_lane[direct]]).astype(np.int64)
    thread = np.concatenate((number[lane], woken[0]))
    order = np.lexsort((kind, time))
    kind, item, time, begin, thread = kind[order], item[order], time[order], begin[order], thread[order]
    count = len(time)
    points = HostPoints(
        time,
        kind,
        thread,
        item,
        np.full(count, -1, np.int64),
        time.copy(),
        np.zeros(count, np.int64),
        np.full(count, -1, np.int64),
        np.zeros(count, np.int64),
        tids,
    )
    silent = Silence(trace, number)
    _order_of_program(points, begin, serves[thread], silent)
    _queue_entries(trace, points)
    _waits(trace, points, silent)
    return points


def _order_of_program(points: HostPoints, begin: I64, queued: Bools, silent: Silence) -> None:
    """Which point each follows: the one before on its thread, or one of another thread it had waited for.

    A thread that neither begins nor ends anything while another passes points is taken to wait for it, as the main
    thread does during ``loss.backward()``.
    """
    for number in np.unique(points.thread[queued]):
        own = np.flatnonzero(queued & (points.thread == number))
        points.before[own[1:]] = own[:-1]
    front = np.flatnonzero(~queued)
    if not len(front):
        return
    thread = points.thread[front]
    # The last point of the own thread before each, by position among the front ones.
    previous = previous_same(thread)
    position = np.arange(len(front))
    # The last point that was passed before this one's own beginning: a wait that spans others does not follow them.
    latest = np.minimum(np.searchsorted(points.time[front], begin[front], "right") - 1, position - 1)
    follows = previous.copy()
    foreign = np.flatnonzero((latest > previous) & (thread[np.maximum(latest, 0)] != thread))
    if len(foreign):
        first = previous[foreign] + 1
        low, high = begin[front[first]], points.time[front[latest[foreign]]]
        quiet = silent.edges(thread[foreign], low, high) == 0
        quiet |= previous[foreign] < 0
        follows[foreign[quiet]] = latest[foreign[quiet]]
    points.before[front] = np.where(follows >= 0, front[np.maximum(follows, 0)], -1)


def _queue_entries(trace: Trace, points: HostPoints) -> None:
    """Dequeue starts: after the entry before them and after their own Enqueue."""
    slices = trace.slices
    own = np.flatnonzero(points.kind == DEQUEUE)
    if not len(own):
        return
    enqueued = np.flatnonzero(points.kind == ENQUEUE)
    source = BySlice(points.item[enqueued], enqueued).of(enqueue_of(trace, points.item[own]))
    # The thread is busy with the entry before until that one ends.
    by_thread = own[np.lexsort((points.time[own], points.thread[own]))]
    busy_until = np.full(len(points), -1, np.int64)
    pairs = points.thread[by_thread[1:]] == points.thread[by_thread[:-1]]
    busy_until[by_thread[1:][pairs]] = slices.end[points.item[by_thread[:-1][pairs]]]
    start, before = points.time[own], points.before[own]
    free = np.where(busy_until[own] >= 0, np.minimum(busy_until[own], start), start)
    free = np.maximum(free, np.where(before >= 0, points.time[np.maximum(before, 0)], free))
    released = source >= 0
    points.until[own] = np.where(released, free, start)
    points.rest[own] = np.where(released, np.minimum(start - free, _QUEUE_GAP_NS), 0)
    entered = np.where(released, points.time[np.maximum(source, 0)], 0)
    busy = (busy_until[own] >= 0) | (before >= 0)
    waited = released & (start - free > _QUEUE_GAP_NS)
    latency = np.where(waited, start - np.maximum(entered, 0), 0)
    usual = int(np.median(latency[waited & (free <= entered)])) if (waited & (free <= entered)).any() else 0
    # Where the entry waited for the thread, its own way through the queue is taken to be the usual one.
    points.source[own] = source
    behind = released & busy & (free > entered)
    points.delay[own] = np.where(behind, np.minimum(usual, start - entered), start - entered)
    late = behind & (start - free > _QUEUE_GAP_NS)
    points.rest[own[late]] = (start - free)[late]


def _waits(trace: Trace, points: HostPoints, silent: Silence) -> None:
    """Waits: their beginning after the queue has run empty, their end once the call itself is over."""
    slices = trace.slices
    begins, ends = np.flatnonzero(points.kind == WAIT_BEGIN), np.flatnonzero(points.kind == WAIT_END)
    if not len(begins):
        return
    points.until[ends] = slices.end[points.item[ends]]
    entries = np.flatnonzero(points.kind == DEQUEUE)
    in_queue = np.isin(points.thread[begins], np.unique(points.thread[entries]))
    begins = begins[~in_queue]
    if not len(entries) or not len(begins):
        return
    # The last entry put into the queue before the wait begins.
    entered = np.where(points.source[entries] >= 0, points.time[np.maximum(points.source[entries], 0)], 2**61)
    order = np.argsort(entered, kind="stable")
    at = np.searchsorted(entered[order], points.time[begins], "right") - 1
    known = at >= 0
    begins, at = begins[known], at[known]
    reach = np.maximum.accumulate(slices.end[points.item[entries[order]]])
    last = order[at]
    emptied = reach[at]
    start = points.time[begins]
    fits = emptied <= start
    begins, last, emptied, start = begins[fits], last[fits], emptied[fits], start[fits]
    entry = entries[last]
    before = points.before[begins]
    floor = np.where(before >= 0, points.time[np.maximum(before, 0)], start)
    active = np.maximum(silent.last_edge(points.thread[begins], start), floor)
    waited = emptied > active
    points.source[begins] = entry
    points.delay[begins] = np.where(waited, start - emptied, 0)
    points.until[begins] = np.where(waited, active, start)
    points.rest[begins] = np.where(waited, np.minimum(start - emptied, start - active), 0)
