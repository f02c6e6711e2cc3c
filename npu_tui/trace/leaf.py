"""Folded lanes and layers as one row: at every instant the deepest slice of a lane, of the first lane that is busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Lane, Rows, Trace, make_rows

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Pieces = tuple[I32, I64, I64]
"""Of which slice each piece is, where it begins and where it stops; (pieces,) each."""

Flatten = Callable[[I64, I64, Any, int], Pieces]
"""The pieces of slices that no higher one hides, by their starts, which ascend, their ends, and the level of each.

Levels are below the number given last, and no two slices of one level overlap. What has no duration is a piece of its
own, before the one that begins there; neighbouring pieces of one slice are merged.
"""

DEEP = 8
"""Lanes with more rows than this start folded."""


def leaf_row(trace: Trace, lane: Lane, flatten: Flatten | None = None) -> Rows:
    """One row with the deepest active slice of ``lane`` at every instant; ``flatten`` is a faster loop.

    Slices are cut into pieces that do not overlap; neighbouring pieces of one slice are merged. A slice without
    duration keeps a piece of its own. A profiler step lasts longer than the calls it began in and so lies deep below
    them: it gives way to every other slice. Times are ns, as in ``Trace.rows``.
    """
    rows, slices = trace.rows, trace.slices
    bounds = rows.offset[lane.first_row : lane.first_row + lane.rows + 1]
    if int(bounds[-1] - bounds[0]) == lane.last - lane.first:  # they stand by start
        own: Any = slice(lane.first, lane.last)
        item, depth = np.arange(lane.first, lane.last, dtype=np.int32), slices.depth[own]
    else:
        item = rows.item[int(bounds[0]) : int(bounds[-1])]
        order = np.argsort(slices.start[item], kind="stable")
        own = item = item[order]
        depth = np.repeat(np.arange(lane.rows), np.diff(bounds))[order]
    level = np.where(slices.op_class[own] == OpClass.STEP, depth, depth + lane.rows)
    return _one_row(item, (flatten or pieces_of)(slices.start[own], slices.end[own], level, 2 * lane.rows))


def folded_row(trace: Trace, lane: Lane, flatten: Flatten | None = None) -> Rows:
    """``leaf_row``, made once, whichever threads ask."""
    if lane.first_row not in trace.folded:
        made = trace.known.value((folded_row, lane.first_row), lambda: leaf_row(trace, lane, flatten))
        trace.folded[lane.first_row] = made
    return trace.folded[lane.first_row]


def flat_rows(parts: list[Rows], flatten: Flatten | None = None) -> Rows:
    """One row made of single rows: at every instant the slice of the first of ``parts`` that has one there."""
    parts = parts[::-1]  # by level, which those that begin together keep
    start, end, item = (
        np.concatenate([np.zeros(0, kind), *(getattr(part, name) for part in parts)])
        for name, kind in (("start", np.int64), ("end", np.int64), ("item", np.int32))
    )
    level = np.repeat(np.arange(len(parts)), [len(part.item) for part in parts])
    order = np.argsort(start, kind="stable")
    pieces = (flatten or pieces_of)(start[order], end[order], level[order], len(parts))
    return _one_row(item[order], pieces)


def _one_row(item: I32, pieces: Pieces) -> Rows:
    """The row of the ``pieces`` of slices ``item``."""
    who, begin, stop = pieces
    return make_rows(np.array([0, len(who)], np.int64), item[who], begin, stop)


def pieces_of(start: I64, end: I64, level: npt.NDArray[np.integer], levels: int) -> Pieces:
    """The slices of the highest ``level`` at every instant, as ``Flatten`` says."""
    asked = np.argsort(level.astype(np.int16) if levels < 1 << 15 else level, kind="stable")
    begun, ended, height = start[asked], end[asked], level[asked].astype(np.int64)
    # Sorting by hand: numpy's unique goes through a hash table, which takes four times as long here.
    times = np.sort(np.concatenate([start, end]))
    times = times[np.append(True, times[1:] != times[:-1])] if len(times) else times
    deepest = _deepest(times, begun, ended, height)
    piece = np.flatnonzero(deepest >= 0)
    owner = asked[_started_last(times[piece], deepest[piece], begun, ended, height)]

    who, begin, stop = owner, times[piece], times[np.minimum(piece + 1, len(times) - 1)]
    point = np.flatnonzero(start == end)
    if len(point):
        # A point stands before the piece that begins at the same time, so that starts and ends both ascend.
        at = np.searchsorted(begin, start[point])
        who, begin, stop = (
            np.insert(values, at, new) for values, new in ((who, point), (begin, start[point]), (stop, end[point]))
        )

    fresh = np.ones(len(who), np.bool_)
    fresh[1:] = (who[1:] != who[:-1]) | (begin[1:] != stop[:-1])
    head = np.flatnonzero(fresh)
    tail = np.append(head[1:], len(who))[: len(head)] - 1
    return who[head].astype(np.int32), begin[head], stop[tail]


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
    """For every time the index of the lasting slice of depth ``wanted`` that is active there; depths ascend."""
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
