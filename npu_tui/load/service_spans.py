"""Ranges and instants of an inference service: those of ``chrome_tracing.json``, else of the table ``slice``.

The tool writes httpReq, Enqueue and Dequeue as instants, as they last no time; they are kept as slices here. ``slice``
of ``profiler.db`` has the same ranges in ns (https://gitcode.com/Ascend/msinsight, servitization).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson
from msgspec.structs import replace

from npu_tui.load.database_file import as_text, opened
from npu_tui.load.database_rows import DatabaseTables
from npu_tui.load.errors import InputError
from npu_tui.load.json_chunks import ChunkReader, array_start
from npu_tui.load.json_columns import EventColumns
from npu_tui.load.json_events import Event, decode_args, decode_events, name_after_number, place_number, strict_json
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.times import INVALID, parse_time
from npu_tui.load.unpack import open_file
from npu_tui.trace.args import ArgReader
from npu_tui.trace.arrays import I32
from npu_tui.trace.message import Message
from npu_tui.trace.model import EventFile, Trace
from npu_tui.trace.service import ENQUEUES, NONE, PASS_OF, EngineRanges, Service

if TYPE_CHECKING:
    import polars as pl

_INSTANTS = "iI"


def add_instants(whole: WholeColumns, file: EventFile) -> None:
    """Make slices without a length of the instants of ``file``, which is in ``whole`` already. Raises ``OSError``."""
    if not any(whole.phases[phase] for phase in _INSTANTS):
        return
    columns, found = EventColumns(), 0
    places = [whole.peek(f"chunk_{name}", np.int64).tolist() for name in ("offset", "length", "first")]
    with open_file(file.path).stream() as stream:
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


class TextArgs(ArgReader, frozen=True, eq=False):
    """Args that stand as JSON in the rows of a table."""

    texts: Sequence[str]

    def one(self, ordinal: int) -> dict[str, Any]:
        """The args of a row; none where they cannot be read."""
        return _object(self.texts[ordinal]) if ordinal < len(self.texts) else {}


def add_slices(whole: WholeColumns, path: Path) -> tuple[TextArgs, list[Message]]:
    """Take in the tables ``slice`` and ``counter`` of the database at ``path``; what is in the way is said."""
    rows: list[tuple[int, int, int, int, int]] = []
    texts: list[str] = []
    odd: list[Message] = []
    try:
        with opened(path) as database:
            tables = DatabaseTables(database)
            slices, threads, processes = (tables.find(name) for name in ("slice", "thread", "process"))
            for pid, name in tables.cells(processes, "pid", "process_name"):
                whole.metadata.process_name[_cell_number(pid)] = as_text(name)
            threads_of: dict[Any, int] = {}
            for track, tid, pid, name in tables.cells(threads, "track_id", "tid", "pid", "thread_name"):
                threads_of[track] = whole.thread(_cell_number(pid), _cell_number(tid), as_text(name))
            cells = "timestamp", "duration", "name", "track_id", "cat", "args"
            for start, length, name, track, category, args in tables.cells(slices, *cells):
                # Below 2**62, so that the end of a slice fits into 64 bits, too.
                timed = isinstance(start, int) and isinstance(length, int) and 0 < start < 1 << 62 > 2 * length >= 0
                thread = threads_of[track] if track in threads_of else whole.threads[_cell_number(track), 0]
                times = (start, start + length) if timed else (INVALID, INVALID)
                rows.append((*times, thread, whole.names[as_text(name)], whole.categories[as_text(category)]))
                texts.append(as_text(args))
            _add_counters(whole, tables)
    except InputError as error:
        odd.append(error.message)
    start, end, thread, name, category = np.array(rows, np.int64).reshape(-1, 5).T
    codes = (column.astype(np.int32) for column in (name, category))
    whole.slices(whole.count + np.arange(len(rows)), thread.astype(np.int32), start, end, *codes)
    return TextArgs(texts), odd


def _add_counters(whole: WholeColumns, tables: DatabaseTables) -> None:
    """Take in the samples of the table ``counter``, a curve for each number in its args."""
    curves = dict[tuple[int, str, str], list[tuple[int, float]]]()
    for name, pid, time, args in tables.cells(tables.find("counter"), "name", "pid", "timestamp", "args"):
        if not isinstance(time, int) or not 0 < time < 1 << 62:
            continue
        for key, value in _object(as_text(args)).items():
            if isinstance(value, int | float):
                curves.setdefault((_cell_number(pid), as_text(name), key), []).append((time, float(value)))
    for (pid, name, key), samples in curves.items():
        times, values = zip(*samples, strict=True)
        whole.samples(pid, name, key, "", np.array(times), np.array(values))


def _object(text: str) -> dict[str, Any]:
    """The JSON object in ``text``; an empty one if there is none."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _cell_number(cell: Any) -> int:
    return place_number(as_text(cell) if isinstance(cell, bytes) else cell)


def spans_of(trace: Trace, service: Service, count: int) -> EngineRanges:
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
        # A span of several requests names them in one text: it belongs to none of them alone.
        names = [text if not set(text) & _SEVERAL else "" for text in column.texts]
        numbers = np.array([rids.setdefault(name, len(rids)) if name else NONE for name in names] + [NONE], np.int32)
        rid = numbers[column.text_codes]
        is_number = np.flatnonzero(column.kind == 1)
        rid[is_number] = [rids.setdefault(str(value), len(rids)) for value in column.value[is_number].tolist()]
        service.rids[:] = rids
    spans = EngineRanges(
        name=coded(trace.names, slices.name[items]),
        start=slices.start[items] + trace.start_ns,
        end=slices.end[items] + trace.start_ns,
        process=coded(layers, slices.lane[items]),
        thread=coded([lane.name for lane in trace.lanes], slices.lane[items]),
        rid=rid,
        event=slices.event[items],
    )
    service.texts[:] = texts
    return spans


