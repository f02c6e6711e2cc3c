"""The host's side of a profiler database as columns, the links to the device, and counters.

``PYTORCH_API`` holds operations, Python functions and both sides of the task queue, ``CANN_API`` (``API`` in older
versions) the calls of CANN, ``MSTX_EVENTS`` marks, ``GC_RECORD`` Python's garbage collector, ``OSRT_API`` calls of the
operating system, ``STEP_TIME`` the steps. Their types are those of ``ENUM_API_TYPE``. There are no links, only numbers
that both ends share: ``connectionId`` of a call of CANN and of a task, numbers of ``CONNECTION_IDS`` of operations.
Counters are every table that has a column ``timestampNs``: ``AICORE_FREQ``, ``NPU_MEM``, ``HBM``, ``NIC`` and more,
each described by a ``SampleTable``.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.load.database_columns import (
    COLLECTIVE,
    Connections,
    DatabaseColumns,
    Ends,
    Texts,
    enumeration,
    expanded,
    first_places,
    jointly,
    numbered,
    per_value,
    stack_codes,
    valid_connections,
)
from npu_tui.load.database_device import GroupCollectives, Tasks
from npu_tui.load.database_rows import DatabaseRows, DatabaseTable, DatabaseTables, schema_name
from npu_tui.load.times import INVALID
from npu_tui.trace.arrays import F64, I32, I64, Bools, LaneIndex
from npu_tui.trace.model import ASYNC_NPU, FORWARD_BACKWARD, HOST_TO_DEVICE, TASK_QUEUE

OP, QUEUE, FUNCTION, MARK = 50001, 50002, 50003, 50004  # of ``ENUM_API_TYPE``: the calls of the framework
_CATEGORIES = {OP: "cpu_op", FUNCTION: "python_function", MARK: "mstx"}
_LEVELS = {20000: "AscendCL@", 15000: "Model@", 10000: "Node@", 5000: "Runtime@"}
_TID = (1 << 32) - 1
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


def read_host(
    tables: DatabaseTables, texts: Texts, whole: DatabaseColumns, connections: Connections, python: str
) -> HostRows:
    """Take the slices of the host in; ``python`` is the name of the framework's process."""
    host = HostRows()
    stacks = None
    for name in ("PYTORCH_API", "CANN_API", "API"):
        # ``API`` holds the same calls as ``CANN_API``: one of them is read.
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
    _read_mstx(tables, texts, whole, host)
    _others(tables, texts, whole)
    _read_steps(tables, whole, python)
    return host


def _older_kinds(rows: DatabaseRows, texts: Texts, name: str) -> I64:
    """What each row is in tables that have no column ``type``, by its name and stack."""
    if name != "PYTORCH_API":
        return np.full(len(rows), max(_LEVELS), np.int64)

    def kind_of(word: str) -> int:
        return QUEUE if word.startswith(("Enqueue", "Dequeue")) else FUNCTION if _PYTHON_FILE in word else OP

    return per_value(rows["name"], lambda ids: np.array([kind_of(texts[number]) for number in ids.tolist()], np.int64))


def _thread_codes(whole: DatabaseColumns, pid_name: str, global_tid: I64, last: I64 | None = None) -> I32:
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
    # A table of connections numbers what the task queue passes on.
    correlation = np.full(len(rows), -1, np.int64)
    correlation[queue] = connections.first_of(rows["connectionId"][queue])
    chain, texts_of = stacks
    at = first_places(chain, rows["callchainId"])
    stack = np.full(len(rows), -1, np.int32)
    stack[at >= 0] = texts_of[at[at >= 0]]
    thread = _thread_codes(whole, python, rows["globalTid"], rows["globalTid"][dequeue])
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
    thread = _thread_codes(whole, "CANN", rows["globalTid"])
    event, start, end = whole.events(rows), rows.time("startNs"), rows.time("endNs")
    whole.slices(event, thread, start, end, name, whole.categories[""], connection=connection)
    return HostCalls(Ends(thread, start), end, kind, connection, np.zeros(len(rows), np.bool_), rows["globalTid"])


