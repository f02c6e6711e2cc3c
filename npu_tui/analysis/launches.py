"""Launches: the link to each busy slice, its delay, lost time and class, and the operation that made it.

A kernel of torch_npu is launched in this order: an operation on a Python thread, Enqueue, Dequeue on the queue's
thread, a CANN launch call, the kernel on a stream. ``async_npu`` links lead from the operation to the kernel,
``HostToDevice`` links from the launch call to it, correlation ids from Enqueue to Dequeue.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.device import HOST, DeviceSlices, named_on
from npu_tui.analysis.limits import FEWEST_OF_P99, LITTLE, LONG_NS, NOTABLE, SHORT_NS, SOME, Threshold, Thresholds
from npu_tui.native.spans import count_until
from npu_tui.trace.arrays import F64, I32, I64, BySlice, LaneIndex, distinct
from npu_tui.trace.model import Trace, bulk_of
from npu_tui.trace.once import of_trace
from npu_tui.trace.recorder import bound_launch_links, recorder_of

NEAR_VERTICAL_US = Threshold("near_vertical_us", 30.0)
STARVED_US = Threshold("starved_us", 10.0)

SHALLOW_NS = 100_000
"""Above the clock floor: up to here a launch is shallow, beyond it is queued."""
_TRUST_SPREAD_NS = 20_000
_UNTRUSTED_FLOOR_NS = 30_000.0
"""See ``clock_floor``: launches on an empty queue take about as long as each other, within the spread."""


class ClockFloor(Struct, frozen=True):
    """The least launch latency plus clock offset of one (host process, device), ns; ``trusted`` if links confirm it."""

    floor: float
    trusted: bool


class Dispatch(Struct, frozen=True):
    """The classed launches of one device, by target start.

    ``link`` indexes ``Trace.links`` (the first busy target of every launch). In float64 ns, ``relative`` is the latency
    above the clock floor from when the launch was made (``launched_at``), ``lost`` the time that the idle device waited
    for the launch; ``ready`` is when the device
    had finished everything before (-1 where nothing ran before). ``near_limit`` and ``starved_limit`` (ns) separate
    the classes.
    """

    device: int | None
    link: I64
    relative: F64
    lost: F64
    ready: I64
    floors: tuple[ClockFloor, ...]
    near_limit: float
    starved_limit: float

    @property
    def near_vertical(self) -> npt.NDArray[np.bool_]:
        """Which launches have a near-vertical line."""
        return self.relative <= self.near_limit

    @property
    def shallow(self) -> npt.NDArray[np.bool_]:
        """Which launches lie between near-vertical and queued."""
        return (self.relative > self.near_limit) & (self.relative <= SHALLOW_NS)

    @property
    def queued(self) -> npt.NDArray[np.bool_]:
        """Which launches waited on the device for others."""
        return self.relative > max(SHALLOW_NS, self.near_limit)

    @property
    def starved(self) -> npt.NDArray[np.bool_]:
        """Which launches an idle device waited for, 10 us or more by default."""
        return self.lost >= self.starved_limit

    def waited(self, link: int) -> float | None:
        """How long the launch ``link`` waited on the device, ns above the clock floor; None if it is not classed."""
        at = int(np.searchsorted(self.link, link))
        return float(self.relative[at]) if at < len(self.link) and self.link[at] == link else None


class StarvedLaunch(Struct, frozen=True):
    """A launch that an idle device waited for: its slice on the device, when that started, what waiting cost, ns."""

    item: int
    start: int
    lost: float


def clock_floor(latency: F64, one_clock: bool = False) -> ClockFloor:
    """The floor of raw latencies (ns): their 1st percentile, of few the minimum.

    It is trusted if at least 5 % lie within 20 us above it. Otherwise the queue may never have been empty, so that
    even the least latency includes waiting; then the floor is at most 30 us. So it is where host and device are known
    to have ``one_clock``, as on a GPU: there a few kernels that begin before their launch have a wrong time.
    """
    if one_clock and np.mean(early := latency < -SHORT_NS) < NOTABLE:
        latency = latency[~early]
    floor = float(np.percentile(latency, 1) if len(latency) >= FEWEST_OF_P99 else latency.min())
    near = np.count_nonzero((latency >= floor) & (latency <= floor + _TRUST_SPREAD_NS))
    trusted = bool(near >= LITTLE * len(latency))
    if one_clock:
        trusted = floor <= _UNTRUSTED_FLOOR_NS
    return ClockFloor(floor if trusted else min(floor, _UNTRUSTED_FLOOR_NS), trusted)


@of_trace
def launch_delays(trace: Trace) -> BySlice:
    """How long after its line begins the launch of each call was made, ns; only calls that came late to it.

    A line begins early in its call. What a call takes above the usual, such as to load a kernel at its first use, is
    the host's, where the first thing that it launched starts as it ends: neither before nor long after.
    """
    links, slices = trace.links, trace.slices
    link = bound_launch_links(trace)
    link = link[links.source_slice[link] >= 0]
    queued = [code for code, name in enumerate(trace.categories) if name in ("enqueue", "dequeue")]
    # An entry of the queue launches within, and what compiles has a line of its own at the end.
    compiles = np.array(["CompileAndExecute" in name for name in trace.names] + [False])
    source = links.source_slice[link]
    link = link[~np.isin(slices.category[source], queued) & ~compiles[slices.name[source]]]
    call, place = distinct(links.source_slice[link])
    made, started = np.full(len(call), 2**62), np.full(len(call), 2**62)
    np.minimum.at(made, place, links.source_time[link])
    # The first target gives the device: links come by target time.
    _, first = np.unique(place, return_index=True)
    started = links.target_time[link[first]]
    length = slices.end[call] - made
    if not (length > SHALLOW_NS).any():
        return BySlice(call[:0], call[:0])
    layer = np.array([lane.layer for lane in trace.lanes], np.int64)[slices.lane[links.target_slice[link[first]]]]
    # Where most calls launch graphs that is their length, and what others take is usual.
    plain = (length <= SHALLOW_NS) | (np.median(length) <= LONG_NS)
    floor, recorder = np.full(len(call), _UNTRUSTED_FLOOR_NS), recorder_of(trace)
    for number in np.unique(layer[plain]).tolist():
        here = layer == number
        floor[here] = clock_floor((started - made)[here & plain].astype(np.float64), recorder.one_clock).floor
    beyond = length - np.int64(np.median(length[plain]) if plain.any() else 0)
    after = started - floor - (made + beyond)
    late = (beyond > SHALLOW_NS) & (after >= -_UNTRUSTED_FLOOR_NS) & (after <= SHALLOW_NS)
    return BySlice(call[late], beyond[late])


def launched_at(trace: Trace, link: I64) -> I64:
    """When the launch of each ``link`` was made, ns on the host's clock: where its line begins, or later; (n,)."""
    made: I64 = trace.links.source_time[link] + np.maximum(launch_delays(trace).of(trace.links.source_slice[link]), 0)
    return made


