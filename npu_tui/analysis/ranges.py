"""What happens in a range of time, name by name, without counting anything twice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npu_tui.trace.intervals import clipped, union
from npu_tui.trace.model import Trace


@dataclass(frozen=True, slots=True)
class NameSum:
    """The slices of one name and layer within a range: ``total`` adds their clipped durations, ``busy`` their union.

    Times are in ns; ``longest`` is the slice that covers most of the range.
    """

    layer: int
    name: int
    count: int
    total: int
    busy: int
    longest: int


def range_sums(trace: Trace, start: int, end: int, lanes: tuple[int, ...] | None = None) -> list[NameSum]:
    """Every (layer, name) with a slice in ``[start, end)``, most busy time first; only on ``lanes`` if given.

    A slice without duration counts if it starts in the range.
    """
    slices = trace.slices
    chosen = (slices.start < end) & ((slices.end > start) | ((slices.start >= start) & (slices.end == slices.start)))
    if lanes is not None:
        chosen &= np.isin(slices.lane, lanes)
    items = np.flatnonzero(chosen)
    if not len(items):
        return []
    layer_of = np.array([lane.layer for lane in trace.lanes], np.int64)
    group = layer_of[slices.lane[items]] * len(trace.names) + slices.name[items]
    order = np.argsort(group, kind="stable")
    items, group = items[order], group[order]
    low, high = clipped(slices.start[items], slices.end[items], start, end)
    firsts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    counts = np.diff(np.append(firsts, len(items)))
    totals = np.add.reduceat(high - low, firsts)
    found = []
    for first, count, total in zip(firsts.tolist(), counts.tolist(), totals.tolist(), strict=True):
        own = slice(first, first + count)
        begins, ends = union(low[own], high[own])
        layer, name = divmod(int(group[first]), len(trace.names))
        longest = int(items[first + int(np.argmax(high[own] - low[own]))])
        found.append(NameSum(layer, name, count, int(total), int((ends - begins).sum()), longest))
    found.sort(key=lambda row: (-row.busy, -row.count, trace.names[row.name]))
    return found


def self_time(trace: Trace, item: int) -> int:
    """Duration of a slice without the time in which slices inside it on its lane run, ns."""
    slices = trace.slices
    lane = trace.lanes[int(slices.lane[item])]
    start, end = int(slices.start[item]), int(slices.end[item])
    low = item + 1
    high = lane.first + int(np.searchsorted(slices.start[lane.first : lane.last], end))
    inner = np.arange(low, max(high, low))
    inner = inner[slices.end[inner] <= end]
    begins, ends = union(slices.start[inner], slices.end[inner])
    return end - start - int((ends - begins).sum())
