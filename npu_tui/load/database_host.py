"""The host's side of a profiler database as columns.

``PYTORCH_API`` holds operations, Python functions and both sides of the task queue, ``CANN_API`` (``API`` in older
versions) the calls of CANN, ``MSTX_EVENTS`` marks, ``GC_RECORD`` Python's garbage collector, ``OSRT_API`` calls of the
operating system, ``STEP_TIME`` the steps. Their types are those of ``ENUM_API_TYPE``.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.load.database_columns import COLLECTIVE, DatabaseColumns, Ends
from npu_tui.load.database_rows import ABSENT, DatabaseRows, Tables
from npu_tui.load.database_texts import Connections, Texts, enumeration, matched, numbered, per_value, stack_codes
from npu_tui.trace.arrays import I32, I64, Bools

OP, QUEUE, FUNCTION, MARK = 50001, 50002, 50003, 50004
_CATEGORIES = {OP: "cpu_op", FUNCTION: "python_function", MARK: "mstx"}
_LEVELS = {20000: "AscendCL@", 15000: "Model@", 10000: "Node@", 5000: "Runtime@"}
_TID = (1 << 32) - 1
_NO_CONNECTION = (1 << 32) - 1
_PYTHON_FILE = ".py("
_STEP = "ProfilerStep#"


class HostCalls(Struct):
    """Slices of the host with what links need of them; (n,) each.

    ``connection`` is -1 for none; ``kind`` is one of ``OP``, ``QUEUE``, ... or the level of a call of CANN.
    """

    ends: Ends
    until: I64
    kind: I64
    connection: I64
    is_dequeue: Bools
    tid: I64

    def __len__(self) -> int:
        return len(self.kind)


class HostRows(Struct):
    """What was found on the host: calls of the framework, of CANN, and marks."""

    framework: list[HostCalls] = []
    cann: list[HostCalls] = []
    marks: list[HostCalls] = []


def valid_connections(values: I64) -> I64:
    """Connection ids, -1 for those that stand for none."""
    return np.where((values < 0) | (values == _NO_CONNECTION), ABSENT, values)


def read_host(tables: Tables, texts: Texts, whole: DatabaseColumns, connections: Connections, python: str) -> HostRows:
    """Take the slices of the host in; ``python`` is the name of the framework's process."""
    host = HostRows()
    stacks = None
    for name in ("PYTORCH_API", "CANN_API", "API"):
        if name == "API" and host.cann:
            break
        rows = tables.select(name, ("startNs", "endNs", "globalTid", "connectionId", "name", "type", "callchainId"))
        if not len(rows):
            continue
        kind = rows["type"] if tables.has_column(name, "type") else _older_kinds(rows, texts, name)
        is_framework = kind > max(_LEVELS)
        if is_framework.any():
            calls = rows.where(is_framework) if not is_framework.all() else rows
            stacks = stack_codes(tables, texts, whole.stacks) if stacks is None else stacks
            host.framework.append(_framework(calls, kind[is_framework], texts, whole, connections, stacks, python))
        if not is_framework.all():
            calls = rows.where(~is_framework) if is_framework.any() else rows
            host.cann.append(_cann(calls, kind[~is_framework], texts, whole, enumeration(tables, "ENUM_API_TYPE")))
    _marks(tables, texts, whole, host)
    _others(tables, texts, whole)
    _steps(tables, whole, python)
    return host


def _older_kinds(rows: DatabaseRows, texts: Texts, name: str) -> I64:
    """What each row is in tables that have no column ``type``: their names and stacks tell."""
    if name != "PYTORCH_API":
        return np.full(len(rows), max(_LEVELS), np.int64)

    def kind_of(word: str) -> int:
        return QUEUE if word.startswith(("Enqueue", "Dequeue")) else FUNCTION if _PYTHON_FILE in word else OP

    return per_value(rows["name"], lambda ids: np.array([kind_of(texts[number]) for number in ids.tolist()], np.int64))


def _threads(whole: DatabaseColumns, pid_name: str, global_tid: I64, last: I64 | None = None) -> I32:
    """The thread codes of packed thread ids (process << 32 | thread); (n,). Those of ``last`` are drawn last."""
    distinct, place = numbered(global_tid)
    codes = []
    highest = int((distinct & _TID).max(initial=0)) + 1
    at_end = set() if last is None else set(np.unique(last).tolist())
    for packed in distinct.tolist():
        os_pid, tid = max(packed, 0) >> 32, max(packed, 0) & _TID
        whole.os_pid = whole.os_pid or os_pid
        pid = whole.process(pid_name, os_pid=os_pid)
        codes.append(whole.thread(pid, tid, f"Thread {tid}", highest if packed in at_end else tid))
    return np.array(codes, np.int32)[place]


