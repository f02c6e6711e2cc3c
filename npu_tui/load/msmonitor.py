"""Records of MSPTI that msMonitor wrote as lines of JSON, read as its database.

The records and the rows of the database are made of the same structs (``JsonlProcessManager`` and ``DBProcessManager``
of https://gitcode.com/Ascend/msmonitor): the lines are put into such a database, a private one, and that is read.
"""

from __future__ import annotations

import io
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import msgspec
from msgspec import Struct

from npu_tui.load.database import trace_of
from npu_tui.load.database_file import made_in_scratch, open_database
from npu_tui.load.errors import InputError, Watcher
from npu_tui.load.format import ReadingPace, Source
from npu_tui.trace.message import message
from npu_tui.trace.model import Trace
from npu_tui.trace.side_file import held_bytes, open_regular

_MARKS = 4_000_000_000  # added to the ids of marks, as msMonitor does, which count apart from those of launches
_NODE = 10_000  # the level of calls that msMonitor does not tell apart (``ENUM_API_TYPE``)
_LONGEST = 1 << 20  # bytes of a line that is still a record: the longest holds the groups of all ranks

_TABLES = """
CREATE TABLE STRING_IDS (id INTEGER, value TEXT);
CREATE TABLE ENUM_API_TYPE (id INTEGER, name TEXT);
INSERT INTO ENUM_API_TYPE VALUES (10000, 'node');
CREATE TABLE RANK_DEVICE_MAP (rankId INTEGER, deviceId INTEGER);
CREATE TABLE CANN_API (startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER,
    name INTEGER);
CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER,
    taskType INTEGER, contextId INTEGER, streamId INTEGER);
CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER, taskType INTEGER);
CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER,
    groupName INTEGER, dataType INTEGER, algType INTEGER, count INTEGER, opType INTEGER, deviceId INTEGER);
CREATE TABLE MSTX_EVENTS (startNs INTEGER, endNs INTEGER, message INTEGER, globalTid INTEGER, connectionId INTEGER);
"""
_NO_CONTEXT = (1 << 32) - 1  # -1 in 32 bits without a sign, as the profiler writes it

Row = tuple[str, tuple[int | str, ...]]


class _Record(Struct, rename="camel"):
    """A line, of any kind; times are ns since 1970."""

    kind: str = ""
    name: str = ""
    start_ns: int = 0
    end_ns: int = 0
    device_id: int = -1
    stream_id: int = -1
    correlation_id: int = -1
    process_id: int = 0
    thread_id: int = 0
    type: str = ""
    comm_name: str = ""
    alg_type: str = ""
    data_type: str = ""
    count: int = 0
    source_kind: str = ""
    id: int = 0
    rank: int = -1
    device: list[int] = []


def read_records(source: Source, watcher: Watcher, pace: ReadingPace) -> Trace:
    """The trace of the files of ``source``; raises as ``load_database``."""
    sizes = []
    for file in source.files:
        with open_regular(file) as stream:
            sizes.append(held_bytes(stream.fileno()))
    rows = _Rows()

    def fill(connection: sqlite3.Connection) -> None:
        done = 0
        for file, size in zip(source.files, sizes, strict=True):
            for table, values in rows.of(file):
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
            done += size
            watcher.report(done, sum(sizes), rows.count)

    path, holder = made_in_scratch(sum(sizes), _TABLES, fill)
    if not rows.count:
        raise InputError(message("input.msmonitor_nothing", path=str(source.path)))
    database = open_database(path)
    database.copy = holder
    if rows.odd:
        database.notes.append(message("odd.msmonitor_lines", count=rows.odd))
    return trace_of(source.path, database, source.rank, watcher)


class _Rows:
    """Makes rows of the database of lines; ``count`` records so far, and ``odd`` lines that are none."""

    def __init__(self) -> None:
        self.count = self.odd = 0
        self._codes: dict[str, int] = {}
        self._new: list[str] = []
        self._calls: Counter[str] = Counter()
        self._decode: Callable[[bytes], _Record] = msgspec.json.Decoder(_Record, strict=True).decode

    def of(self, file: Path) -> Iterator[Row]:
        """The rows of the lines of ``file``, each with its table."""
        with open_regular(file) as raw:
            stream = io.BufferedReader(raw)
            while line := stream.readline(_LONGEST):
                try:
                    record = self._decode(line)
                    rows = self._of(record)
                except (msgspec.DecodeError, OverflowError):
                    self.odd += bool(line.strip())
                    continue
                self.count += bool(rows)
                yield from rows
                for text in self._new:
                    yield "STRING_IDS", (self._codes[text], text)
                self._new.clear()

    def _of(self, record: _Record) -> list[Row]:
        times = record.start_ns, record.end_ns
        thread = (record.process_id << 32) | record.thread_id
        if record.kind == "Kernel":
            return self._task(record, record.name, record.type, record.correlation_id)
        if record.kind == "Communication":
            name = self._code(self._named(record))
            texts = (self._code(text) for text in (record.comm_name, record.data_type, record.alg_type))
            group, data_type, algorithm = texts
            values = (name, *times, record.correlation_id, group, data_type, algorithm, record.count)
            return [("COMMUNICATION_OP", (*values, self._code(record.name), record.device_id))]
        if record.kind == "Marker" and record.source_kind == "Device":
            return self._task(record, "", "MsTx", record.id + _MARKS)
        if record.kind == "Marker":
            return [("MSTX_EVENTS", (*times, self._code(record.name), thread, record.id + _MARKS))]
        if record.kind.upper().endswith("API"):
            return [("CANN_API", (*times, _NODE, thread, record.correlation_id, self._code(record.name)))]
        if record.kind == "rank_device_map":
            return [("RANK_DEVICE_MAP", (record.rank, device)) for device in record.device]
        if record.kind != "parallel_group_info":
            self.odd += 1
        return []

    def _task(self, record: _Record, name: str, kind: str, connection: int) -> list[Row]:
        """A task of a device; one with a ``name`` computes."""
        times, task_type, number = (record.start_ns, record.end_ns), self._code(kind), self.count
        values = *times, record.device_id, connection, number, task_type, _NO_CONTEXT, record.stream_id
        known = [("COMPUTE_TASK_INFO", (self._code(name), number, task_type))] if name else []
        return [("TASK", values), *known]

    def _named(self, record: _Record) -> str:
        """A collective as msMonitor's database names it: with three digits for its group, and how many came before."""
        before = self._calls[record.comm_name]
        self._calls[record.comm_name] += 1
        return f"{record.name}_{crc32(record.comm_name.encode()) % 1000:03}_{before}_1"

    def _code(self, text: str) -> int:
        if text not in self._codes:
            self._codes[text] = len(self._codes)
            self._new.append(text)
        return self._codes[text]
