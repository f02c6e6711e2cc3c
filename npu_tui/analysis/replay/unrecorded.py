"""Waits of the host that a trace without CANN does not record, such as the synchronize at the end of a step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.replay.device import KERNEL, DeviceTasks
from npu_tui.analysis.replay.edges import Builder
from npu_tui.analysis.replay.host import WAIT_BEGIN, WAIT_END, HostPoints, thread_numbers
from npu_tui.analysis.replay.silence import Silence
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_LEAST_NS = 200_000
"""A shorter silence of the host is its own work."""
_WAKE_NS = 100_000
"""Longest time after the device is done in which a wait for it ends."""


def unrecorded_waits(
    builder: Builder,
    trace: Trace,
    points: HostPoints,
    tasks: DeviceTasks,
    host_node: I64,
    end_node: I64,
    floor: int,
) -> None:
    """Edges to points before which the host was silent until all that had been launched was done.

    Only where the trace has no CANN slices at all: with them every wait is recorded.
    """
    if any(layer.kind == "cann" and layer.lanes for layer in trace.layers) or not len(tasks):
        return
    known = np.flatnonzero(tasks.launched >= 0)
    thread, since, until = Silence(trace, thread_numbers(trace)[1]).gaps(_LEAST_NS)
    own = _next_points(points, thread, until)
    free = (own >= 0) & ~np.isin(points.kind[own], (WAIT_BEGIN, WAIT_END)) & (points.source[own] < 0)
    free &= (points.before[own] >= 0) & (points.time[points.before[own]] <= since) & (points.until[own] >= until)
    own, since, until = own[free], since[free], until[free]
    if not len(known) or not len(own):
        return
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
    own, task, time = own[waits], order[last[safe[waits]]], points.time[own[waits]]
    points.rest[own] = time - until[waits]
    points.until[own] = since[waits]
    builder.add(
        end_node[task],
        host_node[own],
        time - end[waits],
        task=np.where(tasks.kind[task] == KERNEL, task, -1),
    )


def _next_points(points: HostPoints, thread: I64, time: I64) -> I64:
    """The first point of each ``thread`` at or after ``time``, -1 without one; (m,)."""
    found = np.full(len(time), -1, np.int64)
    for number in np.unique(thread):
        own, asked = np.flatnonzero(points.thread == number), thread == number
        if len(own):
            at = np.searchsorted(points.time[own], time[asked], "left")
            found[asked] = np.where(at < len(own), own[np.minimum(at, len(own) - 1)], -1)
    return found
