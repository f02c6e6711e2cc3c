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
    """The Free slices of one device, or what copies leave of them: host-late until ``late_until``, ns.

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


def free_splits(
    trace: Trace, device: DeviceSlices, lanes: OverlapLanes, pairs: Pairs | None
) -> tuple[FreeSplit, FreeSplit]:
    """Each Free slice by the launch of the first busy slice that starts in it, or right after it.

    Then the same of each part of Free in which no copy runs either: Free goes on through copies, and a host that pauses
    after one is late for what comes next, however early that copy was.
    """
    starts = None if pairs is None else _starts(trace, device, pairs)
    copies = np.flatnonzero(device.copy)
    copied = trace.slices.start[copies], trace.slices.end[copies]
    return _split(lanes.free, starts), _split(difference(*lanes.free, *copied), starts)


class _Starts(Struct, frozen=True):
    """The starts of the busy slices of a device in order of time, and the launch of each, if known; (n,) ns each."""

    start: I64
    launch: F64


def _starts(trace: Trace, device: DeviceSlices, pairs: Pairs) -> _Starts:
    busy = np.flatnonzero(device.busy)
    pair = BySlice(trace.links.target_slice[pairs.link], np.arange(len(pairs.link)))
    launch = np.append(pairs.launch, np.nan)[pair.of(busy)]  # the last one is that of no pair
    # Of those that start together one with a launch comes first.
    order = np.lexsort((np.isnan(launch), trace.slices.start[busy]))
    return _Starts(trace.slices.start[busy[order]], launch[order])


def _split(idle: Intervals, starts: _Starts | None) -> FreeSplit:
    start, end = idle
    linked = np.zeros(len(start), np.bool_)
    late_until = start.astype(np.float64)
    if starts is None or not len(starts.start):
        return FreeSplit(start, end, late_until, linked)
    at = np.searchsorted(starts.start, start, "left")
    following = np.minimum(at, len(starts.start) - 1)
    near = (at < len(starts.start)) & (starts.start[following] <= end + _ROUNDING_NS)
    launch_of = starts.launch[following]
    linked = near & ~np.isnan(launch_of)
    late_until[linked] = np.minimum(np.maximum(launch_of[linked], late_until[linked]), end[linked])
    return FreeSplit(start, end, late_until, linked)