def _read_mstx(tables: DatabaseTables, texts: Texts, whole: DatabaseColumns, host: HostRows) -> None:
    """Marks and ranges of mstx on the host, with the links to their twins on the device."""
    rows = tables.select("MSTX_EVENTS", ("startNs", "endNs", "message", "globalTid", "connectionId"))
    if not len(rows):
        return
    thread = _thread_codes(whole, "MSTX", rows["globalTid"])
    event, start, end = whole.events(rows), rows.time("startNs"), rows.time("endNs")
    name = texts.codes(rows["message"], whole.names)
    connection = valid_connections(rows["connectionId"])
    whole.slices(event, thread, start, end, name, whole.categories[""], connection=connection)
    kind = np.full(len(rows), MARK, np.int64)
    nothing = np.zeros(len(rows), np.bool_)
    host.marks.append(HostCalls(Ends(thread, start), end, kind, connection, nothing, rows["globalTid"]))


def _others(tables: DatabaseTables, texts: Texts, whole: DatabaseColumns) -> None:
    """Python's garbage collector and calls of the operating system."""
    for name, process in (("GC_RECORD", "Python GC"), ("OSRT_API", "OS Runtime API")):
        rows = tables.select(name, ("startNs", "endNs", "globalTid", "name"))
        if not len(rows):
            continue
        thread = _thread_codes(whole, process, rows["globalTid"])
        if name == "GC_RECORD":
            names, category = np.full(len(rows), whole.names["GC"], np.int32), whole.categories["GC"]
        else:
            names, category = texts.codes(rows["name"], whole.names), whole.categories[""]
        whole.slices(whole.events(rows), thread, rows.time("startNs"), rows.time("endNs"), names, category)


def _read_steps(tables: DatabaseTables, whole: DatabaseColumns, python: str) -> None:
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


MARKS = "MsTx"


def read_links(
    whole: DatabaseColumns,
    host: HostRows,
    connections: Connections,
    tasks: Tasks | None,
    collectives: GroupCollectives | None,
) -> None:
    """Take the links in: task queue, forward to backward, host to device, operation to device."""
    framework = _concatenated_calls(host.framework)
    if framework is not None:
        _queues(whole, framework)
        _backward(whole, framework, connections)
    targets = _targets(tasks, collectives)
    if targets is None:
        return
    ends, connection = targets
    # Marks first: a kernel between two of them belongs to the range that the program named.
    for marks in host.marks:
        source, target = expanded(connection, marks.connection)
        whole.links(MARKS, source, marks.ends[source], ends[target])
    cann = _concatenated_calls(host.cann)
    launches: tuple[I64, I64] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    if cann is not None:
        source, target = expanded(connection, cann.connection)
        launches = (source, target)
        whole.links(HOST_TO_DEVICE, source, cann.ends[source], ends[target])
    if framework is not None:
        _link_operations(whole, framework, connections, ends, connection, cann, launches)


def _concatenated_calls(calls: list[HostCalls]) -> HostCalls | None:
    """All ``calls`` as one; None without any."""
    if len(calls) < 2:
        return calls[0] if calls else None
    return HostCalls(
        Ends(
            np.concatenate([of_table.ends.thread for of_table in calls]),
            np.concatenate([of_table.ends.time for of_table in calls]),
        ),
        *(
            np.concatenate([getattr(of_table, name) for of_table in calls])
            for name in ("until", "kind", "connection", "is_dequeue", "tid")
        ),
    )


def _targets(tasks: Tasks | None, collectives: GroupCollectives | None) -> tuple[Ends, I64] | None:
    """What launches lead to, by time, and the connection ids: linked tasks and collectives as a whole."""
    targets: list[tuple[Ends, I64]] = []
    if tasks is not None:
        linked = tasks.is_linked & (tasks.connection >= 0) & (tasks.ends.time != INVALID)
        if collectives is not None:
            linked &= first_places(collectives.connection, tasks.connection) < 0  # the tasks that carry them out
        places = np.flatnonzero(linked)
        targets.append((tasks.ends[places], tasks.connection[places]))
    if collectives is not None:
        places = np.flatnonzero((collectives.connection >= 0) & (collectives.ends.time != INVALID))
        targets.append((collectives.ends[places], collectives.connection[places]))
    if not targets:
        return None
    ends = Ends(
        np.concatenate([ends.thread for ends, _ in targets]), np.concatenate([ends.time for ends, _ in targets])
    )
    order = np.argsort(ends.time, kind="stable")
    return ends[order], np.concatenate([connection for _, connection in targets])[order]


