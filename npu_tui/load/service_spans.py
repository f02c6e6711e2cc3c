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
from npu_tui.load.json_chunks import ChunkReader, array_start
from npu_tui.load.json_columns import Columns
from npu_tui.load.json_events import Event, decode_args, decode_events, named, place_number, strict_json
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.times import INVALID, parse_time
from npu_tui.trace.args import RowArgs
from npu_tui.trace.message import Message
from npu_tui.trace.model import EventFile, Trace
from npu_tui.trace.service import DRAFTS, EXECUTIONS, NONE, SCHEDULES, Service, Spans

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


def cells_of_events(path: Path) -> dict[str, tuple[list[str], list[list[str | None]]]]:
    """The tables ``request`` and ``batch`` from the events of ``path`` alone: headings and columns of cells, by table.

    As the exporter does: a request begins with its first httpReq and ends with its last httpRes, DecodeEnd,
    sendResponse or outputSync; it waits from its first Enqueue to the end of its last Dequeue; its first token is there
    when it is first detokenized or sent. Raises ``OSError``.
    """
    requests: dict[str, dict[str, Any]] = {}
    batches: list[list[str | None]] = []
    with open(path, "rb") as stream:
        start = array_start(stream.read(_HEAD))
        for chunk in ChunkReader(stream, start or 0, decode_events, strict_json) if start is not None else ():
            for event in chunk.events:
                word, begin = event.name.lower(), parse_time(event.ts)
                if event.ph not in ("X", "I", "i") or begin == INVALID or word not in _MARKS | _PASSES:
                    continue
                end = begin + round(event.dur * 1000 if event.dur > 0 else 0)
                args = _args(event)
                rid = _cell(args, "rid")
                if word in _PASSES:
                    process = named(event.pid) or str(event.pid)
                    batches.append([
                        event.name, _cell(args, "res_list", "rid"), _ms(begin), _ms(end), process,
                        _cell(args, "batch_type"), _cell(args, "batch_size"),
                    ])  # fmt: skip
                elif rid and not set(rid) & _SEVERAL:
                    _note(requests.setdefault(rid, {}), word, begin, end, args)
    rows = [
        [rid, _ms(known.get("start")), _apart(known, "last", "start"), _apart(known, "dequeued", "enqueued"),
         _apart(known, "token", "start"), known.get("prompt"), known.get("answer")]
        for rid, known in requests.items()
    ]  # fmt: skip
    return {
        "request": (_REQUEST, [[row[at] for row in rows] for at in range(len(_REQUEST))]),
        "batch": (_BATCH, [[row[at] for row in batches] for at in range(len(_BATCH))]),
    }


_HEAD = 1 << 16
_REQUEST = ["rid", "start_time(ms)", "execution_time(ms)", "queue_wait_time(ms)", "first_token_latency(ms)",
            "recv_token_size", "reply_token_size"]  # fmt: skip
_BATCH = ["name", "res_list", "start_time(ms)", "end_time(ms)", "prof_id", "batch_type", "batch_size"]
_ENDS = frozenset({"httpres", "decodeend", "sendresponse", "outputsync"})
_TOKENS = frozenset({"detokenize", "sendresponse"})
_MARKS = _ENDS | _TOKENS | {"httpreq", "enqueue", "dequeue"}
_PASSES = SCHEDULES | EXECUTIONS | DRAFTS


def _args(event: Event) -> dict[str, Any]:
    """The args of an event, none where they cannot be read."""
    try:
        args = decode_args(bytes(event.args)) if event.args else {}
    except ValueError:
        return {}
    return args if isinstance(args, dict) else {}


def _note(known: dict[str, Any], word: str, begin: int, end: int, args: dict[str, Any]) -> None:
    """Take in what an event says of its request, whose times so far are ``known``."""
    if word == "httpreq":
        known["start"] = min(begin, known.get("start", begin))
        known["prompt"] = known.get("prompt") or _cell(args, "recvTokenSize=", "recvTokenSize")
    elif word == "enqueue":
        known["enqueued"] = min(begin, known.get("enqueued", begin))
    elif word == "dequeue":
        known["dequeued"] = max(end, known.get("dequeued", end))
    if word in _ENDS:
        known["last"] = max(end, known.get("last", end))
        known["answer"] = known.get("answer") or _cell(args, "replyTokenSize=", "replyTokenSize")
    if word in _TOKENS:
        known["token"] = min(end, known.get("token", end))


def _cell(args: dict[str, Any], *names: str) -> str | None:
    """The first of the args ``names`` that there is, as a text."""
    return next((str(args[name]) for name in names if args.get(name) is not None), None)


def _ms(time: int | None) -> str | None:
    """Nanoseconds as milliseconds, exactly."""
    return None if time is None else f"{time // 10**6}.{time % 10**6:06d}"


def _apart(known: dict[str, Any], later: str, earlier: str) -> str | None:
    """The time between two events of a request, in ms."""
    return _ms(known[later] - known[earlier]) if later in known and earlier in known else None
