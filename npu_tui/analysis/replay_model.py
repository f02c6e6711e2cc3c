"""The model of a run: nodes and edges of host and device, with the waits that nobody recorded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.collectives import Collectives
from npu_tui.analysis.launches import Dispatch, dequeue_slices
from npu_tui.analysis.overlap import DevicePart
from npu_tui.analysis.replay_device import COLLECTIVE, KERNEL, DeviceTasks, Meeting, meetings
from npu_tui.analysis.replay_edges import Builder, Edges, device_edges, host_edges, meeting_edges, wait_edges
from npu_tui.analysis.replay_host import MARK, HostPoints, Silence, host_points, thread_numbers, waits_of
from npu_tui.trace.intervals import union
from npu_tui.trace.model import Trace

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_LEAST_NS = 200_000
"""A shorter silence of the host is its own work."""
_WAKE_NS = 100_000
"""Longest time after the device is done in which a wait for it ends."""


class Unrecorded(Struct, frozen=True):
    """Silences of threads of the host, from ``since`` to ``until``, that end as ``task`` of the device is done; (n,).

    ``done`` is when that is on the host's clock, ns. ``thread`` numbers threads.
    """

    thread: I64
    since: I64
    until: I64
    task: I64
    done: I64


def unrecorded_waits(trace: Trace, tasks: DeviceTasks, floor: int) -> Unrecorded:
    """The silences that end when all that had been launched is done.

    Only where the trace has no CANN slices at all: with them every wait is recorded.
    """
    known = np.flatnonzero(tasks.launched >= 0)
    if any(layer.kind == "cann" and layer.lanes for layer in trace.layers) or not len(known):
        return Unrecorded(*(np.zeros(0, np.int64),) * 5)
    _, number = thread_numbers(trace)
    thread, since, until = Silence(trace, number).gaps(_LEAST_NS)
    # A queue that is empty waits for no device.
    waiting = ~np.isin(thread, number[trace.slices.lane[dequeue_slices(trace)]])
    thread, since, until = thread[waiting], since[waiting], until[waiting]
    order = known[np.argsort(tasks.launched[known], kind="stable")]
    done = tasks.end[order] - floor
    # The task that ends last of all that had been launched.
    latest = np.maximum.accumulate(done)
    last = np.maximum.accumulate(np.where(done == latest, np.arange(len(done)), 0))
    at = np.searchsorted(tasks.launched[order], until, "left") - 1
    safe = np.maximum(at, 0)
    end = latest[safe]
    gap, after = until - since, until - end
    waits = (at >= 0) & (end > since) & (after >= 0) & (after <= np.minimum(_WAKE_NS, gap // 4))
    return Unrecorded(thread[waits], since[waits], until[waits], order[last[safe[waits]]], end[waits])


def unrecorded_edges(
    builder: Builder, waits: Unrecorded, points: HostPoints, tasks: DeviceTasks, host_node: I32, end_node: I32
) -> None:
    """Edges to the ends of ``waits``, of which each is one of ``points``."""
    own = _points_at(points, waits)
    free = (own >= 0) & (points.source[own] < 0)
    free &= (points.before[own] >= 0) & (points.time[points.before[own]] <= waits.since)
    own, task = own[free], waits.task[free]
    points.until[own] = waits.since[free]
    builder.add(
        end_node[task],
        host_node[own],
        waits.until[free] - waits.done[free],
        task=np.where(tasks.kind[task] == KERNEL, task, -1),
    )


def _points_at(points: HostPoints, waits: Unrecorded) -> I64:
    """The point at the end of each of ``waits``, -1 without one; (n,)."""
    found = np.full(len(waits.until), -1, np.int64)
    marks = np.flatnonzero((points.kind == MARK) & (points.item < 0))
    for number in np.unique(waits.thread):
        own, asked = marks[points.thread[marks] == number], waits.thread == number
        if len(own):
            at = np.minimum(np.searchsorted(points.time[own], waits.until[asked]), len(own) - 1)
            found[asked] = np.where(points.time[own[at]] == waits.until[asked], own[at], -1)
    return found


_LONG_NS = 100_000
_IDLE_NS = 20_000
"""A device that does nothing for so long is done."""
_NEAR_NS = 1_000_000
_CROWD_NS = 50_000
_FEWEST = 2


def ahead_of_waits(trace: Trace, tasks: DeviceTasks, floor: int) -> int:
    """By how much ``floor`` is too small, ns: waits would end before the device is done by it; 0 where they do not.

    Launches tell the clocks apart only where one reached an idle device at once; a host that is far ahead has none.
    """
    waits = waits_of(trace)
    until = trace.slices.end[waits]
    until = until[until - trace.slices.start[waits] >= _LONG_NS]
    if len(until) < _FEWEST or not len(tasks):
        return 0
    _, ends = union(tasks.start, tasks.end + _IDLE_NS)
    done = ends - _IDLE_NS - floor
    at = np.searchsorted(done, until)
    before, after = done[np.maximum(at - 1, 0)], done[np.minimum(at, len(done) - 1)]
    late = np.where(np.abs(after - until) < np.abs(until - before), after - until, before - until)
    late = late[np.abs(late) <= _NEAR_NS]
    if len(late) < _FEWEST or (usual := float(np.median(late))) <= 0:
        return 0
    return int(late[late <= usual + _CROWD_NS].max())


Bools = npt.NDArray[np.bool_]

_LEVELS = 64
_ROUNDS = 400


class Model(Struct):
    """Nodes in an order in which each comes after all it follows; ``time`` is the recorded time of each, ns.

    Times of the device are on the host's clock less the least latency of a launch (``floor``). ``edges`` are sorted by
    target. ``end_node`` is for every task the node of its end, or of its start, from which its length counts;
    ``length`` is what a task takes itself, of a collective without the wait for late ranks. ``tids`` are the threads
    of the host as the work of ``edges`` numbers them, ``steps`` the nodes of the steps' ends and beginnings, ``linked``
    is the share of the busy tasks whose launch is known. ``missed`` counts relations of the recording that contradict
    each other and are left out.
    """

    trace: Trace
    floor: int
    tids: I64
    tasks: DeviceTasks
    meetings: tuple[Meeting, ...]
    time: I64
    edges: Edges
    start_node: I64
    end_node: I64
    length: I64
    steps: I64
    missed: int
    linked: float

    def __len__(self) -> int:
        return len(self.time)


def build(
    trace: Trace,
    part: DevicePart,
    device_tasks: Callable[[], DeviceTasks],
    collectives: Callable[[], Collectives],
    steps: I64,
) -> Model | None:
    """The model of one device and the host behind it; ``steps`` are the slices of the steps.

    ``device_tasks`` and, last, the ``collectives`` are asked for: somebody may be reading them meanwhile.

    None without launches that lead to the device.
    """
    if part.slices is None or part.launches is None or not len(part.launches.link):
        return None
    tasks = device_tasks()
    floor = _floor(part.launches)
    if not any(each.trusted for each in part.launches.floors):
        floor += ahead_of_waits(trace, tasks, floor)
    known = (tasks.launched >= 0) & (tasks.lane >= 0)
    silences = unrecorded_waits(trace, tasks, floor)
    woken = silences.thread, silences.until
    points = host_points(trace, steps, tasks.launched[known], tasks.lane[known], woken)
    host, count = len(points), len(tasks)
    # Node 0 is the origin; hosts, then tasks (of waits and collectives: their end), then starts of collectives.
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
    device_edges(builder, points, tasks, host_node, start_node, end_node, floor, thread_numbers(trace)[1])
    met = meetings(trace, collectives(), tasks, len(steps))
    length = tasks.end - tasks.start
    length[[each.task for each in met]] = [each.others + each.transfer for each in met]
    meeting_edges(builder, met, tasks, start_node, end_node)
    marks = points.kind == MARK
    marked = host_node[marks][np.isin(points.item[marks], steps)] if len(steps) else host_node[:0]
    tids = points.tids
    del points  # the edges have what is needed of them, and need the memory
    source, target = builder.ends()
    wrong, order = _sorted(source, target, time, _levels(total, start_node, end_node))
    where = np.empty(total + 1, np.int32)
    where[order] = np.arange(total)
    where[total] = total  # after all others
    count = len(source) - len(wrong)
    target[wrong] = total
    source, target, place = _ordered(source, target, where)
    place[wrong] = count
    edges = builder.edges(source[:count], target[:count], place, count)
    busy = part.slices.busy[tasks.item]
    return Model(
        trace,
        floor,
        tids,
        tasks,
        met,
        time[order],
        edges,
        where[start_node].astype(np.int64),
        where[end_node].astype(np.int64),
        length,
        where[marked].astype(np.int64),
        len(wrong),
        float(np.mean(known[busy])) if busy.any() else 0.0,
    )


def _floor(launches: Dispatch) -> int:
    return round(min((each.floor for each in launches.floors), default=0.0))


def _levels(total: int, start_node: I32, end_node: I32) -> I64:
    """What comes first of nodes at one time: points of the host, starts, ends."""
    level = np.zeros(total, np.int64)
    level[start_node] = 1
    level[end_node] = np.where(start_node == end_node, 1, 2)
    level[0] = -1
    return level


def _sorted(source: I32, target: I32, time: I64, level: I64) -> tuple[I64, I64]:
    """Which edges contradict others, and an order of the nodes in which all but these lead onwards."""
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
    """The edges by target as ``where`` renumbers nodes: sources, targets, and where each edge went; (n,) each."""
    source, target = where[source], where[target]
    by_target = np.argsort(target, kind="stable")
    place = np.empty(len(target), np.int64)
    place[by_target] = np.arange(len(target))
    return source[by_target], target[by_target], place
