"""Collectives and the tasks that carry them out, by communicator (group) and plane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.ingest.database.columns.device import Tasks
from npu_tui.ingest.database.columns.host import valid_connections
from npu_tui.ingest.database.columns.whole import Ends, Whole
from npu_tui.ingest.database.tables.joins import matched, numbered
from npu_tui.ingest.database.tables.rows import Rows, Tables
from npu_tui.ingest.database.tables.texts import Texts

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_MOST_PLANES = 1 << 12
"""Level 0 writes 4294967295 or 65534 for a plane."""


class Collectives(Struct):
    """Collectives of all groups; (n,) each."""

    ends: Ends
    until: I64
    device: I64
    connection: I64


class _Lanes(Struct):
    """The lanes of groups on their devices: each group has a block of thread numbers, its own lane and its planes."""

    whole: Whole
    process: str
    first: dict[tuple[int, int], int]
    order: dict[tuple[int, int], int]

    def group(self, device: int, group: int) -> int:
        tid = self.first[device, group]
        pid = self.whole.process(self.process, device)
        return self.whole.thread(pid, tid, f"Group {self.order[device, group]} Communication")

    def plane(self, device: int, group: int, plane: int) -> int:
        tid = self.first[device, group] + 1 + plane
        return self.whole.thread(self.whole.process(self.process, device), tid, f"Plane {plane}")


def read_collectives(tables: Tables, texts: Texts, whole: Whole, tasks: Tasks | None) -> Collectives | None:
    """Take the collectives and their tasks in; None without any collective."""
    ops, parts = _ops(tables, tasks), _parts(tables, tasks)
    if not len(ops.rows) and not len(parts.rows):
        return None
    lanes = _lanes(whole, "HCCL" if whole.is_older else "Communication", ops, parts)
    found = _read_ops(texts, whole, lanes, ops) if len(ops.rows) else None
    if len(parts.rows):
        _read_parts(texts, whole, lanes, parts)
    return found


class _Placed(Struct):
    """Rows with the device they belong to and their times; (n,) each."""

    rows: Rows
    device: I64
    start: I64
    end: I64

    def where(self, kept: npt.NDArray[np.bool_]) -> _Placed:
        return _Placed(self.rows.where(kept), self.device[kept], self.start[kept], self.end[kept])


def _none() -> _Placed:
    nothing = np.zeros(0, np.int64)
    columns = dict.fromkeys(("groupName", "planeId"), nothing)
    return _Placed(Rows("", nothing, columns), nothing, nothing, nothing)


def _ops(tables: Tables, tasks: Tasks | None) -> _Placed:
    table = tables.find("COMMUNICATION_OP")
    if table is None:
        return _none()
    rows = tables.read(table, ("opName", "startNs", "endNs", "connectionId", "groupName", "deviceId"))
    device = rows["deviceId"]
    if "deviceid" not in table.columns:
        device = np.zeros(len(rows), np.int64)
        if tasks is not None:
            at = matched(tasks.all_connection, valid_connections(rows["connectionId"]))
            usual = int(tasks.all_device[0]) if len(tasks.all_device) else 0
            device = np.where(at >= 0, tasks.all_device[at], usual)
    return _Placed(rows, np.maximum(device, 0), rows.time("startNs"), rows.time("endNs"))


def _parts(tables: Tables, tasks: Tasks | None) -> _Placed:
    """The tasks of collectives on a plane, with the times of their device tasks."""
    table = tables.find("COMMUNICATION_TASK_INFO")
    if table is None or tasks is None:
        return _none()
    rows = tables.read(table, ("globalTaskId", "taskType", "planeId", "groupName"))
    plane = rows["planeId"]
    rows = rows.where((plane >= 0) & (plane < _MOST_PLANES))
    at = matched(tasks.all_task_id, rows["globalTaskId"])
    rows, at = rows.where(at >= 0), at[at >= 0]
    return _Placed(rows, tasks.all_device[at], tasks.all_start[at], tasks.all_end[at])


def _lanes(whole: Whole, process: str, *placed: _Placed) -> _Lanes:
    """Groups in the order of their first collective; a block of threads is as long as the group has planes."""
    begun: dict[tuple[int, int], int] = {}
    planes: dict[tuple[int, int], int] = {}
    for some in placed:
        groups, place = numbered(some.rows["groupName"])
        devices, at = numbered(some.device)
        key = at * max(len(groups), 1) + place
        for code in np.unique(key).tolist():
            own = key == code
            group = (int(devices[code // len(groups)]), int(groups[code % len(groups)]))
            start = int(some.start[own].min())
            begun[group] = min(begun.get(group, start), start)
            if "planeId" in some.rows.columns:
                planes[group] = max(planes.get(group, 1), int(some.rows["planeId"][own].max()) + 1)
    lanes = _Lanes(whole, process, {}, {})
    count: dict[int, int] = {}
    free: dict[int, int] = {}
    for group in sorted(begun, key=lambda group: (begun[group], group)):
        device = group[0]
        lanes.order[group], lanes.first[group] = count.get(device, 0), free.get(device, 0)
        count[device] = count.get(device, 0) + 1
        free[device] = lanes.first[group] + 1 + planes.get(group, 1)
    return lanes


def _read_ops(texts: Texts, whole: Whole, lanes: _Lanes, ops: _Placed) -> Collectives:
    rows = ops.rows
    thread = _by_lane(ops, [rows["groupName"]], lanes.group)
    event = whole.events(rows)
    connection = valid_connections(rows["connectionId"])
    names = texts.codes(rows["opName"], whole.columns.names)
    category = whole.columns.categories[""]
    whole.slices(event, thread, ops.start, ops.end, names, category, connection=connection)
    return Collectives(Ends(thread, ops.start), ops.end, ops.device, connection)


def _read_parts(texts: Texts, whole: Whole, lanes: _Lanes, parts: _Placed) -> None:
    rows = parts.rows
    thread = _by_lane(parts, [rows["groupName"], rows["planeId"]], lanes.plane)
    names = texts.codes(rows["taskType"], whole.columns.names)
    whole.slices(whole.events(rows), thread, parts.start, parts.end, names, whole.columns.categories[""])


def _by_lane(placed: _Placed, columns: list[I64], lane: Callable[..., int]) -> I32:
    """The thread codes that ``lane`` gives for a device and the values of ``columns``; (n,)."""
    distinct = [numbered(values) for values in (placed.device, *columns)]
    key = np.zeros(len(placed.device), np.int64)
    for values, place in distinct:
        key = key * len(values) + place
    found, at = numbered(key)
    codes = []
    for code in found.tolist():
        own = []
        for values, _ in reversed(distinct):
            code, which = divmod(code, len(values))
            own.append(int(values[which]))
        codes.append(lane(*reversed(own)))
    return np.array(codes, np.int32)[at]
