"""The tables of a database, and of the statistics beside it, as the companion files of a text profile.

A text profile has them as CSV and JSON (``kernel_details.csv``, ``communication.json``, ...); here they have the same
names, columns and units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import field
from msgspec.structs import replace

from npu_tui.ingest.companions.documents import Document
from npu_tui.ingest.companions.files import Companions
from npu_tui.ingest.companions.reading import Reading, reason
from npu_tui.ingest.companions.schema import Schema
from npu_tui.ingest.database.kernels import kernel_columns
from npu_tui.ingest.database.memory import allocation_columns, memory_columns, module_columns
from npu_tui.ingest.database.tables.connect import UNREADABLE, opened
from npu_tui.ingest.database.tables.rows import Tables, as_text
from npu_tui.ingest.errors import InputError

if TYPE_CHECKING:
    import polars as pl

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
        from npu_tui.ingest.companions.csv_table import table_of, table_of_columns

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
