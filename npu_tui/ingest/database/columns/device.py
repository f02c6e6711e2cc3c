"""The device's side: tasks on their streams."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.ingest.database.columns.host import valid_connections
from npu_tui.ingest.database.columns.whole import Ends, Whole
from npu_tui.ingest.database.tables.joins import matched, numbered
from npu_tui.ingest.database.tables.rows import ABSENT, Rows, Tables
from npu_tui.ingest.database.tables.texts import NOT_APPLICABLE, Texts, enumeration

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NO_CONTEXT = (1 << 32) - 1

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


def read_device(tables: Tables, texts: Texts, whole: Whole) -> Tasks | None:
    """Take the tasks on the streams of all devices in; None without any."""
    table = tables.find("TASK")
    if table is None:
        return None
    wanted = ("startNs", "endNs", "deviceId", "connectionId", "globalTaskId", "globalPid", "taskType", "contextId")
    every = tables.read(table, (*wanted, "streamId", "taskId"))
    if not len(every):
        return None
    kernel = _known(tables, "COMPUTE_TASK_INFO", every, "name", "taskType")
    scheduled = _known(tables, "COMMUNICATION_SCHEDULE_TASK_INFO", every, "name", "taskType")
    collective = _known(tables, "COMMUNICATION_TASK_INFO", every)
    connection = valid_connections(every["connectionId"])
    shown = ~_parents(every, connection, kernel.there)
    whole.os_pid = whole.os_pid or int(every["globalPid"].max(initial=0))
    rows = every.where(shown)
    whole_columns = whole.columns
    name = texts.codes(rows["taskType"], whole_columns.names)
    for known in (scheduled, kernel):
        own = known.there[shown]
        name[own] = texts.codes(known.columns["name"][shown][own], whole_columns.names)
    task_type = _task_types(tables, texts, whole, rows, [known.where(shown) for known in (scheduled, kernel)])
    event, start, end = whole.events(rows), rows.time("startNs"), rows.time("endNs")
    thread = _streams(whole, rows)
    whole.slices(
        event, thread, start, end, name, whole_columns.categories[""], task_type, rows["streamId"], connection[shown]
    )
    computes = kernel.there[shown]
    named = np.array([word.endswith(_OF_COLLECTIVES) for word in whole_columns.names.values_in_order], np.bool_)
    return Tasks(
        ends=Ends(thread, start),
        until=end,
        device=np.maximum(rows["deviceId"], 0),
        connection=connection[shown],
        is_kernel=computes & ~named[name],
        is_linked=~collective.there[shown] & ~texts.which(rows["taskType"], *_UNLINKED),
        all_task_id=every["globalTaskId"],
        all_start=every.time("startNs"),
        all_end=every.time("endNs"),
        all_device=np.maximum(every["deviceId"], 0),
        all_connection=connection,
    )


class _Known(Struct):
    """What another table says of tasks: whether it knows them, and its columns; (n,) each."""

    there: Bools
    columns: dict[str, I64]

    def where(self, kept: Bools) -> _Known:
        return _Known(self.there[kept], {name: values[kept] for name, values in self.columns.items()})


def _known(tables: Tables, name: str, tasks: Rows, *columns: str) -> _Known:
    table = tables.find(name)
    if table is None:
        return _Known(np.zeros(len(tasks), np.bool_), {column: np.full(len(tasks), ABSENT) for column in columns})
    rows = tables.read(table, ("globalTaskId", *columns))
    at = matched(rows["globalTaskId"], tasks["globalTaskId"])
    there = at >= 0
    return _Known(there, {column: np.where(there, _taken(rows[column], at), ABSENT) for column in columns})


def _taken(values: I64, at: I64) -> I64:
    return values[at] if len(values) else np.full(len(at), ABSENT)


def _parents(rows: Rows, connection: I64, is_kernel: Bools) -> Bools:
    """Which tasks only stand for others: FFTS+ tasks whose subtasks, which have a context, are there; (n,)."""
    context = rows["contextId"]
    whole = (context == NO_CONTEXT) | (context < 0)
    if whole.all():
        return np.zeros(len(rows), np.bool_)
    key = np.zeros(len(rows), np.int64)
    for values in (rows["deviceId"], rows["streamId"], rows["taskId"], connection):
        distinct, place = numbered(values)
        key = numbered(key * len(distinct) + place)[1]
    divided = np.zeros(int(key.max()) + 1, np.bool_)
    divided[key[~whole]] = True
    found: Bools = whole & divided[key] & ~is_kernel
    return found


def _task_types(tables: Tables, texts: Texts, whole: Whole, rows: Rows, known: list[_Known]) -> I32:
    """The codes of task types in the words of a text trace; (n,)."""
    codes = whole.columns.task_types

    def of(numbers: I64) -> I32:
        distinct, place = numbered(numbers)
        words = [texts[number] for number in distinct.tolist()]
        own = np.array([codes[TASK_TYPES.get(word, word)] for word in words], np.int32)
        return own[place] if len(own) else np.zeros(0, np.int32)

    task_type = of(rows["taskType"])
    for source in known:
        told = source.there & ~texts.which(source.columns["taskType"], NOT_APPLICABLE, "")
        task_type[told] = of(source.columns["taskType"][told])
    copies = tables.find("MEMCPY_INFO")
    if copies is not None:
        info = tables.read(copies, ("globalTaskId", "memcpyOperation"))
        names = enumeration(tables, "ENUM_MEMCPY_OPERATION")
        at = matched(info["globalTaskId"], rows["globalTaskId"])
        there = np.flatnonzero((at >= 0) & texts.which(rows["taskType"], _COPY))
        direction = _taken(info["memcpyOperation"], at[there])
        on_chip = np.isin(direction, [number for number, name in names.items() if name in _ON_CHIP])
        task_type[there] = np.where(on_chip, codes["SDMA_SQE"], codes["PCIE_DMA_SQE"])
    return task_type


def _streams(whole: Whole, rows: Rows) -> I32:
    """The thread codes of the streams; (n,)."""
    devices, place = numbered(np.maximum(rows["deviceId"], 0))
    thread = np.zeros(len(rows), np.int32)
    for number, device in enumerate(devices.tolist()):
        own = place == number if len(devices) > 1 else np.ones(len(rows), np.bool_)
        pid = whole.process("Ascend Hardware", device)
        streams, at = numbered(rows["streamId"][own])
        codes = [whole.thread(pid, stream, f"Stream {stream}") for stream in streams.tolist()]
        thread[own] = np.array(codes, np.int32)[at]
    return thread
