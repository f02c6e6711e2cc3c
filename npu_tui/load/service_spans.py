"""Ranges and instants of an inference service: those of ``chrome_tracing.json``, else of the table ``slice``.

The tool writes httpReq, Enqueue and Dequeue as instants, as they last no time; they are kept as slices here. ``slice``
of ``profiler.db`` has the same ranges in ns (https://gitcode.com/Ascend/msinsight, servitization).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from msgspec.structs import replace

from npu_tui.load.database_file import as_text, opened
from npu_tui.load.database_rows import Tables
from npu_tui.load.errors import InputError
from npu_tui.load.json_columns import Columns
from npu_tui.load.json_events import decode_events, place_number
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.times import INVALID
from npu_tui.trace.args import RowArgs
from npu_tui.trace.message import Message
from npu_tui.trace.model import EventFile, Trace
from npu_tui.trace.service import NONE, Service, Spans

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_INSTANTS = "iI"


def add_instants(whole: WholeColumns, file: EventFile) -> None:
    """Make slices without a length of the instants of ``file``, which is in ``whole`` already. Raises ``OSError``."""
    if not any(whole.phases[phase] for phase in _INSTANTS):
        return
    columns, found = Columns(), 0
    places = [whole.peek(f"chunk_{name}", np.int64).tolist() for name in ("offset", "length", "first")]
    with open(file.path, "rb") as stream:
        for offset, length, first in zip(*places, strict=True):
            stream.seek(offset)
            data = stream.read(length)
            if b'"I"' not in data and b'"i"' not in data:
                continue
            instants = [
                (first + at, replace(event, ph="X", dur=0.0))
                for at, event in enumerate(decode_events(b"[" + data + b"]"))
                if event.ph and event.ph in _INSTANTS
            ]
            columns.add_pairs(instants)
            found += len(instants)
    part = columns.take()
    part.columns["x_duration"] = np.zeros(found, np.int64)
    whole.add_behind(part, "instants")
    for phase in _INSTANTS:
        whole.phases["X"] += whole.phases.pop(phase, 0)


class TextArgs(RowArgs, frozen=True, eq=False):
    """Args that stand as JSON in the rows of a table."""

    texts: Sequence[str]

    def one(self, ordinal: int) -> dict[str, Any]:
        """The args of a row; none where they cannot be read."""
        try:
            args = orjson.loads(self.texts[ordinal])
        except (orjson.JSONDecodeError, IndexError):
            return {}
        return args if isinstance(args, dict) else {}


def add_slices(whole: WholeColumns, path: Path) -> tuple[TextArgs, list[Message]]:
    """Take in what the table ``slice`` of the database at ``path`` holds; what is in the way is said."""
    texts: list[str] = []
    try:
        with opened(path) as database:
            tables = Tables(database)
            slices, threads, processes = (tables.find(name) for name in ("slice", "thread", "process"))
            if slices is None:
                return TextArgs(texts), []
            threads_of: dict[Any, int] = {}
            if processes is not None:
                for pid, name in tables.cells(processes, "pid", "process_name"):
                    whole.metadata.process_name[_place(pid)] = as_text(name)
            if threads is not None:
                for track, tid, pid, name in tables.cells(threads, "track_id", "tid", "pid", "thread_name"):
                    threads_of[track] = whole.threads[_place(pid), _place(tid)]
                    whole.metadata.thread_name[_place(pid), _place(tid)] = as_text(name)
            columns: dict[str, list[int]] = {name: [] for name in ("time", "duration", "thread", "name", "category")}
            for start, length, name, track, category, args in tables.cells(
                slices, "timestamp", "duration", "name", "track_id", "cat", "args"
            ):
                columns["time"].append(start if isinstance(start, int) and 0 < start < 1 << 62 else INVALID)
                columns["duration"].append(length if isinstance(length, int) and 0 <= length < 1 << 61 else -1)
                thread = threads_of.get(track)
                columns["thread"].append(whole.threads[_place(track), 0] if thread is None else thread)
                columns["name"].append(whole.names[as_text(name)])
                columns["category"].append(whole.categories[as_text(category)])
                texts.append(as_text(args))
    except InputError as error:
        return TextArgs(texts), [error.message]
    for name, values in columns.items():
        whole.put(f"x_{name}", np.array(values, np.int64 if name in ("time", "duration") else np.int32))
    for name, kind in (("task_type", np.int32), ("stream", np.int64), ("connection", np.int64),
                       ("correlation", np.int64), ("stack", np.int32)):  # fmt: skip
        whole.put(f"x_{name}", np.full(len(texts), -1, kind))
    whole.put("x_event", whole.count + np.arange(len(texts)))
    whole.count += len(texts)
    whole.phases["X"] += len(texts)
    return TextArgs(texts), []


def _place(cell: Any) -> int:
    return place_number(as_text(cell) if isinstance(cell, bytes) else cell)


def spans_of(trace: Trace, service: Service, count: int) -> Spans:
    """The spans of ``trace``: its slices whose ordinals are below ``count``, by start."""
    slices, texts = trace.slices, {text: code for code, text in enumerate(service.texts)}
    items = np.flatnonzero(slices.event < count)
    items = items[np.argsort(slices.start[items], kind="stable")]

    def coded(names: Sequence[str], codes: npt.NDArray[Any]) -> I32:
        used, where = np.unique(codes, return_inverse=True)
        known = [texts.setdefault(names[code], len(texts)) if code >= 0 else NONE for code in used.tolist()]
        return np.array([*known, NONE], np.int32)[where.ravel()]

    layers = [trace.layers[lane.layer].name for lane in trace.lanes]
    rid = np.full(len(items), NONE, np.int32)
    if len(items):
        (column,) = trace.args.columns(slices.event[items], ["rid"])
        rids = {text: code for code, text in enumerate(service.rids)}
        names = [text if not set(text) & _SEVERAL else "" for text in column.texts]
        numbers = np.array([rids.setdefault(name, len(rids)) if name else NONE for name in names] + [NONE], np.int32)
        rid = numbers[column.text_codes]
        is_number = np.flatnonzero(column.kind == 1)
        rid[is_number] = [rids.setdefault(str(value), len(rids)) for value in column.value[is_number].tolist()]
        service.rids[:] = rids
    spans = Spans(
        name=coded(trace.names, slices.name[items]),
        start=slices.start[items] + trace.start_ns,
        end=slices.end[items] + trace.start_ns,
        process=coded(layers, slices.lane[items]),
        thread=coded([lane.name for lane in trace.lanes], slices.lane[items]),
        rid=rid,
    )
    service.texts[:] = texts
    return spans


_SEVERAL = set(",[]{}:")
"""What stands in a text that names several requests."""