def dispatch(trace: Trace, devices: Sequence[DeviceSlices], limits: Thresholds) -> list[Dispatch]:
    """The launches of each device that has any, classed by ``limits``, in the order of ``devices``."""
    dispatches = (_dispatch_of(trace, device, limits) for device in devices)
    return [launches for launches in dispatches if len(launches.link)]


def _to_busy(trace: Trace, device: DeviceSlices) -> I64:
    """The links of launches of what ``device`` is busy with, without those of outlying clocks."""
    links, link = trace.links, bound_launch_links(trace)
    link = link[device.busy[links.target_slice[link]]]
    if (bulk := bulk_of(trace)) is not None:
        link = link[bulk.holds(links.source_time[link], links.target_time[link])]
    return link


def _dispatch_of(trace: Trace, device: DeviceSlices, limits: Thresholds) -> Dispatch:
    links, slices = trace.links, trace.slices
    busy = device.busy
    candidates = _to_busy(trace, device)
    # Links of one id and one source are one launch of several tasks: only the first counts. An id is reused for a
    # later launch, which has another source event.
    key = links.key[candidates]
    first = np.ones(len(candidates), np.bool_)
    repeated = np.flatnonzero(np.bincount(key)[key] > 1)  # links come by target time
    repeated = repeated[np.lexsort((links.source_event[candidates[repeated]], key[repeated]))]
    key, event = key[repeated], links.source_event[candidates[repeated]]
    first[repeated[1:]] = (key[1:] != key[:-1]) | (event[1:] != event[:-1])
    link = candidates[first]
    source, start = launched_at(trace, link), links.target_time[link]
    latency = (start - links.source_time[link]).astype(np.float64)
    floors: list[ClockFloor] = []
    floor = np.zeros(len(link))
    host = _host_process(trace, link)
    # Every host process has its own clock offset against the device.
    for process in np.unique(host) if host.any() else host[:1]:
        of_process = host == process
        floors.append(clock_floor(latency[of_process], recorder_of(trace).one_clock))
        floor[of_process] = floors[-1].floor
    ready = _ready(slices.start[busy], slices.end[busy], start)
    # An idle device waits from when it is ready until the launch arrives; after that the delay is its own.
    arrival = np.minimum(source + floor, start)
    lost = np.where(ready >= 0, np.maximum(arrival - ready, 0.0), 0.0)
    near, starved = limits[NEAR_VERTICAL_US] * 1000, limits[STARVED_US] * 1000
    return Dispatch(device.device, link, start - source - floor, lost, ready, tuple(floors), near, starved)


