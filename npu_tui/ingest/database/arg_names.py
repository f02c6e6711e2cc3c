"""What the cells of a row are called in the args of a text trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from npu_tui.ingest.database.columns.device import TASK_TYPES
from npu_tui.ingest.database.columns.whole import COLLECTIVE
from npu_tui.ingest.database.tables.rows import ABSENT, Table, Tables, as_text, plain
from npu_tui.ingest.database.tables.stacks import FRAMES
from npu_tui.ingest.database.tables.texts import NOT_APPLICABLE, enumeration

_TID = (1 << 32) - 1
_DIMS = re.compile(r"[\d,;\s-]*")
_QUEUE, _OP, _NODE = 50002, 50001, 10000
_ITEMS = (_NODE, COLLECTIVE)

_MOST_FRAMES = 1 << 14
_KEPT = 1 << 16

Cells = dict[str, Any]
"""The cells of one row by the plain names of their columns."""


class ArgOf(Struct, frozen=True):
    """An arg of the rows of a table: the columns it is made of and how; None where a row has none."""

    columns: tuple[str, ...]
    value: Callable[[Look, Cells], Any]


class Look:
    """Looks up what the cells of ``tables`` point to; each text is read once."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._texts: dict[int, str | None] = {}
        self._enums: dict[str, dict[int, str]] = {}
        self._found: dict[tuple[str, str, Any], Cells] = {}

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
        if place not in self._found:
            if len(self._found) >= _KEPT:
                self._found.clear()
            self._found[place] = next(iter(self.all_cells(name, key, value, 1)), {})
        return self._found[place]

    def all_cells(self, name: str, key: str, value: Any, most: int = _MOST_FRAMES) -> list[Cells]:
        """All rows of table ``name`` whose column ``key`` is ``value``."""
        table = self.tables.find(name)
        return self.tables.where(table, key, value, most) if table and isinstance(value, int) else []


def _plain(column: str) -> ArgOf:
    key = plain(column)
    return ArgOf((column,), lambda look, cells: cells.get(key))


def _text(column: str) -> ArgOf:
    key = plain(column)
    return ArgOf((column,), lambda look, cells: look.text(cells.get(key)))


def _named(column: str, enum: str) -> ArgOf:
    key = plain(column)
    return ArgOf((column,), lambda look, cells: look.named(enum, cells.get(key)))


def _only(kind: int, column: str, then: Callable[[Look, Cells], Any]) -> ArgOf:
    """An arg of the rows of one kind; tables without kinds have it in every row that has the cell."""
    key = plain(column)

    def value(look: Look, cells: Cells) -> Any:
        if cells.get(key) is None or cells.get("type", kind) != kind:
            return None
        return then(look, cells)

    return ArgOf((column, "type"), value)


def _both(wanted: bool) -> ArgOf:
    """Shapes (``wanted``) or types of the inputs: torch_npu 2.1 to 2.5 writes each into the column of the other."""

    def value(look: Look, cells: Cells) -> str | None:
        shapes, types = look.text(cells.get("inputshapes")), look.text(cells.get("inputdtypes"))
        if shapes is None or types is None:
            return shapes if wanted else types
        if not _DIMS.fullmatch(shapes) and _DIMS.fullmatch(types):
            shapes, types = types, shapes
        return shapes if wanted else types

    return ArgOf(("inputShapes", "inputDtypes"), value)


def _stack(look: Look, cells: Cells) -> str | None:
    frames = look.all_cells("PYTORCH_CALLCHAINS", "id", cells["callchainid"])
    frames.sort(key=lambda frame: frame.get("stackdepth") or 0)
    return FRAMES.join(look.text(frame.get("stack")) or "" for frame in frames) or None


def _correlation(look: Look, cells: Cells) -> Any:
    found = look.cells("CONNECTION_IDS", "id", cells["connectionid"])
    return found.get("connectionid", cells["connectionid"])


def _of_task(column: str) -> ArgOf:
    """A cell of the device task that carried a part of a collective out."""
    key = plain(column)
    return ArgOf(
        ("globalTaskId",), lambda look, cells: look.cells("TASK", "globalTaskId", cells.get("globaltaskid")).get(key)
    )


def _bandwidth(look: Look, cells: Cells) -> float | None:
    """Bytes per nanosecond, as msprof computes it where it does not keep it."""
    task = look.cells("TASK", "globalTaskId", cells.get("globaltaskid"))
    size, lasted = cells.get("size"), (task.get("endns") or 0) - (task.get("startns") or 0)
    return size / lasted if isinstance(size, int) and size >= 0 and lasted > 0 else None


def _task_type(look: Look, cells: Cells) -> str | None:
    """What the host knows of the task, in the words of a text trace."""
    known = look.text(look.cells("COMPUTE_TASK_INFO", "globalTaskId", cells.get("globaltaskid")).get("tasktype"))
    word = known if known and known != NOT_APPLICABLE else look.text(cells.get("tasktype"))
    return TASK_TYPES.get(word, word) if word else None


