"""The times in which a device was free: who was late, and what ran before and after."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.launches.origin import Pairs
from npu_tui.analysis.overlap.lanes import OverlapLanes
from npu_tui.analysis.window import Window
from npu_tui.trace.by_slice import BySlice
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

_ROUNDING_NS = 2


class Idles(Struct, frozen=True):
    """Free times of one device by start, (n,) each.

    ``late`` is how long (ns) the launch that ended a time had not arrived yet; the rest is the device's own, where
    ``linked``, else nothing tells. ``before`` is the busy slice that ended last, ``after`` the one that ended the time
    (-1 without one), ``link`` the launch of ``after`` (-1 without one), and ``ahead`` by how much the device's clock
    and the way to it are ahead of the host's, ns.
    """

    device: int | None
    start: I64
    end: I64
    late: F64
    linked: npt.NDArray[np.bool_]
    before: I64
    after: I64
    link: I64
    ahead: F64

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> I64:
        """How long each lasts, ns."""
        found: I64 = self.end - self.start
        return found

    def within(self, window: Window) -> Idles:
        """What of them lies in ``window``, cut to it; late time is that of the part."""
        low = np.clip(self.start, window.start, window.end)
        high = np.maximum(np.clip(self.end, window.start, window.end), low)
        some = np.flatnonzero(high > low)
        late = np.clip(self.start + self.late, low, high) - low
        return Idles(
            self.device,
            low[some],
            high[some],
            late[some],
            self.linked[some],
            self.before[some],
            self.after[some],
            self.link[some],
            self.ahead[some],
        )

    def longest(self) -> I64:
        """Their positions, the longest first."""
        return np.argsort(-self.length, kind="stable").astype(np.int64)


def idles(trace: Trace, device: DeviceSlices | None, lanes: OverlapLanes, pairs: Pairs | None) -> Idles:
    """The free times of a device: its Free slices, computed ones where the file has none."""
    slices, links = trace.slices, trace.links
    start, end = lanes.free
    lasting = end > start
    order = np.argsort(start[lasting], kind="stable")
    start, end = start[lasting][order], end[lasting][order]
    count = len(start)
    none = np.full(count, -1, np.int64)
    late, linked, ahead = np.zeros(count), np.zeros(count, np.bool_), np.zeros(count)
    before, after, link = none.copy(), none.copy(), none.copy()
    busy = np.flatnonzero(device.busy) if device is not None else none[:0]
    if count and len(busy):
        own, launch = (none[:0], late[:0]) if pairs is None else (pairs.link, pairs.launch)
        pair = BySlice(links.target_slice[own], np.arange(len(own)))
        # Of slices that start together the one with a launch comes first.
        busy = busy[np.lexsort((pair.of(busy) < 0, slices.start[busy]))]
        at = np.searchsorted(slices.start[busy], start, "left")
        following = busy[np.minimum(at, len(busy) - 1)]
        near = (at < len(busy)) & (slices.start[following] <= end + _ROUNDING_NS)
        after[near] = following[near]
        ended = busy[np.argsort(slices.end[busy], kind="stable")]
        place = np.searchsorted(slices.end[ended], start + _ROUNDING_NS, "right") - 1
        before[place >= 0] = ended[place[place >= 0]]
        led = pair.of(following)
        linked = near & (led >= 0)
        led = led[linked]
        link[linked] = own[led]
        late[linked] = np.clip(launch[led], start[linked], end[linked]) - start[linked]
        ahead[linked] = launch[led] - links.source_time[link[linked]]
    return Idles(lanes.device, start, end, late, linked, before, after, link, ahead)
