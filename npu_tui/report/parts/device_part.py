"""The parts of the report that speak of devices: overlap, dispatch and operators."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import UNSET, UnsetType, structs

from npu_tui.analysis.launches.dispatch import Dispatch
from npu_tui.analysis.overlap.stage import slow_stage
from npu_tui.analysis.parts import DevicePart
from npu_tui.analysis.work.operators import OperatorSum
from npu_tui.profile.selection import Selection
from npu_tui.report.schema import (
    CodeLineRow,
    DispatchPart,
    DrainRow,
    OperatorRow,
    OverlapPart,
    RangeRow,
)  # fmt: skip
from npu_tui.report.values import ratio, text, us
from npu_tui.rules.facts.facts import Facts


def overlap_part(parts: list[DevicePart], selection: Selection) -> OverlapPart:
    """Sums over all devices, with one object per device where there are several."""
    measured = [part for part in parts if part.lanes is not None]
    rows = [_overlap_row(part, selection) for part in measured]
    if not rows:
        return overlap_object(dict.fromkeys(_OVERLAP_SUMS))
    total: dict[str, float | None] = {}
    for key in _OVERLAP_SUMS:
        values = [row[key] for row in rows]
        total[key] = None if None in values else sum(value for value in values if value is not None)
    if len(rows) == 1:
        return overlap_object(total)
    devices = [overlap_object(row, part.device) for part, row in zip(measured, rows, strict=True)]
    return structs.replace(overlap_object(total), devices=devices)


_OVERLAP_SUMS = ("total", "computing", "communication", "not_overlapped", "free", "late", "side", "unlinked")


def _overlap_row(part: DevicePart, selection: Selection) -> dict[str, float | None]:
    assert part.lanes is not None
    sums = part.lanes.sums(selection.window)
    split = part.split.sums(selection.window) if part.split is not None else (None, None, None)
    values = (sums.total, sums.computing, sums.communication, sums.not_overlapped, sums.free, *split)
    return dict(zip(_OVERLAP_SUMS, values, strict=True))


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
        free_host_late_us=us(sums["late"]),
        free_device_side_us=us(sums["side"]),
        free_unlinked_us=us(sums["unlinked"]),
    )


def dispatch_part(devices: list[Facts]) -> DispatchPart | list[DispatchPart]:
    """The launches: one object, or a list by device where several have any."""
    found = [_dispatch_object(facts, facts.launches) for facts in devices if facts.launches is not None]
    if not found:
        return DispatchPart(device=None, links=0)
    return found[0] if len(found) == 1 else found


def _dispatch_object(facts: Facts, launches: Dispatch) -> DispatchPart:
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
        ranges=[
            RangeRow(
                start_us=us(each.start),
                end_us=us(each.end),
                links=each.links,
                near_vertical=each.near_vertical,
                idle_ratio=ratio(each.idle_ratio, 1),
                lost_us=us(each.lost),
            )
            for each in facts.ranges
        ],
        code_lines=[
            CodeLineRow(
                file=text(each.code.file) if each.code else None,
                line=each.code.line if each.code else None,
                function=text(each.code.function) if each.code else None,
                lost_us=us(each.lost),
                launches=each.launches,
            )
            for each in facts.lines
        ],
        drains=_drain_rows(facts),
        slow_stage=slow_stage(facts.dequeue_idle),
        dequeue_idle_ratio=ratio(facts.dequeue_idle, 1),
    )


def _drain_rows(facts: Facts) -> list[DrainRow]:
    return [
        DrainRow(
            start_us=us(each.start),
            end_us=us(each.end),
            cause=each.cause,
            peak_backlog=each.peak_backlog,
            interrupted=each.interrupted,
            before=text(facts.trace.name_of(each.before)),
            after=text(facts.trace.name_of(each.after)),
        )
        for each in facts.drains
    ]


def operator_part(rows: list[OperatorSum]) -> list[OperatorRow]:
    """The kernels of all devices that start in the selection, by type and core."""
    listed = sum(row.total for row in rows)
    return [
        OperatorRow(
            type=text(row.type),
            core=text(row.core),
            count=row.count,
            total_us=us(row.total),
            ratio=ratio(row.total, listed),
            min_us=us(row.shortest),
            avg_us=us(row.total / row.count),
            max_us=us(row.longest),
        )
        for row in rows
    ]
