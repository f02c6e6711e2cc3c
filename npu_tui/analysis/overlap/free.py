"""Whose fault Free is: a host that launched too late, or a device that did not start what it had."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.launches.origin import Pairs
from npu_tui.analysis.overlap.lanes import Intervals, OverlapLanes
from npu_tui.analysis.window import Window
from npu_tui.trace.by_slice import BySlice
from npu_tui.trace.intervals import difference
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

_ROUNDING_NS = 2


class FreeSplit(Struct, frozen=True):
    """The Free slices of one device, or what copies leave of them: host-late until ``late_until`` (ns), then its own.

    Where not ``linked``, nothing tells which launch the device waited for, and ``late_until`` is the start.
    """

    start: I64
    end: I64
    late_until: F64
    linked: npt.NDArray[np.bool_]

    def sums(self, window: Window) -> tuple[float, float, float]:
        """Host-late, device-side and unlinked time of ``window``, ns."""
        if window.whole:
            low = np.where(window.holds(self.start), self.start, self.end)
            high = self.end
        else:
            low = np.clip(self.start, window.start, window.end)
            high = np.maximum(np.clip(self.end, window.start, window.end), low)
        turn = np.clip(self.late_until, low, high)
        late, side = (turn - low)[self.linked].sum(), (high - turn)[self.linked].sum()
        return float(late), float(side), float((high - low)[~self.linked].sum())


def free_split(trace: Trace, device: DeviceSlices, lanes: OverlapLanes, pairs: Pairs | None) -> FreeSplit:
    """Each Free slice by the launch of the first busy slice that starts in it, or right after it."""
    return _split(trace, device, lanes.free, pairs)


def gap_split(trace: Trace, device: DeviceSlices, lanes: OverlapLanes, pairs: Pairs | None) -> FreeSplit:
    """Each part of Free in which no copy runs either, by the launch of the busy slice that ends it.

    Free goes on through copies: a host that pauses after one is late for what comes next, however early that copy was.
    """
    copies = np.flatnonzero(device.copy)
    copied = trace.slices.start[copies], trace.slices.end[copies]
    return _split(trace, device, difference(*lanes.free, *copied), pairs)


def _split(trace: Trace, device: DeviceSlices, idle: Intervals, pairs: Pairs | None) -> FreeSplit:
    slices, links = trace.slices, trace.links
    start, end = idle
    linked = np.zeros(len(start), np.bool_)
    late_until = start.astype(np.float64)
    busy = np.flatnonzero(device.busy)
    if pairs is None or not len(busy):
        return FreeSplit(start, end, late_until, linked)
    pair = BySlice(len(slices), links.target_slice[pairs.link], np.arange(len(pairs.link)))
    launch = np.append(pairs.launch, np.nan)  # the last one is that of no pair
    busy = busy[np.lexsort((np.isnan(launch[pair.of(busy)]), slices.start[busy]))]
    begins = slices.start[busy]
    at = np.searchsorted(begins, start, "left")
    following = busy[np.minimum(at, len(busy) - 1)]
    near = (at < len(busy)) & (slices.start[following] <= end + _ROUNDING_NS)
    launch_of = launch[pair.of(following)]
    linked = near & ~np.isnan(launch_of)
    late_until[linked] = np.clip(launch_of[linked], start[linked], end[linked])
    return FreeSplit(start, end, late_until, linked)
