"""A profiler database to a ``Trace``: which tables are read in which order; and records of msMonitor, as a database.

``TASK``, ``COMMUNICATION_OP`` and ``OVERLAP_ANALYSIS`` make the lanes of the device, ``PYTORCH_API``, ``CANN_API`` and
others those of the host, tables with timestamps the counters; ``database_device`` and ``database_host`` read them. What
else a profile holds lies in the same file, and is read by ``database_companions``.

msMonitor writes records of MSPTI as lines of JSON, too. They and the rows of its database are made of the same structs
(``JsonlProcessManager`` and ``DBProcessManager`` of https://gitcode.com/Ascend/msmonitor): the lines are put into such
a database, a private one, and that is read.
"""

from __future__ import annotations

import io
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import msgspec
from msgspec import Struct

from npu_tui.load.build import begun, build_trace
from npu_tui.load.database_args import DatabaseArgs
from npu_tui.load.database_columns import Connections, DatabaseColumns, Texts
from npu_tui.load.database_device import read_collectives, read_device, read_overlap
from npu_tui.load.database_file import UNREADABLE, Database, made_in_scratch, open_database
from npu_tui.load.database_host import read_counters, read_host, read_links
from npu_tui.load.database_rows import DatabaseTables
from npu_tui.load.errors import InputError, Watcher
from npu_tui.load.format import ReadingPace, Source
from npu_tui.load.json_reader import WholeColumns
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import EventFile, Health, Trace
from npu_tui.trace.side_file import held_bytes, open_regular

_MINDSPORE = "ascend_mindspore_profiler"
_LISTED = 4  # tables that a sentence names
_WORTH_A_THREAD = 8 << 20
_WORTH_A_PICTURE = 64 << 20
"""Bytes of a database that takes longer to read than a user waits for a first picture."""

_FIRST_ROWS = 20_000  # of each table, for that picture


def read_database(source: Source, watcher: Watcher, pace: ReadingPace) -> Trace:
    """The trace of the database ``source``; raises as ``load_database``."""
    return load_database(source.path, source.rank, watcher)


def load_database(path: Path, rank: int | None, watcher: Watcher | None = None) -> Trace:
    """The trace in the database at ``path``; ``rank`` counts where it is known already.

    The ``watcher`` hears of slices and samples as they come, and is shown the device, which is read first. Raises
    ``InputError`` if the database cannot be read or holds no event, ``Cancelled`` if the watcher says to stop,
    ``OSError`` where there is no room for a private copy.
    """
    return trace_of(path, open_database(path), rank, watcher or Watcher())


def trace_of(path: Path, database: Database, rank: int | None, watcher: Watcher) -> Trace:
    """The trace in the open ``database``, which is closed; to the user it lies at ``path``. Raises as above."""
    try:
        return _Loading(path, database, rank, watcher).trace()
    finally:
        database.close()


class _Loading:
    """One loading of ``database``, which lies at ``path``."""

    def __init__(self, path: Path, database: Database, rank: int | None, watcher: Watcher) -> None:
        self._path = path
        self._database = database
        self._watcher = watcher
        self._early = watcher.early
        self._tables = DatabaseTables(database)
        self._whole = DatabaseColumns(self._tables)
        self._tables.advance = self._advanced
        self._rank = _database_rank(self._tables, path) if rank is None else rank
        self._file = EventFile(str(database.path), database.size, database.copy)

    def _advanced(self, share: float) -> None:
        size = self._database.size
        self._watcher.report(int(size * share), size, self._whole.count)

    def trace(self) -> Trace:
        """Read all tables and put the trace together."""
        tables, whole = self._tables, self._whole
        texts = Texts(tables)
        link = self._read(texts)
        if not whole.count:
            raise InputError(_empty(self._path, tables))
        self._advanced(1.0)
        health = Health(truncated=self._database.cut)
        health.warnings += self._database.notes + _losses(tables, texts)
        if self._database.copy is None and self._database.changed():
            health.warnings.append(message("odd.db_written"))
        return self._built(whole, health, link)

    def _read(self, texts: Texts) -> Callable[[], None]:
        """Take all tables in; what takes the links in is left to be called."""
        tables, whole = self._tables, self._whole
        self._shown_first(texts)
        connections = Connections(tables)
        if connections.dropped:
            self._database.notes.append(message("odd.db_connections", count=connections.dropped))
        tasks = read_device(tables, texts, whole)
        beside = tasks is not None and self._database.size >= _WORTH_A_THREAD  # else the process is not known yet
        counting = begun(lambda: read_counters(tables, texts, whole), beside)
        collectives = read_collectives(tables, texts, whole, tasks)
        read_overlap(tables, whole, tasks, collectives)
        if not beside or (self._early is not None and self._database.size >= _WORTH_A_PICTURE):
            counting()
            if self._early is not None and self._database.size >= _WORTH_A_PICTURE and whole.phases["X"]:
                self._early(self._built(whole.so_far(), Health()))
        python = "MindSpore" if self._path.name.startswith(_MINDSPORE) else "Python"
        host = read_host(tables, texts, whole, connections, python)
        counting()
        rest = [(host, connections, tasks, collectives)]
        return lambda: read_links(whole, *rest.pop())  # nothing else keeps them

    def _shown_first(self, texts: Texts) -> None:
        """The first tasks of the device, before anything is read whole."""
        if self._early is None or self._database.size < _WORTH_A_PICTURE:
            return
        tables = DatabaseTables(self._database, most=_FIRST_ROWS)
        first = DatabaseColumns(tables)
        if read_device(tables, texts, first) is not None and first.phases["X"]:
            self._early(self._built(first, Health()))

    def _built(self, whole: WholeColumns, health: Health, link: Callable[[], None] | None = None) -> Trace:
        trace = build_trace(whole, str(self._path), (self._file,), self._rank, health, link=link)
        trace.args = DatabaseArgs(trace.path, self._file, trace.chunks)
        return trace


