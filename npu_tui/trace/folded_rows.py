"""Folded lanes and layers as one row: at every instant the deepest slice of a lane, of the first lane that is busy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.native.rows import Pieces, pieces_of
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Lane, Rows, Trace, make_rows

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
DEEP = 8
"""Lanes with more rows than this start folded."""


def leaf_row(trace: Trace, lane: Lane) -> Rows:
    """One row with the deepest active slice of ``lane`` at every instant.

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
    return _one_row(item, pieces_of(slices.start[own], slices.end[own], level, 2 * lane.rows))


def folded_row(trace: Trace, lane: Lane) -> Rows:
    """``leaf_row``, made once, whichever threads ask."""
    if lane.first_row not in trace.folded:
        made = trace.known.value((folded_row, lane.first_row), lambda: leaf_row(trace, lane))
        trace.folded[lane.first_row] = made
    return trace.folded[lane.first_row]


def flat_rows(parts: list[Rows]) -> Rows:
    """One row made of single rows: at every instant the slice of the first of ``parts`` that has one there."""
    parts = parts[::-1]  # by level, which those that begin together keep
    start, end, item = (
        np.concatenate([np.zeros(0, kind), *(getattr(part, name) for part in parts)])
        for name, kind in (("start", np.int64), ("end", np.int64), ("item", np.int32))
    )
    level = np.repeat(np.arange(len(parts)), [len(part.item) for part in parts])
    order = np.argsort(start, kind="stable")
    pieces = pieces_of(start[order], end[order], level[order], len(parts))
    return _one_row(item[order], pieces)


def _one_row(item: I32, pieces: Pieces) -> Rows:
    """The row of the ``pieces`` of slices ``item``."""
    who, begin, stop = pieces
    return make_rows(np.array([0, len(who)], np.int64), item[who], begin, stop)
