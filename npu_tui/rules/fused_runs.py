"""What stays of the kernels where one call takes the place of each run of operations or kernels, in both passes."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.fused import fused_times
from npu_tui.analysis.launches import Around, operation_of
from npu_tui.rules.compute import CUBE
from npu_tui.rules.facts import Facts
from npu_tui.rules.sequences import CHAIN
from npu_tui.trace.arrays import F64, I64, BySlice
from npu_tui.trace.model import FORWARD_BACKWARD, Trace

Runs = tuple[list[tuple[I64, I64]], list[I64]]
"""Operations or kernels of runs and the run of each, and kernels of those of which nothing stays."""


def shortened(facts: Facts, runs_of: dict[str, Runs], kind: str) -> tuple[I64, F64]:
    """The kernels that calls in place of runs of operations or kernels shorten, and which part of each stays; (n,).

    One call takes the place of a run in the pass forward, and one in the backward. Where shapes tell what it moves and
    computes it takes that time; elsewhere, and of chains, as long as the longest, as it reads and writes what that
    does. So do products.
    """
    trace = facts.trace
    operations, number, chains = _joined([]), _joined([]), _joined([])
    for api, (members, _) in runs_of.items():
        for items, run in members:
            run = np.unique(run, return_inverse=True)[1] + number.max(initial=-1) + 1
            operations, number = _joined([operations, items]), _joined([number, run])
            chains = _joined([chains, np.unique(run) if api == CHAIN else run[:0]])
    kernels = np.sort(operations), number[np.argsort(operations)]
    if kind == "kernel":
        operations = operation_of(trace, operations)
        operations, number = operations[operations >= 0], number[operations >= 0]
    order = np.argsort(operations, kind="stable")
    runs = BySlice(operations[order], number[order])
    called = operation_of(trace, facts.kernels)
    links = trace.bound_links_of(FORWARD_BACKWARD)
    inside = runs.of(_around(trace, operations, trace.links.source_slice[links].astype(np.int64)))
    targets = trace.links.target_slice[links[inside >= 0]].astype(np.int64)
    of_targets = BySlice(targets, inside[inside >= 0])
    forward = BySlice(*kernels).of(facts.kernels) if kind == "kernel" else runs.of(_around(trace, operations, called))
    backward = of_targets.of(_around(trace, targets, called))
    whole = [part for _, parts in runs_of.values() for part in parts]
    keep = np.ones(len(facts.kernels))
    keep[np.isin(facts.kernels, _joined(whole))] = 0.0
    for run, is_backward in ((forward, False), (backward, True)):
        keep = np.fmin(keep, _kept(facts, run, is_backward, chains))
    return facts.kernels[keep < 1], keep[keep < 1]


def _kept(facts: Facts, run: I64, backward: bool, chains: I64) -> F64:
    """Which part of each kernel stays where one does the work of all of a ``run``; -1 is none; (kernels,)."""
    types, code = facts.kernel_types
    product = np.array([CUBE.search(name) is not None for name in types] + [False])[code]
    length = facts.length(facts.kernels).astype(np.float64)
    there = np.flatnonzero(run >= 0)
    there = there[np.lexsort((facts.trace.slices.start[facts.kernels[there]], run[there]))]
    keep = np.ones(len(run))
    if not len(there):
        return keep
    number = np.append(0, np.cumsum(np.diff(run[there]) > 0))
    first = np.flatnonzero(np.append(True, np.diff(number) > 0))
    order = length[there] * len(there) - np.arange(len(there))  # of several that are equally long the first one stays
    longest = order == np.maximum.reduceat(order, first)[number]
    keep[there] = longest | product[there]
    known = ~np.isin(run[there], chains) & (np.bincount(number)[number] > 1)
    if not facts.has("shapes") or len(facts.kernel_table) != len(run) or not known.any():
        return keep
    table = facts.kernel_table.of_slices(facts.kernels)
    fused = fused_times(table, there, number, backward, product)[number]
    known &= np.isfinite(fused)
    # What takes the place of the longest has its launch; where that is too short the others have what is left.
    most = np.maximum.reduceat(np.where(longest, length[there], 0.0), first)[number]
    rest = np.bincount(number, length[there])[number] - most
    share = np.where(longest, fused / np.maximum(most, 1), (fused - most) / np.maximum(rest, 1))
    keep[there[known]] = np.clip(share[known], 0.0, 1.0)
    return keep


def _around(trace: Trace, chosen: I64, items: I64) -> I64:
    """The innermost slice of ``chosen`` that each of ``items`` is, or lies in; -1 without one; (n,)."""
    slices = trace.slices
    lane = np.where(items >= 0, slices.lane[items], -1)
    return Around(trace, np.unique(chosen)).find(lane, slices.start[items], slices.end[items])


def _joined(parts: list[I64]) -> I64:
    return np.concatenate([np.zeros(0, np.int64), *parts])