DECIMAL = r"^(\d+)\.0$"
"""The number of a request where some rows of its column have none: the writer makes decimals of all."""
_SEVERAL = set(",[]{}:")  # what stands in a text that names several requests


def tables_of_events(path: Path, marks: pl.DataFrame) -> dict[str, dict[str, pl.Series]]:
    """The columns of the tables ``requests`` and ``batches`` from the events of ``path`` alone, by table.

    ``marks`` have sizes of requests at a ``time``: they are of the event that begins then.

    As the exporter does: a request begins with its first httpReq and ends with its last httpRes, DecodeEnd,
    sendResponse or outputSync; it waits from its first Enqueue to the end of its last Dequeue; its first token is there
    when it is first detokenized or sent. Early versions have a second queue for those who run: they wait until they
    leave the first one. Raises ``OSError``.
    """
    import polars as pl  # most services have tables

    rows = []
    marked = marks.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in marks.columns[1:])).sort("time")
    with open_file(path).stream() as stream:
        first = array_start(stream.read(_HEAD))
        for chunk in ChunkReader(stream, first or 0, decode_events, strict_json) if first is not None else ():
            for event in chunk.events:
                word, begin = event.name.lower(), parse_time(event.ts)
                known = word in _MARKS or word in PASS_OF
                sized = event.args and (len(marked) or _SIZE in bytes(event.args))
                if event.ph in ("X", *_INSTANTS) and begin != INVALID and (known or sized):
                    end = begin + round(min(event.dur, _LONGEST_US) * 1000 if event.dur > 0 else 0)
                    args = _args(event)
                    rows.append((event.name, word, begin, end, name_after_number(event.pid) or str(event.pid),
                                 *(next((str(args[key]) for key in keys if args.get(key) is not None), None)
                                   for keys in _ARGS.values())))  # fmt: skip
    whole = dict.fromkeys(("start", "end"), pl.Int64)
    columns = {name: whole.get(name, pl.String) for name in ("name", "word", "start", "end", "process", *_ARGS)}
    events = pl.DataFrame(rows, columns, orient="row")
    events = events.with_columns(pl.col("rid").str.replace(DECIMAL, "$1"))
    what, begin_of, end_of = pl.col("word"), pl.col("start"), pl.col("end")
    single = events.filter(~what.is_in([*PASS_OF]) & (pl.col("rid") != "") & ~pl.col("rid").str.contains(r"[,\[\]{}:]"))
    single = single.sort("start", maintain_order=True).join_asof(
        marked, left_on="start", right_on="time", strategy="nearest", tolerance=_SAME_NS
    )
    begun = begin_of.filter(what == "httpreq").min()
    requests = single.group_by("rid", maintain_order=True).agg(
        start=begun,
        execution=end_of.filter(what.is_in(_ENDS)).max() - begun,
        queue=pl.coalesce(end_of.filter(what == "dequeue").max(), end_of.filter(what == "reqdequeue").min())
        - begin_of.filter(what.is_in(ENQUEUES)).min(),
        first_token=end_of.filter(what.is_in(_TOKENS)).min() - begun,
        prompt_tokens=pl.coalesce("prompt_tokens", "prompt_tokens_right").drop_nulls().first(),
        output_tokens=pl.coalesce("output_tokens", "output_tokens_right").drop_nulls().first(),
    )
    batches = events.filter(what.is_in([*PASS_OF])).with_columns(members=pl.coalesce("members", "rid"))
    return {
        "requests": _typed(requests, "prompt_tokens", "output_tokens"),
        "batches": _typed(batches.select("name", "members", "start", "end", "process", "type", "size"), "size"),
    }


def _typed(frame: pl.DataFrame, *whole: str) -> dict[str, pl.Series]:
    """The columns of ``frame``, those that are ``whole`` as numbers."""
    numbers = {name: frame[name].cast(float, strict=False).cast(int, strict=False) for name in whole}
    return {name: numbers.get(name, frame[name]) for name in frame.columns}


_HEAD, _LONGEST_US = 1 << 16, 1e12  # eleven days: a longer range has a damaged length
_SIZE = b"TokenSize"
_SAME_NS = 500
"""A moment of an event and of its mark, µs of the same number: one is read as a float, good for a quarter of one."""
_ENDS = ("httpres", "decodeend", "sendresponse", "outputsync")
_TOKENS = ("detokenize", "sendresponse")
_MARKS = frozenset({*_ENDS, *_TOKENS, "httpreq", *ENQUEUES, "dequeue", "reqdequeue"})
_ARGS = {
    "rid": ("rid",), "members": ("res_list",), "type": ("batch_type", "batchType"),
    "size": ("batch_size", "batchSize"),
    "prompt_tokens": ("recvTokenSize=", "recvTokenSize"), "output_tokens": ("replyTokenSize=", "replyTokenSize"),
}  # fmt: skip
"""What each column is called in the args of an event."""


def _args(event: Event) -> dict[str, Any]:
    """The args of an event, none where they cannot be read."""
    try:
        args = decode_args(bytes(event.args)) if event.args else {}
    except ValueError:
        return {}
    return args if isinstance(args, dict) else {}
