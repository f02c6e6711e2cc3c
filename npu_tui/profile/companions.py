"""The files beside a trace: each table read once and joined once to the slices, and the settings of the profiler.

torch_npu and msprof write them into one folder with the trace. ``load.companions`` turns each into a frame; here rows
find their slices, and times become ns since the trace began.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.collectives import PairSum, Preprocessing, Transfer, pair_sums
from npu_tui.analysis.joins import (
    kernels_allocated_for,
    operations_at,
    rows_of_kernels,
    rows_of_tasks,
    slices_of_collectives,
    task_ids,
)
from npu_tui.analysis.kernels import Coded
from npu_tui.analysis.memory import AMOUNTS, BEFORE, NEVER, Allocations, Amount, MemoryCurve, MemoryUse, memory_curve
from npu_tui.analysis.operators import collective_type, operator_type
from npu_tui.analysis.overlap import Overlap, sums_of_kernels
from npu_tui.load.companion_schema import (
    ALLOCATIONS,
    COLLECTIVE_CORES,
    DATA_PREPROCESS,
    KERNELS,
    L2_CACHE,
    MEMORY,
    MODULES,
    SCHEMAS,
    SOC_PMU,
    STEPS,
    TASK_TIME,
    JsonFile,
    Reading,
    Schema,
    State,
)
from npu_tui.load.companions import Companions
from npu_tui.load.csv_table import empty_frame, table_of_columns
from npu_tui.load.documents import (
    communication_bandwidth,
    communication_matrix,
    communication_packets,
    communication_times,
)
from npu_tui.load.kineto import memory_events
from npu_tui.rules.inputs import Setup
from npu_tui.trace.arrays import I64
from npu_tui.trace.kineto import exchanges
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once
from npu_tui.trace.text import MIB, decimal_number

if TYPE_CHECKING:
    import polars as pl

FILES = (
    "kernel_details.csv", "op_statistic.csv", "api_statistic.csv", "operator_details.csv", "step_trace_time.csv",
    "memory_record.csv", "operator_memory.csv", "npu_module_mem.csv", "static_op_mem.csv", "l2_cache.csv",
    "communication.json", "communication_matrix.json", "data_preprocess.csv", "task_time.csv", "soc_pmu.csv",
    "nic.csv", "roce.csv", "pcie.csv", "hccs.csv", "host_cpu_usage.csv", "host_mem_usage.csv", "host_disk_usage.csv",
    "host_network_usage.csv", "profiler_info.json", "profiler_metadata.json",
)  # fmt: skip
"""What may lie beside a trace; ``summary.tells.<file>`` says what is in it, ``summary.makes.<file>`` what makes it."""
# memory_record.csv has MB of 2**20 bytes, operator_memory.csv KB of 2**10; communication.json has MB of 10**6.
_KILOBYTE = 2**10
_NOTHING = Allocations(
    Coded([], np.zeros(0, np.int64)), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
)
_PLACE = ("step", "kind", "name", "group")
"""What names a collective in communication.json."""


class WrittenStep(Struct, frozen=True):
    """A row of the table, times in ns: ``number`` is None without steps, others where they are absent."""

    number: int | None
    overlap: Overlap
    stage: int | None
    bubble: int | None
    preparing: int | None


class FileState(Struct, frozen=True):
    """The file ``name``: how far it could be read, its ``rows`` (None for settings), and what is wrong with it."""

    name: str
    state: State
    rows: int | None
    problems: tuple[Message, ...]


class CompanionTables:
    """The tables of ``companions`` (None without a folder to look into) beside ``trace``.

    ``kernels`` are the compute slices of the trace and ``collectives`` those of its group lanes, both ascending. Joins
    raise ``InputError`` where they need args and the file of the trace is gone.
    """

    def __init__(self, companions: Companions | None, trace: Trace, kernels: I64, collectives: I64) -> None:
        self._companions = companions
        self.trace = trace
        self._kernels = kernels
        self._collectives = collectives
        self._read: dict[str, Reading] = {}
        self._lock = Lock()

    def table(self, stem: str) -> Reading:
        """The table ``stem``, one of ``SCHEMAS``, such as ``kernel_details``."""
        with self._lock:
            if stem not in self._read:
                self._read[stem] = self._reading(stem)
            return self._read[stem]

    def _reading(self, stem: str) -> Reading:
        if self._companions is None:
            return absent(SCHEMAS[stem])
        if stem == KERNELS.stem and self.from_tasks:
            return kernels_of_tasks(self._companions.read(TASK_TIME))
        return self._companions.read(SCHEMAS[stem])

    def has(self, stem: str) -> bool:
        """Whether there is a table ``stem``, whatever is in it; nothing is read for the answer."""
        return self._companions is not None and (self._companions.has(SCHEMAS[stem]) or self._stands_in(stem))

    def _stands_in(self, stem: str) -> bool:
        return stem == KERNELS.stem and self.from_tasks

    @once
    def from_tasks(self) -> bool:
        """Whether the kernels come from task_time.csv, as neither the trace nor kernel_details.csv has any."""
        companions = self._companions
        if companions is None or len(self._kernels) or companions.has(KERNELS):
            return False
        return companions.has(TASK_TIME)

    @once
    def start_ns(self) -> int:
        """What times are relative to, ns since 1970: the start of the trace, without one the first of a table."""
        if len(self.trace.slices):
            return self.trace.start_ns
        places = ((KERNELS, "start"), (MEMORY, "time"), (ALLOCATIONS, "allocated_at"))
        times = [self.table(schema.stem).frame[column].min() for schema, column in places if self.has(schema.stem)]
        times.append(self.communication.frame["start"].min())
        known = [time for time in times if isinstance(time, int)]
        return min(known, default=self.trace.start_ns)

    @once
    def _communication(self) -> JsonFile:
        return self._companions.communication() if self._companions is not None else JsonFile("missing")

    @property
    def has_communication(self) -> bool:
        """Whether there is a communication.json that holds anything."""
        return self._communication.value is not None

    @property
    def lacks_communication(self) -> bool:
        """Whether there is no communication.json."""
        return self._communication.state == "missing"

    @once
    def communication(self) -> Reading:
        """Times of every collective."""
        return communication_times(self._communication)

    @once
    def bandwidth(self) -> Reading:
        """What every collective moved over every transport."""
        return communication_bandwidth(self._communication)

    @once
    def packets(self) -> Reading:
        """How many packets of each size every collective moved."""
        return communication_packets(self._communication)

    @once
    def _matrix(self) -> JsonFile:
        return self._companions.matrix() if self._companions is not None else JsonFile("missing")

    @property
    def lacks_matrix(self) -> bool:
        """Whether there is no communication_matrix.json."""
        return self._matrix.state == "missing"

    @once
    def matrix(self) -> Reading:
        """What went between every pair of ranks."""
        return communication_matrix(self._matrix)

    @once
    def kernel_rows(self) -> I64:
        """For every compute slice its row of kernel_details, -1 without one."""
        return self._rows_of(self._kernels)

    @once
    def collective_rows(self) -> I64:
        """For every collective its row of kernel_details, -1 without one."""
        return self._rows_of(self._collectives)

    def _rows_of(self, items: I64) -> I64:
        if not self.has(KERNELS.stem):
            return np.full(len(items), -1, np.int64)
        frame = self.table(KERNELS.stem).frame
        return rows_of_kernels(self.trace, items, frame["name"].to_list(), _integers(frame, "start"))

    @once
    def durations(self) -> dict[int, int]:
        """The length (ns) of the slice that each row of kernel_details is joined to, by row."""
        items = np.concatenate([self._kernels, self._collectives])
        rows = np.concatenate([self.kernel_rows, self.collective_rows])
        length = self.trace.slices.end[items] - self.trace.slices.start[items]
        return {row: time for row, time in zip(rows.tolist(), length.tolist(), strict=True) if row >= 0}

    @once
    def collective_slices(self) -> I64:
        """For every row of ``communication`` its slice on a group lane, -1 without one."""
        frame = self.communication.frame
        return slices_of_collectives(self.trace, self._collectives, frame["name"].to_list(), _integers(frame, "start"))

    @once
    def allocating_slices(self) -> I64:
        """For every row of operator_memory the operation that allocated, or the kernel it was for; -1 without one."""
        frame = self.table(ALLOCATIONS.stem).frame
        names, time = frame["name"].to_list(), _integers(frame, "allocated_at")
        operations = operations_at(self.trace, names, time)
        return np.where(operations >= 0, operations, kernels_allocated_for(self.trace, self._kernels, names, time))

    @once
    def cache_rows(self) -> I64:
        """For every compute slice its row of l2_cache, by stream, task and name; -1 without one."""
        return self._task_rows(L2_CACHE)

    @once
    def soc_rows(self) -> I64:
        """For every compute slice its row of soc_pmu, in the same way."""
        return self._task_rows(SOC_PMU)

    def _task_rows(self, schema: Schema) -> I64:
        if not self.has(schema.stem) or not len(self.table(schema.stem).frame):
            return np.full(len(self._kernels), -1, np.int64)
        cache, kernels = self.table(schema.stem).frame, self.table(KERNELS.stem)
        if "task" in kernels.headings:
            row = self.kernel_rows
            task = np.where(row >= 0, np.append(_integers(kernels.frame, "task"), -1)[row], -1)
            stream = np.where(row >= 0, np.append(_integers(kernels.frame, "stream"), -1)[row], -1)
        else:
            task, stream = task_ids(self.trace, self._kernels), self.trace.slices.stream[self._kernels]
        order = np.argsort(self.trace.slices.start[self._kernels], kind="stable")
        names = [self.trace.name_of(item) for item in self._kernels[order].tolist()]
        rows = np.full(len(self._kernels), -1, np.int64)
        rows[order] = rows_of_tasks(
            (stream[order], task[order], names),
            (_integers(cache, "stream"), _integers(cache, "task"), cache["name"].to_list()),
        )
        return rows

    # What the tables say.

    @once
    def communicated(self) -> list[tuple[str, int, int, int]]:
        """The types of collectives in communication.json: how many, how long and how long they waited, ns."""
        sums: dict[str, tuple[int, int, int]] = {}
        for name, elapsed, wait in self.communication.frame.select("name", "elapsed", "wait").iter_rows():
            kind = collective_type(name).rstrip("_")
            count, time, waited = sums.get(kind, (0, 0, 0))
            sums[kind] = count + 1, time + (elapsed or 0), waited + (wait or 0)
        return sorted(((kind, *row) for kind, row in sums.items()), key=lambda row: -row[2])

    @once
    def transfers(self) -> list[Transfer]:
        """What every collective moved over every transport that moved anything, by start."""
        if not self.has_communication:
            return []
        times = self.communication.frame
        items = self.collective_slices.tolist()
        rows: dict[tuple[Any, ...], tuple[int, int, int]] = {}
        for item, row in zip(items, times.select(*_PLACE, "start", "elapsed").iter_rows(), strict=True):
            start = self.start_ns if row[4] is None else row[4]
            rows[row[:4]] = item, start - self.start_ns, row[5] or 0
        packets: dict[tuple[Any, ...], list[tuple[float, int]]] = {}
        for *place, transport, size, count, _ in self.packets.frame.iter_rows():
            if size is not None and count:
                packets.setdefault((*place, transport), []).append((size * 1e6, count))
        transfers = []
        for *place, transport, size, time, _, large in self.bandwidth.frame.iter_rows():
            item, start, length = rows.get(tuple(place), (-1, 0, 0))
            if size:
                sizes = tuple(packets.get((*place, transport), ()))
                transfers.append(
                    Transfer(place[2], item, start, start + length, transport, size * 1e6, time or 0, large, sizes)
                )
        return sorted(transfers, key=lambda transfer: transfer.start)

    @once
    def link_matrix(self) -> list[PairSum]:
        """What went from rank to rank, by communication_matrix.json; empty without it."""
        if self.lacks_matrix:
            return []
        columns = ("name", "group", "source", "target", "transport", "size_mb", "transit")
        return pair_sums(self.matrix.frame.select(*columns).iter_rows())

    @once
    def preprocessing(self) -> list[Preprocessing]:
        """The rows of data_preprocess.csv; a row without a total has the sum of its parts."""
        if not self.has(DATA_PREPROCESS.stem):
            return []
        frame = self.table(DATA_PREPROCESS.stem).frame
        rows = []
        for name, start, *parts, total in frame.select(
            "name", "time", "compute", "copy", "dispatch", "total"
        ).iter_rows():
            length = total if total is not None else sum(part or 0 for part in parts)
            if name is not None and length:
                rows.append(Preprocessing(name, None if start is None else start - self.start_ns, length))
        return rows

    @once
    def steps(self) -> list[WrittenStep]:
        """The rows of step_trace_time.csv that have all parts of a step."""
        if not self.has(STEPS.stem):
            return []
        columns = ("device", "step", "computing", "communication", "exposed", "free", "stage", "bubble", "preparing")
        rows = []
        for device, step, *times, stage, bubble, preparing in self.table(STEPS.stem).frame.select(*columns).iter_rows():
            if all(time is not None for time in times):
                rows.append(WrittenStep(decimal_number(step), Overlap(device, *times), stage, bubble, preparing))
        return rows

    @property
    def step_sums(self) -> Overlap:
        """``steps`` together."""
        parts = [row.overlap for row in self.steps]
        return Overlap(
            None,
            sum(part.computing for part in parts),
            sum(part.communication for part in parts),
            sum(part.not_overlapped for part in parts),
            sum(part.free for part in parts),
        )

    @property
    def preparing(self) -> int:
        """What passes up to the first kernels of ``steps``, ns; none of it is in their sums."""
        return sum(row.preparing or 0 for row in self.steps)

    @once
    def sums(self) -> tuple[str, Overlap]:
        """How the device spent its time without a trace, and the file that says so: the steps, else every kernel."""
        if self.steps or not self.has(KERNELS.stem):
            return f"{STEPS.stem}.csv", self.step_sums
        start, end, device, exchanging = self.work
        return self.table(KERNELS.stem).name, sums_of_kernels(start, end, device, exchanging)

    @once
    def work(self) -> tuple[I64, I64, I64, npt.NDArray[np.bool_]]:
        """Start and end (ns), device, and whether it is a collective of each row of kernel_details; (n,) each."""
        rows = self.table(KERNELS.stem).frame.select("start", "duration", "device", "core", "name")
        rows = rows.drop_nulls(["start", "duration"])
        start, length, device = (_integers(rows, column) for column in ("start", "duration", "device"))
        named = zip(rows["core"].to_list(), rows["name"].to_list(), strict=True)
        exchanging = np.array([core in COLLECTIVE_CORES or exchanges(name or "") for core, name in named], np.bool_)
        return start - self.start_ns, start - self.start_ns + length, device, exchanging

    @once
    def files(self) -> list[FileState]:
        """The state of every file of ``FILES``, read if it is there; empty without a folder."""
        companions = self._companions
        return [self._state(name, companions) for name in FILES] if companions is not None else []

    def _state(self, name: str, companions: Companions) -> FileState:
        stem, _, kind = name.rpartition(".")
        if stem in ("profiler_info", "profiler_metadata"):
            document = companions.info_document() if stem == "profiler_info" else companions.metadata_document()
            return FileState(name, document.state, None, _problems(name, document))
        if kind == "csv":
            if not companions.has(SCHEMAS[stem]):
                return FileState(name, "missing", 0, ())
            reading = self.table(stem)
        elif self.lacks_communication if stem == "communication" else self.lacks_matrix:
            return FileState(name, "missing", 0, ())
        else:
            reading = self.communication if stem == "communication" else self.matrix
        return FileState(
            name, reading.state, len(reading.frame), () if reading.state == "missing" else tuple(reading.messages)
        )


_CORES = {
    "KERNEL_AICORE": "AI_CORE", "AI_CORE": "AI_CORE", "KERNEL_AIVEC": "AI_VECTOR_CORE",
    "AI_VECTOR_CORE": "AI_VECTOR_CORE", "KERNEL_MIX_AIC": "MIX_AIC", "MIX_AIC": "MIX_AIC",
    "KERNEL_MIX_AIV": "MIX_AIV", "MIX_AIV": "MIX_AIV", "KERNEL_AICPU": "AI_CPU", "AI_CPU": "AI_CPU",
}  # fmt: skip
"""The cores of kernels by ``kernel_type`` of task_time.csv; what else it has are copies, waits and records."""


def kernels_of_tasks(tasks: Reading) -> Reading:
    """The kernels of ``tasks``, task_time.csv, as kernel_details has them; types are those in their names.

    A stream that waits for notifies and runs no kernel is that of collectives, whose names are not in the file.
    """
    import polars as pl

    kind = pl.col("kind").cast(pl.String)
    core = kind.replace_strict(_CORES, default=None)
    exchanging = (kind.str.contains("(?i)notify").any() & core.is_null().all()).over("device", "stream")
    core = pl.when(exchanging).then(pl.lit(COLLECTIVE_CORES[-1])).otherwise(core)
    frame = tasks.frame.with_columns(core.alias("core")).filter(pl.col("core").is_not_null())
    types = {name: operator_type(name) for name in frame["name"].drop_nulls().unique().to_list()}
    frame = frame.with_columns(pl.col("name").replace_strict(types, default=None, return_dtype=pl.String).alias("type"))
    columns = {name: frame[name] for name in ("device", "name", "type", "core", "stream", "task", "start", "duration")}
    return replace(table_of_columns(KERNELS, tasks.name, columns), state=tasks.state, why=tasks.why)


def absent(schema: Schema) -> Reading:
    """The reading of a table that is not there."""
    return Reading(f"{schema.stem}.csv", "missing", empty_frame(schema))


def _integers(frame: pl.DataFrame, column: str) -> I64:
    """A column of whole numbers, absent ones as the lowest int64."""
    return frame[column].fill_null(np.iinfo(np.int64).min).to_numpy().astype(np.int64)


def setup_of(companions: Companions | None) -> Setup:
    """Settings and environment in ``companions``."""
    if companions is None:
        return Setup()
    settings: dict[str, object] = {}
    metadata = companions.metadata_document().value
    config = companions.profiler_info.get("config")
    for group in ("common_config", "experimental_config"):
        values = config.get(group) if isinstance(config, dict) else None
        settings.update(values if isinstance(values, dict) else {})
    added = {} if not isinstance(metadata, dict) else {
        str(name): value for name, value in [*metadata.items()][:_MOST_ADDED] if name not in _OF_PROFILER
    }  # fmt: skip
    return Setup(settings, _environment(metadata), companions.ranks, groups_in(metadata), companions.chip, added)


_OF_PROFILER = frozenset(
    {"ENV_VARIABLES", "parallel_group_info", "distributed_args", "distributed_info", "role",
     "SCHEMA_VERSION", "SCHEMA_VERSION_MAJOR", "SCHEMA_VERSION_MINOR", "SCHEMA_VERSION_MICRO"}
)  # fmt: skip
"""Keys of profiler_metadata.json, or META_DATA, that are the profiler's own or shown in their place."""
_MOST_ADDED = 200  # a damaged file may have as many as it has bytes


