"""Dependencies that nobody recorded: streams that idle with work queued until a task of another stream ends.

Traces of msprof, of older chips, and those that lost events have no EVENT_WAIT that would tell them, or one without
the EVENT_RECORD that it waits for.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import HARDLY_ANY
from npu_tui.analysis.replay_device import AWAIT, COLLECTIVE, KERNEL, DeviceTasks
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import union

_HELD_NS = 50_000
"""A stream starts what is queued on it sooner than this, unless it waits for something."""
_AT_ONCE_NS = 10_000
"""What depends on a task starts at most this long after its end."""
_EXACT_NS = 1_000
"""An event fires within this time of the task before it, or the clock that records both is coarser."""
_FEWEST = 2
"""Waits of one stream that end with tasks of another one; a single one must be hardly possible by chance."""
_BY_CHANCE = 0.2
"""Share of them that may be expected by chance: a stream of many short tasks always has one that has just ended."""


class Dependencies(Struct, frozen=True):
    """``source`` is the task that each task waited for without a record of it, -1 for most; (n,).

    In ``unexplained`` (ns on the device's clock) streams waited as well, and nothing tells for what.
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
    least = np.where(unnamed, _EXACT_NS, _HELD_NS)  # whatever waits for an event is held by it
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
            follows = (at >= 0) & (after <= _AT_ONCE_NS) & (tasks.end[last] > ready[waiting])
            if not follows.any():
                continue
            # What depends starts equally long after: the shorter that is, the less a stream of short tasks is chance.
            usual = min(max(2 * int(np.median(after[follows])), _EXACT_NS), _AT_ONCE_NS)
            ends_within = np.searchsorted(tasks.end[ended], ready[waiting], "right")
            chance = (at + 1 - ends_within) * usual / (until[waiting] - ready[waiting])
            hits = np.count_nonzero(follows & (after <= usual))
            if np.minimum(chance, 1.0).sum() > (_BY_CHANCE * hits if hits >= _FEWEST else HARDLY_ANY):
                continue
            known = source[waiting]
            later = follows & ((known < 0) | (tasks.end[last] > tasks.end[np.maximum(known, 0)]))
            source[waiting[later]] = last[later]
    rest = held[(source[held] < 0) & ~unnamed[held]]
    return Dependencies(source, union(ready[rest], tasks.start[rest]))
