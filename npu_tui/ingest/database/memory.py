"""What a database knows of memory, in the columns of the CSV files of a text profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.database.tables.joins import numbered
from npu_tui.ingest.database.tables.rows import ABSENT, Tables
from npu_tui.ingest.database.tables.series import chosen, known_numbers, labels, masked, texts_of
from npu_tui.ingest.database.tables.texts import Texts, enumeration

if TYPE_CHECKING:
    import polars as pl

I64 = npt.NDArray[np.int64]

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
