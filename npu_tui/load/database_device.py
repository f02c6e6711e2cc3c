"""The device's side of a profiler database as columns.

``TASK`` holds what ran on the streams, ``COMPUTE_TASK_INFO`` the names of kernels, ``COMMUNICATION_OP`` and
``COMMUNICATION_TASK_INFO`` collectives and their parts on the planes, ``OVERLAP_ANALYSIS`` the four lanes that msprof
derives of them, which are computed where an older version left them out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.load.database_columns import (
    NOT_APPLICABLE,
    DatabaseColumns,
    Ends,
    Texts,
    enumeration,
    first_places,
    jointly,
    numbered,
    valid_connections,
)
from npu_tui.load.database_rows import ABSENT, DatabaseRows, DatabaseTables
from npu_tui.load.times import INVALID
from npu_tui.trace.arrays import I32, I64, Bools
from npu_tui.trace.intervals import difference, union

NO_CONTEXT = (1 << 32) - 1  # -1 in 32 bits without a sign

TASK_TYPES = {
    "KERNEL_AICORE": "AI_CORE",
    "KERNEL_AIVEC": "AI_VECTOR_CORE",
    "AIV": "AI_VECTOR_CORE",
    "KERNEL_MIX_AIC": "MIX_AIC",
    "KERNEL_MIX_AIV": "MIX_AIV",
    "KERNEL_AICPU": "AI_CPU",
    "STARS_COMMON": "DSA_SQE",
    "EVENT_RECORD": "EVENT_RECORD_SQE",
    "EVENT_WAIT": "EVENT_WAIT_SQE",
    "PROFILING_ENABLE": "PLACE_HOLDER_SQE",
    "PROFILING_DISABLE": "PLACE_HOLDER_SQE",
}
"""Task types of a text trace by the host's type of a task."""

_COPY = "MEMCPY_ASYNC"
_ON_CHIP = frozenset({"device to device", "addr device to device"})
_UNLINKED = ("EVENT_RECORD", "EVENT_WAIT", "PROFILING_ENABLE", "PROFILING_DISABLE", "PLACE_HOLDER_SQE")
_OF_COLLECTIVES = ("AicpuKernel", "AivKernel")


class Tasks(Struct):
    """Device tasks that are shown; (n,) each, but those called ``all``, which are those of every task.

    ``is_kernel`` says that the host knows what it computes, ``is_linked`` that a launch is drawn to it.
    """

    ends: Ends
    until: I64
    device: I64
    connection: I64
    is_kernel: Bools
    is_linked: Bools
    all_task_id: I64
    all_start: I64
    all_end: I64
    all_device: I64
    all_connection: I64


def read_device(tables: DatabaseTables, texts: Texts, whole: DatabaseColumns) -> Tasks | None:
    """Take the tasks on the streams of all devices in; None without any."""
    wanted = ("startNs", "endNs", "deviceId", "connectionId", "globalTaskId", "globalPid", "taskType", "contextId")
    tasks = tables.select("TASK", (*wanted, "streamId", "taskId"))
    kernel = _rows_of_tasks(tables, "COMPUTE_TASK_INFO", tasks, "name", "taskType")
    scheduled = _rows_of_tasks(tables, "COMMUNICATION_SCHEDULE_TASK_INFO", tasks, "name", "taskType")
    collective = _rows_of_tasks(tables, "COMMUNICATION_TASK_INFO", tasks)
    tables.lost_tasks = kernel.lost + scheduled.lost + collective.lost
    if not len(tasks):
        return None
    connection = valid_connections(tasks["connectionId"])
    # A task whose parts are recorded too would be drawn twice.
    shown = ~_parents(tasks, connection, kernel.there)
    whole.os_pid = whole.os_pid or int(tasks["globalPid"].max(initial=0))
    rows = tasks.where(shown)
    name = texts.codes(rows["taskType"], whole.names)
    for known in (scheduled, kernel):
        is_known = known.there[shown]
        name[is_known] = texts.codes(known.columns["name"][shown][is_known], whole.names)
    task_type = _task_types(tables, texts, whole, rows, [known.where(shown) for known in (scheduled, kernel)])
    event, start, end = whole.events(rows), rows.time("startNs"), rows.time("endNs")
    thread = _streams(whole, rows)
    whole.slices(event, thread, start, end, name, whole.categories[""], task_type, rows["streamId"], connection[shown])
    computes = kernel.there[shown]
    named = np.array([word.endswith(_OF_COLLECTIVES) for word in whole.names.values_in_order], np.bool_)
    return Tasks(
        ends=Ends(thread, start),
        until=end,
        device=np.maximum(rows["deviceId"], 0),
        connection=connection[shown],
        is_kernel=computes & ~named[name],
        is_linked=~collective.there[shown] & ~texts.which(rows["taskType"], lambda word: word in _UNLINKED),
        all_task_id=tasks["globalTaskId"],
        all_start=tasks.time("startNs"),
        all_end=tasks.time("endNs"),
        all_device=np.maximum(tasks["deviceId"], 0),
        all_connection=connection,
    )


