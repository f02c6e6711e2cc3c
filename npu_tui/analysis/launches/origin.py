"""What a launch came from: its Dequeue and Enqueue slices, its operation, and its clock floor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.launches.dispatch import Dispatch
from npu_tui.trace.binding import LaneIndex
from npu_tui.trace.by_slice import BySlice
from npu_tui.trace.model import ASYNC_NPU, HOST_TO_DEVICE, Trace
from npu_tui.trace.once import of_trace

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

Nesting = Callable[[I64, I32], I64]
"""What ``LaneIndex.parents`` finds, of the ends and lanes of slices by lane and start."""


class Around:
    """Finds which of the chosen slices of a trace hold others."""

    def __init__(self, trace: Trace, chosen: npt.NDArray[np.bool_] | I64) -> None:
        """``chosen`` is a mask over the slices of ``trace``, or those it chooses, ascending."""
        self.items = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64, copy=False)
        self.lane = trace.slices.lane[self.items]
        lanes = np.arange(len(trace.lanes), dtype=np.int32)
        first = np.searchsorted(self.lane, lanes, "left").astype(np.int64)
        last = np.searchsorted(self.lane, lanes, "right").astype(np.int64)
        self._end = trace.slices.end[self.items]
        self._index = LaneIndex(first, last, trace.slices.start[self.items], self._end)

    def find(self, lane: I32, start: I64, end: I64) -> I64:
        """The last started of the chosen slices on ``lane`` that hold ``[start, end]``, -1 without one; (n,)."""
        found = np.full(len(lane), -1, np.int64)
        if not len(self.items):
            return found
        known = np.flatnonzero(lane >= 0)
        at = self._index.enclosing(lane[known], start[known], end[known])
        found[known] = np.where(at >= 0, self.items[np.maximum(at, 0)], -1)
        return found

    def parents(self, nesting: Nesting | None = None) -> I64:
        """For each chosen slice the position in ``items`` of the nearest one around it, -1 without; (items,)."""
        if not len(self.items):
            return np.zeros(0, np.int64)
        return self._index.parents(self.lane) if nesting is None else nesting(self._end, self.lane)


class Pairs(Struct, frozen=True):
    """Every HostToDevice pair that ends in a busy slice of one device, by target start.

    ``link`` indexes ``Trace.links``; ``arrival`` is when the launch reached the device: source plus clock floor, but
    not after the target's start; ``launch`` is the former without that limit; float64 ns.
    """

    link: I64
    launch: F64
    arrival: F64


def busy_pairs(trace: Trace, device: DeviceSlices, launches: Dispatch) -> Pairs:
    """All pairs of the launches of ``device``; those of one id share the clock floor of its first one."""
    links = trace.links
    floor_of = np.full(int(links.key.max()) + 1 if len(links) else 0, np.nan)
    floor_of[links.key[launches.link]] = links.latency[launches.link] - launches.relative
    link = trace.links_of(HOST_TO_DEVICE)
    link = link[links.target_slice[link] >= 0]
    link = link[device.busy[links.target_slice[link]]]
    launch = links.source_time[link] + floor_of[links.key[link]]
    return Pairs(link, launch, np.minimum(launch, links.target_time[link]))


def enqueue_slices(trace: Trace) -> I64:
    """The Enqueue slices of the task queue, ascending."""
    return _queue_slices(trace)["enqueue"]


def dequeue_slices(trace: Trace) -> I64:
    """The Dequeue slices of the task queue, ascending."""
    return _queue_slices(trace)["dequeue"]


@of_trace
def _queue_slices(trace: Trace) -> dict[str, I64]:
    found = dict.fromkeys(("enqueue", "dequeue"), np.zeros(0, np.int64))
    for category in found.keys() & set(trace.categories):
        found[category] = np.flatnonzero(trace.slices.category == trace.categories.index(category))
    return found


def dequeue_of(trace: Trace, link: I64) -> I64:
    """The Dequeue slice on the launching thread around the source of each ``link``, -1 without a task queue; (n,)."""
    dequeues = _dequeues(trace)
    if not len(dequeues.items):
        return np.full(len(link), -1, np.int64)
    python = {trace.lanes[lane].tid: lane for layer in trace.layers if layer.kind == "python" for lane in layer.lanes}
    same_thread = np.array([python.get(lane.tid, -1) for lane in trace.lanes] + [-1], np.int32)
    time = trace.links.source_time[link]
    return dequeues.find(same_thread[trace.links.source_lane[link]], time, time)


@of_trace
def dequeued_launches(trace: Trace) -> tuple[I64, I64]:
    """The ``HostToDevice`` links that end in a slice, and the Dequeue slice of each as ``dequeue_of`` has it; (n,)."""
    link = trace.links_of(HOST_TO_DEVICE)
    link = link[trace.links.target_slice[link] >= 0]
    return link, dequeue_of(trace, link)


@of_trace
def _dequeues(trace: Trace) -> Around:
    return Around(trace, dequeue_slices(trace))


def enqueue_of(trace: Trace, dequeue: I64) -> I64:
    """The Enqueue slice with the correlation id of each ``dequeue`` slice, -1 without one; (n,)."""
    slices = trace.slices
    enqueues, ids = _enqueues(trace)
    found = np.full(len(dequeue), -1, np.int64)
    if not len(enqueues):
        return found
    wanted = np.where(dequeue >= 0, slices.correlation[dequeue], -1)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    hit = (wanted >= 0) & (ids[at] == wanted)
    found[hit] = enqueues[at[hit]]
    return found


@of_trace
def _enqueues(trace: Trace) -> tuple[I64, I64]:
    """The Enqueue slices by correlation id, and these."""
    correlation = trace.slices.correlation
    enqueues = enqueue_slices(trace)
    enqueues = enqueues[correlation[enqueues] >= 0]
    enqueues = enqueues[np.argsort(correlation[enqueues], kind="stable")]
    return enqueues, correlation[enqueues]


def operation_of(trace: Trace, target: I64) -> I64:
    """The operation at the source of the ``async_npu`` link into each slice ``target``, -1 without one; (n,)."""
    return _operations(trace).of(target)


@of_trace
def _operations(trace: Trace) -> BySlice:
    ways = trace.links_of(ASYNC_NPU)
    source, end = trace.links.source_slice[ways], trace.links.target_slice[ways]
    bound = (end >= 0) & (source >= 0)
    return BySlice(end[bound], source[bound])