def _host_process(trace: Trace, link: I64) -> I64:
    """The operating system's process that each link comes from; (n,).

    CANN runs in the process of Python; msprof packs the process id into the pid of the layer (``os_pid << 10 | ...``).
    A source on an unknown lane belongs to the only process, if there is one, else to -1.
    """
    hosts = [layer for layer in trace.layers if layer.kind in ("python", "cann")]
    python = {layer.pid for layer in hosts if layer.kind == "python"}
    process = {layer.index: layer.pid if layer.pid in python else layer.pid >> 10 for layer in hosts}
    if len(python) == 1 or len(set(process.values())) <= 1:
        return np.zeros(len(link), np.int64)
    by_lane = np.array([process.get(lane.layer, -1) for lane in trace.lanes] + [-1], np.int64)
    return by_lane[trace.links.source_lane[link]]


def _ready(busy_start: I64, busy_end: I64, start: I64) -> I64:
    """The latest end of the busy slices that started before each ``start``, -1 without any; (n,)."""
    order = np.argsort(busy_start, kind="stable")
    latest = np.maximum.accumulate(busy_end[order]) if len(order) else busy_end
    before = np.searchsorted(busy_start[order], start, "left")
    return np.where(before > 0, latest[np.maximum(before, 1) - 1], -1) if len(order) else np.full(len(start), -1)


class Around:
    """An index of chosen slices of a trace: finds the innermost one around a time or around each other."""

    def __init__(self, trace: Trace, chosen: npt.NDArray[np.bool_] | I64) -> None:
        """``chosen`` is a mask over the slices of ``trace``, or the slices themselves, ascending."""
        self.items = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64, copy=False)
        self.lane = trace.slices.lane[self.items]
        lanes = np.arange(len(trace.lanes), dtype=np.int32)
        first = np.searchsorted(self.lane, lanes, "left").astype(np.int64)
        last = np.searchsorted(self.lane, lanes, "right").astype(np.int64)
        self._index = LaneIndex(first, last, trace.slices.start[self.items], trace.slices.end[self.items])

    def find(self, lane: I32, start: I64, end: I64) -> I64:
        """The innermost chosen slice on ``lane`` around ``[start, end]``, -1 without one; (n,)."""
        items = np.full(len(lane), -1, np.int64)
        if not len(self.items):
            return items
        known = np.flatnonzero(lane >= 0)
        at = self._index.enclosing(lane[known], start[known], end[known])
        items[known] = np.where(at >= 0, self.items[np.maximum(at, 0)], -1)
        return items

    def parents(self) -> I64:
        """For each chosen slice the position in ``items`` of the innermost one around it, -1 without; (items,)."""
        if not len(self.items):
            return np.zeros(0, np.int64)
        return self._index.parents(self.lane)