class _Known(Struct):
    """What another table says of tasks: whether it knows them, and its columns; (n,) each. ``lost`` are not in TASK."""

    there: Bools
    columns: dict[str, I64]
    lost: int

    def where(self, kept: Bools) -> _Known:
        return _Known(self.there[kept], {name: values[kept] for name, values in self.columns.items()}, self.lost)


def _rows_of_tasks(tables: DatabaseTables, name: str, tasks: DatabaseRows, *columns: str) -> _Known:
    rows = tables.select(name, ("globalTaskId", *columns))
    ids, known = rows["globalTaskId"], tasks["globalTaskId"]
    at = first_places(ids, known)
    has_numbers = not len(known) or bool((known >= 0).any())  # older versions did not number them
    lost = int(np.count_nonzero((first_places(known, ids) < 0) & (ids >= 0))) if has_numbers else 0
    last = {column: np.append(rows[column], ABSENT)[at] for column in columns}  # -1 is the last entry
    return _Known(at >= 0, last, lost)


def _parents(rows: DatabaseRows, connection: I64, is_kernel: Bools) -> Bools:
    """Which tasks only stand for others: FFTS+ tasks whose subtasks, which have a context, are there; (n,)."""
    context = rows["contextId"]
    undivided = (context == NO_CONTEXT) | (context < 0)
    if undivided.all():
        return np.zeros(len(rows), np.bool_)
    combinations, key = jointly(rows["deviceId"], rows["streamId"], rows["taskId"], connection)
    divided = np.zeros(len(combinations), np.bool_)
    divided[key[~undivided]] = True
    is_parent: Bools = undivided & divided[key] & ~is_kernel
    return is_parent


def _task_types(
    tables: DatabaseTables, texts: Texts, whole: DatabaseColumns, rows: DatabaseRows, known: list[_Known]
) -> I32:
    """The codes of task types in the words of a text trace; (n,)."""
    codes = whole.task_types

    def codes_of(numbers: I64) -> I32:
        distinct, place = numbered(numbers)
        words = [texts[number] for number in distinct.tolist()]
        return np.array([codes[TASK_TYPES.get(word, word)] for word in words], np.int32)[place]

    task_type = codes_of(rows["taskType"])
    # What the task itself calls ``KERNEL_MIX`` or the like, its table of kernels names exactly.
    for source in known:
        numbers = source.columns["taskType"]
        named = source.there & ~texts.which(numbers, lambda word: word in (NOT_APPLICABLE, ""))
        task_type[named] = codes_of(numbers[named])
    info = tables.select("MEMCPY_INFO", ("globalTaskId", "memcpyOperation"))
    if len(info):
        names = enumeration(tables, "ENUM_MEMCPY_OPERATION")
        at = first_places(info["globalTaskId"], rows["globalTaskId"])
        copies = np.flatnonzero((at >= 0) & texts.which(rows["taskType"], lambda word: word == _COPY))
        on_chip = np.isin(
            info["memcpyOperation"][at[copies]], [number for number, name in names.items() if name in _ON_CHIP]
        )
        task_type[copies] = np.where(on_chip, codes["SDMA_SQE"], codes["PCIE_DMA_SQE"])
    return task_type


def _streams(whole: DatabaseColumns, rows: DatabaseRows) -> I32:
    """The thread codes of the streams; (n,)."""
    devices, place = numbered(np.maximum(rows["deviceId"], 0))
    thread = np.zeros(len(rows), np.int32)
    for number, device in enumerate(devices.tolist()):
        on_device = place == number if len(devices) > 1 else np.ones(len(rows), np.bool_)
        pid = whole.process("Ascend Hardware", device)
        streams, at = numbered(rows["streamId"][on_device])
        codes = [whole.thread(pid, stream, f"Stream {stream}") for stream in streams.tolist()]
        thread[on_device] = np.array(codes, np.int32)[at]
    return thread


