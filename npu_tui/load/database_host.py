"""The host's side: operations, Python functions and queues of the framework, calls of CANN, marks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.load.database_columns import COLLECTIVE, Ends, Whole
from npu_tui.load.database_rows import ABSENT, Rows, Table, Tables
from npu_tui.load.database_texts import Connections, Texts, enumeration, matched, numbered, stack_codes, told

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

OP, QUEUE, FUNCTION, MARK = 50001, 50002, 50003, 50004
_CATEGORIES = {OP: "cpu_op", FUNCTION: "python_function", MARK: "mstx"}
_LEVELS = {20000: "AscendCL@", 15000: "Model@", 10000: "Node@", 5000: "Runtime@"}
_TID = (1 << 32) - 1
_NO_CONNECTION = (1 << 32) - 1
_PYTHON_FILE = ".py("
_STEP = "ProfilerStep#"


class Calls(Struct):
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


class Host(Struct):
    """What was found on the host: calls of the framework, of CANN, and marks."""

    framework: list[Calls] = []
    cann: list[Calls] = []
    marks: list[Calls] = []


def valid_connections(values: I64) -> I64:
    """Connection ids, -1 for those that stand for none."""
    return np.where((values < 0) | (values == _NO_CONNECTION), ABSENT, values)


def read_host(tables: Tables, texts: Texts, whole: Whole, connections: Connections, python: str) -> Host:
    """Take the slices of the host in; ``python`` is the name of the framework's process."""
    host = Host()
    stacks = None
    for name in ("PYTORCH_API", "CANN_API", "API"):
        if name == "API" and host.cann:
            break
        table = tables.find(name)
        if table is None:
            continue
        rows = tables.read(table, ("startNs", "endNs", "globalTid", "connectionId", "name", "type", "callchainId"))
        if not len(rows):
            continue
        kind = _kinds(table, rows, texts, name)
        framework = kind > max(_LEVELS)
        if framework.any():
            own = rows.where(framework) if not framework.all() else rows
            stacks = stack_codes(tables, texts, whole.columns.stacks) if stacks is None else stacks
            host.framework.append(_framework(own, kind[framework], texts, whole, connections, stacks, python))
        if not framework.all():
            own = rows.where(~framework) if framework.any() else rows
            host.cann.append(_cann(own, kind[~framework], texts, whole, enumeration(tables, "ENUM_API_TYPE")))
    _marks(tables, texts, whole, host)
    _others(tables, texts, whole)
    _steps(tables, whole, python)
    return host


def _kinds(table: Table, rows: Rows, texts: Texts, name: str) -> I64:
    """What each row is; tables older than the column ``type`` tell by name and stack."""
    if "type" in table.columns:
        return rows["type"]
    kind = np.full(len(rows), OP if name == "PYTORCH_API" else max(_LEVELS), np.int64)
    if name == "PYTORCH_API":

        def kinds(distinct: I64) -> I64:
            words = [texts[number] for number in distinct.tolist()]
            own = [
                QUEUE if word.startswith(("Enqueue", "Dequeue")) else FUNCTION if _PYTHON_FILE in word else OP
                for word in words
            ]
            return np.array(own, np.int64)

        kind = told(rows["name"], kinds)
    return kind


def _threads(whole: Whole, pid_name: str, global_tid: I64, last: I64 | None = None) -> I32:
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
    rows: Rows,
    kind: I64,
    texts: Texts,
    whole: Whole,
    connections: Connections,
    stacks: tuple[I64, I32],
    python: str,
) -> Calls:
    queue = kind == QUEUE
    dequeue = np.zeros(len(rows), np.bool_)
    dequeue[queue] = texts.beginning(rows["name"][queue], "Dequeue")
    categories = whole.columns.categories
    category = np.full(len(rows), categories[_CATEGORIES[OP]], np.int32)
    for code, word in _CATEGORIES.items():
        if (those := kind == code).any():
            category[those] = categories[word]
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
    name = texts.codes(rows["name"], whole.columns.names)
    whole.slices(event, thread, start, end, name, category, correlation=correlation, stack=stack)
    tid = rows["globalTid"]
    return Calls(Ends(thread, start), end, kind, np.where(queue, correlation, rows["connectionId"]), dequeue, tid)


