"""The memory of a profile: memory_record.csv, operator_memory.csv and npu_module_mem.csv on the trace's own axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.kernels import Coded
from npu_tui.analysis.memory import AMOUNTS, BEFORE, NEVER, Allocations, Amount, Memory, MemoryCurve, memory_curve
from npu_tui.ingest.companions.schemas import ALLOCATIONS, MEMORY, MODULES
from npu_tui.profile.tables import Tables

if TYPE_CHECKING:
    import polars as pl

I64 = npt.NDArray[np.int64]

_MEGABYTE, _KILOBYTE = 2**20, 2**10
_NOTHING = Allocations(Coded([], np.zeros(0, np.int64)), *(np.zeros(0, np.int64) for _ in range(3)))


def memory_of(tables: Tables) -> Memory:
    """What ``tables`` say of memory; empty where they are not there."""
    start = tables.start_ns
    curves: list[MemoryCurve] = []
    if tables.has(MEMORY.stem):
        curves = [each for amount in AMOUNTS for each in _curves(tables.table(MEMORY.stem).frame, amount, start)]
    modules = _curves(tables.table(MODULES.stem).frame, "reserved", start) if tables.has(MODULES.stem) else []
    has = tables.has(ALLOCATIONS.stem)
    allocations = _allocations(tables.table(ALLOCATIONS.stem).frame, start) if has else _NOTHING
    return Memory(tuple(curves), allocations, tuple(modules))


def _curves(frame: pl.DataFrame, amount: Amount, origin: int) -> list[MemoryCurve]:
    """A curve per component, and per device where there are several."""
    if not len(frame):
        return []
    found = []
    frame = frame.select("component", "time", "device", amount).drop_nulls(["time", amount])
    several = frame["device"].n_unique() > 1
    keys = ["component", "device"] if several else ["component"]
    for key, own in frame.partition_by(keys, as_dict=True, maintain_order=True).items():
        name = " ".join(str(part) for part in key if part is not None)
        value = np.rint(own[amount].to_numpy() * _MEGABYTE).astype(np.int64)
        found.append(memory_curve(name, amount, own["time"].to_numpy() - origin, value))
    return found


def _allocations(frame: pl.DataFrame, origin: int) -> Allocations:
    if not len(frame):
        return _NOTHING
    size = np.nan_to_num(_floats(frame["size"]))
    return Allocations(
        Coded.of(frame["name"].to_list()),
        np.rint(size * _KILOBYTE).astype(np.int64),
        _times(frame["allocated_at"], origin, BEFORE),
        _times(frame["released_at"], origin, NEVER),
    )


def _floats(column: pl.Series) -> npt.NDArray[np.float64]:
    return np.asarray(column.cast(float).to_numpy(), np.float64)


def _times(column: Any, origin: int, missing: int) -> I64:
    known = column.is_not_null().to_numpy()
    times = column.fill_null(0).to_numpy().astype(np.int64) - origin
    return np.where(known, times, missing)