_MOST_PLANES = 1 << 12  # level 0 writes 4294967295 or 65534 for a plane


class GroupCollectives(Struct):
    """Collectives of all groups; (n,) each."""

    ends: Ends
    until: I64
    device: I64
    connection: I64


class _GroupLanes(Struct):
    """The lanes of groups on their devices: each group has a block of thread numbers, its own lane and its planes."""

    whole: DatabaseColumns
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


def read_collectives(
    tables: DatabaseTables, texts: Texts, whole: DatabaseColumns, tasks: Tasks | None
) -> GroupCollectives | None:
    """Take the collectives and their tasks in; None without any collective."""
    ops, parts = _ops(tables, tasks), _plane_tasks(tables, tasks)
    if not len(ops.rows) and not len(parts.rows):
        return None
    lanes = _group_lanes(whole, "HCCL" if whole.is_older else "Communication", ops, parts)
    collectives = _read_ops(texts, whole, lanes, ops) if len(ops.rows) else None
    if len(parts.rows):
        _read_parts(texts, whole, lanes, parts)
    return collectives


class _PlacedRows(Struct):
    """Rows with the device they belong to and their times; (n,) each."""

    rows: DatabaseRows
    device: I64
    start: I64
    end: I64

    def where(self, kept: npt.NDArray[np.bool_]) -> _PlacedRows:
        return _PlacedRows(self.rows.where(kept), self.device[kept], self.start[kept], self.end[kept])


def _ops(tables: DatabaseTables, tasks: Tasks | None) -> _PlacedRows:
    rows = tables.select("COMMUNICATION_OP", ("opName", "startNs", "endNs", "connectionId", "groupName", "deviceId"))
    device = rows["deviceId"]
    if tasks is not None and not tables.has_column("COMMUNICATION_OP", "deviceId"):
        # Older tables leave the device out: the tasks of a collective, which share its connection, have it.
        at = first_places(tasks.all_connection, valid_connections(rows["connectionId"]))
        usual = int(tasks.all_device[0]) if len(tasks.all_device) else 0
        device = np.where(at >= 0, tasks.all_device[at], usual)
    return _PlacedRows(rows, np.maximum(device, 0), rows.time("startNs"), rows.time("endNs"))


def _plane_tasks(tables: DatabaseTables, tasks: Tasks | None) -> _PlacedRows:
    """The tasks of collectives on a plane, with the times of their device tasks."""
    rows = tables.select("COMMUNICATION_TASK_INFO", ("globalTaskId", "taskType", "planeId", "groupName"))
    if tasks is None or not len(rows):
        nothing = np.zeros(0, np.int64)
        return _PlacedRows(rows.where(nothing), nothing, nothing, nothing)
    plane = rows["planeId"]
    rows = rows.where((plane >= 0) & (plane < _MOST_PLANES))
    at = first_places(tasks.all_task_id, rows["globalTaskId"])
    rows, at = rows.where(at >= 0), at[at >= 0]
    return _PlacedRows(rows, tasks.all_device[at], tasks.all_start[at], tasks.all_end[at])


def _group_lanes(whole: DatabaseColumns, process: str, *placed: _PlacedRows) -> _GroupLanes:
    """Groups in the order of their first collective; a block of threads is as long as the group has planes."""
    begun: dict[tuple[int, int], int] = {}
    planes: dict[tuple[int, int], int] = {}
    for rows in placed:
        combinations, key = jointly(rows.device, rows.rows["groupName"])
        for code, row in enumerate(combinations.tolist()):
            of_group = key == code
            group = int(rows.device[row]), int(rows.rows["groupName"][row])
            start = int(rows.start[of_group].min())
            begun[group] = min(begun.get(group, start), start)
            if "planeId" in rows.rows.columns:
                planes[group] = max(planes.get(group, 1), int(rows.rows["planeId"][of_group].max()) + 1)
    lanes = _GroupLanes(whole, process, {}, {})
    count: dict[int, int] = {}
    free: dict[int, int] = {}
    for group in sorted(begun, key=lambda group: (begun[group], group)):
        device = group[0]
        lanes.order[group], lanes.first[group] = count.get(device, 0), free.get(device, 0)
        count[device] = count.get(device, 0) + 1
        free[device] = lanes.first[group] + 1 + planes.get(group, 1)
    return lanes


