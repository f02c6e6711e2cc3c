"""Waits of the host that a trace without CANN does not record, such as the synchronize at the end of a step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.launches.origin import dequeue_slices
from npu_tui.analysis.replay.device import KERNEL, DeviceTasks
from npu_tui.analysis.replay.edges import Builder
from npu_tui.analysis.replay.host import MARK, HostPoints, thread_numbers
from npu_tui.analysis.replay.loops import Loops
from npu_tui.analysis.replay.silence import Silence
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


def unrecorded_waits(trace: Trace, tasks: DeviceTasks, floor: int, loops: Loops) -> Unrecorded:
    """The silences that end when all that had been launched is done.

    Only where the trace has no CANN slices at all: with them every wait is recorded.
    """
    known = np.flatnonzero(tasks.launched >= 0)
    if any(layer.kind == "cann" and layer.lanes for layer in trace.layers) or not len(known):
        return Unrecorded(*(np.zeros(0, np.int64),) * 5)
    _, number = thread_numbers(trace)
    thread, since, until = Silence(trace, number, loops).gaps(_LEAST_NS)
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
