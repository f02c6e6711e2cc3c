"""The host side of the replay's model: points on threads, what each of them waits for, and silences of threads."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.calls import BLOCKING_OPERATIONS, SIZED_OPERATIONS, blocking_calls
from npu_tui.analysis.device import HOST, named_on
from npu_tui.analysis.launches import dequeue_slices, enqueue_of, enqueue_slices
from npu_tui.analysis.limits import AWAKE_NS
from npu_tui.native.spans import count_until
from npu_tui.trace.arrays import I8, I64, Bools, BySlice, numbers_in, previous_same
from npu_tui.trace.model import Trace
from npu_tui.trace.once import of_trace

_NONE = np.zeros(0, np.int64)


class Silence:
    """When threads of Python begin or end slices, and how long they are silent in between."""

    def __init__(self, trace: Trace, number: I64) -> None:
        """``number`` is the thread number of each lane."""
        self._slices = trace.slices
        # The slices of a lane are consecutive: views, no mask over all slices.
        self._parts: dict[int, list[slice]] = {}
        for lane in trace.lanes:
            if trace.layers[lane.layer].kind in ("python", "other") and lane.first < lane.last:
                self._parts.setdefault(int(number[lane.index]), []).append(slice(lane.first, lane.last))
        self._known: dict[int, tuple[I64, I64]] = {}

    def _edges_of(self, thread: int) -> tuple[I64, I64]:
        """Starts and ends of the slices of a thread, both sorted, ns."""
        if thread not in self._known:
            parts = self._parts.get(thread, [])
            starts, ends = ([times[part] for part in parts] for times in (self._slices.start, self._slices.end))
            # Ends are nearly sorted already; a stable sort merges sorted runs, which is many times faster.
            ends = [np.sort(times, kind="stable") for times in ends]
            self._known[thread] = _merged_columns(starts), _merged_columns(ends)
        return self._known[thread]

    def edges(self, thread: I64, low: I64, high: I64) -> I64:
        """How many slices of each ``thread`` begin or end in ``(low, high)``; (n,)."""
        counts = np.zeros(len(low), np.int64)
        for number in np.unique(thread).tolist():
            queries = np.flatnonzero(thread == number)
            for times in self._edges_of(number):
                counts[queries] += np.searchsorted(times, high[queries], "left") - np.searchsorted(
                    times, low[queries], "right"
                )
        return counts

    def last_edge(self, thread: I64, time: I64) -> I64:
        """The last start or end of a slice on each ``thread`` before ``time``, -1 without one; (n,) ns."""
        last = np.full(len(time), -1, np.int64)
        for number in np.unique(thread).tolist():
            queries = np.flatnonzero(thread == number)
            for times in self._edges_of(number):
                at = np.searchsorted(times, time[queries], "left") - 1
                queries, at = queries[at >= 0], at[at >= 0]
                last[queries] = np.maximum(last[queries], times[at])
        return last

    def next_edge(self, thread: I64, time: I64) -> I64:
        """The first start or end of a slice on each ``thread`` after ``time``, a far future without one; (n,) ns."""
        following = np.full(len(time), 2**61, np.int64)
        for number in np.unique(thread).tolist():
            queries = np.flatnonzero(thread == number)
            for times in self._edges_of(number):
                at = np.searchsorted(times, time[queries], "right")
                known = at < len(times)
                following[queries[known]] = np.minimum(following[queries[known]], times[at[known]])
        return following

    def gaps(self, least: int, thread: I64, time: I64) -> tuple[I64, I64, I64]:
        """Thread, start and end of every silence of ``least`` ns or more between two edges; (m,) each.

        What happens on each ``thread`` at ``time`` (ns) is an edge too.
        """
        parts = [(_NONE, _NONE, _NONE)]
        for number in sorted(self._parts):
            times = np.sort(np.concatenate((*self._edges_of(number), time[thread == number])))
            silent = np.flatnonzero(np.diff(times) >= least)
            parts.append((np.full(len(silent), number), times[silent], times[silent + 1]))
        silent_thread, low, high = (np.concatenate(column) for column in zip(*parts, strict=True))
        return silent_thread, low, high


def _merged_columns(parts: list[I64]) -> I64:
    """Sorted columns merged into one."""
    return parts[0] if len(parts) == 1 else np.sort(np.concatenate([*parts, _NONE]), kind="stable")


MARK, ENQUEUE, DEQUEUE, LAUNCH, WAIT_BEGIN, WAIT_END = range(6)

# The least pause of the queue's thread between two entries; a shorter recorded one counts as it is.
_QUEUE_GAP_NS = 2_000


class HostPoints(Struct):
    """Points of the host, ns on its clock, by time; (n,) each.

    A point follows the point ``before`` (-1: none) on its thread or on the thread that handed over to it: the host
    works from there until ``until``, then may wait, and needs ``rest`` in any case. The work is that of the thread
    ``worker``: the point's own, or the one that handed over to it late. ``time`` is when the point was passed.
    ``source`` (-1: none) is a second point that it needs: its Enqueue for an entry of the queue, its last entry
    for a wait; ``delay`` is the least time after it. ``thread`` and ``worker`` index ``tids``, ``item`` is the slice of
    a point.
    """

    time: I64
    kind: I8
    thread: I64
    worker: I64
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
        points = np.full(len(time), -1, np.int64)
        for number in np.unique(thread):
            of_thread, queries = np.flatnonzero(self.thread == number), thread == number
            if not len(of_thread):
                continue
            at = count_until(self.time[of_thread], time[queries]) - 1
            points[queries] = np.where(at >= 0, of_thread[np.maximum(at, 0)], -1)
        return points


def thread_numbers(trace: Trace) -> tuple[I64, I64]:
    """The thread ids of the host, and for every lane the index of its thread id, -1 for lanes of a device."""
    host = [trace.layers[lane.layer].kind in HOST for lane in trace.lanes]
    tid = np.array([lane.tid for lane in trace.lanes] + [0], np.int64)
    on_host = np.array([*host, False])
    tids = np.unique(tid[on_host])
    number = np.where(on_host, np.searchsorted(tids, tid), -1)
    return tids, number.astype(np.int64)


@of_trace
def waits_of(trace: Trace) -> I64:
    """The slices in which the host waits for the device, none inside another, by thread and start.

    These are blocking CANN calls, and blocking operations of the framework without such a call inside or right after
    them: that call is then the wait.
    """
    slices = trace.slices
    calls = blocking_calls(trace)
    named = named_on(trace, ("python", "other"), BLOCKING_OPERATIONS.__contains__)
    _, number = thread_numbers(trace)
    items = np.concatenate((calls, named))
    if not len(items):
        return items
    is_call = np.repeat([True, False], [len(calls), len(named)])
    thread = number[slices.lane[items]]
    order = np.lexsort((-slices.end[items], slices.start[items], thread))
    items, is_call, thread = items[order], is_call[order], thread[order]
    waits: list[int] = []
    open_operation: int | None = None
    reach, last_thread = -1, -1
    columns = items, is_call, thread, slices.start[items], slices.end[items]
    for item, call, thread_number, start, end in zip(*(column.tolist() for column in columns), strict=True):
        # Sorted by thread and start, with outer slices first: an operation waits for a call inside to replace it.
        inside = thread_number == last_thread and start < reach
        if not inside:
            follows = call and thread_number == last_thread and start - reach <= AWAKE_NS
            if open_operation is not None and not follows:
                waits.append(open_operation)
            open_operation, reach, last_thread = (None, end, thread_number) if call else (item, end, thread_number)
            if call:
                waits.append(item)
        elif call:
            waits.append(item)
            open_operation = None
    if open_operation is not None:
        waits.append(open_operation)
    return np.array(waits, np.int64)


def sized_before(trace: Trace, calls: I64) -> I64:
    """The operation that ended right before each of ``calls``, which read the size of its result; -1: none; (n,)."""
    slices, number = trace.slices, thread_numbers(trace)[1]
    operations = named_on(trace, ("python", "other"), SIZED_OPERATIONS.__contains__)
    thread = number[slices.lane[operations]]
    before = np.full(len(calls), -1, np.int64)
    for one in numbers_in(thread):
        own, mine = operations[thread == one], np.flatnonzero(number[slices.lane[calls]] == one)
        own = own[np.argsort(slices.end[own], kind="stable")]
        start = slices.start[calls[mine]]
        at = np.searchsorted(slices.end[own], start, "right") - 1
        near = (at >= 0) & (start - slices.end[own[np.maximum(at, 0)]] <= AWAKE_NS)
        before[mine[near]] = own[at[near]]
    return before


def host_points(
    trace: Trace, steps: I64, launch_time: I64, launch_lane: I64, woken: tuple[I64, I64] = (_NONE, _NONE)
) -> HostPoints:
    """The points of the host: ends of Enqueue, starts of Dequeue, waits, steps, and launches made without a queue.

    ``steps`` are the slices of the steps; ``launch_time`` and ``launch_lane`` are those of all launches; ``woken`` is
    (thread, time) of waits that ended without a slice.
    """
    slices = trace.slices
    tids, number = thread_numbers(trace)
    enqueues, dequeues = enqueue_slices(trace), dequeue_slices(trace)
    waits = waits_of(trace)
    queue_threads = np.unique(number[np.flatnonzero(np.bincount(slices.lane[dequeues]))])
    serves = np.zeros(len(tids) + 1, np.bool_)  # the last entry answers for -1, "not a host thread"
    serves[queue_threads] = True
    # A launch of the queue's thread belongs to its entry; other launches are points of their own.
    direct = ~serves[number[launch_lane]] & (number[launch_lane] >= 0)
    launches = np.stack((launch_time[direct], launch_lane[direct]))
    launches = launches[:, np.lexsort(launches[::-1])]  # np.unique on an axis takes ten times as long
    launches = launches[:, (np.diff(launches, prepend=-1) != 0).any(axis=0)]  # a graph has many tasks
    parts = (
        (ENQUEUE, enqueues, slices.end[enqueues], slices.start[enqueues]),
        (DEQUEUE, dequeues, slices.start[dequeues], slices.start[dequeues]),
        (WAIT_BEGIN, waits, slices.start[waits], slices.start[waits]),
        (WAIT_END, waits, slices.end[waits], slices.start[waits]),
        (MARK, steps, slices.start[steps], slices.start[steps]),
        (MARK, steps, slices.end[steps], slices.end[steps]),
    )
    made, count = launches.shape[1], len(woken[1])
    counts = [len(items) for _, items, _, _ in parts] + [made, count]
    kind = np.repeat(np.array([*(code for code, _, _, _ in parts), LAUNCH, MARK], np.int8), counts)
    item = np.concatenate([items for _, items, _, _ in parts] + [np.full(made + count, -1)])
    time = np.concatenate([times for _, _, times, _ in parts] + [launches[0], woken[1]])
    begin = np.concatenate([times for _, _, _, times in parts] + [launches[0], woken[1]])
    lane = np.concatenate([slices.lane[items] for _, items, _, _ in parts] + [launches[1]]).astype(np.int64)
    thread = np.concatenate((number[lane], woken[0]))
    order = np.lexsort((kind, time))
    kind, item, time, begin, thread = kind[order], item[order], time[order], begin[order], thread[order]
    count = len(time)
    points = HostPoints(
        time,
        kind,
        thread,
        thread.copy(),
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
    _set_waits(trace, points, silent)
    return points


def _order_of_program(points: HostPoints, begin: I64, queued: Bools, silent: Silence) -> None:
    """Set ``before`` of every point: the one before on its thread, or a point of the thread that it waited for.

    A thread that is silent while another one passes points is assumed to wait for it, as the main thread does during
    ``loss.backward()``.
    """
    for number in np.unique(points.thread[queued]):
        of_thread = np.flatnonzero(queued & (points.thread == number))
        points.before[of_thread[1:]] = of_thread[:-1]
    front = np.flatnonzero(~queued)
    if not len(front):
        return
    thread = points.thread[front]
    # The last point of the same thread before each, by position among the points in front of the queue.
    previous = previous_same(thread)
    position = np.arange(len(front))
    # The last point passed before the slice of this one began: a wait does not follow the points that it spans.
    latest = np.minimum(count_until(points.time[front], begin[front]) - 1, position - 1)
    follows = previous.copy()
    foreign = np.flatnonzero((latest > previous) & (thread[np.maximum(latest, 0)] != thread))
    if len(foreign):
        first = previous[foreign] + 1
        low, high = begin[front[first]], points.time[front[latest[foreign]]]
        quiet = silent.edges(thread[foreign], low, high) == 0
        quiet |= previous[foreign] < 0
        follows[foreign[quiet]] = latest[foreign[quiet]]
        handed = front[foreign[quiet]]
        giver = front[latest[foreign[quiet]]]
        # As an example, the main thread sorts for 7 ms, then loss.backward() hands over to the thread of autograd.
        low, high = points.time[giver], points.time[handed]
        taken = silent.next_edge(points.thread[handed], low)
        gave_late = (taken < high) & (taken - low > high - taken)
        points.worker[handed] = np.where(gave_late, points.thread[giver], points.thread[handed])
    points.before[front] = np.where(follows >= 0, front[np.maximum(follows, 0)], -1)


def _queue_entries(trace: Trace, points: HostPoints) -> None:
    """Set what Dequeue starts need: the end of the previous entry, and their Enqueue."""
    slices = trace.slices
    entries = np.flatnonzero(points.kind == DEQUEUE)
    if not len(entries):
        return
    enqueued = np.flatnonzero(points.kind == ENQUEUE)
    source = BySlice(points.item[enqueued], enqueued).of(enqueue_of(trace, points.item[entries]))
    # The thread is busy with the previous entry until that ends.
    by_thread = entries[np.lexsort((points.time[entries], points.thread[entries]))]
    busy_until = np.full(len(points), -1, np.int64)
    pairs = points.thread[by_thread[1:]] == points.thread[by_thread[:-1]]
    busy_until[by_thread[1:][pairs]] = slices.end[points.item[by_thread[:-1][pairs]]]
    start, before = points.time[entries], points.before[entries]
    free = np.where(busy_until[entries] >= 0, np.minimum(busy_until[entries], start), start)
    free = np.maximum(free, np.where(before >= 0, points.time[np.maximum(before, 0)], free))
    released = source >= 0
    points.until[entries] = np.where(released, free, start)
    points.rest[entries] = np.where(released, np.minimum(start - free, _QUEUE_GAP_NS), 0)
    entered = np.where(released, points.time[np.maximum(source, 0)], 0)
    busy = (busy_until[entries] >= 0) | (before >= 0)
    waited = released & (start - free > _QUEUE_GAP_NS)
    latency = np.where(waited, start - np.maximum(entered, 0), 0)
    usual = int(np.median(latency[waited & (free <= entered)])) if (waited & (free <= entered)).any() else 0
    # An entry that waited for the thread does not show its latency through the queue: take the usual one.
    points.source[entries] = source
    behind = released & busy & (free > entered)
    points.delay[entries] = np.where(behind, np.minimum(usual, start - entered), start - entered)
    late = behind & (start - free > _QUEUE_GAP_NS)
    points.rest[entries[late]] = (start - free)[late]


def _set_waits(trace: Trace, points: HostPoints, silent: Silence) -> None:
    """Set what waits need: they begin once the queue is empty, and end when the call is over."""
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
    # The last entry that entered the queue before the wait began.
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
