"""A range of time: sums by name, type, layer or phase; its launches; what a thread did meanwhile; namesakes."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.calls import own_times
from npu_tui.analysis.device import Window
from npu_tui.analysis.launches import Around, Dispatch, operation_of
from npu_tui.analysis.operators import TypesOf
from npu_tui.trace.arrays import I64, Bools, most_first
from npu_tui.trace.classes import OpClass
from npu_tui.trace.intervals import clipped, covered, covered_before, union
from npu_tui.trace.model import FORWARD_BACKWARD, Lane, Trace
from npu_tui.trace.once import of_trace

# --- Phases of the training step ---

PHASES = ("forward", "backward", "optimizer", "neither")
_OPTIMIZER = "Optimizer."


def phases(trace: Trace, items: I64) -> I64:
    """The phase of each slice as an index of ``PHASES``, by the operation that it is or that launched it; (n,).

    An operation is *backward* inside the target of a ``fwdbwd`` link, or on a thread where such links end and none
    begins; *optimizer* inside an ``Optimizer.`` range of its thread; *forward* between the first and the last source of
    the links of one backward pass.
    """
    slices = trace.slices
    is_operation = np.zeros(len(slices) + 1, np.bool_)
    if "cpu_op" in trace.categories:
        is_operation[:-1] = slices.category == trace.categories.index("cpu_op")
    operation = np.where(is_operation[items], items, operation_of(trace, items))
    phase_of = np.full(len(items), PHASES.index("neither"), np.int64)
    known = np.flatnonzero(operation >= 0)
    operation_of_item = operation[known]
    if not len(operation_of_item):
        return phase_of
    lane, start, end = slices.lane[operation_of_item], slices.start[operation_of_item], slices.end[operation_of_item]
    passes = _passes(trace)
    optimizer = passes.optimizer.find(lane, start, end) >= 0
    backward = passes.lane[lane] | (passes.backward.find(lane, start, end) >= 0)
    forward = np.zeros(len(known), np.bool_)
    for source_lane, first, last in passes.forward:
        at = np.searchsorted(first, end, "right") - 1
        forward |= (lane == source_lane) & (at >= 0) & (start < last[at]) & (end > first[at])
    phase_of[known] = np.select([optimizer, backward, forward], [2, 1, 0], PHASES.index("neither"))
    return phase_of


class _Passes(Struct, frozen=True):
    """Where a trace's passes are: ``lane`` says which lanes are backward, (lanes,); forward by lane, ns."""

    lane: Bools
    backward: Around
    optimizer: Around
    forward: list[tuple[int, I64, I64]]


@of_trace
def _passes(trace: Trace) -> _Passes:
    """The passes of ``trace``."""
    slices, links = trace.slices, trace.links
    stepping = np.array([name.startswith(_OPTIMIZER) for name in trace.names] + [False])[slices.name]
    link = trace.bound_links_of(FORWARD_BACKWARD)
    sources, targets = (
        np.bincount(ends[link], minlength=len(trace.lanes)) for ends in (links.source_lane, links.target_lane)
    )
    backward = np.zeros(len(slices), np.bool_)
    backward[links.target_slice[link]] = True
    forward = []
    for lane in np.flatnonzero(sources).tolist():
        own = link[links.source_lane[link] == lane]
        source, target = links.source_slice[own], links.target_slice[own]
        forward.append((lane, *_forward_passes(slices.start[source], slices.end[source], slices.start[target])))
    return _Passes((targets > 0) & (sources == 0), Around(trace, backward), Around(trace, stepping), forward)


def _forward_passes(start: I64, end: I64, target: I64) -> tuple[I64, I64]:
    """The forward passes: from the first to the last source between two backward passes.

    ``start`` and ``end`` are those of the sources, ``target`` is when the backward operation of each began, ns.
    """
    order = np.argsort(start, kind="stable")
    start, end, target = start[order], end[order], target[order]
    heads: list[int] = []
    earliest = int(start[0])
    for k, (begun, backward) in enumerate(zip(start.tolist(), target.tolist(), strict=True)):
        # A source after the earliest backward operation of the pass so far belongs to the next forward pass.
        if begun >= earliest:
            heads.append(k)
            earliest = backward
        elif backward < earliest:
            earliest = backward
    first = np.array(heads)
    return start[first], np.maximum.reduceat(end, first)


# --- Sums of a range ---

By = Literal["name", "type", "layer", "phase"]


