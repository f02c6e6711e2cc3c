"""What the tables of a database hold, put into the columns that a trace is made of.

A row of a table takes the place of an event of a text trace. A chunk is a run of neighbouring rows: its offset is the
first row number with the number of the table in ``TABLES`` above it, its length the count of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.load.database_rows import DatabaseRows, Tables, plain
from npu_tui.load.database_texts import enumeration
from npu_tui.load.json_columns import SOURCE, TARGET
from npu_tui.load.json_reader import WholeColumns
from npu_tui.trace.arrays import I32, I64

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

ROW_BITS = 56  # the eight above number the table
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

_OTHERS = 30  # behind all layers that have an order
_HOST = 31
"""Stands for no device in a packed process id."""


class DatabaseColumns(WholeColumns):
    """Takes links as well, and numbers processes as msprof does."""

    def __init__(self, tables: Tables) -> None:
        super().__init__()
        self.os_pid = 0
        self.is_older = enumeration(tables, "ENUM_API_TYPE").get(COLLECTIVE) == "hccl"
        self._sort = {**SORT, **_OLDER_SORT} if self.is_older else SORT
        self._table_numbers = {plain(name): number for number, name in enumerate(TABLES)}
        self._event = 0
        self._link = 0
        self._pids: dict[tuple[str, int, int], int] = {}

    def events(self, rows: DatabaseRows) -> I64:
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