def _queues(whole: DatabaseColumns, calls: HostCalls) -> None:
    """From each enqueue to the dequeue with the same number."""
    queue = calls.kind == QUEUE
    source, target = np.flatnonzero(queue & ~calls.is_dequeue), np.flatnonzero(queue & calls.is_dequeue)
    at = first_places(calls.connection[target], calls.connection[source])
    paired = at >= 0
    number = np.arange(np.count_nonzero(paired))
    whole.links(TASK_QUEUE, number, calls.ends[source[paired]], calls.ends[target[at[paired]]])


def _backward(whole: DatabaseColumns, calls: HostCalls, connections: Connections) -> None:
    """From each forward operation to the backward one on another thread that shares a number with it."""
    place, value = _operation_numbers(calls, connections)
    if not len(place):
        return
    order = np.lexsort((calls.ends.time[place], value))
    place, value = place[order], value[order]
    same = (value[1:] == value[:-1]) & (calls.tid[place[1:]] != calls.tid[place[:-1]])
    first = np.flatnonzero(same)
    whole.links(FORWARD_BACKWARD, np.arange(len(first)), calls.ends[place[first]], calls.ends[place[first + 1]])


def _operation_numbers(calls: HostCalls, connections: Connections) -> tuple[I64, I64]:
    """All pairs of an operation and a number of it."""
    ops = np.flatnonzero((calls.kind == OP) & (calls.connection >= 0))
    place, value = connections.all_of(calls.connection[ops])
    return ops[place], value


def _link_operations(
    whole: DatabaseColumns,
    calls: HostCalls,
    connections: Connections,
    ends: Ends,
    connection: I64,
    cann: HostCalls | None,
    launches: tuple[I64, I64],
) -> None:
    """From each operation to what it launched, the first slice of each launch.

    Newer tables leave the launches of copies out; torch_npu finds the operation of a launch by the queue, and so do we.
    """
    place, value = _operation_numbers(calls, connections)
    distinct, at = numbered(value)
    alone = (np.bincount(at, minlength=len(distinct)) == 1)[at]  # others are those from forward to backward
    place, value = place[alone], value[alone]
    target = first_places(connection, value)
    place, target = place[target >= 0], target[target >= 0]
    if cann is not None:
        source, to = launches
        first = np.flatnonzero(np.diff(source, prepend=-1))
        missing = first[~np.isin(connection[to[first]], connection[target])]
        owner = _owner_operations(calls, cann.tid[source[missing]], cann.ends.time[source[missing]])
        place = np.concatenate((place, owner[owner >= 0]))
        target = np.concatenate((target, to[missing][owner >= 0]))
    whole.links(ASYNC_NPU, np.arange(len(place)), calls.ends[place], ends[target])


def _owner_operations(calls: HostCalls, tid: I64, time: I64) -> I64:
    """The operation that a launch on thread ``tid`` at ``time`` belongs to, -1 for none; (n,).

    A launch inside a dequeue belongs to the operation around the enqueue with the same number, any other to the
    operation around it on its own thread.
    """
    dequeues = np.flatnonzero((calls.kind == QUEUE) & calls.is_dequeue)
    enqueues = np.flatnonzero((calls.kind == QUEUE) & ~calls.is_dequeue)
    dequeue = _innermost(calls, dequeues, tid, time)
    queued = dequeue >= 0
    at = np.full(len(time), -1, np.int64)
    if len(enqueues):
        number = calls.connection[np.where(queued, dequeue, 0)]
        at = np.where(queued, first_places(calls.connection[enqueues], number), -1)
        begun = enqueues[np.maximum(at, 0)]
        tid = np.where(at >= 0, calls.tid[begun], tid)
        time = np.where(at >= 0, calls.ends.time[begun], time)
    ops = np.flatnonzero(calls.kind == OP)
    return np.where(~queued | (at >= 0), _innermost(calls, ops, tid, time), -1)


def _innermost(calls: HostCalls, among: I64, tid: I64, time: I64) -> I64:
    """The innermost of the slices ``among`` that is open at ``time`` on thread ``tid``, -1 without one; (n,)."""
    among = among[calls.ends.time[among] != INVALID]
    if not len(among):
        return np.full(len(time), -1, np.int64)
    threads, lane = numbered(calls.tid[among])
    start, end = calls.ends.time[among], calls.until[among]
    order = np.lexsort((-end, start, lane))
    bounds = np.searchsorted(lane[order], np.arange(len(threads) + 1))
    index = LaneIndex(bounds[:-1], bounds[1:], start[order], end[order])
    at = index.innermost(first_places(threads, tid).astype(np.int32), time)
    return np.where(at >= 0, among[order][np.maximum(at, 0)], -1)


