"""Folded lanes and layers as one row: at every instant the deepest slice of a lane, of the first lane that is busy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Lane, Trace
from npu_tui.trace.rows import Rows, make_rows

I64 = npt.NDArray[np.int64]

DEEP = 8
"""Lanes with more rows than this start folded."""


def leaf_row(trace: Trace, lane: Lane) -> Rows:
    """One row with the deepest active slice of ``lane`` at every instant.

    Slices are cut into pieces that do not overlap; neighbouring pieces of one slice are merged. A slice without
    duration keeps a piece of its own. A profiler step lasts longer than the calls it began in and so lies deep below
    them: it gives way to every other slice. Times are ns, as in ``Trace.rows``.
    """
    rows = trace.rows
    bounds = rows.offset[lane.first_row : lane.first_row + lane.rows + 1]
    if lane.rows == 0 or bounds[0] == bounds[-1]:
        empty = np.zeros(0, np.int64)
        return make_rows(np.zeros(2, np.int64), empty.astype(np.int32), empty, empty)
    low, high = int(bounds[0]), int(bounds[-1])
    start, end, item = rows.start[low:high], rows.end[low:high], rows.item[low:high]
    depth = np.repeat(np.arange(lane.rows), np.diff(bounds))
    level = np.where(trace.slices.op_class[item] == OpClass.STEP, depth, depth + lane.rows)
    return _flat(start, end, item, depth, level, lane.rows)


def folded_row(trace: Trace, lane: Lane) -> Rows:
    """``leaf_row``, made once."""
    if lane.first_row not in trace.folded:
        trace.folded[lane.first_row] = leaf_row(trace, lane)
    return trace.folded[lane.first_row]


def flat_rows(parts: list[Rows]) -> Rows:
    """One row made of single rows: at every instant the slice of the first of ``parts`` that has one there."""
    parts = [part for part in parts if len(part.item)][::-1]
    empty = np.zeros(0, np.int64)
    if not parts:
        return make_rows(np.zeros(2, np.int64), empty.astype(np.int32), empty, empty)
    start, end = np.concatenate([part.start for part in parts]), np.concatenate([part.end for part in parts])
    depth = np.repeat(np.arange(len(parts)), [len(part.item) for part in parts])
    return _flat(start, end, np.concatenate([part.item for part in parts]), depth, depth, len(parts))


def _flat(start: I64, end: I64, item: npt.NDArray[np.int32], depth: I64, level: I64, rows: int) -> Rows:
    """The slices of the highest ``level`` at every instant; ``depth`` is it modulo ``rows`` and ascends."""
    # Sorting by hand: numpy's unique goes through a hash table, which takes four times as long here.
    times = np.sort(np.concatenate([start, end]))
    times = times[np.append(True, times[1:] != times[:-1])]
    deepest = _deepest(times, start, end, level)
    piece = np.flatnonzero(deepest >= 0)
    owner = _started_last(times[piece], deepest[piece] % rows, start, end, depth)

    who, begin, stop = owner, times[piece], times[np.minimum(piece + 1, len(times) - 1)]
    point = np.flatnonzero(start == end)
    if len(point):
        point = point[np.argsort(start[point], kind="stable")]
        # A point stands before the piece that begins at the same time, so that starts and ends both ascend.
        at = np.searchsorted(begin, start[point])
        who, begin, stop = (
            np.insert(values, at, new) for values, new in ((who, point), (begin, start[point]), (stop, end[point]))
        )

    fresh = np.ones(len(who), np.bool_)
    fresh[1:] = (who[1:] != who[:-1]) | (begin[1:] != stop[:-1])
    head = np.flatnonzero(fresh)
    tail = np.append(head[1:], len(who)) - 1
    return make_rows(np.array([0, len(head)], np.int64), item[who[head]], begin[head], stop[tail])


def _deepest(times: I64, start: I64, end: I64, level: I64) -> I64:
    """The largest level that is active in ``[times[k], times[k + 1])``, -1 where none is."""
    lasting = end > start
    begin = np.searchsorted(times, start[lasting])
    stop = np.searchsorted(times, end[lasting])
    level = level[lasting]
    deepest = np.full(len(times), -1, np.int64)
    if not len(begin):
        return deepest
    # Every interval is covered by two of a power of two; those of each power are halved until they are one long.
    power = np.frexp((stop - begin).astype(np.float64))[1] - 1
    order = np.argsort(power.astype(np.int8), kind="stable")
    highest = int(power.max())
    bounds = np.searchsorted(power[order], np.arange(highest + 2))
    for size in range(highest, -1, -1):
        own = order[bounds[size] : bounds[size + 1]]
        np.maximum.at(deepest, begin[own], level[own])
        np.maximum.at(deepest, stop[own] - (1 << size), level[own])
        if size:
            half = 1 << size - 1
            deepest[half:] = np.maximum(deepest[half:], deepest[:-half])
    return deepest


def _started_last(times: I64, wanted: I64, start: I64, end: I64, depth: I64) -> I64:
    """For every time the index of the lasting slice of depth ``wanted`` that is active there."""
    lasting = np.flatnonzero(end > start)
    # Ranks instead of times keep the key of (depth, time) within 64 bits.
    key = depth[lasting] * (len(times) + 1) + np.searchsorted(times, start[lasting])
    # Asked depth by depth the queries ascend, which keeps the search in the processor's cache.
    order = np.argsort(wanted.astype(np.int16), kind="stable")
    found = np.empty(len(times), np.int64)
    found[order] = lasting[
        np.searchsorted(key, (wanted * (len(times) + 1) + np.arange(len(times)))[order], "right") - 1
    ]
    return found
