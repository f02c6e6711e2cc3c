"""The clocks of host and device by the waits of the host: a wait ends after the device is done, never before."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.replay.device import DeviceTasks
from npu_tui.analysis.replay.host import waits_of
from npu_tui.trace.intervals import union
from npu_tui.trace.model import Trace

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
