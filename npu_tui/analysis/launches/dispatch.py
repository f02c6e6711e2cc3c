"""What the HostToDevice links mean: their shape, and how long the device waited for each launch.

A line is near-vertical when the device started as soon as the host had launched; a launch is starved when the idle
device waited for it. Both are times, so that zooming cannot change them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.thresholds import Threshold, Thresholds
from npu_tui.trace.model import HOST_TO_DEVICE, Trace

NEAR_VERTICAL_US = Threshold("near_vertical_us", 30.0)
STARVED_US = Threshold("starved_us", 10.0)

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

SHALLOW_NS = 100_000
_TRUST_SPREAD_NS = 20_000
_TRUST_SHARE = 0.05
_UNTRUSTED_FLOOR_NS = 30_000.0
_FEW_LINKS = 50


class ClockFloor(Struct, frozen=True):
    """Launch latency plus clock offset of one (host process, device), ns; ``trusted`` if enough links confirm it."""

    floor: float
    trusted: bool


class Dispatch(Struct, frozen=True):
    """The classed launches of one device, by target start.

    ``link`` indexes ``Trace.links`` (the first busy target of every launch). In float64 ns, ``relative`` is the latency
    above the clock floor and ``lost`` the time the idle device waited; ``ready`` is when the device had finished what
    it had started before (-1 where nothing ran before). ``near_limit`` and ``starved_limit`` (ns) draw the classes.
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
        """Which launches waited behind others."""
        return self.relative > max(SHALLOW_NS, self.near_limit)

    @property
    def starved(self) -> npt.NDArray[np.bool_]:
        """Which launches an idle device waited for, 10 us or more unless set otherwise."""
        return self.lost >= self.starved_limit

    def waited(self, link: int) -> float | None:
        """How long the launch ``link`` waited on the device, ns above the clock floor; None where it has no class."""
        at = int(np.searchsorted(self.link, link))
        return float(self.relative[at]) if at < len(self.link) and self.link[at] == link else None


def clock_floor(latency: F64) -> ClockFloor:
    """The floor of raw latencies (ns): their 1st percentile, the minimum below 50 of them.

    It is trusted if at least 5 % lie within 20 us above it; otherwise the queue may never have been empty, and the
    floor is taken to be at most 30 us.
    """
    floor = float(np.percentile(latency, 1) if len(latency) >= _FEW_LINKS else latency.min())
    near = np.count_nonzero((latency >= floor) & (latency <= floor + _TRUST_SPREAD_NS))
    trusted = bool(near >= _TRUST_SHARE * len(latency))
    return ClockFloor(floor if trusted else min(floor, _UNTRUSTED_FLOOR_NS), trusted)


def dispatch(trace: Trace, devices: Sequence[DeviceSlices], limits: Thresholds) -> list[Dispatch]:
    """The launches of each of the ``devices`` of the trace that has any, in their order, classed by ``limits``."""
    found = (_dispatch_of(trace, device, limits) for device in devices)
    return [result for result in found if len(result.link)]


def _dispatch_of(trace: Trace, device: DeviceSlices, limits: Thresholds) -> Dispatch:
    links, slices = trace.links, trace.slices
    busy = device.busy
    candidates = trace.links_of(HOST_TO_DEVICE)
    target = links.target_slice[candidates]
    candidates = candidates[(target >= 0) & busy[target]] if len(candidates) else candidates
    # An id that is used again has another source: each is a launch of its own.
    key = links.key[candidates]
    first = np.ones(len(candidates), np.bool_)
    again = np.flatnonzero(np.bincount(key)[key] > 1)  # links come by target time
    again = again[np.lexsort((links.source_event[candidates[again]], key[again]))]
    key, event = key[again], links.source_event[candidates[again]]
    first[again[1:]] = (key[1:] != key[:-1]) | (event[1:] != event[:-1])
    link = candidates[first]
    source, start = links.source_time[link], links.target_time[link]
    latency = (start - source).astype(np.float64)
    floors: list[ClockFloor] = []
    floor = np.zeros(len(link))
    host = _host_process(trace, link)
    for process in np.unique(host) if host.any() else host[:1]:
        own = host == process
        floors.append(clock_floor(latency[own]))
        floor[own] = floors[-1].floor
    ready = _ready(slices.start[busy], slices.end[busy], start)
    arrival = np.minimum(source + floor, start)
    lost = np.where(ready >= 0, np.maximum(arrival - ready, 0.0), 0.0)
    near, starved = limits[NEAR_VERTICAL_US] * 1000, limits[STARVED_US] * 1000
    return Dispatch(device.device, link, latency - floor, lost, ready, tuple(floors), near, starved)


def _host_process(trace: Trace, link: I64) -> I64:
    """The operating system's process that each link comes from; (n,).

    CANN shares the process of Python, whose id msprof packs into its own (``os_pid << 10 | ...``). A source of unknown
    origin belongs to the only process there is, else to -1.
    """
    hosts = [layer for layer in trace.layers if layer.kind in ("python", "cann")]
    python = {layer.pid for layer in hosts if layer.kind == "python"}
    process = {layer.index: layer.pid if layer.pid in python else layer.pid >> 10 for layer in hosts}
    if len(python) == 1 or len(set(process.values())) <= 1:
        return np.zeros(len(link), np.int64)
    by_lane = np.array([process.get(lane.layer, -1) for lane in trace.lanes] + [-1], np.int64)
    return by_lane[trace.links.source_lane[link]]


def _ready(busy_start: I64, busy_end: I64, start: I64) -> I64:
    """Latest end of the busy slices that started before each ``start``, -1 without any; (n,)."""
    order = np.argsort(busy_start, kind="stable")
    latest = np.maximum.accumulate(busy_end[order]) if len(order) else busy_end
    before = np.searchsorted(busy_start[order], start, "left")
    return np.where(before > 0, latest[np.maximum(before, 1) - 1], -1) if len(order) else np.full(len(start), -1)
