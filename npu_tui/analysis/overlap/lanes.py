"""The four Overlap Analysis lanes of a device: those of the file, else made of its slices as msprof makes them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.overlap.sums import COMMUNICATION, COMPUTING, FREE, NOT_OVERLAPPED, Overlap
from npu_tui.analysis.window import Window
from npu_tui.trace.intervals import difference, union
from npu_tui.trace.model import MOST_DEVICES, Layer, Trace

I64 = npt.NDArray[np.int64]
Intervals = tuple[I64, I64]

_NO_INTERVALS: Intervals = (np.zeros(0, np.int64), np.zeros(0, np.int64))
_COMMUNICATION_KERNELS = ("AicpuKernel", "AivKernel")
"""Ends of the names of kernels that communicate; msprof keeps them out of Computing."""
_ROUNDING_NS = 2


class OverlapLanes(Struct, frozen=True):
    """Starts and ends (ns) of the slices of each lane; ``layer`` is None where they were computed."""

    device: int | None
    layer: int | None
    computing: Intervals
    communication: Intervals
    not_overlapped: Intervals
    free: Intervals

    def sums(self, window: Window) -> Overlap:
        """The time of each lane that belongs to ``window``."""
        return Overlap(
            self.device,
            window.length(*self.computing),
            window.length(*self.communication),
            window.length(*self.not_overlapped),
            window.length(*self.free),
        )


def overlap_lanes(trace: Trace, devices: list[DeviceSlices]) -> list[OverlapLanes]:
    """The lanes of every device with an Overlap Analysis layer, a compute slice or a collective.

    ``devices`` are those of the trace; they come first and in their order, all together up to ``MOST_DEVICES``.
    """
    layers = [layer for layer in trace.layers if layer.kind == "overlap" and layer.lanes]
    found: list[OverlapLanes] = []
    for device in devices:
        layer = next((layer for layer in layers if layer.device == device.device), None)
        if layer is None and len(layers) == len(devices) == 1:
            layer = layers[0]  # the pids of older writers name no device
        if layer is not None:
            layers.remove(layer)
            found.append(_of_file(trace, layer, device.device))
        elif (device.compute | device.collective).any():
            found.append(computed_lanes(trace, device))
    rest = layers[: MOST_DEVICES - len(found)]
    return found + [_of_file(trace, layer, layer.device) for layer in rest]


def _of_file(trace: Trace, layer: Layer, device: int | None) -> OverlapLanes:
    lanes = {}
    for index in layer.lanes:
        lane = trace.lanes[index]
        lanes[lane.name] = trace.slices.start[lane.first : lane.last], trace.slices.end[lane.first : lane.last]
    named = (lanes.get(name, _NO_INTERVALS) for name in (COMPUTING, COMMUNICATION, NOT_OVERLAPPED, FREE))
    return OverlapLanes(device, layer.index, *named)


def computed_lanes(trace: Trace, device: DeviceSlices) -> OverlapLanes:
    """Unions and differences of the slices of ``device``; Free spans its first to its last compute or collective."""
    start, end = trace.slices.start, trace.slices.end
    exchanging = np.array([name.endswith(_COMMUNICATION_KERNELS) for name in trace.names] + [False])
    compute = device.compute & ~exchanging[trace.slices.name]
    computing = union(start[compute], end[compute])
    communication = union(start[device.collective], end[device.collective])
    busy = union(np.concatenate((computing[0], communication[0])), np.concatenate((computing[1], communication[1])))
    free = (busy[1][:-1], busy[0][1:])
    return OverlapLanes(device.device, None, computing, communication, difference(*communication, *computing), free)


def disagreement(trace: Trace, lanes: OverlapLanes, device: DeviceSlices) -> tuple[int, int]:
    """How much Computing and Communication of ``lanes`` exceed what the slices of their ``device`` give, ns.

    0 where the difference is rounding.
    """
    own = computed_lanes(trace, device)
    found = []
    for recorded, computed in ((lanes.computing, own.computing), (lanes.communication, own.communication)):
        excess = int((recorded[1] - recorded[0]).sum() - (computed[1] - computed[0]).sum())
        rounding = _ROUNDING_NS * max(len(recorded[0]), len(computed[0]))
        found.append(excess if abs(excess) > rounding else 0)
    return found[0], found[1]
