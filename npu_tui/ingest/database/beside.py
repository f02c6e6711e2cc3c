"""The tables of a database, and of the statistics beside it, as the companion files of a text profile.

A text profile has them as CSV and JSON (``kernel_details.csv``, ``communication.json``, ...); here they have the same
names, columns and units.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from npu_tui.ingest.companions.documents import Document
from npu_tui.ingest.companions.files import Companions
from npu_tui.ingest.companions.reading import Reading
from npu_tui.ingest.companions.schema import Schema
from npu_tui.ingest.database.kernels import kernel_columns
from npu_tui.ingest.database.memory import allocation_columns, memory_columns, module_columns
from npu_tui.ingest.database.tables.connect import open_database
from npu_tui.ingest.database.tables.rows import Tables, as_text
from npu_tui.ingest.errors import InputError

if TYPE_CHECKING:
    import polars as pl

_ANALYSIS = "analysis.db"
_STEP_TABLE = "step_trace_time"
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


@dataclass(frozen=True, slots=True)
class DatabaseCompanions(Companions):
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

    def columns(self, name: str) -> list[str]:
        """The columns that rows of ``name`` have, empty without any."""
        held = self._steps() if name == f"{_STEP_TABLE}.csv" else None
        if held is None:
            return Companions.columns(self, name)
        return list(dict.fromkeys(column for cells in held for column in cells))

    def has(self, schema: Schema) -> bool:
        """Whether a database or the folder has a table of ``schema``."""
        return self._table(schema.stem) or Companions.has(self, schema)

    def read(self, schema: Schema) -> Reading:
        """The table of ``schema``, of the databases where they have one."""
        from npu_tui.ingest.companions.csv_table import table_of, table_of_columns

        if not self._table(schema.stem):
            return Companions.read(self, schema)
        if schema.stem == _STEP_TABLE:
            return table_of(schema, self._steps() or ())
        names, columns_of = _TABLES[schema.stem]
        with _opened_tables(self.path) as tables:
            if tables is None:
                return Companions.read(self, schema)
            columns = columns_of(tables)
            lost = bool(tables.lost or tables.unreadable)
        return table_of_columns(schema, names[0], columns, lost)

    def document_state(self, name: str) -> Document:
        """What would be the JSON file ``name``."""
        makers = {"communication.json": _communication, "communication_matrix.json": _matrix}
        if name in makers:
            for path in (self.folder / _ANALYSIS, self.path):
                found = _with_tables(path, makers[name])
                if found:
                    return Document("read", found)
        return Companions.document_state(self, name)

    @property
    def metadata_state(self) -> Document:
        """Groups and environment: of ``profiler_metadata.json``, else those that the database keeps."""
        # A class with slots has no bare super() inside a property.
        found: Document = Companions.metadata_state.fget(self)  # type: ignore[attr-defined]
        held = _with_tables(self.path, _metadata) if found.value is None else None
        return found if held is None else Document("read", held)

    def _table(self, stem: str) -> bool:
        """Whether a database has a table for the file ``stem``."""
        if stem == _STEP_TABLE:
            return self._steps() is not None
        if stem not in _TABLES:
            return False
        names, _ = _TABLES[stem]
        return bool(self._once(stem, lambda: _with_tables(self.path, lambda tables: tables.find(*names) is not None)))

    def _steps(self) -> list[Cells] | None:
        """The rows of the steps in ``analysis.db``."""
        found: list[Cells] | None = self._once(_STEP_TABLE, lambda: _with_tables(self.folder / _ANALYSIS, _step_rows))
        return found

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._held:
            self._held[name] = make()
        return self._held[name]


@contextlib.contextmanager
def _opened_tables(path: Path) -> Iterator[Tables | None]:
    """The tables at ``path``; None where there are none to read."""
    try:
        database = open_database(path) if path.is_file() else None
    except (InputError, OSError):
        database = None
    if database is None:
        yield None
        return
    try:
        yield Tables(database)
    finally:
        database.connection.close()


def _with_tables(path: Path, make: Callable[[Tables], Any]) -> Any:
    """What ``make`` makes of the tables at ``path``; None where there are none to read."""
    with _opened_tables(path) as tables:
        try:
            return None if tables is None else make(tables)
        except (OSError, sqlite3.DatabaseError):
            return None


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
