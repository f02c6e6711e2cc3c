"""The args that a text trace would have, read from the tables of a database.

A text trace names an arg ``Input Dims`` where a database has a number in the column ``inputShapes`` of ``PYTORCH_API``;
``ARGS`` says of every table which args its rows have and what makes them of its cells.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from npu_tui.load.database_columns import COLLECTIVE, FRAMES, NOT_APPLICABLE, ROW, ROW_BITS, TABLES, enumeration
from npu_tui.load.database_device import TASK_TYPES
from npu_tui.load.database_file import UNREADABLE, as_text, opened
from npu_tui.load.database_rows import ABSENT, DatabaseTable, DatabaseTables, schema_name
from npu_tui.load.errors import InputError
from npu_tui.trace.args import Arg, ArgReader, ScanMatches, always, args_match
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import message
from npu_tui.trace.model import Chunks, EventFile

_TID = (1 << 32) - 1
_DIMS = re.compile(r"[\d,;\s-]*")
_QUEUE, _OP, _NODE = 50002, 50001, 10000  # of ``ENUM_API_TYPE``
_ITEMS = (_NODE, COLLECTIVE)

_MOST_FRAMES = 1 << 14  # rows of one key that are read: a hostile stack may have any number
_KEPT = 1 << 16  # texts and rows that are remembered before all are let go

_BATCH = 1 << 12  # rows that a scan reads and searches at a time

Cells = dict[str, Any]
"""The cells of one row by the plain names of their columns."""


class ArgOf(Struct, frozen=True):
    """An arg of the rows of a table: the columns it is made of and how; None where a row has none."""

    columns: tuple[str, ...]
    made: Callable[[CellLookup, Cells], Any]

    def value(self, look: CellLookup, cells: Cells) -> Any:
        """The arg of a row; None also where a cell is of another kind than its column, such as a word for a number."""
        try:
            return self.made(look, cells)
        except (TypeError, ValueError, OverflowError):
            return None


class CellLookup:
    """Looks up what the cells of ``tables`` point to; each text is read once."""

    def __init__(self, tables: DatabaseTables) -> None:
        self.tables = tables
        self._texts: dict[int, str | None] = {}
        self._enums: dict[str, dict[int, str]] = {}
        self._cells: dict[tuple[str, str, Any], Cells] = {}

    def text(self, number: Any) -> str | None:
        """The text of ``number`` in ``STRING_IDS``."""
        if not isinstance(number, int) or number == ABSENT:
            return None
        if number not in self._texts:
            if len(self._texts) >= _KEPT:
                self._texts.clear()
            cells = self.cells("STRING_IDS", "id", number)
            self._texts[number] = as_text(cells["value"]) if "value" in cells else None
        return self._texts[number]

    def named(self, enum: str, number: Any) -> str | None:
        """The name of ``number`` in the table ``enum``; tables older than that have a text instead."""
        if enum not in self._enums:
            self._enums[enum] = enumeration(self.tables, enum)
        return self._enums[enum].get(number) if self._enums[enum] else self.text(number)

    def cells(self, name: str, key: str, value: Any) -> Cells:
        """The first row of table ``name`` whose column ``key`` is ``value``; empty without one."""
        place = (name, key, value)
        if place not in self._cells:
            if len(self._cells) >= _KEPT:
                self._cells.clear()
            self._cells[place] = next(iter(self.all_cells(name, key, value, 1)), {})
        return self._cells[place]

    def all_cells(self, name: str, key: str, value: Any, most: int = _MOST_FRAMES) -> list[Cells]:
        """All rows of table ``name`` whose column ``key`` is ``value``."""
        table = self.tables.find(name)
        return self.tables.where(table, key, value, most) if table and isinstance(value, int) else []


def _arg_of_column(column: str) -> ArgOf:
    key = schema_name(column)
    return ArgOf((column,), lambda look, cells: cells.get(key))


def _text_arg(column: str) -> ArgOf:
    key = schema_name(column)
    return ArgOf((column,), lambda look, cells: look.text(cells.get(key)))


def _enum_arg(column: str, enum: str) -> ArgOf:
    key = schema_name(column)
    return ArgOf((column,), lambda look, cells: look.named(enum, cells.get(key)))


def _arg_of_kind(kind: int, column: str, then: Callable[[CellLookup, Cells], Any]) -> ArgOf:
    """An arg of the rows of one kind; tables without kinds have it in every row that has the cell."""
    key = schema_name(column)

    def value(look: CellLookup, cells: Cells) -> Any:
        if cells.get(key) is None or cells.get("type", kind) != kind:
            return None
        return then(look, cells)

    return ArgOf((column, "type"), value)


def _both(wanted: bool) -> ArgOf:
    """Shapes (``wanted``) or types of the inputs: torch_npu 2.1 to 2.5 writes each into the column of the other."""

    def value(look: CellLookup, cells: Cells) -> str | None:
        shapes, types = look.text(cells.get("inputshapes")), look.text(cells.get("inputdtypes"))
        if shapes is None or types is None:
            return shapes if wanted else types
        if not _DIMS.fullmatch(shapes) and _DIMS.fullmatch(types):
            shapes, types = types, shapes
        return shapes if wanted else types

    return ArgOf(("inputShapes", "inputDtypes"), value)


def _stack(look: CellLookup, cells: Cells) -> str | None:
    frames = look.all_cells("PYTORCH_CALLCHAINS", "id", cells["callchainid"])
    frames.sort(key=lambda frame: frame.get("stackdepth") or 0)
    return FRAMES.join(look.text(frame.get("stack")) or "" for frame in frames) or None


def _correlation(look: CellLookup, cells: Cells) -> Any:
    connection = look.cells("CONNECTION_IDS", "id", cells["connectionid"])
    return connection.get("connectionid", cells["connectionid"])


def _of_task(column: str) -> ArgOf:
    """A cell of the device task that carried a part of a collective out."""
    key = schema_name(column)
    return ArgOf(
        ("globalTaskId",), lambda look, cells: look.cells("TASK", "globalTaskId", cells.get("globaltaskid")).get(key)
    )


def _bandwidth(look: CellLookup, cells: Cells) -> float | None:
    """Bytes per nanosecond, as msprof computes it where it does not keep it."""
    task = look.cells("TASK", "globalTaskId", cells.get("globaltaskid"))
    size, lasted = cells.get("size"), (task.get("endns") or 0) - (task.get("startns") or 0)
    return size / lasted if isinstance(size, int) and size >= 0 and lasted > 0 else None


def _task_type(look: CellLookup, cells: Cells) -> str | None:
    """What the host knows of the task, in the words of a text trace."""
    known = look.text(look.cells("COMPUTE_TASK_INFO", "globalTaskId", cells.get("globaltaskid")).get("tasktype"))
    word = known if known and known != NOT_APPLICABLE else look.text(cells.get("tasktype"))
    return TASK_TYPES.get(word, word) if word else None


def _copy_arg(what: str) -> ArgOf:
    def value(look: CellLookup, cells: Cells) -> Any:
        info = look.cells("MEMCPY_INFO", "globalTaskId", cells.get("globaltaskid"))
        if not info:
            return None
        if what == "operation":
            return look.named("ENUM_MEMCPY_OPERATION", info.get("memcpyoperation"))
        lasted = (cells.get("endns") or 0) - (cells.get("startns") or 0)
        size = info.get("size")
        return size if what == "size" or size is None else size / lasted if lasted > 0 else None

    return ArgOf(("globalTaskId", "startNs", "endNs"), value)


def _call_name(look: CellLookup, cells: Cells) -> str | None:
    return look.text(cells.get("name"))


def _item(look: CellLookup, cells: Cells) -> str | None:
    """What a call is about: the kernel that a node launches, the work of the library of collectives."""
    if cells.get("type") == COLLECTIVE:
        return _call_name(look, cells)
    if cells.get("type") != _NODE:
        return None
    task = look.cells("TASK", "connectionId", cells.get("connectionid"))
    return look.text(look.cells("COMPUTE_TASK_INFO", "globalTaskId", task.get("globaltaskid")).get("name"))


_CANN = {
    "Thread Id": ArgOf(("globalTid",), lambda look, cells: (cells.get("globaltid") or 0) & _TID),
    "level": _enum_arg("type", "ENUM_API_TYPE"),
    "Mode": ArgOf(
        ("type", "name"), lambda look, cells: _call_name(look, cells) if cells.get("type") == _NODE else None
    ),
    "id": ArgOf(("type", "name"), lambda look, cells: None if cells.get("type") in _ITEMS else _call_name(look, cells)),
    "item_id": ArgOf(("type", "name", "connectionId"), _item),
    "connection_id": _arg_of_column("connectionId"),
}

ARGS: dict[str, dict[str, ArgOf]] = {
    "PYTORCH_API": {
        "Sequence number": _arg_of_kind(_OP, "sequenceNumber", lambda look, cells: cells["sequencenumber"]),
        "Fwd thread id": _arg_of_kind(_OP, "fwdThreadId", lambda look, cells: cells["fwdthreadid"]),
        "Input Dims": _both(wanted=True),
        "Input type": _both(wanted=False),
        "Call stack": _arg_of_kind(_OP, "callchainId", _stack),
        "correlation_id": _arg_of_kind(_QUEUE, "connectionId", _correlation),
    },
    "CANN_API": _CANN,
    "API": _CANN,
    "TASK": {
        "Model Id": _arg_of_column("modelId"),
        "Task Type": ArgOf(("taskType", "globalTaskId"), _task_type),
        "Physic Stream Id": _arg_of_column("streamId"),
        "Task Id": _arg_of_column("taskId"),
        "Subtask Id": _arg_of_column("contextId"),
        "connection_id": _arg_of_column("connectionId"),
        "size(B)": _copy_arg("size"),
        "bandwidth(GB/s)": _copy_arg("bandwidth"),
        "operation": _copy_arg("operation"),
    },
    "COMMUNICATION_OP": {
        "connection_id": _arg_of_column("connectionId"),
        "data_type": _enum_arg("dataType", "ENUM_HCCL_DATA_TYPE"),
        "alg_type": _text_arg("algType"),
        "count": _arg_of_column("count"),
        "relay": _arg_of_column("relay"),
        "retry": _arg_of_column("retry"),
    },
    "COMMUNICATION_TASK_INFO": {
        "notify_id": ArgOf(("notifyId",), lambda look, cells: as_text(cells.get("notifyid")) or None),
        "stream id": _of_task("streamId"),
        "task id": _of_task("taskId"),
        "context id": _of_task("contextId"),
        "task type": _text_arg("taskType"),
        "src rank": _arg_of_column("srcRank"),
        "dst rank": _arg_of_column("dstRank"),
        "transport type": _enum_arg("transportType", "ENUM_HCCL_TRANSPORT_TYPE"),
        "size(Byte)": _arg_of_column("size"),
        "data type": _enum_arg("dataType", "ENUM_HCCL_DATA_TYPE"),
        "link type": _enum_arg("linkType", "ENUM_HCCL_LINK_TYPE"),
        "bandwidth(GB/s)": ArgOf(("size", "globalTaskId"), _bandwidth),
        "model id": _of_task("modelId"),
    },
    "MSTX_EVENTS": {
        "event_type": _enum_arg("eventType", "ENUM_MSTX_EVENT_TYPE"),
        "Category": _arg_of_column("category"),
        "domain": ArgOf(("domainId",), lambda look, cells: look.text(cells.get("domainid")) or cells.get("domainid")),
        "connection_id": _arg_of_column("connectionId"),
    },
}
"""The args of the rows of each table, by the names of a text trace."""


def columns_of(table: DatabaseTable, args: dict[str, ArgOf]) -> list[str]:
    """The columns of ``table``, by their plain names, that ``args`` are made of."""
    wanted = dict.fromkeys(schema_name(column) for arg in args.values() for column in arg.columns)
    return [column for column in wanted if column in table.columns]


class DatabaseArgs(ArgReader, frozen=True, eq=False):
    """The ``ArgReader`` of the rows of the database ``file`` that ``chunks`` finds again.

    ``path`` is what an error names.
    """

    path: str
    file: EventFile
    chunks: Chunks

    def one(self, ordinal: int) -> dict[str, Any]:
        """All args of a row; empty for a slice that was computed."""
        with self._opened() as look:
            for _, args, rows in self._rows(look, np.array([ordinal]), lambda args: args):
                return _arg_values(look, args, rows[0])
        return {}

    def many(self, ordinals: I64, keys: Sequence[str]) -> list[list[Any]]:
        """The args ``keys`` of many rows."""
        columns: list[list[Any]] = [[None] * len(ordinals) for _ in keys]
        with self._opened() as look:
            for places, args, rows in self._rows(look, ordinals, lambda args: _chosen_args(args, keys)):
                for column, key in zip(columns, keys, strict=True):
                    if key in args:
                        value = args[key].value
                        for place, cells in zip(places, rows, strict=True):
                            column[place] = value(look, cells)
        return columns

    def scan(self, ordinals: I64, wanted: Sequence[Arg], go_on: Callable[[], bool] = always) -> Iterator[ScanMatches]:
        """Which rows match, batch by batch; only args of a name that is asked for are looked at."""

        def asked(args: dict[str, ArgOf]) -> dict[str, ArgOf]:
            names = [[name for name in args if arg.key in name.lower()] for arg in wanted]
            return _chosen_args(args, set().union(*names)) if all(names) else {}

        with self._opened() as look:
            for first in range(0, len(ordinals), _BATCH):
                if not go_on():
                    return
                places: list[int] = []
                batch = ordinals[first : first + _BATCH]
                for in_batch, args, rows in self._rows(look, batch, asked):
                    matching = (args_match(_arg_values(look, args, cells), wanted) for cells in rows)
                    places += [first + place for place, matches in zip(in_batch, matching, strict=True) if matches]
                yield ScanMatches(np.array(sorted(places), np.int64), min((first + _BATCH) / len(ordinals), 1.0))

    @contextmanager
    def _opened(self) -> Iterator[CellLookup]:
        """The database while args are read. Raises ``InputError`` if it is gone or is not the one that was loaded."""
        path = Path(self.file.path)
        try:
            size = os.stat(path).st_size
        except OSError as error:
            raise InputError(message("input.gone", path=self.path, why=error.strerror or str(error))) from error
        if self.file.copy is None and size != self.file.size:
            raise self._changed()
        with opened(path) as database:
            try:
                yield CellLookup(DatabaseTables(database))
            except UNREADABLE as error:
                why = str(error) or type(error).__name__
                raise InputError(message("input.db_row", path=self.path, why=why)) from error

    def _changed(self) -> InputError:
        return InputError(message("input.db_changed", path=self.path))

    def _rows(
        self, look: CellLookup, ordinals: I64, chosen: Callable[[dict[str, ArgOf]], dict[str, ArgOf]]
    ) -> Iterator[tuple[list[int], dict[str, ArgOf], list[Cells]]]:
        """By table the places of its ``ordinals``, those of its args that ``chosen`` wants, and the rows."""
        chunks = self.chunks
        at = np.searchsorted(chunks.first_event, ordinals, "right") - 1
        numbers = (chunks.offset[at] & ROW) + (ordinals - chunks.first_event[at])
        kinds = chunks.offset[at] >> ROW_BITS
        for kind in np.unique(kinds).tolist():
            table = look.tables.find(TABLES[kind])
            args = chosen(ARGS.get(TABLES[kind], {}))
            if table is None or not args:
                continue
            places = np.flatnonzero(kinds == kind)
            rows = look.tables.rows(table, columns_of(table, args), numbers[places].tolist())
            if any(row is None for row in rows):
                raise self._changed()
            yield places.tolist(), args, [row for row in rows if row is not None]


def _chosen_args(args: dict[str, ArgOf], names: Collection[str]) -> dict[str, ArgOf]:
    return {name: arg for name, arg in args.items() if name in names}


def _arg_values(look: CellLookup, args: dict[str, ArgOf], cells: Cells) -> dict[str, Any]:
    values = ((name, arg.value(look, cells)) for name, arg in args.items())
    return {name: value for name, value in values if value is not None}
