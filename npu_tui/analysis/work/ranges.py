"""What happens in a range of time, name by name, without counting anything twice."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.launches.dispatch import Dispatch
from npu_tui.analysis.window import Window
from npu_tui.analysis.work.call_tree import own_times
from npu_tui.analysis.work.operators import TypesOf
from npu_tui.analysis.work.phases import PHASES, phases
from npu_tui.trace.intervals import clipped, union
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
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
