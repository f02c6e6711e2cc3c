"""Everything the analysis knows of one device, each part computed once and shared by reports and findings."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.launches.dispatch import Dispatch
from npu_tui.analysis.launches.origin import Pairs, busy_pairs
from npu_tui.analysis.overlap.free import FreeSplit, free_splits
from npu_tui.analysis.overlap.lanes import OverlapLanes
from npu_tui.trace.model import Trace


class DevicePart(Struct, frozen=True):
    """One device with everything that is known of its launches and its free time.

    ``split`` tells whose fault each Free slice is as a whole, ``gaps`` of the times in it without a copy.
    """

    slices: DeviceSlices | None
    lanes: OverlapLanes | None
    launches: Dispatch | None
    pairs: Pairs | None
    split: FreeSplit | None
    gaps: FreeSplit | None

    @property
    def device(self) -> int | None:
        """The number of the device, None where the file does not tell."""
        known = self.slices or self.lanes
        return known.device if known else None


def device_parts(
    trace: Trace, devices: Sequence[DeviceSlices], lanes: Sequence[OverlapLanes], dispatches: Sequence[Dispatch]
) -> list[DevicePart]:
    """Every device of ``trace``, also one of an Overlap Analysis layer only, with its ``lanes`` and launches."""
    launches = {found.device: found for found in dispatches}
    parts = []
    for device in devices:
        own = next((each for each in lanes if each.device == device.device), None)
        launched = launches.get(device.device)
        pairs = busy_pairs(trace, device, launched) if launched is not None else None
        split = gaps = None
        if own is not None and pairs is not None:
            split, gaps = free_splits(trace, device, own, pairs)
        parts.append(DevicePart(device, own, launched, pairs, split, gaps))
    known = {device.device for device in devices}
    return parts + [DevicePart(None, each, None, None, None, None) for each in lanes if each.device not in known]
