"""What a database knows of kernels, in the columns of ``kernel_details.csv``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.database.columns.whole import COLLECTIVE
from npu_tui.ingest.database.tables.joins import matched, numbered
from npu_tui.ingest.database.tables.pieces import ABSENT
from npu_tui.ingest.database.tables.rows import Rows, Tables
from npu_tui.ingest.database.tables.texts import Texts, enumeration

I64 = npt.NDArray[np.int64]

_TEXTS = {
    "Name": "name",
    "Type": "opType",
    "OP State": "opState",
    "Accelerator Core": "taskType",
    "HF32 Eligible": "hf32Eligible",
    "Input Shapes": "inputShapes",
    "Input Data Types": "inputDataTypes",
    "Input Formats": "inputFormats",
    "Output Shapes": "outputShapes",
    "Output Data Types": "outputDataTypes",
    "Output Formats": "outputFormats",
}
_NUMBERS = {"Block Dim": "blockDim", "Mix Block Dim": "mixBlockDim"}
_TIME = "_time"
_PMU = {
    "aic_total_time": "aicore_time(us)",
    "aiv_total_time": "aiv_time(us)",
    "total_time": "aicore_time(us)",
    "cube_utilization": "cube_utilization(%)",
}
"""Names of measured values that the CSV writes otherwise."""

_NEWER = {"blockDim": "blockNum", "mixBlockDim": "mixBlockNum"}
_NO_CONTEXT = (1 << 32) - 1


def kernel_rows(tables: Tables) -> Iterator[dict[str, Any]]:
    """The kernels and collectives by start, as rows of kernel_details.csv."""
    info, task = tables.find("COMPUTE_TASK_INFO"), tables.find("TASK")
    if info is None or task is None:
        return
    texts = Texts(tables)
    newer = [_NEWER[name] for name in _NUMBERS.values()]
    known = tables.read(info, ("globalTaskId", *_TEXTS.values(), *_NUMBERS.values(), *newer))
    tasks = tables.read(
        task,
        ("startNs", "endNs", "globalTaskId", "taskId", "streamId", "modelId", "contextId", "connectionId", "deviceId"),
    )
    at = matched(tasks["globalTaskId"], known["globalTaskId"])
    known, at = known.where(at >= 0), at[at >= 0]
    measured = _measured(tables, texts, known["globalTaskId"])
    ops = _collectives(tables, texts)
    starts = [*tasks["startNs"][at].tolist(), *(op["start"] for op in ops)]
    ends = [*tasks["endNs"][at].tolist(), *(op["end"] for op in ops)]
    steps = _steps(tables, np.array(starts, np.int64))
    before = 0
    for row in np.argsort(np.array(starts, np.int64), kind="stable").tolist():
        start, end = starts[row], ends[row]
        step = int(steps[row])
        cells: dict[str, Any] = {"Step Id": step} if step >= 0 else {}
        if row < len(known):
            cells |= _known(known, tasks, texts, row, int(at[row]))
        else:
            cells |= ops[row - len(known)]["cells"]
        cells["Start Time(us)"], cells["Duration(us)"] = microseconds(start), microseconds(end - start)
        cells["Wait Time(us)"] = microseconds(max(start - before, 0) if before else 0)
        before = end
        if row < len(known):
            cells |= measured.get(int(known["globalTaskId"][row]), {})
        yield cells


def microseconds(time: int) -> str:
    """Nanoseconds as the text of microseconds that the profilers write."""
    sign, time = ("-", -time) if time < 0 else ("", time)
    return f"{sign}{time // 1000}.{time % 1000:03}"


def _known(known: Rows, tasks: Rows, texts: Texts, row: int, task: int) -> dict[str, Any]:
    cells: dict[str, Any] = {title: texts[int(known[name][row])] for title, name in _TEXTS.items()}
    for title, name in _NUMBERS.items():
        number = max(int(known[name][row]), int(known[_NEWER[name]][row]))
        cells[title] = number if number != ABSENT else None
    context = int(tasks["contextId"][task])
    cells["Model ID"], cells["Task ID"] = int(tasks["modelId"][task]), int(tasks["taskId"][task])
    cells["Stream ID"] = int(tasks["streamId"][task])
    cells["Context ID"] = None if context in (ABSENT, _NO_CONTEXT) else context
    return cells


def _collectives(tables: Tables, texts: Texts) -> list[dict[str, Any]]:
    table = tables.find("COMMUNICATION_OP")
    if table is None:
        return []
    rows = tables.read(table, ("opName", "startNs", "endNs", "opType"))
    older = enumeration(tables, "ENUM_API_TYPE").get(COLLECTIVE) == "hccl"
    found = []
    for name, start, end, kind in zip(*(rows[key].tolist() for key in rows.columns), strict=True):
        word = texts[name]
        shown = texts[kind] if kind != ABSENT else f"{word.partition('__')[0]}_"
        core = "HCCL" if older else "COMMUNICATION"
        cells = {"Name": word, "Type": shown, "Accelerator Core": core}
        found.append({"start": start, "end": end, "cells": cells})
    return found


def _steps(tables: Tables, starts: I64) -> I64:
    """The step that each of ``starts`` lies in, -1 without one; (n,)."""
    table = tables.find("STEP_TIME")
    if table is None:
        return np.full(len(starts), -1, np.int64)
    rows = tables.read(table, ("id", "startNs", "endNs"))
    order = np.argsort(rows["startNs"], kind="stable")
    begin, end, number = rows["startNs"][order], rows["endNs"][order], rows["id"][order]
    at = np.searchsorted(begin, starts, "right") - 1
    inside = (at >= 0) & (starts < np.append(end, 0)[at])
    return np.where(inside, np.append(number, -1)[at], -1)


def _measured(tables: Tables, texts: Texts, wanted: I64) -> dict[int, dict[str, Any]]:
    """The values of the PMU by task, in the columns and units of the CSV (times in us)."""
    table = tables.find("TASK_PMU_INFO")
    if table is None:
        return {}
    rows = tables.read(table, ("globalTaskId", "name"), ("value",))
    rows = rows.where(matched(wanted, rows["globalTaskId"]) >= 0)
    distinct, place = numbered(rows["name"])
    names, factors = [], []
    for number in distinct.tolist():
        word = texts[number]
        timed = word.endswith(_TIME)
        names.append(_PMU.get(word, f"{word}(us)" if timed else word))
        factors.append(0.001 if timed else 1.0)
    values = rows.real("value") * np.array(factors or [1.0])[place] if len(rows) else rows.real("value")
    found: dict[int, dict[str, Any]] = {}
    for task, name, value in zip(rows["globalTaskId"].tolist(), place.tolist(), values.tolist(), strict=True):
        found.setdefault(task, {})[names[name]] = round(value, 6)
    return found
