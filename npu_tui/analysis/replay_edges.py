"""The edges of the replay's model: what must come before what, and how long it took in the recording.

An edge says that its target is passed at the earliest so many ns after its source. Four kinds: the order of host
threads, waits for the device, the order of streams and events, and collectives that wait for peers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.graph import NEVER
from npu_tui.analysis.limits import AWAKE_NS, LONG_NS, SHORT_NS
from npu_tui.analysis.replay_device import AWAIT, KERNEL, RECORD, DeviceTasks, TaskMeetings
from npu_tui.analysis.replay_host import DEQUEUE, MARK, WAIT_BEGIN, WAIT_END, HostPoints
from npu_tui.trace.arrays import I32, I64, Bools

_CALL_NS = 15_000  # the least duration of a blocking call that has nothing to wait for


class ThreadWork(Struct, frozen=True):
    """The edges ``edge`` along which the host thread number ``thread`` works in ``[low, high)`` ns; (n,) each."""

    edge: I64
    low: I64
    high: I64
    thread: I64


class Numbered(Struct, frozen=True):
    """The edges ``edge`` that belong to a task, wait, meeting or call, and its ``number``; (n,) each."""

    edge: I64
    number: I64


class Edges(Struct):
    """Precedence: ``target`` is passed at the earliest ``fixed`` ns plus work and task after ``source``.

    The lag of an edge is ``fixed``, plus the ``work`` of host threads, plus the length of the device's ``task``. An
    edge of ``wait`` exists because the host slice waits for the device, one of ``meeting`` because a collective waits
    for peers. ``call`` is the blocking call (or event record) whose duration is ``fixed``. These are sparse: few edges
    have any of them.
    """

    source: I32
    target: I32
    fixed: I64
    work: ThreadWork
    task: Numbered
    wait: Numbered
    meeting: Numbered
    call: Numbered

    def __len__(self) -> int:
        return len(self.source)


class Builder:
    """Collects edges in blocks of arrays and joins them once."""

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
        """Add a block of edges, see ``Edges``. ``work`` is (low, high, thread); in other columns -1 means none."""
        self._ends.append((source, target))
        self._fixed.append(fixed)
        if work is not None:
            low, high, thread = work
            chosen = np.flatnonzero(high > low)
            self._work.append((self._count + chosen, low[chosen], high[chosen], thread[chosen]))
        for name, number in (("task", task), ("wait", wait), ("meeting", meeting), ("call", call)):
            if number is not None:
                chosen = np.flatnonzero(number >= 0)
                self._owned[name].append((self._count + chosen, number[chosen]))
        self._count += len(source)

    def ends(self) -> tuple[I32, I32]:
        """Sources and targets of all edges, in the order of ``add``. The builder drops them to save memory."""
        source, target = (np.concatenate(parts, dtype=np.int32) for parts in zip(*self._ends, strict=True))
        self._ends.clear()
        return source, target

    def edges(self, source: I32, target: I32, place: I64, count: int) -> Edges:
        """The edges from ``source`` to ``target``; added edge k goes to ``place[k]`` and is left out at ``count``."""

        def placed(blocks: Sequence[tuple[I64, ...]], columns: int) -> list[I64]:
            none = (np.zeros(0, np.int64),) * columns
            edge, *others = (np.concatenate(parts) for parts in zip(none, *blocks, strict=True))
            row = np.full(count + 1, -1, np.int32)
            row[place[edge]] = np.arange(len(edge))
            edge = np.flatnonzero(row[:count] >= 0)  # ascending: a pass over them goes on in memory
            order = row[edge]
            return [edge, *(column[order] for column in others)]

        fixed = np.empty(count + 1, np.int64)
        low = 0
        for block in self._fixed:
            fixed[place[low : low + len(block)]] = block
            low += len(block)
        owned = {name: Numbered(*placed(blocks, 2)) for name, blocks in self._owned.items()}
        return Edges(source, target, fixed[:count], ThreadWork(*placed(self._work, 4)), **owned)


def host_edges(builder: Builder, points: HostPoints, node: I32, end: I64) -> None:
    """Add the program order of the host, and what else releases a point; ``end`` are the ends of all slices, ns."""
    follows = np.flatnonzero(points.before >= 0)
    before = points.before[follows]
    low, high = points.time[before], np.maximum(points.until[follows], points.time[before])
    waits = (points.kind[follows] == WAIT_BEGIN) | (points.kind[follows] == WAIT_END)
    builder.add(
        node[before],
        node[follows],
        points.rest[follows],
        (low, high, points.worker[follows]),
        call=np.where(waits, points.item[follows], -1),
    )
    first = np.flatnonzero(points.before < 0)
    alone = first[points.source[first] < 0]
    builder.add(np.zeros(len(alone), np.int32), node[alone], points.time[alone])
    released = np.flatnonzero(points.source >= 0)
    source = points.source[released]
    waits = points.kind[released] == WAIT_BEGIN
    # A wait begins once the queue has finished its last entry: the thread of the queue works until the entry's end.
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
    """Add what host waits wait for: the last task that was launched before the end of the wait and done by then."""
    wait_ends = np.flatnonzero(points.kind == WAIT_END)
    launched = np.where(tasks.launched >= 0, tasks.launched, tasks.start - floor)
    if not len(wait_ends) or not len(tasks):
        return
    done = tasks.end - floor
    begins = np.flatnonzero(points.kind == WAIT_BEGIN)
    begun_at = np.zeros(int(points.item.max()) + 1, np.int64)
    begun_at[points.item[begins]] = points.time[begins]
    until, begun = points.time[wait_ends], begun_at[points.item[wait_ends]]
    last_task = np.full(len(wait_ends), -1, np.int64)
    for stream in np.unique(tasks.stream):
        of_stream = np.flatnonzero(tasks.stream == stream)
        made = np.maximum.accumulate(launched[of_stream])
        at = np.searchsorted(made, until, "left") - 1
        # Another thread may have launched tasks during the wait: step back to one that was done when it ended.
        for _ in range(4):
            late = (at >= 0) & (done[of_stream[np.maximum(at, 0)]] > until)
            if not late.any():
                break
            at = np.where(late, at - 1, at)
        candidate = np.where(at >= 0, of_stream[np.maximum(at, 0)], -1)
        fits = (candidate >= 0) & (done[np.maximum(candidate, 0)] <= until)
        better = fits & ((last_task < 0) | (done[np.maximum(candidate, 0)] > done[np.maximum(last_task, 0)]))
        last_task = np.where(better, candidate, last_task)
    matched = last_task >= 0
    wait_ends, last_task, until, begun = wait_ends[matched], last_task[matched], until[matched], begun[matched]
    after = until - done[last_task]
    waited = (done[last_task] > begun) & (after <= np.maximum(AWAKE_NS, (until - begun) // 4))
    usual = int(np.median(after[waited])) if waited.any() else 0
    # A wait that found the device idle would still have waited for it, had the host come earlier.
    idle = (done[last_task] <= begun) & (after >= 0)
    chosen = waited | idle
    lag = np.where(waited, after, np.minimum(after, usual))
    kernel = tasks.kind[last_task] == KERNEL
    builder.add(
        end_node[last_task[chosen]],
        host_node[wait_ends[chosen]],
        lag[chosen],
        task=np.where(kernel, last_task, -1)[chosen],
        wait=points.item[wait_ends[chosen]],
    )
    # If the device was busy, the call itself took only the time after the device was done. Other calls keep their
    # length.
    points.until[wait_ends[waited]] = begun[waited]
    before = points.before[wait_ends[waited]]  # such as the end of a step, which may be within the wait
    length = until[waited] - np.maximum(begun[waited], np.where(before >= 0, points.time[before], 0))
    points.rest[wait_ends[waited]] = np.minimum(length, np.maximum(after[waited], _CALL_NS))
    of_wait = wait_ends[waited], last_task[waited], begun[waited]
    _steps_within(builder, points, tasks, host_node, end_node, done, *of_wait)


def _steps_within(
    builder: Builder, points: HostPoints, tasks: DeviceTasks, host_node: I32, end_node: I32, done: I64,
    ends: I64, task: I64, begun: I64,
) -> None:  # fmt: skip
    """Add the steps that end or begin in a wait, ns before its end by rounding: they wait for its ``task`` as well."""
    marks = points.before[ends]
    while len(marks):
        inner = (marks >= 0) & (points.kind[marks] == MARK)
        inner &= (points.time[marks] > begun) & (points.time[marks] >= done[task])
        marks, ends, task, begun = marks[inner], ends[inner], task[inner], begun[inner]
        builder.add(
            end_node[task],
            host_node[marks],
            points.time[marks] - done[task],
            task=np.where(tasks.kind[task] == KERNEL, task, -1),
            wait=points.item[ends],
        )
        points.until[marks], points.rest[marks] = begun, 0
        marks = points.before[marks]


def device_edges(
    builder: Builder,
    points: HostPoints,
    tasks: DeviceTasks,
    host_node: I32,
    start_node: I32,
    end_node: I32,
    floor: int,
    thread_of: I64,
    depends_on: I64,
    called: bool,
    ends: I64,
) -> None:
    """Add launches, the order of streams, events, and the tasks that tasks depend on without a record of it.

    ``called`` is whether the calls of CANN are recorded, ``ends`` are the ends of all slices, ns.
    """
    known = np.flatnonzero((tasks.launched >= 0) & (tasks.lane >= 0))
    thread, launched_at = thread_of[tasks.lane[known]], tasks.launched[known]
    # Where no call shows the launch of an event it is that of a task before it: on an idle stream it came as the event
    # began, unless the thread had launched another task by then. Without calls of CANN the queue came to it later.
    queues = np.unique(points.thread[points.kind == DEQUEUE])
    begun, previous = tasks.start[known] - floor, tasks.previous[known]
    ready = np.where(previous >= 0, tasks.end[np.maximum(previous, 0)] - floor, NEVER)
    guessed = (tasks.kind[known] == RECORD) | (tasks.kind[known] == AWAIT)
    guessed &= begun - np.maximum(ready, launched_at) > SHORT_NS
    if called:
        guessed &= begun <= _next_launches(thread, launched_at)
        thread = np.where(guessed, _made_by(points, thread, begun, ends), thread)
    else:
        guessed &= len(queues) == 1
        thread = np.where(guessed, queues[0] if len(queues) else -1, thread)
    launched_at = np.where(guessed, begun, launched_at)
    anchor = points.anchor(thread, launched_at)
    anchored = anchor >= 0
    known, thread, anchor, arrival = known[anchored], thread[anchored], anchor[anchored], launched_at[anchored]
    start = np.where(tasks.kind[known] == RECORD, tasks.end[known], tasks.start[known]) - floor
    previous = tasks.previous[known]
    ready = np.where(previous >= 0, tasks.end[np.maximum(previous, 0)] - floor, NEVER)
    # The stream was idle when the launch arrived: the launch decided when the task started.
    depends = depends_on >= 0
    bound = (ready < arrival) & ~depends[known]
    late = bound & (start - arrival > SHORT_NS)
    inner = np.full(len(known), -1, np.int64)
    inner[late] = tasks.within_launch(known[late])
    # A copy from pageable memory starts when the host has staged its bytes: the host works until then.
    # One that a blocking call of a GPU's runtime makes starts when the stream comes to it: the host only waits. A host
    # that has gone on to something else meanwhile stages nothing: the stream waits for what is not recorded.
    blocked = (points.kind[anchor] == WAIT_BEGIN) & (points.time[anchor] == arrival)
    blocked |= points.anchor(thread, start - 1) != anchor
    arrival = np.where(late & (inner < 0) & ~blocked, start, arrival)
    latency = np.where(bound & (inner < 0), start - arrival, np.minimum(0, start - arrival))
    forked = inner >= 0
    before = inner[forked]
    builder.add(
        end_node[before],
        start_node[known[forked]],
        start[forked] + floor - tasks.end[before],
        task=np.where(tasks.kind[before] == KERNEL, before, -1),
        call=_recorded_events(tasks, known[forked]),
    )
    builder.add(
        host_node[anchor],
        start_node[known],
        latency,
        (points.time[anchor], arrival, thread),
        call=_recorded_events(tasks, known),
    )
    launch_bound = np.zeros(len(tasks), np.bool_)
    launch_bound[known[bound]] = True
    launched = np.zeros(len(tasks), np.bool_)
    launched[known] = True
    follows = np.flatnonzero(tasks.previous >= 0)
    before = tasks.previous[follows]
    gap = tasks.start[follows] - tasks.end[before]
    queued = ~(launch_bound | depends)[follows] & (gap >= 0) & (gap < LONG_NS) & (tasks.kind[follows] == KERNEL)
    usual = int(np.median(gap[queued])) if queued.any() else 0
    # Without its late launch, or what it depends on, such a task would follow the one before at the usual distance.
    gap = np.where((launch_bound | depends)[follows], np.minimum(gap, usual), gap)
    apart = ~launched[follows] & (gap >= LONG_NS)
    near, far = follows[~apart], np.concatenate((follows[apart], np.flatnonzero((tasks.previous < 0) & ~launched)))
    before, gap = tasks.previous[near], gap[~apart]
    of_event = (tasks.kind[near] == AWAIT) | (tasks.kind[near] == RECORD)
    length = np.where(of_event, np.minimum(tasks.end[near] - tasks.start[near], 1_000), 0)
    length = np.where(tasks.kind[near] == RECORD, tasks.end[near] - tasks.start[near], length)
    # A wait for an unknown event keeps its length.
    unknown = (tasks.kind[near] == AWAIT) & (tasks.event[near] < 0) & ~depends[near]
    length = np.where(unknown, tasks.end[near] - tasks.start[near], length)
    kernel = tasks.kind[before] == KERNEL
    builder.add(
        end_node[before],
        start_node[near],
        gap + length,
        task=np.where(kernel, before, -1),
        call=np.where(unknown, tasks.item[near], _recorded_events(tasks, near)),
    )
    _add_unlaunched(builder, tasks, far, launched, start_node, floor)
    dependent = np.flatnonzero(depends)
    before = depends_on[dependent]
    begun = np.where(tasks.kind[dependent] == AWAIT, tasks.end[dependent], tasks.start[dependent])
    builder.add(
        end_node[before],
        start_node[dependent],
        begun - tasks.end[before],
        task=np.where(tasks.kind[before] == KERNEL, before, -1),
    )
    waits = np.flatnonzero((tasks.kind == AWAIT) & (tasks.event >= 0))
    fired = tasks.event[waits]
    lasted = tasks.end[waits] - tasks.start[waits] > 1_000
    after = tasks.end[waits] - tasks.end[fired]
    # Where an event had fired before, the wait lasted no longer than it does itself.
    after = np.where(lasted, np.minimum(after, tasks.end[waits] - tasks.start[waits]), np.minimum(after, 0))
    builder.add(end_node[fired], end_node[waits], after, wait=tasks.item[waits])


def _made_by(points: HostPoints, thread: I64, time: I64, ends: I64) -> I64:
    """The thread that makes what ``thread`` is said to launch at ``time``; (n,).

    Between two entries the thread of the queue makes nothing: it is the one that fills the queue next.
    """
    made: I64 = thread.copy()
    for queue in np.unique(points.thread[points.kind == DEQUEUE]).tolist():
        entries = np.flatnonzero((points.thread == queue) & (points.kind == DEQUEUE))
        asked = np.flatnonzero(thread == queue)
        at = np.searchsorted(points.time[entries], time[asked], "right")
        idle = (at > 0) & (at < len(entries)) & (ends[points.item[entries[at - 1]]] <= time[asked])
        asked, filled = asked[idle], points.source[entries[at[idle]]]
        made[asked] = np.where(filled >= 0, points.thread[filled], queue)
    return made


def _next_launches(thread: I64, launched: I64) -> I64:
    """When the ``thread`` of each launch makes the next one at another time, ns; far ahead for the last; (n,)."""
    following = np.full(len(launched), np.iinfo(np.int64).max)
    for one in np.unique(thread).tolist():
        mine = np.flatnonzero(thread == one)
        times = np.append(np.unique(launched[mine]), np.iinfo(np.int64).max)
        following[mine] = times[np.searchsorted(times, launched[mine]) + 1]
    return following


def _recorded_events(tasks: DeviceTasks, chosen: I64) -> I64:
    """The slice of each of ``chosen`` that records an event, -1 for other tasks; (m,)."""
    return np.where(tasks.kind[chosen] == RECORD, tasks.item[chosen], -1)


def _add_unlaunched(
    builder: Builder, tasks: DeviceTasks, far: I64, launched: Bools, start_node: I32, floor: int
) -> None:
    """Add tasks of unknown launch: each keeps its distance to the last launched task before it on any stream."""
    if not len(far):
        return
    known = np.flatnonzero(launched)
    at = np.searchsorted(known, far) - 1
    has_launch = at >= 0
    builder.add(
        start_node[known[at[has_launch]]],
        start_node[far[has_launch]],
        tasks.start[far[has_launch]] - tasks.start[known[at[has_launch]]],
    )
    alone = far[~has_launch]
    builder.add(np.zeros(len(alone), np.int32), start_node[alone], tasks.start[alone] - floor)


def meeting_edges(builder: Builder, met: TaskMeetings, tasks: DeviceTasks, start_node: I32, end_node: I32) -> None:
    """Add collectives: the transfer ends after the start on this rank, and after the last peer has arrived.

    Ranks leave the previous collective of a group together, so the arrival of a peer counts from its end. A peer that
    follows this rank counts from this rank's start instead.
    """
    task, at_once = met.task, np.zeros(len(met), np.int64)
    builder.add(start_node[task], end_node[task], at_once, task=task)
    source = np.where(met.previous >= 0, end_node[task[met.previous]], 0)
    source = np.where(met.following, start_node[task], source)
    builder.add(source, end_node[task], at_once, task=task, meeting=np.arange(len(met)))
