"""Computing, communication and free time, from the profiler's own Overlap Analysis lane."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.model import Trace

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

    @property
    def total(self) -> int:
        """Computing, communication that is not overlapped, and free, together."""
        return self.computing + self.not_overlapped + self.free

    def ratio(self, part: int) -> float:
        """``part`` of the total, 0 to 1."""
        return part / self.total if self.total else 0.0


def overlap(trace: Trace) -> list[Overlap]:
    """The overlap of every device whose lane the file has, in layer order."""
    found = []
    for layer in trace.layers:
        if layer.kind != "overlap":
            continue
        sums = dict.fromkeys((COMPUTING, COMMUNICATION, NOT_OVERLAPPED, FREE), 0)
        for index in layer.lanes:
            lane = trace.lanes[index]
            if lane.name in sums:
                own = slice(lane.first, lane.last)
                sums[lane.name] += int((trace.slices.end[own] - trace.slices.start[own]).sum())
        found.append(Overlap(layer.device, sums[COMPUTING], sums[COMMUNICATION], sums[NOT_OVERLAPPED], sums[FREE]))
    return found


def free_slices(trace: Trace) -> npt.NDArray[np.int64]:
    """The slices of the Free lanes of all devices, by start."""
    own = [
        np.arange(lane.first, lane.last)
        for lane in trace.file_lanes
        if trace.layers[lane.layer].kind == "overlap" and lane.name == FREE
    ]
    items = np.concatenate([*own, np.zeros(0, np.int64)])
    return items[np.argsort(trace.slices.start[items], kind="stable")]