class LaunchPairs(Struct, frozen=True):
    """Every HostToDevice pair that ends in a busy slice of one device, by target start.

    ``link`` indexes ``Trace.links``. ``launch`` is when it was made plus clock floor, float64 ns: when the launch would
    reach the device. ``arrival`` is the same, but not after the start of the target. ``end`` is that of the target, or
    of the last one of the kernels that the launch of a graph replays. ``unlinked`` are kernels and copies that no link
    leads to, ``graph`` the pair that launched the graph of each, -1 outside of graphs.
    """

    link: I64
    launch: F64
    arrival: F64
    end: F64
    unlinked: I64
    graph: I64


def busy_pairs(trace: Trace, device: DeviceSlices, launches: Dispatch) -> LaunchPairs:
    """All pairs of the launches of ``device``; the pairs of one launch share the clock floor of its first one.

    A captured graph may have a link to its first kernel only: the other ones are those without a link until the next
    launch.
    """
    links, slices = trace.links, trace.slices
    floor_of = np.full(int(links.key.max()) + 1 if len(links) else 0, np.nan)
    made = launched_at(trace, launches.link)
    floor_of[links.key[launches.link]] = links.target_time[launches.link] - made - launches.relative
    link = _to_busy(trace, device)
    launch = launched_at(trace, link) + floor_of[links.key[link]]
    target = links.target_slice[link]
    linked = np.zeros(len(slices), np.bool_)
    linked[target] = True
    unlinked = np.flatnonzero((device.compute | device.copy) & ~linked & recorder_of(trace).graphs_unlinked)
    before = count_until(links.target_time[link], slices.start[unlinked]) - 1
    # The streams of collectives hold tasks that look like kernels, but no launch leads to them.
    beside = slices.lane[unlinked] == np.append(slices.lane[target], -1)[before]
    replays = np.bincount(before[beside] + 1, minlength=len(link) + 1)[1:] >= SOME
    launching = np.unique(before[before >= 0])
    called = np.zeros(len(link) + 1, np.bool_)
    called[launching] = graph_launches(trace, link[launching])
    graph = np.where(called[before] | (beside & np.append(replays, False)[before]), before, -1)
    end = slices.end[target].astype(np.float64)
    np.maximum.at(end, graph[graph >= 0], slices.end[unlinked[graph >= 0]])
    return LaunchPairs(link, launch, np.minimum(launch, links.target_time[link]), end, unlinked, graph)


def within_graphs(trace: Trace, pairs: LaunchPairs) -> I64:
    """The slices that graphs replay after their first one, ascending: nothing on the host starts them."""
    links = trace.links
    _, launch = distinct(links.source_event[pairs.link])
    first = np.unique(launch, return_index=True)[1]
    several = np.bincount(launch)[launch] >= SOME
    several |= graph_launches(trace, pairs.link)
    several[first] = False
    return np.sort(np.concatenate((links.target_slice[pairs.link[several]], pairs.unlinked[pairs.graph >= 0])))


# Calls that launch a captured graph: CANN's, those of other runtimes, and the operations around them.
_GRAPH = re.compile(
    r"aclmdl\w*Execute|ModelExecute|(?:cuda|hip)GraphLaunch|graph_?replay|graphs\.py\(\d+\): replay", re.IGNORECASE
)


def graph_launches(trace: Trace, link: I64) -> npt.NDArray[np.bool_]:
    """Which of the launches ``link`` belong to a captured graph; (n,)."""
    around = _graph_calls(trace)
    lane, time = trace.links.source_lane[link], trace.links.source_time[link]
    return np.asarray(around.find(lane, time, time) >= 0)


@of_trace
def _graph_calls(trace: Trace) -> Around:
    return Around(trace, named_on(trace, HOST, lambda name: _GRAPH.search(name) is not None))


def graph_calls(trace: Trace) -> I64:
    """When each captured graph is launched on the host, ns, ascending; a call within another one is the same launch."""
    slices, items = trace.slices, _graph_calls(trace).items
    items = items[np.lexsort((-slices.end[items], slices.start[items]))]
    start, end = slices.start[items], slices.end[items]
    launched: I64 = start[:1]
    if len(items):
        launched = start[np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])]
    return launched


