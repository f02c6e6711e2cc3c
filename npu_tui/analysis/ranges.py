"""A window of time: what a range holds, what a thread did meanwhile, namesakes, the pass of the step."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.calls import own_times
from npu_tui.analysis.device import Window
from npu_tui.analysis.launches import Around, Dispatch, operation_of
from npu_tui.analysis.operators import TypesOf
from npu_tui.trace.classes import OpClass
from npu_tui.trace.intervals import clipped, covered, covered_before, union
from npu_tui.trace.model import FORWARD_BACKWARD, Lane, Trace

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


By = Literal["name", "type", "layer", "phase"]


class NameSum(Struct, frozen=True):
    """The slices of one name (or operator type) and layer within a range.

    ``total`` adds what lies in the range, ``own`` that without what runs inside on its lane, ``busy`` is the union;
    ``shortest``, ``average``, ``longest`` and ``p90`` are of the slices' own durations, whole also where the range cuts
    them, as it does ``cut`` of them. Times are in ns. ``label`` is the name or type (empty: all of the layer),
    ``items`` are the slices, the one that covers most of the range first.
    """

    layer: int
    label: str
    count: int
    total: int
    own: int
    busy: int
    shortest: int
    average: float
    longest: int
    p90: float
    cut: int
    items: I64


class LaunchCount(Struct, frozen=True):
    """The launches whose target starts in a range, by class; what of the range (ns) the idle device waited for
    launches, and for how many ``starved`` ones of them.
    """

    near_vertical: int
    shallow: int
    queued: int
    starved: int
    lost: float


def range_sums(
    trace: Trace,
    start: int,
    end: int,
    lanes: tuple[int, ...] | None = None,
    by: By = "name",
    compute: Bools | None = None,
    types_of: TypesOf | None = None,
) -> list[NameSum]:
    """Every (layer, name) with a slice in ``[start, end)``, most busy time first; only on ``lanes`` if given.

    A slice without duration counts if it starts in the range. By ``type`` kernels are added up by operator type
    (``compute`` is the mask over all slices that says which they are, ``types_of`` gives their types), by ``layer``
    everything of a layer is one row, by ``phase`` what belongs to one pass of the training step.
    """
    slices = trace.slices
    chosen = (slices.start < end) & ((slices.end > start) | ((slices.start >= start) & (slices.end == slices.start)))
    if lanes is not None:
        chosen &= np.isin(slices.lane, lanes)
    items, _, alone, _ = own_times(trace, chosen, Window(start, end))
    if not len(items):
        return []
    layer_of = np.array([lane.layer for lane in trace.lanes], np.int64)
    labels, code = _labels(trace, items, by, compute, types_of)
    group = layer_of[slices.lane[items]] * len(labels) + code
    order = np.argsort(group, kind="stable")
    items, group, alone = items[order], group[order], alone[order]
    low, high = clipped(slices.start[items], slices.end[items], start, end)
    lasting = slices.end[items] - slices.start[items]
    firsts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    counts = np.diff(np.append(firsts, len(items)))
    totals, owns = np.add.reduceat(high - low, firsts), np.add.reduceat(alone, firsts)
    found = []
    for first, count, total, own_time in zip(*(each.tolist() for each in (firsts, counts, totals, owns)), strict=True):
        own = slice(first, first + count)
        begins, ends = union(low[own], high[own])
        layer, label = divmod(int(group[first]), len(labels))
        times = lasting[own]
        found.append(
            NameSum(
                layer,
                labels[label],
                count,
                int(total),
                int(own_time),
                int((ends - begins).sum()),
                int(times.min()),
                float(times.mean()),
                int(times.max()),
                float(np.percentile(times, 90)),
                int(np.count_nonzero(high[own] - low[own] < times)),
                items[own][np.argsort(low[own] - high[own], kind="stable")],
            )
        )
    found.sort(key=lambda row: (-row.busy, -row.count, row.label))
    return found


def _labels(trace: Trace, items: I64, by: By, compute: Bools | None, types_of: TypesOf | None) -> tuple[list[str], I64]:
    """Names of ``items``, or operator types of the kernels among them, and which one each has; (n,)."""
    if by == "layer":
        return [""], np.zeros(len(items), np.int64)
    if by == "phase":
        return list(PHASES), phases(trace, items)
    code = trace.slices.name[items].astype(np.int64)
    if by == "name" or compute is None or types_of is None:
        return trace.names, code
    device = compute[items]
    types, type_code = types_of(items[device])
    code[device] = len(trace.names) + type_code
    return [*trace.names, *types], code


def launch_count(launches: Dispatch, trace: Trace, start: int, end: int) -> LaunchCount:
    """The ``launches`` of one device in ``[start, end)``: lines by where they end, lost time by where it passes."""
    when = trace.links.target_time[launches.link]
    own = (when >= start) & (when < end)
    waited = np.maximum(np.minimum(launches.ready + launches.lost, end) - np.maximum(launches.ready, start), 0.0)
    return LaunchCount(
        int((launches.near_vertical & own).sum()),
        int((launches.shallow & own).sum()),
        int((launches.queued & own).sum()),
        int((launches.starved & (waited > 0)).sum()),
        float(waited.sum()),
    )


def edge_at(trace: Trace, when: int, lane: int) -> tuple[int, bool] | None:
    """A slice that ends at ``when`` ns (True) or starts there (False), one on ``lane`` rather than others."""
    slices = trace.slices
    for times, ending in ((slices.end, True), (slices.start, False)):
        items = np.flatnonzero(times == when)
        on_lane = items[slices.lane[items] == lane]
        if len(on_lane):
            return int(on_lane[0]), ending
    return None


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


class Namesakes(Struct, frozen=True):
    """The slices ``items`` of one name and layer by start; the one asked about is number ``at``.

    ``median`` is of their durations (ns), ``percentile`` 0..100 the share of them that last no longer than it.
    """

    items: npt.NDArray[np.int64]
    at: int
    median: float
    percentile: float


def namesakes(trace: Trace, item: int) -> Namesakes:
    """The slices with the name of ``item`` on the lanes of its layer."""
    slices = trace.slices
    items = np.flatnonzero(slices.name == slices.name[item])
    layer_of = np.array([lane.layer for lane in trace.lanes], np.int64)
    items = items[layer_of[slices.lane[items]] == layer_of[slices.lane[item]]]
    items = items[np.argsort(slices.start[items], kind="stable")]
    lasting = slices.end[items] - slices.start[items]
    own = int(slices.end[item] - slices.start[item])
    percentile = 100 * np.count_nonzero(lasting <= own) / len(items)
    return Namesakes(items, int(np.flatnonzero(items == item)[0]), float(np.median(lasting)), percentile)
