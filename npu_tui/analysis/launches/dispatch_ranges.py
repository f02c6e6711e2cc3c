"""Where the device waited for the host again and again: clusters of near-vertical launches."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.launches.dispatch import Dispatch
from npu_tui.analysis.window import Window
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.model import Trace

_GAP_NS = 3_000_000
_FEWEST = 3


class DispatchRange(Struct, frozen=True):
    """From the start of the first near-vertical target to the end of the last one, ns.

    ``links`` counts all launches whose target starts inside and ``lost`` is their lost time, ns; ``idle_ratio`` is the
    share in which the device did nothing, None for a range without length.
    """

    start: int
    end: int
    links: int
    near_vertical: int
    idle_ratio: float | None
    lost: float


def launches_in(trace: Trace, launches: Dispatch, window: Window) -> Dispatch:
    """The launches of ``launches`` whose target starts in ``window``; their floors are those of the whole trace."""
    own = window.holds(trace.links.target_time[launches.link])
    return replace(
        launches,
        link=launches.link[own],
        relative=launches.relative[own],
        lost=launches.lost[own],
        ready=launches.ready[own],
    )


def dispatch_ranges(trace: Trace, device: DeviceSlices, launches: Dispatch) -> list[DispatchRange]:
    """The clusters of three or more near-vertical launches that lie at most 3 ms apart, in order of time."""
    links, slices = trace.links, trace.slices
    time = links.target_time[launches.link]
    near = np.flatnonzero(launches.near_vertical)
    if not len(near):
        return []
    firsts = np.flatnonzero(np.append(True, np.diff(time[near]) > _GAP_NS))
    lasts = np.append(firsts[1:], len(near)) - 1
    members = lasts - firsts + 1
    firsts, lasts, members = firsts[members >= _FEWEST], lasts[members >= _FEWEST], members[members >= _FEWEST]
    start = time[near[firsts]]
    end = slices.end[links.target_slice[launches.link[near[lasts]]]]
    low, high = np.searchsorted(time, start, "left"), np.searchsorted(time, end, "right")
    lost = np.concatenate(([0.0], np.cumsum(launches.lost)))
    busy_start, busy_end = slices.start[device.busy], slices.end[device.busy]
    edges = np.concatenate((start, end)).astype(np.float64)
    before = covered_before(busy_start, busy_end, edges)
    busy = before[len(start) :] - before[: len(start)]
    return [
        DispatchRange(
            int(start[k]),
            int(end[k]),
            int(high[k] - low[k]),
            int(members[k]),
            1.0 - float(busy[k]) / int(end[k] - start[k]) if end[k] > start[k] else None,
            float(lost[high[k]] - lost[low[k]]),
        )
        for k in range(len(start))
    ]