def _read_ops(texts: Texts, whole: DatabaseColumns, lanes: _GroupLanes, ops: _PlacedRows) -> GroupCollectives:
    rows = ops.rows
    thread = _by_lane(ops, [rows["groupName"]], lanes.group)
    event = whole.events(rows)
    connection = valid_connections(rows["connectionId"])
    names = texts.codes(rows["opName"], whole.names)
    category = whole.categories[""]
    whole.slices(event, thread, ops.start, ops.end, names, category, connection=connection)
    return GroupCollectives(Ends(thread, ops.start), ops.end, ops.device, connection)


def _read_parts(texts: Texts, whole: DatabaseColumns, lanes: _GroupLanes, parts: _PlacedRows) -> None:
    rows = parts.rows
    thread = _by_lane(parts, [rows["groupName"], rows["planeId"]], lanes.plane)
    names = texts.codes(rows["taskType"], whole.names)
    whole.slices(whole.events(rows), thread, parts.start, parts.end, names, whole.categories[""])


def _by_lane(placed: _PlacedRows, columns: list[I64], lane: Callable[..., int]) -> I32:
    """The thread codes that ``lane`` gives for a device and the values of ``columns``; (n,)."""
    combinations, key = jointly(placed.device, *columns)
    codes = [lane(*(int(values[row]) for values in (placed.device, *columns))) for row in combinations.tolist()]
    return np.array(codes, np.int32)[key]


NAMES = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")


def read_overlap(
    tables: DatabaseTables, whole: DatabaseColumns, tasks: Tasks | None, collectives: GroupCollectives | None
) -> None:
    """Take the four lanes of every device in."""
    if not _recorded(tables, whole):
        _computed(whole, tasks, collectives)


def _recorded(tables: DatabaseTables, whole: DatabaseColumns) -> bool:
    """Whether ``OVERLAP_ANALYSIS`` was there and taken in; its types are the numbers of the lanes."""
    rows = tables.select("OVERLAP_ANALYSIS", ("deviceId", "startNs", "endNs", "type"))
    rows = rows.where((rows["type"] >= 0) & (rows["type"] < len(NAMES)))
    event, start, end = whole.events(rows), rows.time("startNs"), rows.time("endNs")
    for device in np.unique(rows["deviceId"]).tolist():
        for lane in range(len(NAMES)):
            spans = np.flatnonzero((rows["deviceId"] == device) & (rows["type"] == lane))
            _take(whole, max(device, 0), lane, event[spans], start[spans], end[spans])
    return len(rows) > 0


def _computed(whole: DatabaseColumns, tasks: Tasks | None, collectives: GroupCollectives | None) -> None:
    """Unions and differences of kernels and collectives, from the first of them to the last."""
    nothing = np.zeros(0, np.int64)
    devices = np.zeros(0, np.int64) if tasks is None else tasks.device
    for device in np.unique(devices).tolist():
        assert tasks is not None
        on = (tasks.device == device) & (tasks.ends.time != INVALID) & (tasks.until != INVALID)
        kernels = np.flatnonzero(on & tasks.is_kernel)
        computing = union(tasks.ends.time[kernels], tasks.until[kernels])
        communication = (nothing, nothing)
        if collectives is not None:
            ops = np.flatnonzero((collectives.device == device) & (collectives.ends.time != INVALID))
            communication = union(collectives.ends.time[ops], collectives.until[ops])
        starts, ends = (np.concatenate(both) for both in zip(computing, communication, strict=True))
        if not len(starts):
            continue
        free = difference(np.array([starts.min()]), np.array([ends.max()]), starts, ends)
        lanes = (computing, communication, difference(*communication, *computing), free)
        for lane, (start, end) in enumerate(lanes):
            if len(start):
                _take(whole, device, lane, whole.computed(len(start)), start, end)


def _take(whole: DatabaseColumns, device: int, lane: int, event: I64, start: I64, end: I64) -> None:
    if not len(start):
        return
    code = whole.thread(whole.process("Overlap Analysis", device), lane, NAMES[lane])
    names = np.full(len(start), whole.names[NAMES[lane]], np.int32)
    whole.slices(event, np.full(len(start), code, np.int32), start, end, names, whole.categories[""])
