"""The replay's model of a run: the nodes and edges of host and device, with waits that the trace does not record.

A node is an event of host or device, at its recorded time; ``replay`` passes all nodes again with other lengths.
Times of the device are moved onto the clock of the host by the clock floor.

Some dependencies are not recorded: streams idle with work queued until a task of another stream ends.

Traces of msprof, of older chips, and those that lost events have no EVENT_WAIT that would show them, or one without the
EVENT_RECORD that it waits for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from npu_tui.analysis.calls import blocking_calls
from npu_tui.analysis.collectives import Collectives
from npu_tui.analysis.launches import Dispatch, dequeue_slices
from npu_tui.analysis.limits import (
    A_PART,
    AWAKE_NS,
    COPY_NS,
    GRID_NS,
    HARDLY_ANY,
    LONG_NS,
    MORE_THAN_ONE,
    NEXT_TASK_NS,
    SHORT_NS,
)
from npu_tui.analysis.overlap import DevicePart
from npu_tui.analysis.replay_device import AWAIT, COLLECTIVE, KERNEL, DeviceTasks, TaskMeetings, meetings
from npu_tui.analysis.replay_edges import Builder, Edges, device_edges, host_edges, meeting_edges, wait_edges
from npu_tui.analysis.replay_host import MARK, HostPoints, Silence, host_points, thread_numbers, waits_of
from npu_tui.trace.arrays import I8, I32, I64, Bools
from npu_tui.trace.intervals import inside, union
from npu_tui.trace.model import Trace
from npu_tui.trace.recorder import recorder_of


class Unrecorded(Struct, frozen=True):
    """Silences of host threads, from ``since`` to ``until`` (ns), that end when ``task`` of the device is done; (n,).

    ``done`` is when the task is done on the host's clock, ns. ``thread`` is the number of the thread.
    """

    thread: I64
    since: I64
    until: I64
    task: I64
    done: I64


def unrecorded_waits(trace: Trace, tasks: DeviceTasks, floor: int) -> Unrecorded:
    """The silences that end when everything launched so far is done.

    Only for a trace without calls that wait: where some are recorded, all are.
    """
    # Events are passed, not waited for, and where no call is recorded it is not known when they were launched.
    known = np.flatnonzero((tasks.launched >= 0) & ((tasks.kind == KERNEL) | (tasks.kind == COLLECTIVE)))
    if len(blocking_calls(trace)) or not len(known):
        return Unrecorded(*(np.zeros(0, np.int64),) * 5)
    _, number = thread_numbers(trace)
    launching = known[tasks.lane[known] >= 0]
    # A launch divides a silence: a blocking copy waits for the stream, is launched, and waits for its own end.
    thread, since, until = Silence(trace, number).gaps(
        COPY_NS, number[tasks.lane[launching]], tasks.launched[launching]
    )
    # A silent queue thread is out of work; it does not wait for the device.
    waiting = ~np.isin(thread, number[trace.slices.lane[dequeue_slices(trace)]])
    slices, recorded = trace.slices, waits_of(trace)
    for there in np.unique(thread).tolist():
        waits = recorded[number[slices.lane[recorded]] == there]
        waiting &= (thread != there) | ~inside(slices.start[waits], slices.end[waits], since)
    thread, since, until = thread[waiting], since[waiting], until[waiting]
    order = known[np.argsort(tasks.launched[known], kind="stable")]
    done = tasks.end[order] - floor
    # The task that ends last among those launched so far.
    latest = np.maximum.accumulate(done)
    last = np.maximum.accumulate(np.where(done == latest, np.arange(len(done)), 0))
    at = np.searchsorted(tasks.launched[order], until, "left") - 1
    safe = np.maximum(at, 0)
    end = latest[safe]
    gap, after = until - since, until - end
    waits = (at >= 0) & (end > since) & (after >= 0) & (after <= np.minimum(SHORT_NS, gap // 4))
    return Unrecorded(thread[waits], since[waits], until[waits], order[last[safe[waits]]], end[waits])


def unrecorded_edges(
    builder: Builder, waits: Unrecorded, points: HostPoints, tasks: DeviceTasks, host_node: I32, end_node: I32
) -> None:
    """Add edges from tasks to the ends of ``waits``, which are among ``points``."""
    point = _points_at(points, waits)
    # The step may end with the wait: then its mark is passed at the same time, before the thread goes on.
    before = points.before[point]
    marked = (point >= 0) & (before >= 0) & (points.kind[before] == MARK) & (points.time[before] == waits.until)
    point = np.where(marked, before, point)
    free = (point >= 0) & (points.source[point] < 0)
    free &= (points.before[point] >= 0) & (points.time[points.before[point]] <= waits.since)
    point, task = point[free], waits.task[free]
    points.until[point] = waits.since[free]
    builder.add(
        end_node[task],
        host_node[point],
        waits.until[free] - waits.done[free],
        task=np.where(tasks.kind[task] == KERNEL, task, -1),
    )


def _points_at(points: HostPoints, waits: Unrecorded) -> I64:
    """The point at the end of each of ``waits``, -1 without one; (n,)."""
    point_at = np.full(len(waits.until), -1, np.int64)
    marks = np.flatnonzero((points.kind == MARK) & (points.item < 0))
    for number in np.unique(waits.thread):
        of_thread, queries = marks[points.thread[marks] == number], waits.thread == number
        if len(of_thread):
            at = np.minimum(np.searchsorted(points.time[of_thread], waits.until[queries]), len(of_thread) - 1)
            point_at[queries] = np.where(points.time[of_thread[at]] == waits.until[queries], of_thread[at], -1)
    return point_at


def ahead_of_waits(trace: Trace, tasks: DeviceTasks, floor: int) -> int:
    """How much too small ``floor`` is, ns; 0 if it is not: with it, waits would end before the device is done.

    A launch reveals the clock offset only if it reached an idle device, which never happens if the host is far ahead.
    Waits reveal it from the other side.
    """
    waits = waits_of(trace)
    until = trace.slices.end[waits]
    until = until[until - trace.slices.start[waits] >= SHORT_NS]
    if len(until) < MORE_THAN_ONE or not len(tasks):
        return 0
    _, ends = union(tasks.start, tasks.end + NEXT_TASK_NS)
    done = ends - NEXT_TASK_NS - floor
    at = np.searchsorted(done, until)
    before, after = done[np.maximum(at - 1, 0)], done[np.minimum(at, len(done) - 1)]
    late = np.where(np.abs(after - until) < np.abs(until - before), after - until, before - until)
    late = late[np.abs(late) <= LONG_NS]
    if len(late) < MORE_THAN_ONE or (usual := float(np.median(late))) <= 0:
        return 0
    return int(late[late <= usual + AWAKE_NS].max())


_LEVELS = 64  # nodes at one ns that an edge may push past each other
_ROUNDS = 400  # rounds until edges that still lead back are left out


class HostNodes(Struct, frozen=True):
    """The points of the host as ``replay_host`` has them: node, thread, slice and kind of each; (n,)."""

    node: I32
    thread: I32
    item: I64
    kind: I8


class Model(Struct):
    """A graph with nodes in topological order; ``time`` is the recorded time of each, ns.

    Times of the device have ``floor``, the least launch latency plus clock offset, subtracted. ``edges`` are sorted by
    target. ``start_node`` and ``end_node`` are those of every task: for a kernel both are its start, to which the
    ``length`` is added; in a collective, the length leaves out the wait for late ranks. ``host`` are the nodes of the
    host, ``copies`` says which tasks are copies, ``tids`` are the host threads that the work of ``edges`` indexes,
    ``steps`` the nodes of the steps' starts and ends, ``linked`` is the share of the busy time with a known launch.
    ``missed`` counts edges that contradict others and are left out. In ``unexplained`` (ns of the device) streams with
    queued work waited for something that is not known.
    """

    trace: Trace
    floor: int
    tids: I64
    tasks: DeviceTasks
    meetings: TaskMeetings
    time: I64
    edges: Edges
    start_node: I64
    end_node: I64
    length: I64
    host: HostNodes
    copies: Bools
    steps: I64
    missed: int
    linked: float
    unexplained: tuple[I64, I64]

    def __len__(self) -> int:
        return len(self.time)


def build(
    trace: Trace,
    part: DevicePart,
    device_tasks: Callable[[], DeviceTasks],
    collectives: Callable[[], Collectives],
    steps: I64,
) -> Model | None:
    """The model of one device and its host; ``steps`` are the slices of the steps. None without known launches.

    ``device_tasks`` and ``collectives`` are functions, as another thread may still compute them: ``collectives`` is
    called last.
    """
    if part.slices is None or part.launches is None or not len(part.launches.link):
        return None
    tasks = device_tasks()
    floor = clock_floor(trace, part.launches, device_tasks)
    known = (tasks.launched >= 0) & (tasks.lane >= 0)
    silences = unrecorded_waits(trace, tasks, floor)
    woken = silences.thread, silences.until
    points = host_points(trace, steps, tasks.launched[known], tasks.lane[known], woken)
    host, count = len(points), len(tasks)
    # Node 0 is the origin. Then host points, then one node per task (start of a kernel, end of any other), then
    # the starts of collectives, which have two nodes.
    both = np.flatnonzero(tasks.kind == COLLECTIVE)
    host_node = np.arange(1, 1 + host, dtype=np.int32)
    end_node = np.arange(1 + host, 1 + host + count, dtype=np.int32)
    start_node = end_node.copy()
    start_node[both] = np.arange(1 + host + count, 1 + host + count + len(both))
    total = 1 + host + count + len(both)
    time = np.zeros(total, np.int64)
    time[host_node] = points.time
    ends = tasks.kind != KERNEL
    time[end_node] = np.where(ends, tasks.end, tasks.start) - floor
    time[start_node[both]] = tasks.start[both] - floor
    builder = Builder()
    wait_edges(builder, points, tasks, host_node, end_node, floor)
    unrecorded_edges(builder, silences, points, tasks, host_node, end_node)
    host_edges(builder, points, host_node, trace.slices.end)
    unrecorded = unrecorded_dependencies(tasks, floor)
    thread_of = thread_numbers(trace)[1]
    depends_on, called = unrecorded.source, any(layer.kind == "cann" and layer.lanes for layer in trace.layers)
    of_slices = thread_of, depends_on, called, trace.slices.end
    device_edges(builder, points, tasks, host_node, start_node, end_node, floor, *of_slices)
    collective_meetings = meetings(trace, collectives(), tasks, len(steps))
    length = tasks.end - tasks.start
    length[collective_meetings.task] = collective_meetings.others + collective_meetings.transfer
    meeting_edges(builder, collective_meetings, tasks, start_node, end_node)
    marks = points.kind == MARK
    marked = host_node[marks][np.isin(points.item[marks], steps)] if len(steps) else host_node[:0]
    tids, passed = points.tids, (points.thread.astype(np.int32), points.item, points.kind)
    del points  # frees memory for the sort: the edges have all that is needed
    source, target = builder.ends()
    wrong, order = _sorted(source, target, time, _levels(total, start_node, end_node))
    where = np.empty(total + 1, np.int32)
    where[order] = np.arange(total)
    where[total] = total  # the target of left-out edges, after all others
    count = len(source) - len(wrong)
    target[wrong] = total
    source, target, place = _ordered(source, target, where)
    place[wrong] = count
    edges = builder.edges(source[:count], target[:count], place, count)
    busy_time = np.where(part.slices.busy[tasks.item], tasks.end - tasks.start, 0)
    linked = known | _replayed(part, tasks.item)
    return Model(
        trace,
        floor,
        tids,
        tasks,
        collective_meetings,
        time[order],
        edges,
        where[start_node].astype(np.int64),
        where[end_node].astype(np.int64),
        length,
        HostNodes(where[host_node], *passed),
        part.slices.copy[tasks.item],
        where[marked].astype(np.int64),
        len(wrong),
        float(busy_time[linked].sum() / max(busy_time.sum(), 1)),
        unrecorded.unexplained,
    )


def _replayed(part: DevicePart, item: I64) -> Bools:
    """Which of the tasks ``item`` a graph replays: they follow its launch on their stream."""
    if part.pairs is None:
        return np.zeros(len(item), np.bool_)
    return np.isin(item, part.pairs.unlinked[part.pairs.graph >= 0])


def clock_floor(trace: Trace, launches: Dispatch, device_tasks: Callable[[], DeviceTasks]) -> int:
    """The clock of the device minus that of the host, as far as launches and waits show it, ns.

    A floor that launches do not confirm was capped at 30 us; waits of the host may show that it is larger, unless both
    have one clock.
    """
    floor = round(min((clock.floor for clock in launches.floors), default=0.0))
    if any(clock.trusted for clock in launches.floors) or recorder_of(trace).one_clock:
        return floor
    return floor + ahead_of_waits(trace, device_tasks(), floor)


def _levels(total: int, start_node: I32, end_node: I32) -> I64:
    """The order of nodes at one time: points of the host, then starts, then ends."""
    level = np.zeros(total, np.int64)
    level[start_node] = 1
    level[end_node] = np.where(start_node == end_node, 1, 2)
    level[0] = -1
    return level


def _sorted(source: I32, target: I32, time: I64, level: I64) -> tuple[I64, I64]:
    """The edges that contradict others, and an order of the nodes in which all other edges lead forward.

    Nodes are sorted by time; where an edge leads back by a rounding error, its target moves after its source, in
    rounds, as that may turn further edges.
    """
    key = time * _LEVELS + level
    key[0] = np.iinfo(np.int64).min // 2
    for _ in range(_ROUNDS):
        wrong = np.flatnonzero(key[target] <= key[source])
        if not len(wrong):
            break
        np.maximum.at(key, target[wrong], key[source[wrong]] + 1)
    else:
        wrong = np.flatnonzero(key[target] <= key[source])
    return wrong, np.argsort(key, kind="stable")


def _ordered(source: I32, target: I32, where: I32) -> tuple[I32, I32, I64]:
    """The edges sorted by target, with nodes renumbered by ``where``: sources, targets, new position of each; (n,)."""
    source, target = where[source], where[target]
    by_target = np.argsort(target, kind="stable")
    place = np.empty(len(target), np.int64)
    place[by_target] = np.arange(len(target))
    return source[by_target], target[by_target], place


class Dependencies(Struct, frozen=True):
    """``source`` is the task that each task waited for without a record of it, -1 for most; (n,).

    In ``unexplained`` (ns on the device's clock) streams waited as well, for something unknown.
    """

    source: I64
    unexplained: tuple[I64, I64]


def unrecorded_dependencies(tasks: DeviceTasks, floor: int) -> Dependencies:
    """What streams waited for that idled although their next task was launched: tasks that had just ended elsewhere.

    Two streams depend on each other where such waits end with tasks of the other one far more often than by chance.
    So do waits for events whose record is not in the trace.
    """
    source = np.full(len(tasks), -1, np.int64)
    before = np.maximum(tasks.previous, 0)
    ready = np.where(tasks.previous >= 0, tasks.end[before], tasks.launched + floor)
    ready = np.maximum(ready, tasks.launched + floor)
    works = (tasks.kind == KERNEL) | (tasks.kind == COLLECTIVE)
    # After a wait for an event the stream goes on with the event.
    recorded = (tasks.previous >= 0) & (tasks.kind[before] == AWAIT)
    unnamed = (tasks.kind == AWAIT) & (tasks.event < 0)
    until = np.where(unnamed, tasks.end, tasks.start)
    least = np.where(unnamed, GRID_NS, AWAKE_NS)  # whatever waits for an event is held by it
    held = np.flatnonzero(((works & ~recorded) | unnamed) & (tasks.launched >= 0) & (until - ready > least))
    held = held[tasks.within_launch(held) < 0]
    by_end = np.flatnonzero(works)
    by_end = by_end[np.argsort(tasks.end[by_end], kind="stable")]
    for stream in np.unique(tasks.stream[held]).tolist():
        waiting = held[tasks.stream[held] == stream]
        for other in np.unique(tasks.stream[by_end]).tolist():
            if other == stream:
                continue
            ended = by_end[tasks.stream[by_end] == other]
            at = np.searchsorted(tasks.end[ended], until[waiting], "right") - 1
            last = ended[np.maximum(at, 0)]
            after = until[waiting] - tasks.end[last]
            follows = (at >= 0) & (after <= NEXT_TASK_NS) & (tasks.end[last] > ready[waiting])
            if not follows.any():
                continue
            # What depends starts equally long after: the shorter that is, the less a stream of short tasks is chance.
            # Of those some may be expected by chance: a stream of many short tasks always has one that has just ended.
            usual = min(max(2 * int(np.median(after[follows])), GRID_NS), NEXT_TASK_NS)
            ends_within = np.searchsorted(tasks.end[ended], ready[waiting], "right")
            chance = (at + 1 - ends_within) * usual / (until[waiting] - ready[waiting])
            hits = np.count_nonzero(follows & (after <= usual))
            if np.minimum(chance, 1.0).sum() > (A_PART * hits if hits >= MORE_THAN_ONE else HARDLY_ANY):
                continue
            known = source[waiting]
            later = follows & ((known < 0) | (tasks.end[last] > tasks.end[np.maximum(known, 0)]))
            source[waiting[later]] = last[later]
    rest = held[(source[held] < 0) & ~unnamed[held]]
    return Dependencies(source, union(ready[rest], tasks.start[rest]))
