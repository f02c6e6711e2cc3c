"""Links between slices, from the numbers that rows share (torch_npu's and msprof's writers of databases)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.database.columns.collectives import Collectives
from npu_tui.ingest.database.columns.device import Tasks
from npu_tui.ingest.database.columns.host import OP, QUEUE, Calls, Host
from npu_tui.ingest.database.columns.whole import Ends, Whole
from npu_tui.ingest.database.tables.connections import Connections
from npu_tui.ingest.database.tables.joins import expanded, matched, numbered
from npu_tui.ingest.times import INVALID
from npu_tui.trace.binding import LaneIndex
from npu_tui.trace.model import ASYNC_NPU, FORWARD_BACKWARD, HOST_TO_DEVICE, TASK_QUEUE

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MARKS = "MsTx"


def read_links(
    whole: Whole, host: Host, connections: Connections, tasks: Tasks | None, collectives: Collectives | None
) -> None:
    """Take the links in: task queue, forward to backward, host to device, operation to device."""
    framework = _together(host.framework)
    if framework is not None:
        _queues(whole, framework)
        _backward(whole, framework, connections)
    targets = _targets(tasks, collectives)
    if targets is None:
        return
    ends, connection = targets
    for marks in host.marks:
        source, target = expanded(connection, marks.connection)
        whole.links(MARKS, source, marks.ends[source], ends[target])
    cann = _together(host.cann)
    launches: tuple[I64, I64] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    if cann is not None:
        source, target = expanded(connection, cann.connection)
        launches = (source, target)
        whole.links(HOST_TO_DEVICE, source, cann.ends[source], ends[target])
    if framework is not None:
        _operations(whole, framework, connections, ends, connection, cann, launches)


def _together(calls: list[Calls]) -> Calls | None:
    """All ``calls`` as one; None without any."""
    if len(calls) < 2:
        return calls[0] if calls else None
    return Calls(
        Ends(
            np.concatenate([one.ends.thread for one in calls]),
            np.concatenate([one.ends.time for one in calls]),
        ),
        *(
            np.concatenate([getattr(one, name) for one in calls])
            for name in ("until", "kind", "connection", "is_dequeue", "tid")
        ),
    )


def _targets(tasks: Tasks | None, collectives: Collectives | None) -> tuple[Ends, I64] | None:
    """What launches lead to, by time, and the connection ids: linked tasks and collectives as a whole."""
    found: list[tuple[Ends, I64]] = []
    if tasks is not None:
        linked = tasks.is_linked & (tasks.connection >= 0) & (tasks.ends.time != INVALID)
        if collectives is not None:
            linked &= matched(collectives.connection, tasks.connection) < 0  # the tasks that carry them out
        kept = np.flatnonzero(linked)
        found.append((tasks.ends[kept], tasks.connection[kept]))
    if collectives is not None:
        kept = np.flatnonzero((collectives.connection >= 0) & (collectives.ends.time != INVALID))
        found.append((collectives.ends[kept], collectives.connection[kept]))
    if not found:
        return None
    ends = Ends(
        np.concatenate([one.thread for one, _ in found]),
        np.concatenate([one.time for one, _ in found]),
    )
    order = np.argsort(ends.time, kind="stable")
    return ends[order], np.concatenate([connection for _, connection in found])[order]


def _queues(whole: Whole, calls: Calls) -> None:
    """From each enqueue to the dequeue with the same number."""
    queue = calls.kind == QUEUE
    source, target = np.flatnonzero(queue & ~calls.is_dequeue), np.flatnonzero(queue & calls.is_dequeue)
    at = matched(calls.connection[target], calls.connection[source])
    paired = at >= 0
    number = np.arange(np.count_nonzero(paired))
    whole.links(TASK_QUEUE, number, calls.ends[source[paired]], calls.ends[target[at[paired]]])


def _backward(whole: Whole, calls: Calls, connections: Connections) -> None:
    """From each forward operation to the backward one on another thread that shares a number with it."""
    place, value = _operation_numbers(calls, connections)
    if not len(place):
        return
    order = np.lexsort((calls.ends.time[place], value))
    place, value = place[order], value[order]
    same = (value[1:] == value[:-1]) & (calls.tid[place[1:]] != calls.tid[place[:-1]])
    first = np.flatnonzero(same)
    whole.links(FORWARD_BACKWARD, np.arange(len(first)), calls.ends[place[first]], calls.ends[place[first + 1]])


def _operation_numbers(calls: Calls, connections: Connections) -> tuple[I64, I64]:
    """All pairs of an operation and a number of it."""
    ops = np.flatnonzero((calls.kind == OP) & (calls.connection >= 0))
    place, value = connections.all_of(calls.connection[ops])
    return ops[place], value


def _operations(
    whole: Whole,
    calls: Calls,
    connections: Connections,
    ends: Ends,
    connection: I64,
    cann: Calls | None,
    launches: tuple[I64, I64],
) -> None:
    """From each operation to what it launched, the first slice of each launch.

    Newer tables leave the launches of copies out; torch_npu finds the operation of a launch by the queue, and so do we.
    """
    place, value = _operation_numbers(calls, connections)
    distinct, at = numbered(value)
    alone = (np.bincount(at, minlength=len(distinct)) == 1)[at]  # others are those from forward to backward
    place, value = place[alone], value[alone]
    target = matched(connection, value)
    place, target = place[target >= 0], target[target >= 0]
    if cann is not None:
        source, to = launches
        first = np.flatnonzero(np.diff(source, prepend=-1))
        missing = first[~np.isin(connection[to[first]], connection[target])]
        owner = _owners(calls, cann.tid[source[missing]], cann.ends.time[source[missing]])
        place = np.concatenate((place, owner[owner >= 0]))
        target = np.concatenate((target, to[missing][owner >= 0]))
    whole.links(ASYNC_NPU, np.arange(len(place)), calls.ends[place], ends[target])


def _owners(calls: Calls, tid: I64, time: I64) -> I64:
    """The operation that a launch on thread ``tid`` at ``time`` belongs to, -1 for none; (n,).

    A launch inside a dequeue belongs to the operation around the enqueue with the same number, any other to the
    operation around it on its own thread.
    """
    dequeues = np.flatnonzero((calls.kind == QUEUE) & calls.is_dequeue)
    enqueues = np.flatnonzero((calls.kind == QUEUE) & ~calls.is_dequeue)
    inside = _innermost(calls, dequeues, tid, time)
    queued = inside >= 0
    own = np.where(queued, inside, 0)
    at = np.full(len(time), -1, np.int64)
    if len(enqueues):
        at = np.where(queued, matched(calls.connection[enqueues], calls.connection[own]), -1)
        begun = enqueues[np.maximum(at, 0)]
        tid = np.where(at >= 0, calls.tid[begun], tid)
        time = np.where(at >= 0, calls.ends.time[begun], time)
    ops = np.flatnonzero(calls.kind == OP)
    return np.where(~queued | (at >= 0), _innermost(calls, ops, tid, time), -1)


def _innermost(calls: Calls, among: I64, tid: I64, time: I64) -> I64:
    """The innermost of the slices ``among`` that is open at ``time`` on thread ``tid``, -1 without one; (n,)."""
    among = among[calls.ends.time[among] != INVALID]
    if not len(among):
        return np.full(len(time), -1, np.int64)
    threads, lane = numbered(calls.tid[among])
    start, end = calls.ends.time[among], calls.until[among]
    order = np.lexsort((-end, start, lane))
    bounds = np.searchsorted(lane[order], np.arange(len(threads) + 1))
    index = LaneIndex(bounds[:-1], bounds[1:], start[order], end[order])
    found = index.innermost(matched(threads, tid).astype(np.int32), time)
    return np.where(found >= 0, among[order][np.maximum(found, 0)], -1)