def _framework(
    rows: DatabaseRows,
    kind: I64,
    texts: Texts,
    whole: DatabaseColumns,
    connections: Connections,
    stacks: tuple[I64, I32],
    python: str,
) -> HostCalls:
    queue = kind == QUEUE
    dequeue = np.zeros(len(rows), np.bool_)
    dequeue[queue] = texts.which(rows["name"][queue], lambda word: word.startswith("Dequeue"))
    categories = whole.categories
    category = np.full(len(rows), categories[_CATEGORIES[OP]], np.int32)
    for code, word in _CATEGORIES.items():
        if (is_of_kind := kind == code).any():
            category[is_of_kind] = categories[word]
    if queue.any():
        category[queue] = np.where(dequeue[queue], categories["dequeue"], categories["enqueue"])
    correlation = np.full(len(rows), -1, np.int64)
    correlation[queue] = connections.first_of(rows["connectionId"][queue])
    chain, texts_of = stacks
    at = matched(chain, rows["callchainId"])
    stack = np.full(len(rows), -1, np.int32)
    stack[at >= 0] = texts_of[at[at >= 0]]
    thread = _threads(whole, python, rows["globalTid"], rows["globalTid"][dequeue])
    event, start, end = whole.events(rows), rows.time("startNs"), rows.time("endNs")
    name = texts.codes(rows["name"], whole.names)
    whole.slices(event, thread, start, end, name, category, correlation=correlation, stack=stack)
    tid = rows["globalTid"]
    return HostCalls(Ends(thread, start), end, kind, np.where(queue, correlation, rows["connectionId"]), dequeue, tid)


def _cann(rows: DatabaseRows, kind: I64, texts: Texts, whole: DatabaseColumns, levels: dict[int, str]) -> HostCalls:
    prefixes = {**_LEVELS, COLLECTIVE: "Hccl@" if whole.is_older else "Communication@"}
    name = np.zeros(len(rows), np.int32)
    for level in np.unique(kind).tolist():
        on_level = kind == level
        word = prefixes.get(level) or (f"{levels[level]}@" if level in levels else "")
        name[on_level] = texts.codes(rows["name"][on_level], whole.names, word)
    connection = valid_connections(rows["connectionId"])
    thread = _threads(whole, "CANN", rows["globalTid"])
    event, start, end = whole.events(rows), rows.time("startNs"), rows.time("endNs")
    whole.slices(event, thread, start, end, name, whole.categories[""], connection=connection)
    return HostCalls(Ends(thread, start), end, kind, connection, np.zeros(len(rows), np.bool_), rows["globalTid"])


def _marks(tables: Tables, texts: Texts, whole: DatabaseColumns, host: HostRows) -> None:
    """Marks and ranges of mstx on the host, with the links to their twins on the device."""
    rows = tables.select("MSTX_EVENTS", ("startNs", "endNs", "message", "globalTid", "connectionId"))
    if not len(rows):
        return
    thread = _threads(whole, "MSTX", rows["globalTid"])
    event, start, end = whole.events(rows), rows.time("startNs"), rows.time("endNs")
    name = texts.codes(rows["message"], whole.names)
    connection = valid_connections(rows["connectionId"])
    whole.slices(event, thread, start, end, name, whole.categories[""], connection=connection)
    kind = np.full(len(rows), MARK, np.int64)
    nothing = np.zeros(len(rows), np.bool_)
    host.marks.append(HostCalls(Ends(thread, start), end, kind, connection, nothing, rows["globalTid"]))


def _others(tables: Tables, texts: Texts, whole: DatabaseColumns) -> None:
    """Python's garbage collector and calls of the operating system."""
    for name, process in (("GC_RECORD", "Python GC"), ("OSRT_API", "OS Runtime API")):
        rows = tables.select(name, ("startNs", "endNs", "globalTid", "name"))
        if not len(rows):
            continue
        thread = _threads(whole, process, rows["globalTid"])
        if name == "GC_RECORD":
            names, category = np.full(len(rows), whole.names["GC"], np.int32), whole.categories["GC"]
        else:
            names, category = texts.codes(rows["name"], whole.names), whole.categories[""]
        whole.slices(whole.events(rows), thread, rows.time("startNs"), rows.time("endNs"), names, category)


def _steps(tables: Tables, whole: DatabaseColumns, python: str) -> None:
    """The steps of a profile without the operations that stand for them."""
    if any(name.startswith(_STEP) for name in whole.names):
        return
    rows = tables.select("STEP_TIME", ("id", "startNs", "endNs"))
    if len(rows):
        code = whole.thread(whole.process(python), 0, "Step Time")
        names = np.array([whole.names[f"{_STEP}{step}"] for step in rows["id"].tolist()], np.int32)
        thread = np.full(len(rows), code, np.int32)
        category = whole.categories[_CATEGORIES[OP]]
        whole.slices(whole.events(rows), thread, rows.time("startNs"), rows.time("endNs"), names, category)