_KB, _MB, _PERCENT = 1 / 1024, 1 / (1 << 20), 0.01


class CurveValue(Struct, frozen=True):
    """One value of a row: ``name`` and ``key`` of the curve (with the columns in braces), its columns (summed), and
    what to multiply with.

    ``instance`` tells curves of the same name apart.
    """

    name: str
    key: str
    columns: tuple[str, ...]
    factor: float = 1.0
    instance: str = ""


class SampleTable(Struct, frozen=True):
    """A table of samples: its layer, its curves, the columns that tell rows apart, and those of them that are texts."""

    layer: str
    curves: tuple[CurveValue, ...]
    apart: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


def _port(way: str, columns: str) -> tuple[CurveValue, ...]:
    """The curves of a network port: ``way`` is Rx or Tx."""
    name = f"Port {{funcId}}/{way}"
    return (
        CurveValue(name, f"{way} Bandwidth(MB/s)", (f"{columns}ByteRate",), _MB),
        CurveValue(name, f"{way} Packets/s", (f"{columns}PacketRate",)),
        CurveValue(name, f"{way} Errors", (f"{columns}Errors",)),
        CurveValue(name, f"{way} Dropped", (f"{columns}Dropped",)),
    )


_NETWORK = (*_port("Rx", "rx"), *_port("Tx", "tx"))

KNOWN: dict[str, SampleTable] = {
    "AICORE_FREQ": SampleTable("AI Core Freq", (CurveValue("AI Core Freq", "MHz", ("freq",)),)),
    "NPU_MEM": SampleTable(
        "NPU MEM",
        (
            CurveValue("{type}/DDR", "KB", ("ddr",), _KB),
            CurveValue("{type}/HBM", "KB", ("hbm",), _KB),
            CurveValue("{type}/Memory", "KB", ("ddr", "hbm"), _KB),
        ),
        ("type",),
        ("type",),
    ),
    "HBM": SampleTable(
        "HBM", (CurveValue("HBM {hbmId}/{type}", "{type}(MB/s)", ("bandwidth",), _MB),), ("hbmId", "type"), ("type",)
    ),
    "DDR": SampleTable(
        "DDR",
        (CurveValue("DDR/Read", "Read(MB/s)", ("read",), _MB), CurveValue("DDR/Write", "Write(MB/s)", ("write",), _MB)),
    ),
    "LLC": SampleTable(
        "LLC",
        (
            CurveValue("LLC {llcId} {mode}/Throughput", "Throughput(MB/s)", ("throughput",), _MB),
            CurveValue("LLC {llcId} {mode}/Hit Rate", "Hit Rate(%)", ("hitRate",), _PERCENT),
        ),
        ("llcId", "mode"),
        ("mode",),
    ),
    "SOC_BANDWIDTH_LEVEL": SampleTable(
        "Stars Soc Info",
        (
            CurveValue("Mata Bw Level", "Mata Bw Level", ("mataBwLevel",)),
            CurveValue("L2 Buffer Bw Level", "L2 Buffer Bw Level", ("l2BufferBwLevel",)),
        ),
    ),
    "ACC_PMU": SampleTable(
        "Acc PMU",
        (
            CurveValue("read_bandwidth", "value", ("readBwLevel",), instance="acc_id {accId}"),
            CurveValue("write_bandwidth", "value", ("writeBwLevel",), instance="acc_id {accId}"),
            CurveValue("read_ost", "value", ("readOstLevel",), instance="acc_id {accId}"),
            CurveValue("write_ost", "value", ("writeOstLevel",), instance="acc_id {accId}"),
        ),
        ("accId",),
    ),
    "QOS": SampleTable(
        "QoS", (CurveValue("QoS {eventName}", "value", ("bandwidth",), _MB),), ("eventName",), ("eventName",)
    ),
    "HCCS": SampleTable(
        "HCCS",
        (CurveValue("Tx", "Tx(MB/s)", ("txThroughput",), _MB), CurveValue("Rx", "Rx(MB/s)", ("rxThroughput",), _MB)),
    ),
    "NIC": SampleTable("NIC", _NETWORK, ("funcId",)),
    "ROCE": SampleTable("RoCE", _NETWORK, ("funcId",)),
    "CPU_USAGE": SampleTable("CPU Usage", (CurveValue("CPU {cpuId}", "Usage(%)", ("usage",)),), ("cpuId",)),
    "HOST_MEM_USAGE": SampleTable("Memory Usage", (CurveValue("Memory Usage", "Usage(%)", ("usage",)),)),
    "HOST_DISK_USAGE": SampleTable("Disk Usage", (CurveValue("Disk Usage", "Usage(%)", ("usage",)),)),
    "HOST_NETWORK_USAGE": SampleTable("Network Usage", (CurveValue("Network Usage", "Usage(%)", ("usage",)),)),
}

