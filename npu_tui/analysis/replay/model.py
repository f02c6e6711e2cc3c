"""A model of the run: what had to happen before what, with the time each needed, as the trace recorded it.

Every point of the host and every task of the device follows others: the one before it in program or stream order, the
queue entry or launch that led to it, the event, the peers or the device it waited for. A point is passed when the
last of them allows it, so that with nothing changed the model gives the recorded times.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.launches.dispatch import Dispatch
from npu_tui.analysis.parts import DevicePart
from npu_tui.analysis.replay.clock import ahead_of_waits
from npu_tui.analysis.replay.device import COLLECTIVE, KERNEL, DeviceTasks
from npu_tui.analysis.replay.edges import Builder, Edges, device_edges, host_edges, meeting_edges, wait_edges
from npu_tui.analysis.replay.host import MARK, host_points, thread_numbers
from npu_tui.analysis.replay.loops import Loops, PlainLoops
from npu_tui.analysis.replay.peers import Meeting, meetings
from npu_tui.analysis.replay.unrecorded import unrecorded_edges, unrecorded_waits
from npu_tui.analysis.work.collectives.collective import Collectives
from npu_tui.trace.model import Trace

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
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
    loops: Loops | None = None,
) -> Model | None:
    """The model of one device and the host behind it; ``steps`` are the slices of the steps.

    ``device_tasks`` and, last, the ``collectives`` are asked for: somebody may be reading them meanwhile.

    None without launches that lead to the device.
    """
    loops = loops or PlainLoops()
    if part.slices is None or part.launches is None or not len(part.launches.link):
        return None
    tasks = device_tasks()
    floor = _floor(part.launches)
    if not any(each.trusted for each in part.launches.floors):
        floor += ahead_of_waits(trace, tasks, floor)
    known = (tasks.launched >= 0) & (tasks.lane >= 0)
    silences = unrecorded_waits(trace, tasks, floor, loops)
    woken = silences.thread, silences.until
    points = host_points(trace, steps, tasks.launched[known], tasks.lane[known], loops, woken)
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
    wrong, order = _sorted(source, target, time, _levels(total, start_node, end_node), loops)
    where = np.empty(total + 1, np.int32)
    where[order] = np.arange(total)
    where[total] = total  # after all others
    count = len(source) - len(wrong)
    target[wrong] = total
    source, target, place = loops.ordered(source, target, where)
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


def _sorted(source: I32, target: I32, time: I64, level: I64, loops: Loops) -> tuple[I64, I64]:
    """Which edges contradict others, and an order of the nodes in which all but these lead onwards."""
    key = time * _LEVELS + level
    key[0] = np.iinfo(np.int64).min // 2
    for _ in range(_ROUNDS):
        wrong = loops.contradicting(source, target, key)
        if not len(wrong):
            break
        np.maximum.at(key, target[wrong], key[source[wrong]] + 1)
    else:
        wrong = loops.contradicting(source, target, key)
    return wrong, np.argsort(key, kind="stable")
