"""Folded lanes and layers: one row that shows at every instant the deepest slice of the first lane that is busy."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_tui.native.rows import Pieces, pieces_of
from npu_tui.trace.arrays import I32
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Lane, Rows, Trace, make_rows

DEEP = 8
"""Lanes with more rows than this start folded."""


def leaf_row(trace: Trace, lane: Lane) -> Rows:
    """One row with the deepest active slice of ``lane`` at every instant.

    Slices are cut into pieces that do not overlap; neighbouring pieces of one slice are merged. A slice without
    duration keeps its own piece. Times are ns, as in ``Trace.rows``.
    """
    rows, slices = trace.rows, trace.slices
    bounds = rows.offset[lane.first_row : lane.first_row + lane.rows + 1]
    if int(bounds[-1] - bounds[0]) == lane.last - lane.first:  # not a derived lane: its slices are sorted by start
        chosen: Any = slice(lane.first, lane.last)
        item, depth = np.arange(lane.first, lane.last, dtype=np.int32), slices.depth[chosen]
    else:
        item = rows.item[int(bounds[0]) : int(bounds[-1])]
        order = np.argsort(slices.start[item], kind="stable")
        chosen = item = item[order]
        depth = np.repeat(np.arange(lane.rows), np.diff(bounds))[order]
    # A profiler step outlasts the calls it began in, so its depth is greater than theirs: it gives way to all others.
    level = np.where(slices.op_class[chosen] == OpClass.STEP, depth, depth + lane.rows)
    return _one_row(item, pieces_of(slices.start[chosen], slices.end[chosen], level, 2 * lane.rows))


def folded_row(trace: Trace, lane: Lane) -> Rows:
    """``leaf_row``, computed once per lane and safe to call from several threads."""
    if lane.first_row not in trace.folded:
        row = trace.known.value((folded_row, lane.first_row), lambda: leaf_row(trace, lane))
        trace.folded[lane.first_row] = row
    return trace.folded[lane.first_row]


def lanes_row(trace: Trace, lanes: tuple[int, ...]) -> Rows:
    """The folded row of one of ``lanes``, or of several as one, computed once for them."""
    if len(lanes) == 1:
        return folded_row(trace, trace.lanes[lanes[0]])
    return trace.known.value((lanes_row, lanes), lambda: flat_rows([lanes_row(trace, (lane,)) for lane in lanes]))


def flat_rows(parts: list[Rows]) -> Rows:
    """Several rows as one: at every instant the slice of the first of ``parts`` that has one there."""
    parts = parts[::-1]  # the first part gets the highest level; equal starts stay in this order
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
    owner, begin, stop = pieces
    return make_rows(np.array([0, len(owner)], np.int64), item[owner], begin, stop)
