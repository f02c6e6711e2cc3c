"""What the tables of a database hold, put into the columns that a trace is made of.

A row of a table takes the place of an event of a text trace. A chunk is a run of neighbouring rows: its offset is the
first row number with the number of the table in ``TABLES`` above it, its length the count of rows.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.load.database_rows import Rows, Tables, plain
from npu_tui.load.database_texts import enumeration
from npu_tui.load.json_columns import SOURCE, TARGET
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.times import INVALID

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

TABLES = (
    "PYTORCH_API",
    "CANN_API",
    "API",
    "TASK",
    "COMMUNICATION_OP",
    "COMMUNICATION_TASK_INFO",
    "OVERLAP_ANALYSIS",
    "MSTX_EVENTS",
    "GC_RECORD",
    "OSRT_API",
    "STEP_TIME",
    "",
)
"""The tables whose rows are slices; the last one stands for slices that are computed."""

ROW_BITS = 56
ROW = (1 << ROW_BITS) - 1
"""The bits of a chunk's offset that are a row number."""

SORT = {
    "Python": 0,
    "MindSpore": 0,
    "Python GC": 1,
    "MSTX": 6,
    "CANN": 7,
    "CPU Usage": 9,
    "Memory Usage": 10,
    "Network Usage": 11,
    "Disk Usage": 12,
    "OS Runtime API": 13,
    "Ascend Hardware": 14,
    "AI Core Freq": 15,
    "Communication": 16,
    "NPU MEM": 17,
    "DDR": 18,
    "Acc PMU": 19,
    "HCCS": 20,
    "NIC": 21,
    "RoCE": 22,
    "PCIe": 23,
    "HBM": 24,
    "Stars Soc Info": 25,
    "LLC": 27,
    "QoS": 29,
    "Overlap Analysis": 31,
}
"""Sort indexes of msprof's layers (its newest ``process_sort_index``)."""

_OLDER_SORT = {
    "Ascend Hardware": 13,
    "AI Core Freq": 14,
    "HCCL": 15,
    "HBM": 17,
    "DDR": 18,
    "LLC": 18,
    "NPU MEM": 19,
    "Stars Soc Info": 20,
    "Acc PMU": 21,
    "QoS": 22,
    "Overlap Analysis": 23,
}
"""Those of the versions that call the process of collectives HCCL, where they differ."""

COLLECTIVE = 5500
"""The type of calls of the library of collectives, which is called ``hccl`` or ``communication``."""

_OTHERS = 30
_HOST = 31
"""Stands for no device in a packed process id."""