def groups_in(document: Any) -> dict[str, tuple[int, ...]]:
    """The ranks of every group that ``document``, profiler_metadata.json, names; a malformed entry is left out."""
    values = document.get("parallel_group_info") if isinstance(document, dict) else None
    groups = {}
    for name, group in values.items() if isinstance(values, dict) else ():
        ranks = group.get("global_ranks") if isinstance(group, dict) else None
        if isinstance(ranks, list) and ranks and all(type(rank) is int and rank >= 0 for rank in ranks):
            groups[str(name)] = tuple(ranks)
    return groups


def _environment(metadata: Any) -> dict[str, str] | None:
    """The variables that profiler_metadata.json records; None without them."""
    values = metadata.get("ENV_VARIABLES") if isinstance(metadata, dict) else None
    if not isinstance(values, dict):
        return None
    return {str(name): str(value) for name, value in values.items()}


def _curves_of_events(trace: Trace) -> list[MemoryCurve]:
    """The curves of the allocator of each device by the events of memory in a trace of Kineto."""
    events, curves = memory_events(trace), []
    for device in dict.fromkeys(event.device for event in events):
        # Of events at one time the last counts.
        last = {event.time - trace.start_ns: event for event in events if event.device == device}
        time = np.array([*last], np.int64)
        component = "PyTorch" if len({event.device for event in events}) == 1 else f"PyTorch, device {device}"
        for amount in ("allocated", "reserved"):
            values = np.array([getattr(event, amount) for event in last.values()], np.int64)
            curves.append(MemoryCurve(component, amount, time, values))
    return curves