# How tables begin of an export of Nsight Systems
# (https://docs.nvidia.com/nsight-systems/UserGuide/index.html#exporting-data).
_NSIGHT = ("CUPTI_ACTIVITY_", "TARGET_INFO_")
_OURS = (
    "STRING_IDS", "TASK", "PYTORCH_API", "CANN_API", "MSTX_EVENTS", "COMMUNICATION_OP", "COMPUTE_TASK_INFO",
    "META_DATA", "RANK_DEVICE_MAP", "HOST_INFO", "NPU_INFO", "SESSION_TIME_INFO", "ENUM_API_TYPE", "CONNECTION_IDS",
)  # fmt: skip
"""Tables of which the profilers write at least one."""


def _losses(tables: DatabaseTables, texts: Texts) -> list[Message]:
    """What of the database could not be read."""
    losses: list[Message] = []
    if tables.damaged:
        shown, rest = ", ".join(tables.damaged[:_LISTED]), len(tables.damaged) - _LISTED
        code, args = ("odd.db_tables", {}) if rest <= 0 else ("odd.db_tables_more", {"rest": rest})
        losses.append(Message(code, {"tables": shown, **args}))
    if tables.views:
        losses.append(message("odd.db_views", count=tables.views))
    if tables.lost_tasks:
        losses.append(message("odd.db_tasks", count=tables.lost_tasks))
    if tables.odd_cells:
        losses.append(message("odd.db_cells", count=tables.odd_cells))
    if texts.missing:
        losses.append(message("odd.db_texts", count=len(texts.missing)))
    return losses


def _empty(path: Path, tables: DatabaseTables) -> Message:
    if tables.database.cut:
        return message("input.db_cut", path=str(path), byte=tables.database.size)
    if tables.find("StepTraceTime", "CommAnalyzerTime"):
        return message("input.db_statistics", path=str(path))
    names = list(tables.names.values())
    if any(name.startswith(_NSIGHT) for name in names):
        return message("input.db_nsys", path=str(path))
    if names and tables.find(*_OURS) is None:
        shown = ", ".join(names[:_LISTED]) + ("…" if len(names) > _LISTED else "")
        return message("input.db_foreign", path=str(path), tables=shown)
    return message("input.db_nothing", path=str(path))


def _database_rank(tables: DatabaseTables, path: Path) -> int | None:
    """The rank that the database names, else the one in its file name; None without either."""
    table = tables.find("RANK_DEVICE_MAP")
    try:
        named = [row[0] for row in tables.cells(table, "rankId")]
    except UNREADABLE:
        named = []
    ranks = [rank for rank in named if isinstance(rank, int) and rank >= 0]
    if ranks:
        return ranks[0]
    match = re.search(r"_(\d{1,5})\.db$", path.name)
    return int(match[1]) if match and not path.name.startswith("msprof_") else None


_FIRST_MARK = 4_000_000_000  # added to the ids of marks, as msMonitor does, which count apart from those of launches
_LEVEL_OF_NODE = 10_000  # the level of calls that msMonitor does not tell apart (``ENUM_API_TYPE``)
_LONGEST_LINE = 1 << 20  # bytes of a line that is still a record: the longest holds the groups of all ranks

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
    """Makes rows of the database from lines; ``count`` records so far, and ``odd`` other lines."""

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
            while line := stream.readline(_LONGEST_LINE):
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
            return self._task(record, "", "MsTx", record.id + _FIRST_MARK)
        if record.kind == "Marker":
            return [("MSTX_EVENTS", (*times, self._code(record.name), thread, record.id + _FIRST_MARK))]
        if record.kind.upper().endswith("API"):
            return [("CANN_API", (*times, _LEVEL_OF_NODE, thread, record.correlation_id, self._code(record.name)))]
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