class DatabaseColumns(WholeColumns):
    """Takes slices, samples and links and numbers processes and threads as msprof does.

    Each of the three kinds may come from a thread of its own.
    """

    def __init__(self, tables: Tables) -> None:
        super().__init__()
        self.os_pid = 0
        self.is_older = enumeration(tables, "ENUM_API_TYPE").get(COLLECTIVE) == "hccl"
        self._sort = {**SORT, **_OLDER_SORT} if self.is_older else SORT
        self._table_numbers = {plain(name): number for number, name in enumerate(TABLES)}
        self._lock = threading.Lock()
        self._event = 0
        self._link = 0
        self._pids: dict[tuple[str, int, int], int] = {}

    def events(self, rows: Rows) -> I64:
        """The ordinals of ``rows`` as events; (n,). They are taken in once."""
        number = rows.number
        begins = np.flatnonzero(np.diff(number, prepend=number[:1] - 2) != 1)
        ordinal = np.arange(self._event, self._event + len(number))
        self._chunks(
            self._table_numbers[plain(rows.table)], number[begins], np.diff(begins, append=len(number)), ordinal[begins]
        )
        self._event += len(number)
        return ordinal

    def computed(self, count: int) -> I64:
        """The ordinals of ``count`` slices or ends of links that are rows of no table; (n,)."""
        ordinal = np.arange(self._event, self._event + count)
        self._chunks(len(TABLES) - 1, np.zeros(1, np.int64), np.array([count]), ordinal[:1])
        self._event += count
        return ordinal

    def _chunks(self, table: int, offset: I64, length: I64, first: I64) -> None:
        place = (offset[: len(first)] & ROW) | np.int64(table << ROW_BITS)
        columns = {"file": np.zeros(len(first), np.int32), "offset": place, "length": length, "first": first}
        for name, values in columns.items():
            self.put(f"chunk_{name}", values[: len(first)])

    def process(self, name: str, device: int = -1, os_pid: int = 0, label: str = "") -> int:
        """The id of process ``name`` of a device (-1 for the host), which is named and ordered once."""
        os_pid = os_pid or self.os_pid
        key = (name, device, os_pid)
        with self._lock:
            return self._pids[key] if key in self._pids else self._named(key, label)

    def _named(self, key: tuple[str, int, int], label: str) -> int:
        name, device, os_pid = key
        order = self._sort.get(name, _OTHERS)
        low = device & _HOST if device >= 0 else _HOST
        pid = os_pid if order == 0 else os_pid << 10 | order << 5 | low
        metadata = self.metadata
        while metadata.process_name.get(pid, name) != name or pid in self._pids.values():
            pid += 1 << 52  # two unknown layers, or a device of a high number
        self._pids[key] = pid
        metadata.process_name[pid] = name
        metadata.process_order[pid] = order
        metadata.process_label[pid] = label or ("CPU" if device < 0 else f"NPU {device}")
        return self._pids[key]

    def thread(self, pid: int, tid: int, name: str, order: int | None = None) -> int:
        """The code of a thread, which is named once."""
        metadata = self.metadata
        metadata.thread_name.setdefault((pid, tid), name)
        metadata.thread_order.setdefault((pid, tid), tid if order is None else order)
        return self.threads[pid, tid]

    def slices(
        self,
        event: I64,
        thread: I32,
        start: I64,
        end: I64,
        name: I32,
        category: I32 | int,
        task_type: I32 | None = None,
        stream: I64 | None = None,
        connection: I64 | None = None,
        correlation: I64 | None = None,
        stack: I32 | None = None,
    ) -> None:
        """Take slices in, (n,) each; times are in ns since 1970, ``INVALID`` where there is none."""
        count = len(event)
        self._count("X", count)
        columns: dict[str, npt.NDArray[Any]] = {
            "time": start,
            "duration": _durations(start, end),
            "thread": thread,
            "name": name,
            "category": np.broadcast_to(np.asarray(category, np.int32), count),
            "task_type": _or_absent(task_type, count, np.int32),
            "stream": _or_absent(stream, count, np.int64),
            "connection": _or_absent(connection, count, np.int64),
            "correlation": _or_absent(correlation, count, np.int64),
            "stack": _or_absent(stack, count, np.int32),
            "event": event,
        }
        for key, values in columns.items():
            self.put(f"x_{key}", values)

    def _count(self, phase: str, count: int) -> None:
        with self._lock:
            self.phases[phase] += count
            self.count += count

    def samples(self, pid: int, name: str, key: str, instance: str, time: I64, value: F64) -> None:
        """Take samples of one curve in, (n,) each; a value that is none is left out."""
        there = ~np.isnan(value)
        time, value = time[there], value[there]
        if len(time):
            series = self.series[pid, name, key, instance]
            self.put("c_series", np.full(len(time), series, np.int32))
            self.put("c_time", time)
            self.put("c_value", value)
            self._count("C", len(time))

    def links(self, category: str, link: I64, source: Ends, target: Ends) -> None:
        """Take links in: each of the targets belongs to the source of the same number in ``link``; (n,) each.

        Sources that stand for the same launch have the same number and are given once per target.
        """
        if not len(link):
            return
        first = np.unique(link, return_index=True)[1]
        for phase, ends, which in ((SOURCE, source, first), (TARGET, target, np.arange(len(link)))):
            columns: dict[str, npt.NDArray[Any]] = {
                "category": np.full(len(which), self.link_categories[category], np.int32),
                "thread": ends.thread[which],
                "time": ends.time[which],
                "event": self.computed(len(which)),
                "id": link[which] + self._link,
                "high": np.zeros(len(which), np.int64),
                "phase": np.full(len(which), phase, np.int8),
            }
            for key, values in columns.items():
                self.put(f"l_{key}", values)
            self._count("s" if phase == SOURCE else "f", len(which))
        self._link += int(link.max()) + 1


class Ends:
    """One end of many links: thread codes and times in ns since 1970; (n,) each."""

    def __init__(self, thread: I32, time: I64) -> None:
        self.thread = thread
        self.time = time

    def __getitem__(self, which: I64) -> Ends:
        return Ends(self.thread[which], self.time[which])


def _durations(start: I64, end: I64) -> I64:
    """How long slices last, -1 where one of their times is ``INVALID``; (n,)."""
    if not len(start) or (start.min() != INVALID and end.min() != INVALID):
        return end - start
    timed = (start != INVALID) & (end != INVALID)
    return np.where(timed, end - np.where(timed, start, end), -1)


def _or_absent(values: npt.NDArray[np.signedinteger] | None, count: int, kind: type) -> npt.NDArray[np.signedinteger]:
    return np.broadcast_to(kind(-1), count) if values is None else values