class NameSum(Struct, frozen=True):
    """The slices of one name (or operator type) and layer within a range.

    Times are in ns. ``total`` sums the parts in the range, ``own`` leaves out slices inside on the same lane, ``busy``
    is the union. ``shortest``, ``average``, ``longest`` and ``p90`` are of full durations, also of the ``cut`` slices
    that the range cuts. ``label`` is the name or type (empty: all of the layer); ``items`` are the slices, the one that
    covers most of the range first.
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
    """The launches whose target starts in a range, by class.

    ``lost`` is the time of the range (ns) that the idle device waited for launches, ``starved`` how many of these are
    starved.
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

    A slice without duration counts if it starts in the range. ``by="type"`` groups kernels by operator type
    (``compute`` is the mask of kernels over all slices, ``types_of`` gives their types), ``by="layer"`` makes one row
    per layer, ``by="phase"`` one per phase of the training step.
    """
    slices = trace.slices
    chosen = (slices.start < end) & ((slices.end > start) | ((slices.start >= start) & (slices.end == slices.start)))
    if lanes is not None:
        chosen &= np.isin(slices.lane, lanes)
    items, _, self_times, _ = own_times(trace, chosen, Window(start, end))
    if not len(items):
        return []
    layer_of = np.array([lane.layer for lane in trace.lanes], np.int64)
    labels, code = _labels(trace, items, by, compute, types_of)
    # One key for layer and label, so that one sort makes all groups.
    group = layer_of[slices.lane[items]] * len(labels) + code
    order = np.argsort(group, kind="stable")
    items, group, self_times = items[order], group[order], self_times[order]
    low, high = clipped(slices.start[items], slices.end[items], start, end)
    durations = slices.end[items] - slices.start[items]
    firsts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    counts = np.diff(np.append(firsts, len(items)))
    totals, self_sums = np.add.reduceat(high - low, firsts), np.add.reduceat(self_times, firsts)
    rows = []
    for first, count, total, self_sum in zip(
        *(sums.tolist() for sums in (firsts, counts, totals, self_sums)), strict=True
    ):
        group_slices = slice(first, first + count)
        begins, ends = union(low[group_slices], high[group_slices])
        layer, label = divmod(int(group[first]), len(labels))
        times = durations[group_slices]
        rows.append(
            NameSum(
                layer,
                labels[label],
                count,
                int(total),
                int(self_sum),
                int((ends - begins).sum()),
                int(times.min()),
                float(times.mean()),
                int(times.max()),
                float(np.percentile(times, 90)),
                int(np.count_nonzero(high[group_slices] - low[group_slices] < times)),
                items[group_slices][np.argsort(low[group_slices] - high[group_slices], kind="stable")],
            )
        )
    rows.sort(key=lambda row: (-row.busy, -row.count, row.label))
    return rows


def _labels(trace: Trace, items: I64, by: By, compute: Bools | None, types_of: TypesOf | None) -> tuple[list[str], I64]:
    """The labels of the rows, and the index of the label of each of ``items``; (n,)."""
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
    """The ``launches`` of one device in ``[start, end)``: a launch counts where it ends, lost time where it passes."""
    target_time = trace.links.target_time[launches.link]
    inside = (target_time >= start) & (target_time < end)
    waited = np.maximum(np.minimum(launches.ready + launches.lost, end) - np.maximum(launches.ready, start), 0.0)
    return LaunchCount(
        int((launches.near_vertical & inside).sum()),
        int((launches.shallow & inside).sum()),
        int((launches.queued & inside).sum()),
        int((launches.starved & (waited > 0)).sum()),
        float(waited.sum()),
    )


def edge_at(trace: Trace, when: int, lane: int) -> tuple[int, bool] | None:
    """The slice on ``lane`` that ends at ``when`` ns (True) or else starts there (False); None without one."""
    slices = trace.slices
    for times, ending in ((slices.end, True), (slices.start, False)):
        items = np.flatnonzero(times == when)
        on_lane = items[slices.lane[items] == lane]
        if len(on_lane):
            return int(on_lane[0]), ending
    return None


def self_time(trace: Trace, item: int) -> int:
    """The duration of a slice without the slices inside it on its lane, ns."""
    slices = trace.slices
    lane = trace.lanes[int(slices.lane[item])]
    start, end = int(slices.start[item]), int(slices.end[item])
    low = item + 1
    high = lane.first + int(np.searchsorted(slices.start[lane.first : lane.last], end))
    inner = np.arange(low, max(high, low))
    inner = inner[slices.end[inner] <= end]
    begins, ends = union(slices.start[inner], slices.end[inner])
    return end - start - int((ends - begins).sum())


# --- What else happened, and how often ---


class Meanwhile(Struct, frozen=True):
    """``names`` with the time (ns) in which each was the innermost call, most first; ``silent`` is time without any."""

    names: tuple[tuple[str, int], ...]
    silent: int
    longest: int


def meanwhile(trace: Trace, lane: Lane, start: int, end: int) -> Meanwhile:
    """What ``lane`` did in ``[start, end)`` ns; ``longest`` is the slice with most self time, -1 without one.

    Steps of the profiler do not count as calls.
    """
    slices = trace.slices
    slices_of_lane = slice(lane.first, lane.last)
    in_window = (
        (slices.start[slices_of_lane] < end)
        & (slices.end[slices_of_lane] > start)
        & (slices.op_class[slices_of_lane] != OpClass.STEP)
    )
    items = lane.first + np.flatnonzero(in_window)
    if not len(items):
        return Meanwhile((), end - start, -1)
    low, high = clipped(slices.start[items], slices.end[items], start, end)
    depth = slices.depth[items]
    time = (high - low).astype(np.float64)
    # A call is innermost where no deeper one runs: subtract, level by level, what deeper calls cover.
    for level in np.unique(depth).tolist():
        deeper, at_level = depth > level, depth == level
        edges = covered_before(
            low[deeper], high[deeper], np.concatenate((low[at_level], high[at_level])).astype(np.float64)
        )
        count = int(at_level.sum())
        time[at_level] -= edges[count:] - edges[:count]
    time = np.maximum(time, 0)
    codes, code = np.unique(slices.name[items], return_inverse=True)
    sums = np.bincount(code, weights=time)
    order = [k for k in most_first(sums, [trace.names[name] for name in codes.tolist()]) if sums[k] > 0]
    names = tuple((trace.names[int(codes[k])], int(sums[k])) for k in order)
    return Meanwhile(names, end - start - covered(low, high), int(items[int(np.argmax(time))]))


class Namesakes(Struct, frozen=True):
    """The slices ``items`` of one name and layer by start; the slice in question is number ``at``.

    ``median`` is that of their durations (ns), ``percentile`` (0..100) the share that takes no longer than the slice.
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
    durations = slices.end[items] - slices.start[items]
    duration = int(slices.end[item] - slices.start[item])
    percentile = 100 * np.count_nonzero(durations <= duration) / len(items)
    return Namesakes(items, int(np.flatnonzero(items == item)[0]), float(np.median(durations)), percentile)
