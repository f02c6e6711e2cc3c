"""How a device spends its time: computing, exposed communication and Free, and whether host or device causes Free.

The names are those of the profiler's Overlap Analysis layer; traces without that layer get computed lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.device import DeviceSlices, Window
from npu_tui.analysis.launches import Dispatch, LaunchPairs, busy_pairs, dequeue_slices
from npu_tui.analysis.limits import GRID_NS, HALF, HARDLY_ANY, ROUNDING_NS
from npu_tui.native.spans import count_until
from npu_tui.trace.arrays import F64, I64, Bools, BySlice
from npu_tui.trace.intervals import covered_before, difference, intersection, parted, union
from npu_tui.trace.model import MOST_DEVICES, Layer, Trace, bulk_of
from npu_tui.trace.recorder import exchange_kernels, recorder_of

COMPUTING = "Computing"
COMMUNICATION = "Communication"
NOT_OVERLAPPED = "Communication(Not Overlapped)"
FREE = "Free"


class Overlap(Struct, frozen=True):
    """Sums over the Overlap Analysis lanes of one device, ns."""

    device: int | None
    computing: int
    communication: int
    not_overlapped: int
    free: int
    copies: int = 0
    """Copies beside which nothing else runs, where they are no part of Free: those of a GPU."""

    @property
    def total(self) -> int:
        """The sum of computing, communication that is not overlapped, such copies, and free."""
        return self.computing + self.not_overlapped + self.copies + self.free

    def ratio(self, part: int) -> float:
        """``part`` of the total, 0 to 1."""
        return part / self.total if self.total else 0.0


def time_left_out(trace: Trace) -> list[tuple[str, int, int]]:
    """The layers of Overlap Analysis that leave time out: name, the time in none of its lanes, and all of it, ns.

    The profiler shares the time of a device out without a gap, so that what is missing was lost.
    """
    found = []
    for layer in (layer for layer in trace.layers if layer.kind == "overlap" and layer.lanes):
        lanes = [lane for lane in map(trace.lanes.__getitem__, layer.lanes) if lane.name != COMMUNICATION]
        of_layer = np.concatenate([np.arange(lane.first, lane.last) for lane in lanes] or [_NO_INTERVALS[0]])
        begin, until = union(trace.slices.start[of_layer], trace.slices.end[of_layer])
        gaps = begin[1:] - until[:-1]
        missing, whole = int(gaps[gaps > GRID_NS].sum()), int(until[-1] - begin[0]) if len(begin) else 0
        if missing > HARDLY_ANY * whole:
            found.append((layer.name, missing, whole))
    return found


def free_slices(trace: Trace) -> npt.NDArray[np.int64]:
    """The slices of the Free lanes of all devices, by start."""
    parts = [
        np.arange(lane.first, lane.last)
        for lane in trace.file_lanes
        if trace.layers[lane.layer].kind == "overlap" and lane.name == FREE
    ]
    items = np.concatenate([*parts, np.zeros(0, np.int64)])
    return items[np.argsort(trace.slices.start[items], kind="stable")]


Intervals = tuple[I64, I64]

_NO_INTERVALS: Intervals = (np.zeros(0, np.int64), np.zeros(0, np.int64))


class OverlapLanes(Struct, frozen=True):
    """Starts and ends (ns) of the slices of each lane; ``layer`` is None where the lanes are computed."""

    device: int | None
    layer: int | None
    computing: Intervals
    communication: Intervals
    not_overlapped: Intervals
    free: Intervals
    copies: Intervals = _NO_INTERVALS

    def sums(self, window: Window) -> Overlap:
        """The time of each lane that belongs to ``window``."""
        return Overlap(
            self.device,
            window.length(*self.computing),
            window.length(*self.communication),
            window.length(*self.not_overlapped),
            window.length(*self.free),
            window.length(*self.copies),
        )


def overlap_lanes(trace: Trace, devices: list[DeviceSlices]) -> list[OverlapLanes]:
    """The lanes of every device with an Overlap Analysis layer, a compute slice or a collective.

    The ``devices`` of the trace come first and in order, then layers of other devices, up to ``MOST_DEVICES``. There
    are none where nothing tells of kernels.
    """
    if not trace.nature.launches:
        return []
    layers = [layer for layer in trace.layers if layer.kind == "overlap" and layer.lanes]
    result: list[OverlapLanes] = []
    for device in devices:
        layer = next((layer for layer in layers if layer.device == device.device), None)
        if layer is None and len(layers) == len(devices) == 1:
            layer = layers[0]  # the pids of older writers name no device
        is_busy = (device.compute | device.collective | _copies_apart(trace, device)).any()
        if layer is not None:
            layers.remove(layer)
            cut = trace.health.truncated and _ends_early(trace, layer, device)
            exchanging = device.collective[exchange_kernels(trace)].any()  # msprof takes some of them for computing
            wrong = cut or exchanging or len(device.overruns) > 0
            computed = is_busy and (overlaps_itself(trace, layer) or wrong)
            result.append(computed_lanes(trace, device) if computed else _of_file(trace, layer, device.device))
        elif is_busy:
            result.append(computed_lanes(trace, device))
    rest = layers[: MOST_DEVICES - len(result)]
    return result + [_of_file(trace, layer, layer.device) for layer in rest]


def overlaps_itself(trace: Trace, layer: Layer) -> bool:
    """Whether slices of a lane of ``layer`` overlap by more than rounding, so that their sum is longer than its span.

    Then the trace holds several processes or devices as one, and its lanes describe none of them.
    """
    for lane in (trace.lanes[index] for index in layer.lanes):
        start, end = trace.slices.start[lane.first : lane.last], trace.slices.end[lane.first : lane.last]
        if int(np.maximum(end[:-1] - start[1:], 0).sum()) > ROUNDING_NS * len(start):
            return True
    return False


def _ends_early(trace: Trace, layer: Layer, device: DeviceSlices) -> bool:
    """Whether ``layer`` ends before the work of ``device`` does, as in a file that was cut off."""
    end, bulk = trace.slices.end, bulk_of(trace)
    lanes = [trace.lanes[index] for index in layer.lanes]
    told = max((int(end[lane.first : lane.last].max(initial=0)) for lane in lanes), default=0)
    worked = end[device.compute | device.collective]
    if bulk is not None:
        worked = worked[bulk.holds(worked, worked)]
    return int(worked.max(initial=0)) - told > ROUNDING_NS


def merged_layers(trace: Trace) -> list[str]:
    """The layers of Overlap Analysis that hold several processes or devices as one."""
    return [layer.name for layer in trace.layers if layer.kind == "overlap" and overlaps_itself(trace, layer)]


def _of_file(trace: Trace, layer: Layer, device: int | None) -> OverlapLanes:
    lanes, bulk = {}, bulk_of(trace)
    for index in layer.lanes:
        lane = trace.lanes[index]
        start, end = trace.slices.start[lane.first : lane.last], trace.slices.end[lane.first : lane.last]
        near = slice(None) if bulk is None else bulk.holds(start, end)
        if lane.first < lane.last:  # its slices have its name, which may be missing where a file was cut off
            lanes[trace.name_of(lane.first)] = start[near], end[near]
    named = (lanes.get(name, _NO_INTERVALS) for name in (COMPUTING, COMMUNICATION, NOT_OVERLAPPED, FREE))
    return OverlapLanes(device, layer.index, *named)


def _copies_apart(trace: Trace, device: DeviceSlices) -> Bools:
    return device.copy & recorder_of(trace).copies_apart


def computed_lanes(trace: Trace, device: DeviceSlices) -> OverlapLanes:
    """The lanes by unions and differences of slices; Free lies between the first and last compute or collective.

    Free holds copies as msprof's does. On a GPU it does not: there it is what TraceLens calls idle.
    """
    start, end = trace.slices.start, trace.slices.end
    computing = union(start[device.compute], end[device.compute])
    communication = union(start[device.collective], end[device.collective])
    busy = union(np.concatenate((computing[0], communication[0])), np.concatenate((computing[1], communication[1])))
    apart = _copies_apart(trace, device)
    copied = union(start[apart], end[apart])
    copies = difference(*copied, *busy)
    busy = union(np.concatenate((busy[0], copied[0])), np.concatenate((busy[1], copied[1])))
    # Free is what lies between the busy intervals: from the end of each to the start of the next.
    free = (busy[1][:-1], busy[0][1:])
    exposed = difference(*communication, *computing)
    return OverlapLanes(device.device, None, computing, communication, exposed, free, copies)


def sums_of_kernels(start: I64, end: I64, device: I64, exchanging: npt.NDArray[np.bool_]) -> Overlap:
    """The sums over all devices of kernels and, where ``exchanging``, collectives; times in ns, (n,) each.

    Free lies between the first and the last of them, as in ``computed_lanes``.
    """
    sums = np.zeros(4, np.int64)
    for number in np.unique(device):
        here = device == number
        computing, communication = (union(start[of], end[of]) for of in (here & ~exchanging, here & exchanging))
        lengths = [int((high - low).sum()) for low, high in (computing, communication)]
        exposed = difference(*communication, *computing)
        outside = int((exposed[1] - exposed[0]).sum())
        span = int(end[here].max() - start[here].min())
        sums += (lengths[0], lengths[1], outside, span - lengths[0] - outside)
    return Overlap(None, *sums.tolist())


def disagreement(trace: Trace, lanes: OverlapLanes, device: DeviceSlices) -> tuple[int, int]:
    """How much longer Computing and Communication of ``lanes`` are than those of ``computed_lanes``, ns.

    0 where the difference is explained by rounding.
    """
    computed_of_device = computed_lanes(trace, device)
    excesses = []
    for recorded, computed in (
        (lanes.computing, computed_of_device.computing),
        (lanes.communication, computed_of_device.communication),
    ):
        excess = int((recorded[1] - recorded[0]).sum() - (computed[1] - computed[0]).sum())
        rounding = ROUNDING_NS * max(len(recorded[0]), len(computed[0]))
        excesses.append(excess if abs(excess) > rounding else 0)
    return excesses[0], excesses[1]


def disagreements(trace: Trace, devices: Sequence[DevicePart]) -> list[tuple[str, int]]:
    """Lanes of Overlap Analysis that disagree with the slices of their device, and the difference, ns."""
    excess = []
    for device in devices:
        if device.lanes is not None and device.lanes.layer is not None and device.slices is not None:
            by = disagreement(trace, device.lanes, device.slices)
            excess += [(lane, ns) for lane, ns in zip(("Computing", "Communication"), by, strict=True) if ns]
    return excess


class FreeSplit(Struct, frozen=True):
    """Parts of the Free times of one device, each host late until ``late_until`` (ns), then of the device.

    Where not ``linked``, the launch that the device waited for is unknown, and ``late_until`` is the start. ``begun``
    is the start of the Free time that each is a part of, ``copying`` says in which of them the device copies.
    """

    start: I64
    end: I64
    late_until: F64
    linked: Bools
    begun: I64
    copying: Bools

    def taken(self, chosen: Bools | I64) -> FreeSplit:
        """The ``chosen`` parts."""
        return FreeSplit(*(getattr(self, name)[chosen] for name in self.__struct_fields__))

    def within(self, window: Window) -> FreeSplit:
        """The parts of ``window``, cut at its edges."""
        low, high = window.cut(self.start, self.end, self.begun)
        lasting = high > low
        cut = FreeSplit(low, high, np.clip(self.late_until, low, high), self.linked, self.begun, self.copying)
        return cut.taken(lasting)

    def sums(self, window: Window) -> tuple[float, float, float]:
        """Host-late, device-side and unlinked time of ``window``, ns."""
        inside = self.within(window)
        late, length = inside.late_until - inside.start, inside.end - inside.start
        linked = inside.linked
        return float(late.sum()), float((length - late)[linked].sum()), float(length[~linked].sum())


def free_split(trace: Trace, device: DeviceSlices, lanes: OverlapLanes, pairs: LaunchPairs | None) -> FreeSplit:
    """Splits each Free time by what happens in it: by every launch that ends a part of it.

    Free continues through copies: a host that launches a copy early and then pauses is late for the next kernel.
    While the device copies it is its own time that passes.
    """
    starts = None if pairs is None else _starts(trace, device, pairs)
    copies = np.flatnonzero(device.copy)
    copied = trace.slices.start[copies], trace.slices.end[copies]
    gaps, copies_within = difference(*lanes.free, *copied), intersection(*lanes.free, *copied)
    late_until, linked = _late_until(gaps, starts)
    # Free times that touch are one gap, and each has its part of it.
    begins = lanes.free[0]
    parts, copying = parted(*gaps, begins), parted(*copies_within, begins)
    gap = count_until(gaps[0], parts[0]) - 1
    start, end = (np.concatenate(edges) for edges in zip(parts, copying, strict=True))
    split = FreeSplit(
        start,
        end,
        np.append(np.clip(late_until[gap], *parts), copying[0]),
        np.append(linked[gap], np.full(len(copying[0]), starts is not None)),
        begins[count_until(begins, start) - 1],
        np.arange(len(start)) >= len(gap),
    )
    return split.taken(np.argsort(start, kind="stable"))


class _Starts(Struct, frozen=True):
    """The starts of the busy slices of a device, ascending, and the launch of each (not-a-number: unknown); (n,) ns."""

    start: I64
    launch: F64


def _starts(trace: Trace, device: DeviceSlices, pairs: LaunchPairs) -> _Starts:
    busy = np.flatnonzero(device.busy)
    pair = BySlice(trace.links.target_slice[pairs.link], np.arange(len(pairs.link)))
    at = pair.of(busy)
    # What runs in a graph after its first kernel was launched with that.
    inside = pairs.graph >= 0
    at[count_until(busy, pairs.unlinked[inside]) - 1] = pairs.graph[inside]
    launch = np.append(pairs.launch, np.nan)[at]  # the last entry answers for -1, "no pair"
    # Of slices that start together one with a known launch comes first.
    order = np.lexsort((np.isnan(launch), trace.slices.start[busy]))
    return _Starts(trace.slices.start[busy[order]], launch[order])


def _late_until(gaps: Intervals, starts: _Starts | None) -> tuple[F64, Bools]:
    """Until when the host was late in each of ``gaps``, ns, and whether a launch shows it; (n,) each."""
    start, end = gaps
    linked = np.zeros(len(start), np.bool_)
    late_until = start.astype(np.float64)
    if starts is None or not len(starts.start):
        return late_until, linked
    at = count_until(starts.start, start - 1)  # the first that starts at or after it
    following = np.minimum(at, len(starts.start) - 1)
    # A slice that starts after the free time did not end it.
    near = (at < len(starts.start)) & (starts.start[following] <= end + ROUNDING_NS)
    launch_of = starts.launch[following]
    linked = near & ~np.isnan(launch_of)
    late_until[linked] = np.minimum(np.maximum(launch_of[linked], late_until[linked]), end[linked])
    return late_until, linked


SlowStage = Literal["python", "cann"]


def dequeue_idle_ratio(trace: Trace, split: FreeSplit, launches: Dispatch, window: Window) -> float | None:
    """The share of the host-late time, on the host's clock, in which no Dequeue slice runs.

    None without Dequeue slices, without host-late time, or where several clock floors make the conversion ambiguous.
    """
    # If the thread that dequeues is busy while the device starves, CANN is slow; if it is idle, Python is.
    dequeues = dequeue_slices(trace)
    floors = {floor.floor for floor in launches.floors}
    if not len(dequeues) or len(floors) != 1:
        return None
    inside = split.within(window)
    low, high = inside.start.astype(np.float64), inside.late_until
    late = float((high - low).sum())
    if late <= 0:
        return None
    (floor,) = floors
    start, end = trace.slices.start[dequeues], trace.slices.end[dequeues]
    busy = covered_before(start, end, high - floor) - covered_before(start, end, low - floor)
    return 1.0 - float(busy.sum()) / late


def slow_stage(idle_ratio: float | None) -> SlowStage | None:
    """The slow stage of the host: Python if the dequeue thread idles for half of the late time or more, else CANN."""
    if idle_ratio is None:
        return None
    return "python" if idle_ratio >= HALF else "cann"


class DevicePart(Struct, frozen=True):
    """One device with its launches and its free time, which ``split`` divides into host-late and device-side time."""

    slices: DeviceSlices | None
    lanes: OverlapLanes | None
    launches: Dispatch | None
    pairs: LaunchPairs | None
    split: FreeSplit | None

    @property
    def device(self) -> int | None:
        """The number of the device, None where the trace has none."""
        known = self.slices or self.lanes
        return known.device if known else None


def device_parts(
    trace: Trace, devices: Sequence[DeviceSlices], lanes: Sequence[OverlapLanes], dispatches: Sequence[Dispatch]
) -> list[DevicePart]:
    """Every device of ``trace`` with its ``lanes`` and launches, also one that has only an Overlap Analysis layer."""
    launches = {dispatch.device: dispatch for dispatch in dispatches}
    parts = []
    for device in devices:
        lanes_of_device = next((device_lanes for device_lanes in lanes if device_lanes.device == device.device), None)
        launched = launches.get(device.device)
        pairs = busy_pairs(trace, device, launched) if launched is not None else None
        split = None
        if lanes_of_device is not None and pairs is not None:
            split = free_split(trace, device, lanes_of_device, pairs)
        parts.append(DevicePart(device, lanes_of_device, launched, pairs, split))
    known = {device.device for device in devices}
    return parts + [
        DevicePart(None, device_lanes, None, None, None) for device_lanes in lanes if device_lanes.device not in known
    ]
