"""The parts of the report that speak of devices: overlap, dispatch and operators."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import UNSET, UnsetType, structs

from npu_tui.analysis.launches import Dispatch
from npu_tui.analysis.overlap import slow_stage
from npu_tui.profile.launch_tables import CODE_LINES, DRAINS, RANGES
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import us
from npu_tui.profile.work_tables import OVERLAP
from npu_tui.report.schema import DispatchPart, OverlapPart
from npu_tui.report.values import ratio
from npu_tui.rules.facts.facts import Facts


def overlap_part(part: Profile) -> OverlapPart:
    """Sums over all devices, with one object per device where there are several."""
    sheet = OVERLAP.make(part)
    rows = [
        dict(zip(_SUMS, values, strict=True)) for values in zip(*(sheet.values(name) for name in _SUMS), strict=True)
    ]
    total: dict[str, float | None] = dict.fromkeys(_SUMS)
    if rows:
        total = {name: None if None in (values := [row[name] for row in rows]) else sum(values) for name in _SUMS}
    if len(rows) < 2:
        return overlap_object(total)
    devices = [overlap_object(row, device) for device, row in zip(sheet.values("device"), rows, strict=True)]
    return structs.replace(overlap_object(total), devices=devices)


_SUMS = ("total", "computing", "communication", "not_overlapped", "free", "host_late", "device_side", "unlinked")


def overlap_object(sums: Mapping[str, float | None], device: int | UnsetType | None = UNSET) -> OverlapPart:
    """The part of the report for ``sums`` in ns, by total, computing, communication, not_overlapped and free."""
    communication, exposed = sums["communication"], sums["not_overlapped"]
    return OverlapPart(
        device=device,
        total_us=us(sums["total"]),
        computing_us=us(sums["computing"]),
        communication_us=us(communication),
        communication_not_overlapped_us=us(exposed),
        overlapped_us=None if communication is None or exposed is None else us(communication - exposed),
        free_us=us(sums["free"]),
        computing_ratio=ratio(sums["computing"], sums["total"]),
        communication_not_overlapped_ratio=ratio(exposed, sums["total"]),
        free_ratio=ratio(sums["free"], sums["total"]),
        free_host_late_us=us(sums["host_late"]),
        free_device_side_us=us(sums["device_side"]),
        free_unlinked_us=us(sums["unlinked"]),
    )


def dispatch_part(part: Profile) -> DispatchPart | list[DispatchPart]:
    """The launches: one object, or a list by device where several have any."""
    found = [_dispatch_object(part, facts, facts.launches) for facts in part.facts if facts.launches is not None]
    if not found:
        return DispatchPart(device=None, links=0)
    return found[0] if len(found) == 1 else found


def _dispatch_object(part: Profile, facts: Facts, launches: Dispatch) -> DispatchPart:
    floor = launches.floors[0] if len(launches.floors) == 1 else None
    near = int(np.count_nonzero(launches.near_vertical))
    return DispatchPart(
        device=facts.part.device,
        links=len(launches.link),
        clock_floor_us=us(floor.floor) if floor else None,
        clock_floor_trusted=all(each.trusted for each in launches.floors),
        threshold_us=us(launches.near_limit),
        near_vertical=near,
        near_vertical_ratio=ratio(near, len(launches.link)),
        shallow=int(np.count_nonzero(launches.shallow)),
        queued=int(np.count_nonzero(launches.queued)),
        starved=int(np.count_nonzero(launches.starved)),
        lost_us=us(launches.lost.sum()),
        ranges=RANGES.records(part, facts=facts),
        code_lines=CODE_LINES.records(part, devices=[facts]),
        drains=DRAINS.records(part, facts=facts),
        slow_stage=slow_stage(facts.dequeue_idle),
        dequeue_idle_ratio=ratio(facts.dequeue_idle, 1),
    )
