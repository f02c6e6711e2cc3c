"""A clock that jumps inside a trace: from some moment on host and device are farther apart than before.

Both clocks run evenly, so a jump shows where no even clocks could be: kernels begin before their launches though
earlier ones did not, or a stream runs late what its thread launched before all that the stream has already run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.limits import A_PART, ENOUGH, HALF, NEXT_TASK_NS
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.kineto import bound_launch_links
from npu_tui.trace.model import ASYNC_NPU, Trace, bulk_of

_LEAST_NS = 10_000_000  # a launch is never so long on its way; of a trace beyond 10 s ``_DRIFT`` is more
_DRIFT = 1e-3  # clocks may run apart by less than this share of a trace (quartz 0.0001, NTP slews by 0.0005)


class ClockJump(Struct, frozen=True):
    """From ``at`` (ns of the trace) on the host's clock is ``by`` ns ahead of what it was against the device's."""

    at: int
    by: int


class _ThreadLaunches(Struct, frozen=True):
    """Launches of one thread to one device; (n,) each. ``stream`` is the lane that runs them.

    ``idle_since`` is when the device had finished everything before, ``start`` itself where it was busy until then.
    """

    source: I64
    start: I64
    idle_since: I64
    stream: I64

    @property
    def latency(self) -> I64:
        """From the launch to the start, on two clocks, ns."""
        return self.start - self.source

    def taken(self, chosen: I64) -> _ThreadLaunches:
        """The launches at ``chosen``, in this order."""
        return _ThreadLaunches(self.source[chosen], self.start[chosen], self.idle_since[chosen], self.stream[chosen])

    def waited(self, least: int) -> Bools:
        """Which launches an idle device left waiting for ``least`` ns or longer, if the clocks are one; (n,)."""
        waited: Bools = (self.start - self.idle_since >= NEXT_TASK_NS) & (self.idle_since - self.source >= least)
        return waited

    def overtaken(self) -> I64:
        """How long each was launched before what its stream had already run, ns, 0 if it was not; (n,)."""
        order = np.argsort(self.stream, kind="stable")
        begun = np.append(True, np.diff(self.stream[order]) != 0)
        apart = (np.cumsum(begun) - 1) * (int(np.ptp(self.source)) + 1)  # streams one after another on one axis
        source = self.source[order] + apart
        overtaken = np.empty(len(order), np.int64)
        overtaken[order] = np.maximum.accumulate(source) - source
        return overtaken


def clock_jump(trace: Trace, devices: Sequence[DeviceSlices]) -> ClockJump | None:
    """The largest jump that the launches of any of ``devices`` show; None without one."""
    every = [_jump(launches) for device in devices for launches in _launches_of(trace, device)]
    return max(filter(None, every), key=lambda jump: abs(jump.by), default=None)


def _launches_of(trace: Trace, device: DeviceSlices) -> Iterator[_ThreadLaunches]:
    """What the launching calls of each thread lead to, and what its operations do."""
    links, slices, bulk = trace.links, trace.slices, bulk_of(trace)
    begun, ended = slices.start[device.busy], slices.end[device.busy]
    order = np.argsort(begun, kind="stable")
    begun, reached = begun[order], np.maximum.accumulate(ended[order])
    for link in (bound_launch_links(trace), trace.bound_links_of(ASYNC_NPU)):
        link = link[device.busy[links.target_slice[link]] & (links.source_lane[link] >= 0)]
        if bulk is not None:
            link = link[bulk.holds(links.source_time[link], links.target_time[link])]
        start, lane = links.target_time[link], links.source_lane[link]
        before = np.searchsorted(begun, start)
        since = np.where(before > 0, reached[np.maximum(before, 1) - 1], start) if len(begun) else start
        stream = slices.lane[links.target_slice[link]].astype(np.int64)
        every = _ThreadLaunches(links.source_time[link], start, np.minimum(since, start), stream)
        order = np.argsort(lane, kind="stable")
        for chosen in np.split(order, np.flatnonzero(np.diff(lane[order])) + 1):
            if len(chosen) >= 2 * ENOUGH:
                yield every.taken(chosen)


def _jump(launches: _ThreadLaunches) -> ClockJump | None:
    least = max(_LEAST_NS, round(_DRIFT * min(int(np.ptp(launches.source)), int(np.ptp(launches.start)))))
    by_source = launches.taken(np.argsort(launches.source, kind="stable"))
    by_start = launches.taken(np.lexsort((launches.source, launches.start)))
    for ordered, shown_by in ((by_source, _early), (by_start, _overtaken), (by_start, _stood)):
        first, shown = shown_by(ordered, least)
        # Of those after a jump the others wait on the device for longer than it is.
        if first >= ENOUGH and np.count_nonzero(shown) >= max(ENOUGH, A_PART * (len(ordered.source) - first)):
            by = _floor(ordered.latency[:first]) - _floor(ordered.latency[first:])
            if abs(by) >= least:
                return ClockJump(int(ordered.source[first]), by)
    return None


def _early(launches: _ThreadLaunches, least: int) -> tuple[int, Bools]:
    """The first launch that comes after its kernel, and which do from there on; ``launches`` by source."""
    early = launches.latency <= -least
    first = int(np.argmax(early))
    # With clocks that run evenly those before have waited, also on an idle device, for longer than the jump.
    before = launches.taken(np.arange(first))
    known = first > 0 and before.waited(_floor(launches.latency[first:]) + least).any()
    return first if known else 0, early[first:]


def _overtaken(launches: _ThreadLaunches, least: int) -> tuple[int, Bools]:
    """The launch that is overtaken by most, and which are from there on; ``launches`` by start."""
    overtaken = launches.overtaken()
    first = int(np.argmax(overtaken))
    known = overtaken[first] >= least
    return first if known else 0, launches.latency[first:] >= least


def _stood(launches: _ThreadLaunches, least: int) -> tuple[int, Bools]:
    """The first launch from which on all come late, as the device stood still, and which waited on an idle one."""
    soon = np.flatnonzero(launches.latency < least)
    first = int(soon[-1]) + 1 if len(soon) else 0
    waited = launches.taken(np.arange(first, len(launches.source))).waited(least)
    known = 0 < first < len(launches.source) and np.mean(waited) >= HALF
    return first if known and launches.start[first] - launches.start[first - 1] >= least else 0, waited


def _floor(latency: I64) -> int:
    return int(np.percentile(latency, 1, method="lower"))
