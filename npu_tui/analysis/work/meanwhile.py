"""What a thread did in a window of time: its own time by name, and how long nothing was recorded."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.trace.classes import OpClass
from npu_tui.trace.intervals import clipped, covered, covered_before
from npu_tui.trace.model import Lane, Trace


class Meanwhile(Struct, frozen=True):
    """``names`` with the time (ns) in which they were the innermost call, most first; ``silent`` is without any."""

    names: tuple[tuple[str, int], ...]
    silent: int
    longest: int


def meanwhile(trace: Trace, lane: Lane, start: int, end: int) -> Meanwhile:
    """What ``lane`` did in ``[start, end)`` ns; ``longest`` is the slice with most time of its own, -1 without one.

    Steps of the profiler are no calls.
    """
    slices = trace.slices
    own = slice(lane.first, lane.last)
    inside = (slices.start[own] < end) & (slices.end[own] > start) & (slices.op_class[own] != OpClass.STEP)
    items = lane.first + np.flatnonzero(inside)
    if not len(items):
        return Meanwhile((), end - start, -1)
    low, high = clipped(slices.start[items], slices.end[items], start, end)
    depth = slices.depth[items]
    time = (high - low).astype(np.float64)
    for level in np.unique(depth).tolist():
        deeper, here = depth > level, depth == level
        edges = covered_before(low[deeper], high[deeper], np.concatenate((low[here], high[here])).astype(np.float64))
        count = int(here.sum())
        time[here] -= edges[count:] - edges[:count]
    time = np.maximum(time, 0)
    codes, code = np.unique(slices.name[items], return_inverse=True)
    sums = np.bincount(code, weights=time)
    order = [int(k) for k in np.argsort(-sums, kind="stable") if sums[k] > 0]
    names = tuple((trace.names[int(codes[k])], int(sums[k])) for k in order)
    return Meanwhile(names, end - start - covered(low, high), int(items[int(np.argmax(time))]))
