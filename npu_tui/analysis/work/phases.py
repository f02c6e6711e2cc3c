"""Which pass of the training step a slice belongs to: forward, backward or the optimizer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.launches.origin import Around, operation_of
from npu_tui.trace.model import FORWARD_BACKWARD, Trace

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

PHASES = ("forward", "backward", "optimizer", "neither")
_OPTIMIZER = "Optimizer."


def phases(trace: Trace, items: I64) -> I64:
    """Index into ``PHASES`` of each slice: that of the operation that it is, or that launched it; (n,).

    An operation is backward on a thread that ``fwdbwd`` links lead to and none begins on, or inside their target; the
    optimizer's inside an ``Optimizer.`` range of its thread; forward from the first to the last source of the links
    that one backward pass follows.
    """
    slices = trace.slices
    is_operation = np.zeros(len(slices) + 1, np.bool_)
    if "cpu_op" in trace.categories:
        is_operation[:-1] = slices.category == trace.categories.index("cpu_op")
    operation = np.where(is_operation[items], items, operation_of(trace, items))
    found = np.full(len(items), PHASES.index("neither"), np.int64)
    known = np.flatnonzero(operation >= 0)
    op = operation[known]
    if not len(op):
        return found
    lane, start, end = slices.lane[op], slices.start[op], slices.end[op]
    stepping = np.array([name.startswith(_OPTIMIZER) for name in trace.names] + [False])[slices.name]
    optimizer = Around(trace, stepping).find(lane, start, end) >= 0
    backward, forward = _passes(trace, op)
    found[known] = np.select([optimizer, backward, forward], [2, 1, 0], PHASES.index("neither"))
    return found


def _passes(trace: Trace, op: I64) -> tuple[Bools, Bools]:
    """Which of the operations are backward, and which lie in a forward pass; (n,) each."""
    slices, links = trace.slices, trace.links
    ways = trace.links_of(FORWARD_BACKWARD)
    ways = ways[(links.source_slice[ways] >= 0) & (links.target_slice[ways] >= 0)]
    lane, start, end = slices.lane[op], slices.start[op], slices.end[op]
    if not len(ways):
        return np.zeros(len(op), np.bool_), np.zeros(len(op), np.bool_)
    sources, targets = (
        np.bincount(ends[ways], minlength=len(trace.lanes)) for ends in (links.source_lane, links.target_lane)
    )
    chosen = np.zeros(len(slices), np.bool_)
    chosen[links.target_slice[ways]] = True
    backward = ((targets > 0) & (sources == 0))[lane] | (Around(trace, chosen).find(lane, start, end) >= 0)
    forward = np.zeros(len(op), np.bool_)
    for on in np.flatnonzero(sources).tolist():
        own = ways[links.source_lane[ways] == on]
        first, last = _stretches(
            slices.start[links.source_slice[own]],
            slices.end[links.source_slice[own]],
            slices.start[links.target_slice[own]],
        )
        at = np.searchsorted(first, end, "right") - 1
        forward |= (lane == on) & (at >= 0) & (start < last[at]) & (end > first[at])
    return backward, forward


def _stretches(start: I64, end: I64, target: I64) -> tuple[I64, I64]:
    """From the first to the last of the sources between two backward passes, whose operations begin at ``target``."""
    order = np.argsort(start, kind="stable")
    start, end, target = start[order], end[order], target[order]
    heads = [0]
    earliest = int(target[0])
    for k in range(1, len(start)):
        if start[k] >= earliest:
            heads.append(k)
            earliest = int(target[k])
        else:
            earliest = min(earliest, int(target[k]))
    first = np.array(heads)
    return start[first], np.maximum.reduceat(end, first)