def _copied(what: str) -> ArgOf:
    def value(look: Look, cells: Cells) -> Any:
        info = look.cells("MEMCPY_INFO", "globalTaskId", cells.get("globaltaskid"))
        if not info:
            return None
        if what == "operation":
            return look.named("ENUM_MEMCPY_OPERATION", info.get("memcpyoperation"))
        lasted = (cells.get("endns") or 0) - (cells.get("startns") or 0)
        size = info.get("size")
        return size if what == "size" or size is None else size / lasted if lasted > 0 else None

    return ArgOf(("globalTaskId", "startNs", "endNs"), value)


def _call(look: Look, cells: Cells) -> str | None:
    return look.text(cells.get("name"))


def _item(look: Look, cells: Cells) -> str | None:
    """What a call is about: the kernel that a node launches, the work of the library of collectives."""
    if cells.get("type") == COLLECTIVE:
        return _call(look, cells)
    if cells.get("type") != _NODE:
        return None
    task = look.cells("TASK", "connectionId", cells.get("connectionid"))
    return look.text(look.cells("COMPUTE_TASK_INFO", "globalTaskId", task.get("globaltaskid")).get("name"))


_CANN = {
    "Thread Id": ArgOf(("globalTid",), lambda look, cells: (cells.get("globaltid") or 0) & _TID),
    "level": _named("type", "ENUM_API_TYPE"),
    "Mode": ArgOf(("type", "name"), lambda look, cells: _call(look, cells) if cells.get("type") == _NODE else None),
    "id": ArgOf(("type", "name"), lambda look, cells: None if cells.get("type") in _ITEMS else _call(look, cells)),
    "item_id": ArgOf(("type", "name", "connectionId"), _item),
    "connection_id": _plain("connectionId"),
}

ARGS: dict[str, dict[str, ArgOf]] = {
    "PYTORCH_API": {
        "Sequence number": _only(_OP, "sequenceNumber", lambda look, cells: cells["sequencenumber"]),
        "Fwd thread id": _only(_OP, "fwdThreadId", lambda look, cells: cells["fwdthreadid"]),
        "Input Dims": _both(wanted=True),
        "Input type": _both(wanted=False),
        "Call stack": _only(_OP, "callchainId", _stack),
        "correlation_id": _only(_QUEUE, "connectionId", _correlation),
    },
    "CANN_API": _CANN,
    "API": _CANN,
    "TASK": {
        "Model Id": _plain("modelId"),
        "Task Type": ArgOf(("taskType", "globalTaskId"), _task_type),
        "Physic Stream Id": _plain("streamId"),
        "Task Id": _plain("taskId"),
        "Subtask Id": _plain("contextId"),
        "connection_id": _plain("connectionId"),
        "size(B)": _copied("size"),
        "bandwidth(GB/s)": _copied("bandwidth"),
        "operation": _copied("operation"),
    },
    "COMMUNICATION_OP": {
        "connection_id": _plain("connectionId"),
        "data_type": _named("dataType", "ENUM_HCCL_DATA_TYPE"),
        "alg_type": _text("algType"),
        "count": _plain("count"),
        "relay": _plain("relay"),
        "retry": _plain("retry"),
    },
    "COMMUNICATION_TASK_INFO": {
        "notify_id": ArgOf(("notifyId",), lambda look, cells: as_text(cells.get("notifyid")) or None),
        "stream id": _of_task("streamId"),
        "task id": _of_task("taskId"),
        "context id": _of_task("contextId"),
        "task type": _text("taskType"),
        "src rank": _plain("srcRank"),
        "dst rank": _plain("dstRank"),
        "transport type": _named("transportType", "ENUM_HCCL_TRANSPORT_TYPE"),
        "size(Byte)": _plain("size"),
        "data type": _named("dataType", "ENUM_HCCL_DATA_TYPE"),
        "link type": _named("linkType", "ENUM_HCCL_LINK_TYPE"),
        "bandwidth(GB/s)": ArgOf(("size", "globalTaskId"), _bandwidth),
        "model id": _of_task("modelId"),
    },
    "MSTX_EVENTS": {
        "event_type": _named("eventType", "ENUM_MSTX_EVENT_TYPE"),
        "Category": _plain("category"),
        "domain": ArgOf(("domainId",), lambda look, cells: look.text(cells.get("domainid")) or cells.get("domainid")),
        "connection_id": _plain("connectionId"),
    },
}
"""The args of the rows of each table, by the names of a text trace."""


def columns_of(table: Table, args: dict[str, ArgOf]) -> list[str]:
    """The columns of ``table``, by their plain names, that ``args`` are made of."""
    wanted = dict.fromkeys(plain(column) for arg in args.values() for column in arg.columns)
    return [column for column in wanted if column in table.columns]
