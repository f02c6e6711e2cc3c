"""What a database knows of kernels, in the columns of ``kernel_details.csv``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.companions.schema import column_name
from npu_tui.ingest.database.columns.whole import COLLECTIVE
from npu_tui.ingest.database.tables.joins import matched, numbered
from npu_tui.ingest.database.tables.rows import ABSENT, Rows, Tables
from npu_tui.ingest.database.tables.series import chosen, known_numbers, texts_of
from npu_tui.ingest.database.tables.texts import Texts, enumeration

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
