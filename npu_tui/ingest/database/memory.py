"""What a database knows of memory, in the columns of the CSV files of a text profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npu_tui.ingest.database.kernels import microseconds
from npu_tui.ingest.database.tables.pieces import ABSENT
from npu_tui.ingest.database.tables.rows import Tables
from npu_tui.ingest.database.tables.texts import Texts, enumeration

_MB, _KB = 1 << 20, 1 << 10
_TOTALS = {"Allocated": "totalAllocated", "Reserved": "totalReserved", "Active": "totalActive"}


def memory_rows(tables: Tables) -> Iterator[dict[str, Any]]:
    """Totals over time, as rows of memory_record.csv: those of the allocators and, of the device, those of the app."""
    texts = Texts(tables)
    yield from _app_rows(tables, texts)
    table = tables.find("MEMORY_RECORD")
    if table is None:
        return
    rows = tables.read(table, ("component", "timestamp", *_TOTALS.values(), "streamPtr", "deviceId"))
    names = list(rows.columns)
    for values in zip(*(rows[name].tolist() for name in names), strict=True):
        own = dict(zip(names, values, strict=True))
        cells: dict[str, Any] = {"Component": texts[own["component"]], "Timestamp(us)": microseconds(own["timestamp"])}
        cells |= {f"Total {title}(MB)": _size(own[name], _MB) for title, name in _TOTALS.items()}
        yield {**cells, "Stream Ptr": _there(own["streamPtr"]), "Device Type": _device(own["deviceId"])}


def _app_rows(tables: Tables, texts: Texts) -> Iterator[dict[str, Any]]:
    table = tables.find("NPU_MEM")
    if table is None:
        return
    rows = tables.read(table, ("type", "timestampNs", "deviceId"), ("ddr", "hbm"))
    app = texts.which(rows["type"], "app")
    total = np.nan_to_num(rows.real("ddr")) + np.nan_to_num(rows.real("hbm"))
    columns = (rows["timestampNs"][app].tolist(), rows["deviceId"][app].tolist(), total[app].tolist())
    for time, device, value in zip(*columns, strict=True):
        cells = {"Component": "APP", "Timestamp(us)": microseconds(time), "Total Reserved(MB)": value / _MB}
        yield {**cells, "Device Type": _device(device)}


def operator_rows(tables: Tables) -> Iterator[dict[str, Any]]:
    """Allocations and releases, as rows of operator_memory.csv."""
    table = tables.find("OP_MEMORY")
    if table is None:
        return
    texts = Texts(tables)
    times = {
        "Allocation Time(us)": "allocationTime",
        "Release Time(us)": "releaseTime",
        "Active Release Time(us)": "activeReleaseTime",
        "Duration(us)": "duration",
        "Active Duration(us)": "activeDuration",
    }
    totals = {
        f"{at.title()} Total {kind}(MB)": f"{at}Total{kind}" for at in ("allocation", "release") for kind in _TOTALS
    }
    rows = tables.read(table, ("name", "size", *times.values(), *totals.values(), "streamPtr", "deviceId"))
    names = list(rows.columns)
    for values in zip(*(rows[name].tolist() for name in names), strict=True):
        own = dict(zip(names, values, strict=True))
        cells: dict[str, Any] = {"Name": texts[own["name"]], "Size(KB)": _size(own["size"], _KB, signed=True)}
        for title, name in times.items():
            cells[title] = microseconds(own[name]) if own[name] != ABSENT else None
        cells |= {title: _size(own[name], _MB) for title, name in totals.items()}
        yield {**cells, "Stream Ptr": _there(own["streamPtr"]), "Device Type": _device(own["deviceId"])}


def module_rows(tables: Tables) -> Iterator[dict[str, Any]]:
    """What the components of the driver hold over time, as rows of npu_module_mem.csv."""
    table = tables.find("NPU_MODULE_MEM")
    if table is None:
        return
    modules = enumeration(tables, "ENUM_MODULE", "ENUM_NPU_MODULE")
    rows = tables.read(table, ("moduleId", "timestampNs", "totalReserved", "deviceId"))
    for module, time, total, device in zip(*(rows[name].tolist() for name in rows.columns), strict=True):
        cells = {"Component": modules.get(module, str(module)), "Timestamp(us)": microseconds(time)}
        yield {**cells, "Total Reserved(MB)": _size(total, _MB), "Device": _device(device)}


def _size(value: int, unit: int, signed: bool = False) -> float | None:
    return None if value == ABSENT and not signed else value / unit


def _there(value: int) -> int | None:
    return None if value == ABSENT else value


def _device(number: int) -> str | None:
    return None if number == ABSENT else f"NPU:{number}"
