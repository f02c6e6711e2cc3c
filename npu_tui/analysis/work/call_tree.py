"""The calls of a lane added up by their path: what called what, how long in total and in itself."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.launches.origin import Around
from npu_tui.analysis.window import Window
from npu_tui.trace.intervals import clipped
from npu_tui.trace.model import Lane, Trace

I64 = npt.NDArray[np.int64]


class Call(Struct, frozen=True):
    """All slices called ``name`` below the same path of callers, ``depth`` of them; times in ns, within the window."""

    name: str
    depth: int
    count: int
    total: int
    own: int
    items: I64


def own_times(trace: Trace, chosen: npt.NDArray[np.bool_], window: Window) -> tuple[I64, I64, I64, I64]:
    """The ``chosen`` slices, their times within ``window``, those without what runs inside, and their parents.

    A parent is a position among them, -1 without one; (n,) each.
    """
    around = Around(trace, chosen)
    items, parent = around.items, around.parents()
    low, high = clipped(trace.slices.start[items], trace.slices.end[items], window.start, window.end)
    total = high - low
    own = total.copy()
    inner = np.flatnonzero(parent >= 0)
    np.subtract.at(own, parent[inner], total[inner])
    return items, total, np.maximum(own, 0), parent


def call_tree(trace: Trace, lane: Lane, window: Window) -> list[Call]:
    """The calls of ``lane`` that touch ``window``, callers before what they call, most time first on each level."""
    slices = trace.slices
    chosen = np.zeros(len(slices), np.bool_)
    own = slice(lane.first, lane.last)
    chosen[own] = (slices.start[own] < window.end) & (slices.end[own] > window.start)
    items, total, alone, parent = own_times(trace, chosen, window)
    if not len(items):
        return []
    level = np.zeros(len(items), np.int64)
    up = parent
    while (inner := np.flatnonzero(up >= 0)).size:  # one pass per level of nesting
        level[inner] += 1
        up = np.where(up >= 0, parent[up], -1)
    path = np.full(len(items), -1, np.int64)
    above: list[int] = []
    names: list[int] = []
    for depth in range(int(level.max()) + 1):
        at = np.flatnonzero(level == depth)
        caller = np.where(parent[at] >= 0, path[parent[at]], -1)
        pairs, code = np.unique(np.stack((caller, slices.name[items[at]]), 1), axis=0, return_inverse=True)
        path[at] = len(names) + code.reshape(-1)
        above += pairs[:, 0].tolist()
        names += pairs[:, 1].tolist()
    sums, owns, counts = (
        np.bincount(path, weights=weights, minlength=len(names)) for weights in (total, alone, np.ones(len(items)))
    )
    order = np.argsort(path, kind="stable")
    members = np.split(items[order], np.cumsum(counts.astype(np.int64))[:-1])
    below: dict[int, list[int]] = {}
    for k in np.argsort(-sums, kind="stable").tolist():
        below.setdefault(above[k], []).append(k)
    found: list[Call] = []
    stack = [(k, 0) for k in reversed(below.get(-1, []))]
    while stack:
        k, depth = stack.pop()
        found.append(Call(trace.names[names[k]], depth, int(counts[k]), int(sums[k]), int(owns[k]), members[k]))
        stack += [(inner_, depth + 1) for inner_ in reversed(below.get(k, []))]
    return found
