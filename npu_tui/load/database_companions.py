"""The tables of a database that a text profile keeps in files beside the trace, in the columns of those files.

Kernels, memory and allocations lie in the database of the timeline, steps and what communication.json has in
``analysis.db``, the groups of ranks in ``META_DATA``. The tables are described at
https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_1145.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import orjson
from msgspec.structs import replace

from npu_tui.load.companion_schema import STEPS, JsonFile, Reading, Schema, column_name, reason
from npu_tui.load.companions import STEP_TIMES, Companions, T
from npu_tui.load.csv_table import nanoseconds_of, table_of_columns
from npu_tui.load.database_columns import (
    COLLECTIVE,
    Texts,
    enumeration,
    first_places,
    known_numbers,
    labels,
    masked,
    numbered,
    text_at,
    texts_of,
)
from npu_tui.load.database_file import UNREADABLE, as_text, opened
from npu_tui.load.database_rows import ABSENT, DatabaseRows, DatabaseTables
from npu_tui.load.documents import TOTALS, MatrixRow, Place, Transport, WrittenCollective, matrix_row, number_of
from npu_tui.load.errors import InputError
from npu_tui.load.format import Source
from npu_tui.load.times import INVALID
from npu_tui.trace.arrays import I64
from npu_tui.trace.once import once
from npu_tui.trace.text import MIB

if TYPE_CHECKING:
    import polars as pl

_TEXTS = {
    "name": "name",
    "type": "opType",
    "state": "opState",
    "core": "taskType",
    "hf32": "hf32Eligible",
    "input_shapes": "inputShapes",
    "input_types": "inputDataTypes",
    "input_formats": "inputFormats",
    "output_shapes": "outputShapes",
    "output_types": "outputDataTypes",
    "output_formats": "outputFormats",
}
_NUMBERS = {"block_dim": ("blockDim", "blockNum"), "mix_block_dim": ("mixBlockDim", "mixBlockNum")}
"""Older and newer names."""

_OF_TASK = {"model": "modelId", "task": "taskId", "stream": "streamId"}
_TIME = "_time"
_PMU = {
    "aic_total_time": "aicore_time(us)",
    "aiv_total_time": "aiv_time(us)",
    "total_time": "aicore_time(us)",
    "cube_utilization": "cube_utilization(%)",
}
"""Names of measured values that the CSV writes otherwise."""

_NO_CONTEXT = (1 << 32) - 1  # -1 in 32 bits without a sign: the kernel is not divided among contexts


def kernel_columns(tables: DatabaseTables) -> dict[str, pl.Series]:
    """The kernels and collectives by start, in the columns of the schema of kernel_details.csv; none without tasks."""
    import polars as pl

    info, task = tables.find("COMPUTE_TASK_INFO"), tables.find("TASK")
    if info is None or task is None:
        return {}
    texts = Texts(tables)
    numbers = [name for names in _NUMBERS.values() for name in names]
    known = tables.read(info, ("globalTaskId", *_TEXTS.values(), *numbers))
    tasks = tables.read(task, ("startNs", "endNs", "globalTaskId", *_OF_TASK.values(), "contextId"))
    at = first_places(tasks["globalTaskId"], known["globalTaskId"])
    timed = np.append(_lasting(tasks), False)[at]  # -1 is the last entry
    known, tasks = known.where(timed), tasks.where(at[timed])
    ops = tables.select("COMMUNICATION_OP", ("opName", "startNs", "endNs", "opType"))
    ops = ops.where(_lasting(ops))
    start = np.concatenate([tasks["startNs"], ops["startNs"]])
    end = np.concatenate([tasks["endNs"], ops["endNs"]])
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    wait = np.zeros(len(start), np.int64)
    wait[1:] = np.maximum(start[1:] - end[:-1], 0)

    def joined(of_tasks: pl.Series, of_ops: pl.Series | None = None) -> pl.Series:
        """What the tasks and then the collectives have in a column, by start."""
        if of_ops is None:
            of_ops = pl.Series([None], dtype=of_tasks.dtype).new_from_index(0, len(ops))
        column: pl.Series = of_tasks.append(of_ops)[order]
        return column

    columns = {"step": known_numbers(_step_of_starts(tables, start))}
    of_ops = {"name": texts_of(texts, ops["opName"]), **_collective_types(tables, texts, ops)}
    for name, column in _TEXTS.items():
        columns[name] = joined(texts_of(texts, known[column]), of_ops.get(name))
    for name, (older, newer) in _NUMBERS.items():
        columns[name] = joined(known_numbers(np.maximum(known[older], known[newer])))
    for name, column in _OF_TASK.items():
        columns[name] = joined(pl.Series(tasks[column]))
    context = np.where(tasks["contextId"] == _NO_CONTEXT, ABSENT, tasks["contextId"])
    columns["context"] = joined(known_numbers(context))
    columns |= {"start": pl.Series(start), "duration": pl.Series(end - start), "wait": pl.Series(wait)}
    return columns | {name: joined(values) for name, values in _measured(tables, texts, known["globalTaskId"]).items()}


def _lasting(rows: DatabaseRows) -> npt.NDArray[np.bool_]:
    """Which of ``rows`` have a start and an end after it."""
    start, end = rows.time("startNs"), rows.time("endNs")
    lasting: npt.NDArray[np.bool_] = (start != INVALID) & (start <= end)
    return lasting


def _collective_types(tables: DatabaseTables, texts: Texts, ops: DatabaseRows) -> dict[str, pl.Series]:
    """Type and core of the collectives."""
    import polars as pl

    older = enumeration(tables, "ENUM_API_TYPE").get(COLLECTIVE) == "hccl"
    kinds = [
        texts[kind] if kind != ABSENT else f"{texts[name].partition('__')[0]}_"
        for name, kind in zip(ops["opName"].tolist(), ops["opType"].tolist(), strict=True)
    ]
    cores = ["HCCL" if older else "COMMUNICATION"] * len(ops)
    return {"type": text_at(kinds, np.arange(len(ops))), "core": pl.Series(cores, dtype=pl.String)}


def _step_of_starts(tables: DatabaseTables, starts: I64) -> I64:
    """The step that each of ``starts`` lies in, ``ABSENT`` without one; (n,)."""
    rows = tables.select("STEP_TIME", ("id", "startNs", "endNs"))
    order = np.argsort(rows["startNs"], kind="stable")
    begin, end, number = rows["startNs"][order], rows["endNs"][order], rows["id"][order]
    at = np.searchsorted(begin, starts, "right") - 1
    inside = (at >= 0) & (starts < np.append(end, 0)[at])
    return np.where(inside, np.append(number, ABSENT)[at], ABSENT)


def _measured(tables: DatabaseTables, texts: Texts, wanted: I64) -> dict[str, pl.Series]:
    """The values of the PMU of the tasks ``wanted``, in the columns and units of the CSV (times in us)."""
    import polars as pl

    rows = tables.select("TASK_PMU_INFO", ("globalTaskId", "name"), ("value",))
    at = first_places(wanted, rows["globalTaskId"])
    rows, at = rows.where(at >= 0), at[at >= 0]
    distinct, place = numbered(rows["name"])
    columns = {}
    for code, number in enumerate(distinct.tolist()):
        word = texts[number]
        is_time = word.endswith(_TIME)  # in ns
        is_counter = place == code
        values = np.full(len(wanted), np.nan)
        values[at[is_counter]] = np.round(rows.real("value")[is_counter] * (0.001 if is_time else 1.0), 6)
        name = column_name(_PMU.get(word, f"{word}(us)" if is_time else word))
        columns[name] = pl.Series(values, nan_to_null=True)
    return columns


_KB = 1 << 10
_TOTALS = {"allocated": "totalAllocated", "reserved": "totalReserved", "active": "totalActive"}


def memory_columns(tables: DatabaseTables) -> dict[str, pl.Series]:
    """Totals over time as in memory_record.csv: those of the app, then those of the allocators."""
    import polars as pl

    texts = Texts(tables)
    app = _of_app(tables, texts)
    table = tables.find("MEMORY_RECORD")
    if table is None:
        return app
    rows = tables.read(table, ("component", "timestamp", *_TOTALS.values(), "streamPtr", "deviceId"))
    allocators = {
        "component": texts_of(texts, rows["component"]),
        "time": pl.Series(rows["timestamp"]),
        **{name: _in_mib(rows[column]) for name, column in _TOTALS.items()},
        "stream": known_numbers(rows["streamPtr"]),
        "device": _devices(rows["deviceId"]),
    }
    columns = {name: app[name].append(values) for name, values in allocators.items()} if app else allocators
    return {name: labels(values) if name in ("component", "device") else values for name, values in columns.items()}


def _of_app(tables: DatabaseTables, texts: Texts) -> dict[str, pl.Series]:
    import polars as pl

    table = tables.find("NPU_MEM")
    if table is None:
        return {}
    rows = tables.read(table, ("type", "timestampNs", "deviceId"), ("ddr", "hbm"))
    rows = rows.where(texts.which(rows["type"], lambda word: word == "app"))
    total = np.nan_to_num(rows.real("ddr")) + np.nan_to_num(rows.real("hbm"))
    nothing = np.full(len(rows), ABSENT, np.int64)
    return {
        "component": pl.Series(["APP"]).new_from_index(0, len(rows)),
        "time": pl.Series(rows["timestampNs"]),
        "allocated": _in_mib(nothing),
        "reserved": pl.Series(total / MIB),
        "active": _in_mib(nothing),
        "stream": known_numbers(nothing),
        "device": _devices(rows["deviceId"]),
    }


def allocation_columns(tables: DatabaseTables) -> dict[str, pl.Series]:
    """Allocations and releases as in operator_memory.csv."""
    import polars as pl

    table = tables.find("OP_MEMORY")
    if table is None:
        return {}
    texts = Texts(tables)
    times = {
        "allocated_at": "allocationTime",
        "released_at": "releaseTime",
        "inactive_at": "activeReleaseTime",
        "duration": "duration",
        "active_duration": "activeDuration",
    }
    totals = {name: f"allocation{column[0].upper()}{column[1:]}" for name, column in _TOTALS.items()}
    totals |= {f"release_{name}": f"release{column[0].upper()}{column[1:]}" for name, column in _TOTALS.items()}
    rows = tables.read(table, ("name", "size", *times.values(), *totals.values(), "streamPtr", "deviceId"))
    return {
        "name": texts_of(texts, rows["name"]),
        "size": pl.Series(rows["size"] / _KB),  # a release alone has a negative size
        **{name: known_numbers(rows[column]) for name, column in times.items()},
        **{name: _in_mib(rows[column]) for name, column in totals.items()},
        "stream": known_numbers(rows["streamPtr"]),
        "device": _devices(rows["deviceId"]),
    }


def module_columns(tables: DatabaseTables) -> dict[str, pl.Series]:
    """What the components of the driver hold over time as in npu_module_mem.csv."""
    import polars as pl

    table = tables.find("NPU_MODULE_MEM")
    if table is None:
        return {}
    modules = enumeration(tables, "ENUM_MODULE", "ENUM_NPU_MODULE")
    rows = tables.read(table, ("moduleId", "timestampNs", "totalReserved", "deviceId"))
    distinct, place = numbered(rows["moduleId"])
    return {
        "component": labels(text_at([modules.get(module, str(module)) for module in distinct.tolist()], place)),
        "time": pl.Series(rows["timestampNs"]),
        "reserved": _in_mib(rows["totalReserved"]),
        "device": labels(_devices(rows["deviceId"])),
    }


def _in_mib(values: I64) -> pl.Series:
    return masked(values / MIB, values == ABSENT)


def _devices(numbers: I64) -> pl.Series:
    distinct, place = numbered(numbers)
    return text_at(["" if number == ABSENT else f"NPU:{number}" for number in distinct.tolist()], place)


_ANALYSIS = "analysis.db"
_NO_DATABASE = "file is not a database"
_NO_BYTE = "file is empty"
_LOST = "database disk image is malformed"
"""The words of SQLite."""

_MISSING = ("", "N/A")

Cells = dict[str, Any]
"""The cells of one row by the plain names of their columns."""

# By the stem of their schemas: the tables that rows come from, and what makes columns of them.
_TABLES: dict[str, tuple[tuple[str, ...], Callable[[DatabaseTables], dict[str, pl.Series]]]] = {
    "kernel_details": (("COMPUTE_TASK_INFO",), kernel_columns),
    "memory_record": (("MEMORY_RECORD", "NPU_MEM"), memory_columns),
    "operator_memory": (("OP_MEMORY",), allocation_columns),
    "npu_module_mem": (("NPU_MODULE_MEM",), module_columns),
}

# The columns of the schema of steps by the plain names of those of ``StepTraceTime``, which are in us.
_STEPS = {
    "step": "step",
    "computing": "computing",
    "exposed": "communicationnotoverlapped",
    "overlapped": "overlapped",
    "communication": "communication",
    "free": "free",
    "stage": "stage",
    "bubble": "bubble",
    "exposed_without_receive": "communicationnotoverlappedandexcludereceive",
    "preparing": "preparing",
}

_SPANS = ("elapsetime", "transittime", "waittime", "synchronizationtime", "idletime")


def companions_in(source: Source) -> DatabaseCompanions:
    """The companion tables in the database ``source``."""
    return DatabaseCompanions(source.path.parent, source.survey, source.path)


class DatabaseCompanions(Companions, frozen=True, dict=True):
    """What lies beside the timeline in the database ``path``, in ``analysis.db`` beside it and in ``folder``.

    A file that the databases have no table for is read from the folder.
    """

    path: Path = Path()

    def step_times(self) -> Iterator[tuple[str | None, ...]]:
        """The cells of ``STEP_TIMES`` in every row of ``StepTraceTime``, as texts; times are in us."""
        columns = self._steps.value
        if columns is None:
            return super().step_times()
        nothing = [None] * len(columns["step"])
        return zip(*(columns.get(name, nothing) for name in STEP_TIMES), strict=True)

    def has(self, schema: Schema) -> bool:
        """Whether a database or the folder has a table of ``schema``, readable or not."""
        if schema.stem == STEPS.stem:
            return self._steps.value is not None or self._steps.state == "unreadable" or super().has(schema)
        return schema.stem in self._there or super().has(schema)

    def read(self, schema: Schema) -> Reading:
        """The table of ``schema``, of the databases where they have one."""
        if schema.stem == STEPS.stem:
            steps = self._steps
            if steps.value is None and (steps.state != "unreadable" or super().has(schema)):
                return super().read(schema)
            reading = table_of_columns(schema, schema.stem, _step_columns(steps.value or {}))
            if steps.state in ("unreadable", "cut_off"):
                return replace(reading, name=_ANALYSIS, state=steps.state, why=steps.why)
            return reading
        if schema.stem not in self._there:
            return super().read(schema)
        names, columns_of = _TABLES[schema.stem]
        columns = with_tables(self.path, columns_of)
        reading = table_of_columns(schema, names[0], columns.value or {})
        return replace(reading, state="cut_off") if columns.state == "cut_off" else reading

    def communication(self) -> JsonFile:
        """The collectives of ``CommAnalyzerTime`` and ``CommAnalyzerBandwidth``, else those of the file."""
        return self._analyzed(_collectives_of, super().communication())

    def matrix(self) -> JsonFile:
        """The rows of ``CommAnalyzerMatrix``, else those of the file."""
        return self._analyzed(_matrix_rows_of, super().matrix())

    def _analyzed(self, make: Callable[[DatabaseTables], list[Any]], file: JsonFile) -> JsonFile:
        """What ``make`` makes of ``analysis.db``, else of the database itself, else the ``file``."""
        analysis, database = (with_tables(path, make) for path in (self.folder / _ANALYSIS, self.path))
        for document in (analysis, database):
            if document.value:
                return document
        if analysis.state in ("unreadable", "cut_off") and file.state == "missing":
            return JsonFile(analysis.state, why=f"{_ANALYSIS}: {analysis.why}")
        return file

    def decoded(self, name: str, decoder: msgspec.json.Decoder[T]) -> T | None:
        """None: what the databases hold is no file."""
        return None

    def metadata_document(self) -> JsonFile:
        """Groups and environment: of ``profiler_metadata.json``, else those that the database keeps."""
        document = super().metadata_document()
        metadata = with_tables(self.path, _metadata).value if document.value is None else None
        return document if metadata is None else JsonFile("read", metadata)

    @once
    def chip(self) -> str | None:
        """The name in ``NPU_INFO``."""
        name: str | None = with_tables(self.path, partial(_first_text, table="NPU_INFO", column="name")).value
        return name

    @property
    def host_name(self) -> str | None:
        """The name in ``HOST_INFO``, else that of the files."""
        name: str | None = with_tables(self.path, partial(_first_text, table="HOST_INFO", column="hostname")).value
        return name or super().host_name

    @once
    def _there(self) -> set[str]:
        """The stems of the schemas that the database has tables for."""
        stems: set[str] | None = with_tables(
            self.path, lambda tables: {stem for stem, (names, _) in _TABLES.items() if tables.find(*names)}
        ).value
        return stems or set()

    @once
    def _steps(self) -> JsonFile:
        """The rows of ``StepTraceTime`` in ``analysis.db`` as texts, by the columns of the schema of steps."""
        return with_tables(self.folder / _ANALYSIS, _step_texts)


def with_tables(path: Path, make: Callable[[DatabaseTables], Any]) -> JsonFile:
    """What ``make`` makes of the tables at ``path``, and whether all of them could be read."""
    if not path.exists():
        return JsonFile("missing")
    try:
        with opened(path) as database:
            tables = DatabaseTables(database)
            value = make(tables)
            lost = bool(tables.damaged)
    except InputError as error:
        usual = _NO_BYTE if error.message.code == "input.empty" else _NO_DATABASE
        return JsonFile("unreadable", why=str(error.message.args.get("why", usual)))
    except (OSError, *UNREADABLE) as error:
        return JsonFile("unreadable", why=reason(error))
    return JsonFile("cut_off" if lost else "read" if value else "empty", value, why=_LOST if lost else "")


def plain_rows(tables: DatabaseTables, name: str) -> Iterator[Cells]:
    """The rows of the table ``name`` by plain names of columns (``rankid``), texts decoded; none without a table."""
    table = tables.find(name)
    if table is not None:
        for cells in tables.cells(table, *table.columns.values()):
            values = (as_text(cell) if isinstance(cell, bytes) else cell for cell in cells)
            yield dict(zip(table.columns, values, strict=True))


def _step_texts(tables: DatabaseTables) -> dict[str, list[str | None]] | None:
    rows = list(plain_rows(tables, "StepTraceTime"))
    texts = {
        name: ["" if (cell := cells[column]) is None else str(cell) for cells in rows]
        for name, column in _STEPS.items()
        if rows and column in rows[0]
    }
    return {name: [None if text in _MISSING else text for text in column] for name, column in texts.items()} or None


def _step_columns(texts: dict[str, list[str | None]]) -> dict[str, pl.Series]:
    import polars as pl

    columns = {name: pl.Series(values, dtype=pl.String) for name, values in texts.items()}
    return {name: values if name == "step" else nanoseconds_of(values) for name, values in columns.items()}


def _place_of(cells: Cells) -> Place:
    name, _, group = f"{cells.get('hcclopname')}@{cells.get('groupname')}".partition("@")
    return str(cells.get("step")).removeprefix("step"), str(cells.get("type")), name, group


def _places_by_step(places: Iterable[Place]) -> list[Place]:
    """``places`` as communication.json has them: by step, of each first ``p2p``, then ``collective``."""
    order = list(dict.fromkeys(places))
    steps = {step: number for number, step in enumerate(dict.fromkeys(step for step, _, _, _ in order))}
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(["p2p", "collective", *(p[1] for p in order)]))}
    return sorted(order, key=lambda place: (steps[place[0]], kinds[place[1]]))


def _collectives_of(tables: DatabaseTables) -> list[WrittenCollective]:
    """Times and bandwidths of collectives."""
    collectives: dict[Place, WrittenCollective] = {}
    for cells in plain_rows(tables, "CommAnalyzerTime"):
        place = _place_of(cells)
        spans = tuple(cells.get(column) for column in _SPANS)
        _, transit, *waiting, _ = (number_of(span) or 0 for span in spans)
        # The database has no ratios; these are rounded as communication.json has them.
        wait, synchronization = (round(span / (span + transit), 4) if span + transit else 0 for span in waiting)
        collectives[place] = WrittenCollective(place, cells.get("starttimestamp"), spans, wait, synchronization)
    for cells in plain_rows(tables, "CommAnalyzerBandwidth"):
        place = _place_of(cells)
        transports = collectives.setdefault(place, WrittenCollective(place)).transports
        transport = transports.setdefault(
            str(cells.get("transporttype")),
            Transport(
                cells.get("transitsize"),
                cells.get("transittime"),
                cells.get("bandwidth"),
                cells.get("largepacketratio"),
            ),
        )
        if cells.get("count"):
            transport.packets[str(cells.get("packagesize"))] = cells.get("count"), cells.get("totalduration")
    return [collectives[place] for place in _places_by_step(collectives) if place[2] not in TOTALS]


def _matrix_rows_of(tables: DatabaseTables) -> list[MatrixRow]:
    """The links between ranks."""
    rows: dict[Place, dict[str, list[MatrixRow]]] = {}
    for cells in plain_rows(tables, "CommAnalyzerMatrix"):
        place, ends = _place_of(cells), (str(cells.get("srcrank")), str(cells.get("dstrank")))
        values = (cells.get(name) for name in ("transporttype", "transitsize", "transittime", "bandwidth", "opname"))
        rows.setdefault(place, {})["-".join(ends)] = matrix_row(place, ends, *values)
    places = [place for place in _places_by_step(rows) if place[2] not in TOTALS]
    return [row for place in places for pair in rows[place].values() for row in pair]


def _metadata(tables: DatabaseTables) -> dict[str, Any] | None:
    values: dict[str, Any] = {}
    for cells in plain_rows(tables, "META_DATA"):
        name, value = str(cells.get("name")), cells.get("value")
        try:
            values[name] = orjson.loads(value) if isinstance(value, str) and value[:1] in "{[" else value
        except ValueError:
            values[name] = value
    return values or None


def _first_text(tables: DatabaseTables, table: str, column: str) -> str | None:
    """The first text in ``column`` (its plain name) of ``table``."""
    names = (str(cells.get(column) or "").strip() for cells in plain_rows(tables, table))
    return next(filter(None, names), None)