def memory_of(tables: CompanionTables) -> MemoryUse:
    """The memory of the device by ``tables`` and events of their trace; empty without them."""
    start, curves = tables.start_ns, _curves_of_events(tables.trace)
    if tables.has(MEMORY.stem):
        curves = [curve for amount in AMOUNTS for curve in _curves(tables.table(MEMORY.stem).frame, amount, start)]
    modules = _curves(tables.table(MODULES.stem).frame, "reserved", start) if tables.has(MODULES.stem) else []
    has = tables.has(ALLOCATIONS.stem)
    allocations = _allocations(tables.table(ALLOCATIONS.stem).frame, start) if has else _NOTHING
    return MemoryUse(tuple(curves), allocations, tuple(modules))


def _curves(frame: pl.DataFrame, amount: Amount, origin: int) -> list[MemoryCurve]:
    """A curve per component, and per device where there are several."""
    if not len(frame):
        return []
    curves = []
    frame = frame.select("component", "time", "device", amount).drop_nulls(["time", amount])
    several = frame["device"].n_unique() > 1
    keys = ["component", "device"] if several else ["component"]
    for key, rows in frame.partition_by(keys, as_dict=True, maintain_order=True).items():
        name = " ".join(str(part) for part in key if part is not None)
        value = np.rint(rows[amount].to_numpy() * MIB).astype(np.int64)
        curves.append(memory_curve(name, amount, rows["time"].to_numpy() - origin, value))
    return curves


def _allocations(frame: pl.DataFrame, origin: int) -> Allocations:
    if not len(frame):
        return _NOTHING
    size = np.nan_to_num(np.asarray(frame["size"].cast(float).to_numpy(), np.float64))
    return Allocations(
        Coded.of(frame["name"].to_list()),
        np.rint(size * _KILOBYTE).astype(np.int64),
        _times_since(frame["allocated_at"], origin, BEFORE),
        _times_since(frame["released_at"], origin, NEVER),
    )


def _times_since(column: Any, origin: int, missing: int) -> I64:
    known = column.is_not_null().to_numpy()
    times = column.fill_null(0).to_numpy().astype(np.int64) - origin
    return np.where(known, times, missing)


def _problems(name: str, document: JsonFile) -> tuple[Message, ...]:
    if document.state in ("read", "missing"):
        return ()
    if document.state == "unreadable":
        return (message("companion.unreadable", name=name, why=document.why),)
    return (message("companion.cut_short" if document.state == "cut_off" else "companion.empty", name=name),)