_LAYERS = {"PCIE": "PCIe"}
_TIME = "timestampNs"
_NO_CURVE = frozenset({schema_name(_TIME), "deviceid"})
_TABLES_OF_THEIR_OWN = frozenset(map(schema_name, ("NPU_MODULE_MEM", "NPU_OP_MEM", "MEMORY_RECORD", "OP_MEMORY")))


def read_counters(tables: DatabaseTables, texts: Texts, whole: DatabaseColumns) -> None:
    """Take every table of samples in, also one that no version knows yet: its columns are its curves."""
    for key, name in list(tables.names.items()):
        table = tables.find(name)
        if table is None or schema_name(_TIME) not in table.columns or key in _TABLES_OF_THEIR_OWN:
            continue
        samples = next((samples for known, samples in KNOWN.items() if schema_name(known) == key), None)
        _read_samples(tables, texts, whole, table, samples or _unknown_samples(table))


def _unknown_samples(table: DatabaseTable) -> SampleTable:
    """Every column is a curve, and every column of an id tells curves apart."""
    apart = [
        name for column, name in table.columns.items() if column.endswith(("id", "type")) and column not in _NO_CURVE
    ]
    values = [name for column, name in table.columns.items() if name not in apart and column not in _NO_CURVE]
    suffix = "".join(f" {{{name}}}" for name in apart)
    curves = tuple(CurveValue(f"{name}{suffix}", name, (name,)) for name in values)
    return SampleTable(_LAYERS.get(table.name, table.name), curves, tuple(apart))


def _read_samples(
    tables: DatabaseTables, texts: Texts, whole: DatabaseColumns, table: DatabaseTable, samples: SampleTable
) -> None:
    columns = tuple(dict.fromkeys(column for curve in samples.curves for column in curve.columns))
    columns = tuple(column for column in columns if schema_name(column) in table.columns)
    rows = tables.read(table, (_TIME, "deviceId", *samples.apart), columns)
    on_device = "deviceid" in table.columns
    keys = [("deviceId", rows["deviceId"]), *((name, rows[name]) for name in samples.apart)]
    for values, places in _distinct_rows([values for _, values in keys]):
        device = max(values[0], 0) if on_device else -1
        words = {name: str(value) for (name, _), value in zip(keys, values, strict=True)}
        for name in samples.texts:
            words[name] = _capitalised(texts[int(words[name])])
        pid = whole.process(samples.layer, device, label="NPU" if on_device and device < 0 else "")
        time = rows.time(_TIME)[places]
        for curve in samples.curves:
            if set(curve.columns) <= set(columns):
                name, key, instance = (text.format(**words) for text in (curve.name, curve.key, curve.instance))
                whole.samples(pid, name, key, instance, time, _curve_values(rows, curve)[places])


def _curve_values(rows: DatabaseRows, curve: CurveValue) -> F64:
    total = sum((rows.real(column) for column in curve.columns[1:]), rows.real(curve.columns[0]))
    return total * curve.factor


def _distinct_rows(columns: list[np.ndarray]) -> list[tuple[list[int], np.ndarray]]:
    """The distinct values of ``columns`` together, each with the places of its rows."""
    _, key = jointly(*columns)
    order = np.argsort(key, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(order) else []
    return [([int(values[places[0]]) for values in columns], places) for places in groups]


def _capitalised(word: str) -> str:
    """``app`` is ``APP`` in a text trace, ``read`` is ``Read``."""
    return word.upper() if word == "app" else word[:1].upper() + word[1:]