def enqueue_slices(trace: Trace) -> I64:
    """The Enqueue slices of the task queue, ascending."""
    return _queue_slices(trace)["enqueue"]


def dequeue_slices(trace: Trace) -> I64:
    """The Dequeue slices of the task queue, ascending."""
    return _queue_slices(trace)["dequeue"]


@of_trace
def _queue_slices(trace: Trace) -> dict[str, I64]:
    items_of = dict.fromkeys(("enqueue", "dequeue"), np.zeros(0, np.int64))
    for category in items_of.keys() & set(trace.categories):
        items_of[category] = np.flatnonzero(trace.slices.category == trace.categories.index(category))
    return items_of


def dequeue_of(trace: Trace, link: I64) -> I64:
    """The Dequeue slice on the launching thread around the source of each ``link``, -1 without a task queue; (n,)."""
    dequeues = _dequeues(trace)
    if not len(dequeues.items):
        return np.full(len(link), -1, np.int64)
    python_lane = {
        trace.lanes[lane].tid: lane for layer in trace.layers if layer.kind == "python" for lane in layer.lanes
    }
    # A launch is bound to the CANN lane of its thread; Dequeue slices are on the Python lane of the same tid.
    same_thread = np.array([python_lane.get(lane.tid, -1) for lane in trace.lanes] + [-1], np.int32)
    time = trace.links.source_time[link]
    return dequeues.find(same_thread[trace.links.source_lane[link]], time, time)


@of_trace
def dequeued_launches(trace: Trace) -> tuple[I64, I64]:
    """The ``HostToDevice`` links that end in a slice, and the Dequeue slice around the source of each; (n,) each."""
    link = bound_launch_links(trace)
    return link, dequeue_of(trace, link)


@of_trace
def _dequeues(trace: Trace) -> Around:
    return Around(trace, dequeue_slices(trace))


def enqueue_of(trace: Trace, dequeue: I64) -> I64:
    """The Enqueue slice with the correlation id of each ``dequeue`` slice, -1 without one; (n,)."""
    slices = trace.slices
    enqueues, ids = _enqueues(trace)
    items = np.full(len(dequeue), -1, np.int64)
    if not len(enqueues):
        return items
    wanted = np.where(dequeue >= 0, slices.correlation[dequeue], -1)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    hit = (wanted >= 0) & (ids[at] == wanted)
    items[hit] = enqueues[at[hit]]
    return items


@of_trace
def _enqueues(trace: Trace) -> tuple[I64, I64]:
    """The Enqueue slices sorted by correlation id, and these ids."""
    correlation = trace.slices.correlation
    enqueues = enqueue_slices(trace)
    enqueues = enqueues[correlation[enqueues] >= 0]
    enqueues = enqueues[np.argsort(correlation[enqueues], kind="stable")]
    return enqueues, correlation[enqueues]


def caller_of(trace: Trace, target: I64) -> I64:
    """What launched each slice ``target`` for the framework: an operation, or a call in one; -1 without it; (n,)."""
    link, links = recorder_of(trace).callers(trace), trace.links
    return BySlice(links.target_slice[link], links.source_slice[link]).of(target)


def operation_of(trace: Trace, target: I64) -> I64:
    """The operation that launched each slice ``target``, or the call if it is in none; -1 without one; (n,)."""
    return _operations_of_launches(trace).of(target)


@of_trace
def _operations_of_launches(trace: Trace) -> BySlice:
    operation, launched = operation_pairs(trace)
    return BySlice(launched, operation)


@of_trace
def operation_pairs(trace: Trace) -> tuple[I64, I64]:
    """The operations that launched something, and what each of them launched, as slices; (n,) each."""
    links, slices, recorder = trace.links, trace.slices, recorder_of(trace)
    link = recorder.callers(trace)
    call = links.source_slice[link].astype(np.int64)
    code = trace.categories.index(recorder.operation) if recorder.operation in trace.categories else -2
    around = Around(trace, slices.category == code).find(slices.lane[call], slices.start[call], slices.end[call])
    return np.where(around >= 0, around, call), links.target_slice[link].astype(np.int64)