def _cann(rows: Rows, kind: I64, texts: Texts, whole: Whole, levels: dict[int, str]) -> Calls:
    prefixes = {**_LEVELS, COLLECTIVE: "Hccl@" if whole.is_older else "Communication@"}
    name = np.zeros(len(rows), np.int32)
    for level in np.unique(kind).tolist():
        those = kind == level
        word = prefixes.get(level) or (f"{levels[level]}@" if level in levels else "")
        name[those] = texts.codes(rows["name"][those], whole.columns.names, word)
    connection = valid_connections(rows["connectionId"])
    thread = _threads(whole, "CANN", rows["globalTid"])
    event, start, end = whole.events(rows), rows.time("startNs"), rows.time("endNs")
    whole.slices(event, thread, start, end, name, whole.columns.categories[""], connection=connection)
    return Calls(Ends(thread, start), end, kind, connection, np.zeros(len(rows), np.bool_), rows["globalTid"])


def _marks(tables: Tables, texts: Texts, whole: Whole, host: Host) -> None:
    """Marks and ranges of mstx on the host, with the links to their twins on the device."""
    table = tables.find("MSTX_EVENTS")
    rows = tables.read(table, ("startNs", "endNs", "message", "globalTid", "connectionId")) if table else None
    if rows is None or not len(rows):
        return
    thread = _threads(whole, "MSTX", rows["globalTid"])
    event, start, end = whole.events(rows), rows.time("startNs"), rows.time("endNs")
    name = texts.codes(rows["message"], whole.columns.names)
    connection = valid_connections(rows["connectionId"])
    whole.slices(event, thread, start, end, name, whole.columns.categories[""], connection=connection)
    kind = np.full(len(rows), MARK, np.int64)
    nothing = np.zeros(len(rows), np.bool_)
    host.marks.append(Calls(Ends(thread, start), end, kind, connection, nothing, rows["globalTid"]))


def _others(tables: Tables, texts: Texts, whole: Whole) -> None:
    """Python's garbage collector and calls of the operating system."""
    for name, process in (("GC_RECORD", "Python GC"), ("OSRT_API", "OS Runtime API")):
        table = tables.find(name)
        rows = tables.read(table, ("startNs", "endNs", "globalTid", "name")) if table else None
        if rows is None or not len(rows):
            continue
        thread = _threads(whole, process, rows["globalTid"])
        whole_columns = whole.columns
        collector = process == "Python GC"
        names = (
            np.full(len(rows), whole_columns.names["GC"], np.int32)
            if collector
            else texts.codes(rows["name"], whole_columns.names)
        )
        category = whole_columns.categories["GC" if collector else ""]
        whole.slices(whole.events(rows), thread, rows.time("startNs"), rows.time("endNs"), names, category)


def _steps(tables: Tables, whole: Whole, python: str) -> None:
    """The steps of a profile without the operations that stand for them."""
    table = tables.find("STEP_TIME")
    if table is None or any(name.startswith(_STEP) for name in whole.columns.names):
        return
    rows = tables.read(table, ("id", "startNs", "endNs"))
    if len(rows):
        code = whole.thread(whole.process(python), 0, "Step Time")
        names = np.array([whole.columns.names[f"{_STEP}{step}"] for step in rows["id"].tolist()], np.int32)
        thread = np.full(len(rows), code, np.int32)
        category = whole.columns.categories[_CATEGORIES[OP]]
        whole.slices(whole.events(rows), thread, rows.time("startNs"), rows.time("endNs"), names, category)
