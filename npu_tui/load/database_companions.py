"""The tables of a database that a text profile keeps in files beside the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson
from msgspec import field
from msgspec.structs import replace

from npu_tui.load.companion_schema import Reading, Schema, column_name, reason
from npu_tui.load.companions import Companions, Document
from npu_tui.load.database_columns import COLLECTIVE
from npu_tui.load.database_rows import ABSENT, UNREADABLE, Rows, Tables, as_text, opened
from npu_tui.load.database_texts import (
    Texts,
    chosen,
    enumeration,
    known_numbers,
    labels,
    masked,
    matched,
    numbered,
    texts_of,
)
from npu_tui.load.errors import InputError

if TYPE_CHECKING:
    import polars as pl


I64 = npt.NDArray[np.int64]

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

_NO_CONTEXT = (1 << 32) - 1


def kernel_columns(tables: Tables) -> dict[str, pl.Series]:
    """The kernels and collectives by start, in the columns of the schema of kernel_details.csv; none without tasks."""
    import polars as pl

    info, task = tables.find("COMPUTE_TASK_INFO"), tables.find("TASK")
    if info is None or task is None:
        return {}
    texts = Texts(tables)
    numbers = [name for names in _NUMBERS.values() for name in names]
    known = tables.read(info, ("globalTaskId", *_TEXTS.values(), *numbers))
    tasks = tables.read(task, ("startNs", "endNs", "globalTaskId", *_OF_TASK.values(), "contextId"))
    at = matched(tasks["globalTaskId"], known["globalTaskId"])
    known, tasks = known.where(at >= 0), tasks.where(at[at >= 0])
    ops = _collectives(tables)
    start = np.concatenate([tasks["startNs"], ops["startNs"]])
    end = np.concatenate([tasks["endNs"], ops["endNs"]])
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    wait = np.zeros(len(start), np.int64)
    wait[1:] = np.maximum(start[1:] - end[:-1], 0)

    def joined(own: pl.Series, other: pl.Series | None = None) -> pl.Series:
        """What the tasks and then the collectives have in a column, by start."""
        rest = other if other is not None else pl.Series([None], dtype=own.dtype).new_from_index(0, len(ops))
        found: pl.Series = own.append(rest)[order]
        return found

    found = {"step": known_numbers(_steps(tables, start))}
    of_ops = {"name": texts_of(texts, ops["opName"]), **_kinds(tables, texts, ops)}
    for name, column in _TEXTS.items():
        found[name] = joined(texts_of(texts, known[column]), of_ops.get(name))
    for name, (older, newer) in _NUMBERS.items():
        found[name] = joined(known_numbers(np.maximum(known[older], known[newer])))
    for name, column in _OF_TASK.items():
        found[name] = joined(pl.Series(tasks[column]))
    context = np.where(tasks["contextId"] == _NO_CONTEXT, ABSENT, tasks["contextId"])
    found["context"] = joined(known_numbers(context))
    found |= {"start": pl.Series(start), "duration": pl.Series(end - start), "wait": pl.Series(wait)}
    return found | {name: joined(values) for name, values in _measured(tables, texts, known["globalTaskId"]).items()}


def _collectives(tables: Tables) -> Rows:
    table = tables.find("COMMUNICATION_OP")
    columns = ("opName", "startNs", "endNs", "opType")
    if table is None:
        none = np.zeros(0, np.int64)
        return Rows("", none, dict.fromkeys(columns, none))
    return tables.read(table, columns)


def _kinds(tables: Tables, texts: Texts, ops: Rows) -> dict[str, pl.Series]:
    """Type and core of the collectives."""
    import polars as pl

    older = enumeration(tables, "ENUM_API_TYPE").get(COLLECTIVE) == "hccl"
    names, told = ops["opName"].tolist(), ops["opType"].tolist()
    kinds = [
        texts[kind] if kind != ABSENT else f"{texts[name].partition('__')[0]}_"
        for name, kind in zip(names, told, strict=True)
    ]
    cores = ["HCCL" if older else "COMMUNICATION"] * len(ops)
    return {"type": chosen(kinds, np.arange(len(ops))), "core": pl.Series(cores, dtype=pl.String)}


def _steps(tables: Tables, starts: I64) -> I64:
    """The step that each of ``starts`` lies in, ``ABSENT`` without one; (n,)."""
    table = tables.find("STEP_TIME")
    if table is None:
        return np.full(len(starts), ABSENT, np.int64)
    rows = tables.read(table, ("id", "startNs", "endNs"))
    order = np.argsort(rows["startNs"], kind="stable")
    begin, end, number = rows["startNs"][order], rows["endNs"][order], rows["id"][order]
    at = np.searchsorted(begin, starts, "right") - 1
    inside = (at >= 0) & (starts < np.append(end, 0)[at])
    return np.where(inside, np.append(number, ABSENT)[at], ABSENT)


def _measured(tables: Tables, texts: Texts, wanted: I64) -> dict[str, pl.Series]:
    """The values of the PMU of the tasks ``wanted``, in the columns and units of the CSV (times in us)."""
    import polars as pl

    table = tables.find("TASK_PMU_INFO")
    if table is None:
        return {}
    rows = tables.read(table, ("globalTaskId", "name"), ("value",))
    at = matched(wanted, rows["globalTaskId"])
    rows, at = rows.where(at >= 0), at[at >= 0]
    distinct, place = numbered(rows["name"])
    found = {}
    for code, number in enumerate(distinct.tolist()):
        word = texts[number]
        timed = word.endswith(_TIME)
        own = place == code
        values = np.full(len(wanted), np.nan)
        values[at[own]] = np.round(rows.real("value")[own] * (0.001 if timed else 1.0), 6)
        name = column_name(_PMU.get(word, f"{word}(us)" if timed else word))
        found[name] = pl.Series(values, nan_to_null=True)
    return found


_MB, _KB = 1 << 20, 1 << 10
_TOTALS = {"allocated": "totalAllocated", "reserved": "totalReserved", "active": "totalActive"}


def memory_columns(tables: Tables) -> dict[str, pl.Series]:
    """Totals over time as in memory_record.csv: those of the app, then those of the allocators."""
    import polars as pl

    texts = Texts(tables)
    found = _of_app(tables, texts)
    table = tables.find("MEMORY_RECORD")
    if table is None:
        return found
    rows = tables.read(table, ("component", "timestamp", *_TOTALS.values(), "streamPtr", "deviceId"))
    own = {
        "component": texts_of(texts, rows["component"]),
        "time": pl.Series(rows["timestamp"]),
        **{name: _size(rows[column], _MB) for name, column in _TOTALS.items()},
        "stream": known_numbers(rows["streamPtr"]),
        "device": _devices(rows["deviceId"]),
    }
    whole = {name: found[name].append(values) for name, values in own.items()} if found else own
    return {name: labels(values) if name in ("component", "device") else values for name, values in whole.items()}


def _of_app(tables: Tables, texts: Texts) -> dict[str, pl.Series]:
    import polars as pl

    table = tables.find("NPU_MEM")
    if table is None:
        return {}
    rows = tables.read(table, ("type", "timestampNs", "deviceId"), ("ddr", "hbm"))
    rows = rows.where(texts.which(rows["type"], "app"))
    total = np.nan_to_num(rows.real("ddr")) + np.nan_to_num(rows.real("hbm"))
    nothing = np.full(len(rows), ABSENT, np.int64)
    return {
        "component": pl.Series(["APP"]).new_from_index(0, len(rows)),
        "time": pl.Series(rows["timestampNs"]),
        "allocated": _size(nothing, _MB),
        "reserved": pl.Series(total / _MB),
        "active": _size(nothing, _MB),
        "stream": known_numbers(nothing),
        "device": _devices(rows["deviceId"]),
    }


def allocation_columns(tables: Tables) -> dict[str, pl.Series]:
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
        **{name: _size(rows[column], _MB) for name, column in totals.items()},
        "stream": known_numbers(rows["streamPtr"]),
        "device": _devices(rows["deviceId"]),
    }


def module_columns(tables: Tables) -> dict[str, pl.Series]:
    """What the components of the driver hold over time as in npu_module_mem.csv."""
    import polars as pl

    table = tables.find("NPU_MODULE_MEM")
    if table is None:
        return {}
    modules = enumeration(tables, "ENUM_MODULE", "ENUM_NPU_MODULE")
    rows = tables.read(table, ("moduleId", "timestampNs", "totalReserved", "deviceId"))
    distinct, place = numbered(rows["moduleId"])
    return {
        "component": labels(chosen([modules.get(module, str(module)) for module in distinct.tolist()], place)),
        "time": pl.Series(rows["timestampNs"]),
        "reserved": _size(rows["totalReserved"], _MB),
        "device": labels(_devices(rows["deviceId"])),
    }


def _size(values: I64, unit: int) -> pl.Series:
    return masked(values / unit, values == ABSENT)


def _devices(numbers: I64) -> pl.Series:
    distinct, place = numbered(numbers)
    return chosen(["" if number == ABSENT else f"NPU:{number}" for number in distinct.tolist()], place)


_ANALYSIS = "analysis.db"
_STEP_TABLE = "step_trace_time"
_NO_DATABASE = "file is not a database"
_NO_BYTE = "file is empty"
_LOST = "database disk image is malformed"
"""The words of SQLite."""

_ENVIRONMENT = "ENV_VARIABLES"
_MISSING = ("", "N/A")

Cells = dict[str, Any]
"""The cells of one row by the column names of the CSV file."""

_TABLES: dict[str, tuple[tuple[str, ...], Callable[[Tables], dict[str, pl.Series]]]] = {
    "kernel_details": (("COMPUTE_TASK_INFO",), kernel_columns),
    "memory_record": (("MEMORY_RECORD", "NPU_MEM"), memory_columns),
    "operator_memory": (("OP_MEMORY",), allocation_columns),
    "npu_module_mem": (("NPU_MODULE_MEM",), module_columns),
}
"""Companion files with the tables that any of their rows come from."""

_STEPS = {
    "step": "Step",
    "computing": "Computing",
    "communicationnotoverlapped": "Communication(Not Overlapped)",
    "overlapped": "Overlapped",
    "communication": "Communication",
    "free": "Free",
    "stage": "Stage",
    "bubble": "Bubble",
    "communicationnotoverlappedandexcludereceive": "Communication(Not Overlapped and Exclude Receive)",
    "preparing": "Preparing",
}
_SPANS = ("elapse", "transit", "wait", "synchronization", "idle")


class DatabaseCompanions(Companions, frozen=True):
    """What lies beside the timeline in the database ``path``, in ``analysis.db`` beside it and in ``folder``.

    A file that the databases have no table for is read from the folder.
    """

    path: Path = Path()
    _held: dict[str, Any] = field(default_factory=dict)

    def rows(self, name: str, *columns: str) -> Iterator[tuple[str | None, ...]]:
        """The cells of ``columns`` in every row of what would be the CSV file ``name``, as texts."""
        held = self._steps() if name == f"{_STEP_TABLE}.csv" else None
        if held is None:
            yield from Companions.rows(self, name, *columns)
            return
        for cells in held:
            yield tuple(_text(cells.get(column)) for column in columns)

    def has(self, schema: Schema) -> bool:
        """Whether a database or the folder has a table of ``schema``, readable or not."""
        damaged = schema.stem == _STEP_TABLE and self._step_table.state == "unreadable"
        return self._table(schema.stem) or damaged or Companions.has(self, schema)

    def read(self, schema: Schema) -> Reading:
        """The table of ``schema``, of the databases where they have one."""
        from npu_tui.load.csv_table import table_of, table_of_columns

        if schema.stem == _STEP_TABLE:
            steps = self._step_table
            if steps.value is None and (steps.state != "unreadable" or Companions.has(self, schema)):
                return Companions.read(self, schema)
            found = table_of(schema, steps.value or ())
            if steps.state in ("unreadable", "cut_off"):
                return replace(found, name=_ANALYSIS, state=steps.state, why=steps.why)
            return found
        if not self._table(schema.stem):
            return Companions.read(self, schema)
        names, columns_of = _TABLES[schema.stem]
        columns = _with_tables(self.path, columns_of)
        return table_of_columns(schema, names[0], columns.value or {}, columns.state == "cut_off")

    def document_state(self, name: str) -> Document:
        """What would be the JSON file ``name``."""
        makers = {"communication.json": _communication, "communication_matrix.json": _matrix}
        told = Companions.document_state(self, name)
        if name not in makers:
            return told
        found = [_with_tables(path, makers[name]) for path in (self.folder / _ANALYSIS, self.path)]
        for each in found:
            if each.value:
                return each
        damaged = found[0].state in ("unreadable", "cut_off") and told.state == "missing"
        return Document(found[0].state, why=f"{_ANALYSIS}: {found[0].why}") if damaged else told

    @property
    def metadata_state(self) -> Document:
        """Groups and environment: of ``profiler_metadata.json``, else those that the database keeps."""
        # A class with slots has no bare super() inside a property.
        found: Document = Companions.metadata_state.fget(self)  # type: ignore[attr-defined]
        held = _with_tables(self.path, _metadata).value if found.value is None else None
        return found if held is None else Document("read", held)

    @property
    def chip(self) -> str | None:
        """The name in ``NPU_INFO``."""
        found: str | None = self._once("NPU_INFO", lambda: _with_tables(self.path, _chip).value)
        return found

    def _table(self, stem: str) -> bool:
        """Whether a database has a table for the file ``stem``."""
        if stem == _STEP_TABLE:
            return self._steps() is not None
        if stem not in _TABLES:
            return False
        names, _ = _TABLES[stem]
        return bool(self._once(stem, lambda: _with_tables(self.path, lambda tables: tables.find(*names)).value))

    def _steps(self) -> list[Cells] | None:
        """The rows of the steps in ``analysis.db``."""
        found: list[Cells] | None = self._step_table.value
        return found

    @property
    def _step_table(self) -> Document:
        found: Document = self._once(_STEP_TABLE, lambda: _with_tables(self.folder / _ANALYSIS, _step_rows))
        return found

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._held:
            self._held[name] = make()
        return self._held[name]


def _with_tables(path: Path, make: Callable[[Tables], Any]) -> Document:
    """What ``make`` makes of the tables at ``path``, and whether all of them could be read."""
    if not path.exists():
        return Document("missing")
    try:
        with opened(path) as database:
            tables = Tables(database)
            found = make(tables)
            lost = bool(tables.damaged)
    except InputError as error:
        usual = _NO_BYTE if error.message.code == "input.empty" else _NO_DATABASE
        return Document("unreadable", why=str(error.message.args.get("why", usual)))
    except (OSError, *UNREADABLE) as error:
        return Document("unreadable", why=reason(error))
    return Document("cut_off" if lost else "read" if found else "empty", found, why=_LOST if lost else "")


def _text(value: Any) -> str | None:
    text = "" if value is None else str(value)
    return None if text in _MISSING else text


def _plain_rows(tables: Tables, name: str) -> Iterator[Cells]:
    table = tables.find(name)
    if table is not None:
        for cells in tables.cells(table, *table.columns.values()):
            values = (as_text(cell) if isinstance(cell, bytes) else cell for cell in cells)
            yield dict(zip(table.columns, values, strict=True))


def _step_rows(tables: Tables) -> list[Cells] | None:
    rows = [
        {title: cells[column] for column, title in _STEPS.items() if column in cells}
        for cells in _plain_rows(tables, "StepTraceTime")
    ]
    return rows or None


def _communication(tables: Tables) -> dict[str, Any]:
    """Times and bandwidths of collectives as communication.json nests them: step, kind, name@group."""
    found: dict[str, Any] = {}
    for cells in _plain_rows(tables, "CommAnalyzerTime"):
        times: dict[str, Any] = {"Start Timestamp(us)": cells.get("starttimestamp")}
        times |= {f"{span.title()} Time(ms)": cells.get(f"{span}time") for span in _SPANS}
        wait, sync, transit = (times[f"{span} Time(ms)"] or 0 for span in ("Wait", "Synchronization", "Transit"))
        times["Wait Time Ratio"] = round(wait / (wait + transit), 4) if wait + transit else 0
        times["Synchronization Time Ratio"] = round(sync / (sync + transit), 4) if sync + transit else 0
        _op(found, cells)["Communication Time Info"] = times
    for cells in _plain_rows(tables, "CommAnalyzerBandwidth"):
        links = _op(found, cells).setdefault("Communication Bandwidth Info", {})
        link = links.setdefault(
            str(cells.get("transporttype")),
            {
                "Transit Size(MB)": cells.get("transitsize"),
                "Transit Time(ms)": cells.get("transittime"),
                "Bandwidth(GB/s)": cells.get("bandwidth"),
                "Large Packet Ratio": cells.get("largepacketratio"),
                "Size Distribution": {},
            },
        )
        if cells.get("count"):
            sizes = link["Size Distribution"]
            sizes[str(cells.get("packagesize"))] = [cells.get("count"), cells.get("totalduration")]
    return found


def _op(found: dict[str, Any], cells: Cells) -> dict[str, Any]:
    name = f"{cells.get('hcclopname')}@{cells.get('groupname')}"
    step = found.setdefault(str(cells.get("step")), {"p2p": {}, "collective": {}})
    op: dict[str, Any] = step.setdefault(str(cells.get("type")), {}).setdefault(name, {})
    return op


def _matrix(tables: Tables) -> dict[str, Any]:
    """The links between ranks as communication_matrix.json nests them: step, kind, name@group, source-target."""
    found: dict[str, Any] = {}
    for cells in _plain_rows(tables, "CommAnalyzerMatrix"):
        _op(found, cells)[f"{cells.get('srcrank')}-{cells.get('dstrank')}"] = {
            "Transport Type": cells.get("transporttype"),
            "Transit Size(MB)": cells.get("transitsize"),
            "Transit Time(ms)": cells.get("transittime"),
            "Bandwidth(GB/s)": cells.get("bandwidth"),
            "Op Name": cells.get("opname"),
        }
    return found


def _metadata(tables: Tables) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for cells in _plain_rows(tables, "META_DATA"):
        name, value = str(cells.get("name")), cells.get("value")
        try:
            found[name] = orjson.loads(value) if isinstance(value, str) and value[:1] in "{[" else value
        except ValueError:
            found[name] = value
    return found or None


def _chip(tables: Tables) -> str | None:
    names = (str(cells.get("name") or "").strip() for cells in _plain_rows(tables, "NPU_INFO"))
    return next(filter(None, names), None)
