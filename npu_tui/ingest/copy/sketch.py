"""What the first picture of a trace needs, and no more however long the trace is.

The opening screen shows the first step, or everything, some hundred columns wide. Of every row the slices are kept that
such a screen can tell apart: in each of some thousand stretches of time the first, the longest and the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import structs

from npu_tui.trace.args import always
from npu_tui.trace.classes import lane_roles
from npu_tui.trace.folded_rows import DEEP, folded_row, leaf_row
from npu_tui.trace.model import Chunks, Counters, Health, Lane, Links, Rows, Slices, Trace

I64 = npt.NDArray[np.int64]
Columns = TypeVar("Columns", Slices, Links, Chunks)

MOST = 300_000
"""Positions of rows that a sketch holds at most, unless there are so many rows."""

MOST_FOLDED = 256
"""Lanes that a copy keeps folded at most; the others are short."""

_STEP, _WHOLE, _LEAST = 2048, 1024, 32
"""Stretches of the opening view and of the whole trace, of which more than a terminal has columns."""


def sketch_of(trace: Trace, go_on: Callable[[], bool] = always) -> Trace | None:
    """A trace of some slices of ``trace``, with rows and lanes of the same numbers; None if ``go_on`` said to stop.

    Between the slices that are kept ``Rows.busy`` still counts all of them. There are no links, and nothing that leads
    to the file. Long lanes of several rows are ``folded`` already, and what each lane is there for is known.
    """
    leaves: dict[int, Rows] = {}
    for lane in _folding(trace):
        if not go_on():
            return None
        leaves[lane.first_row] = folded_row(trace, lane) if lane.rows > DEEP else leaf_row(trace, lane)
    halves = 0
    while True:
        edges = _edges(trace, max(_STEP >> halves, _LEAST), max(_WHOLE >> halves, _LEAST))
        kept = _kept(trace.rows, edges)
        folded = {row: _kept(rows, edges) for row, rows in leaves.items()}
        if len(kept) + sum(map(len, folded.values())) <= MOST or _STEP >> halves <= _LEAST:
            break
        halves += 1
    shown = [trace.rows.item[kept], *(leaves[row].item[own] for row, own in folded.items())]
    items = np.unique(np.concatenate(shown)).astype(np.int64)
    names, coded = np.unique(trace.slices.name[items], return_inverse=True)
    slices = _at(trace.slices, items)
    slices.name = coded.astype(np.int32)
    slices.stack = np.full(len(items), -1, np.int32)
    bounds = np.searchsorted(items, [(lane.first, lane.last) for lane in trace.lanes]).reshape(-1, 2).tolist()
    nothing = np.zeros(0, np.int64)
    found = replace(
        trace,
        names=[trace.names[code] for code in names.tolist()],
        stacks=[],
        lanes=[
            structs.replace(lane, first=first, last=last)
            for lane, (first, last) in zip(trace.lanes, bounds, strict=True)
        ],
        slices=slices,
        rows=_thinned(trace.rows, kept, items),
        links=_at(trace.links, nothing),
        link_categories=[],
        counters=_counters(trace.counters, edges),
        chunks=_at(trace.chunks, nothing),
        health=Health(),
    )
    found.folded = {row: _thinned(leaves[row], own, items) for row, own in folded.items()}
    found.roles = lane_roles(trace)
    return found


def _folding(trace: Trace) -> list[Lane]:
    """The lanes of several rows, the longest ones where there are too many."""
    offset = trace.rows.offset
    held = {
        lane.index: int(offset[lane.first_row + lane.rows]) - int(offset[lane.first_row])
        for lane in trace.lanes
        if lane.rows > 1
    }
    longest = sorted(held, key=lambda lane: -held[lane])[:MOST_FOLDED]
    return [trace.lanes[lane] for lane in sorted(longest)]


def deep_lanes(trace: Trace) -> list[Lane]:
    """The lanes that start folded, as far as a copy keeps their rows."""
    return [lane for lane in _folding(trace) if lane.rows > DEEP]


def _edges(trace: Trace, step: int, whole: int) -> I64:
    """Where the stretches begin, ns: ``step`` of what the opening screen shows, ``whole`` of all; ascending.

    The cursor is in the middle of that screen, and what counts there is told as a number.
    """
    low, high = 0, trace.end
    own = [
        slice(*trace.rows.offset[[lane.first_row, lane.first_row + lane.rows]]) for lane in trace.lanes if lane.derived
    ]
    if own:
        start, end = (np.concatenate([times[part] for part in own]) for times in (trace.rows.start, trace.rows.end))
        if len(start):
            first = int(np.argmin(np.maximum(np.maximum(start, -end), 0)))
            low, high = int(start[first]), int(end[first])
    parts = [np.linspace(low, high, step + 1), np.linspace(0, trace.end, whole + 1), [(low + high) // 2 + 1]]
    return np.unique(np.concatenate([np.asarray(part).astype(np.int64) for part in parts]))


def _kept(rows: Rows, edges: I64) -> I64:
    """The positions of ``rows`` to keep, ascending; even ones stay even, as the shades of bars alternate."""
    group = _numbers(rows.offset) * (len(edges) + 1) + np.searchsorted(edges, rows.start, "right")
    kept = _outstanding(group, rows.end - rows.start)
    between = kept[:-1][np.diff(kept) % 2 == 0] + 1
    return np.sort(np.concatenate([kept, between]))


def _numbers(offset: I64) -> I64:
    """For every position the number of the row between ``offset`` it is in; ``numpy.repeat`` would stop all threads."""
    return np.cumsum(np.bincount(offset[1:-1], minlength=int(offset[-1]) + 1)[:-1])


def _outstanding(group: I64, value: npt.NDArray[np.generic]) -> I64:
    """The first and the last place of every ``group``, which ascends, and the first of its largest ``value``."""
    if not len(group):
        return np.zeros(0, np.int64)
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    size = np.diff(np.append(first, len(group)))
    largest = np.flatnonzero(value == np.repeat(np.maximum.reduceat(value, first), size))
    return np.unique(np.concatenate([first, first + size - 1, largest[np.searchsorted(largest, first)]]))


def _thinned(rows: Rows, kept: I64, items: I64) -> Rows:
    """The positions ``kept`` of ``rows``, whose slices are now those of ``items``."""
    return Rows(
        np.searchsorted(kept, rows.offset).astype(np.int64),
        np.searchsorted(items, rows.item[kept]).astype(np.int32),
        rows.start[kept],
        rows.end[kept],
        np.append(rows.busy[kept], rows.busy[-1:]),
    )


def _counters(counters: Counters, edges: I64) -> Counters:
    """The first, last, lowest and highest sample of every series in every stretch."""
    group = _numbers(counters.offset) * (len(edges) + 1) + np.searchsorted(edges, counters.time, "right")
    finite = np.isfinite(counters.value)
    kept = [_outstanding(group, np.where(finite, sign * counters.value, -np.inf)) for sign in (1, -1)]
    at = np.unique(np.concatenate(kept))
    return Counters(
        counters.time[at], counters.value[at], np.searchsorted(at, counters.offset).astype(np.int64), counters.series
    )


def _at(columns: Columns, index: I64) -> Columns:
    """The entries ``index`` of every column."""
    return type(columns)(**{name: getattr(columns, name)[index] for name in columns.__struct_fields__})
