"""What ``msserviceprofiler`` wrote into a folder, read into columns once: CSV files, else tables of ``profiler.db``.

Files may be missing, of several versions, cut off or damaged: what is readable of each is read, and a line says what is
not. Spans come from ``chrome_tracing.json`` when its trace is loaded (``service_trace``).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.load.companion_schema import FileColumn, Reading, Schema, find_file, reason
from npu_tui.load.csv_table import read_table, table_of_cells, table_of_columns
from npu_tui.load.database_file import as_text, opened
from npu_tui.load.database_rows import DatabaseTables
from npu_tui.load.errors import UNWATCHED, InputError, Watcher
from npu_tui.load.format import Survey
from npu_tui.load.formats.service import DATABASES, SPANS
from npu_tui.load.json_columns import ValueCodes
from npu_tui.load.raw import raw_services
from npu_tui.load.service_spans import DECIMAL, tables_of_events
from npu_tui.native.cells import spread
from npu_tui.trace.arrays import I8, I32, I64
from npu_tui.trace.message import Message, message
from npu_tui.trace.service import (
    CHANGES,
    NONE,
    PASS_OF,
    TABLES,
    UNKNOWN,
    WHOLE_MS,
    DatedClock,
    EngineRanges,
    Kind,
    Members,
    Pass,
    Service,
    ServiceRows,
    Statuses,
    columns_of,
    minus,
    plus,
    whole_quarters,
)

if TYPE_CHECKING:
    import polars as pl


_HOUR = 3_600_000_000_000
_ASSUMED = 8 * _HOUR
"""New versions write dates of Asia/Shanghai, whatever the zone of the host is."""
_COMPARED = 1000  # rows with a date and ms, from which the zone of the dates follows
_SIDE_BY_SIDE = 2  # tables that are read at the same time: each waits for its file now and then
_UNREAD, _MOST_NAMED = ("coordinator.csv", "ep_balance.csv", "moe_analysis.csv", "span_info"), 4
"""What the tool may write beside that has no table here; how many databases of processes, or copies, are named."""
_ROWS = 10_000  # rows of a database that are looked at together: as texts a cell takes 60 bytes


def _schema(table: type[ServiceRows]) -> Schema:
    """The columns of the file of ``table``."""
    columns = []
    for name, (kind, _, *known) in columns_of(table).items():
        for headings, column, of in zip(known, (name, f"{name}_date"), (kind, "date"), strict=False):
            columns += [FileColumn(column, cast(Any, of), tuple(headings.split(" | ")))] if headings else []
    if "end" in table.__struct_fields__:
        columns.append(FileColumn("duration", "length", ("during_time(ms)", "during_time")))
    if table.FILE == "batch":
        columns.append(FileColumn("members", "requests", ("res_list",)))
    if table is Statuses:
        columns += [FileColumn(f"{name}_change", "whole", (f"+{name}",)) for name in CHANGES]
        columns += [FileColumn(name, "whole", (heading,)) for name, heading in (SIZES | _LEFT).items()]
    events = not {"rid", "end"}.isdisjoint(table.__struct_fields__)
    return Schema(table.FILE, tuple(columns), (), only=True, events=events)


SIZES = {"prompt_tokens": "=recvTokenSize", "output_tokens": "=replyTokenSize"}
"""Columns of requests that early versions wrote as marks beside the states: a mark is of the event at its time."""
# Another such mark: the blocks of the KV cache that are left after an event of it.
_LEFT = {"free_blocks": "=deviceKvCache"}
SCHEMAS = {name: _schema(table) for name, table in TABLES.items()}
"""The file of every table."""


def read_service(folder: Path, watcher: Watcher = UNWATCHED, survey: Survey | None = None) -> Service:
    """What lies in ``folder``, as far as it can be read.

    Raises ``Cancelled`` if the watcher says to stop, ``OSError`` if the folder cannot be read.
    """
    reading = _ServiceReading(folder, watcher, survey or Survey())
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as readers:
        read = dict(zip(TABLES, readers.map(reading.table, SCHEMAS.values()), strict=True))
    for _, odd in read.values():
        reading.odd += (said for said in odd if said not in reading.odd)  # of a database once
    tables_read = {name: table for name, (table, _) in read.items()}
    missing = [name for name in ("requests", "batches") if not len(tables_read[name].frame)]
    marks = tables_read["statuses"]
    tables_read |= reading.of_events(missing, marks.frame.select("time", *SIZES))
    left = marks.frame.select("time", *_LEFT).drop_nulls()
    if len(left) and not len(tables_read["kv_blocks"].frame):
        tables_read["kv_blocks"] = table_of_columns(SCHEMAS["kv_blocks"], marks.name, left.to_dict())
    frames = {name: table.frame for name, table in tables_read.items()}
    clock = _date_clock(list(frames.values()))
    codes = _Codes(ValueCodes(), ValueCodes(), clock.shift, {})
    tables = {name: codes.filled(table, frames[name]) for name, table in TABLES.items()}
    rows: dict[str, Any] = {name: rows for name, (rows, _) in tables.items()}
    counts, requests, order = frames["batches"]["members"], tables_read["batches"].requests, tables["batches"][1]
    service = Service(
        path=str(folder), files=reading.files, clock=clock, rids=codes.rids.values_in_order,
        texts=codes.texts.values_in_order, odd=reading.odd, read_spans=_no_spans,
        read_members=lambda: _batch_members(counts, requests, order, codes.rids, service),
        **rows,
    )  # fmt: skip
    for (table, column), count in codes.impossible.items():
        service.odd.append(message("odd.service_impossible", name=table, column=column, count=count))
    service.odd += _several_runs_note({tables_read[name].name: rows[name] for name in TABLES})
    named = service.requests.rid[service.requests.rid != NONE]
    twice, nameless = len(named) - len(np.unique(named)), 0 if requests is None else requests["rid"].null_count()
    if twice:
        service.odd.append(message("odd.service_twice", name=tables_read["requests"].name, count=twice))
    if nameless:
        service.odd.append(message("odd.service_nameless", name=tables_read["batches"].name, count=nameless))
    return service


def _several_runs_note(tables: dict[str, ServiceRows]) -> list[Message]:
    """The warning where all that some files hold is long after all that the others hold."""
    times = {name: getattr(rows, rows.BY) for name, rows in tables.items()}
    known = {name: values[values != UNKNOWN] for name, values in times.items()}
    spans = sorted((int(moments[0]), int(moments[-1]), name) for name, moments in known.items() if len(moments))
    for at in range(1, len(spans)):
        if spans[at][0] - max(end for _, end, _ in spans[:at]) > _HOUR:
            early, late = ([name for *_, name in part] for part in (spans[:at], spans[at:]))
            return [message("odd.service_runs", names=late, others=early)]
    return []


def _no_spans() -> EngineRanges:
    return EngineRanges(*[np.zeros(0, np.int64)] * len(EngineRanges.__struct_fields__))  # type: ignore[arg-type]


class _ServiceReading:
    """The tables of ``folder``, each from where most of it can be read."""

    def __init__(self, folder: Path, watcher: Watcher, survey: Survey) -> None:
        self._folder, self._survey = folder, survey
        self._watcher = watcher
        self.odd: list[Message] = []
        stems = tuple(table.FILE for table in TABLES.values())
        names = [*(find_file(folder, stem, survey=survey).name for stem in stems), *DATABASES, SPANS]
        self.files = {name: (folder / name).stat().st_size for name in names if (folder / name).is_file()}
        self._databases = [folder / name for name in DATABASES if name in self.files]
        tables = (name for name in survey.names(folder) if re.search(r"\.csv\b", name.lower()))
        others = {name for name in tables if name.lower().startswith(stems)}.difference(names)
        unread = [name for name in _UNREAD if (folder / name).exists()]
        if unread := [*unread, *sorted(others)[:_MOST_NAMED], *raw_services(folder, survey)[:_MOST_NAMED]]:
            self.odd.append(message("odd.service_unread", names=unread))
        self._total, self._done = sum(self.files.values()), 0

    def table(self, schema: Schema) -> tuple[Reading, list[Message]]:
        """The rows of ``schema``, null for what is not there, and what is to be said of them."""
        reading, odd = read_table(self._folder, schema, self._survey), list[Message]()
        self._done += self.files.get(reading.name, 0)
        self._watcher.report(self._done, self._total)
        for path in self._databases:
            try:
                other = _table_in(path, schema, len(reading.frame) if reading.state == "read" else -1)
            except InputError as error:
                odd.append(error.message)
                continue
            if other is not None and len(other.frame) > len(reading.frame):
                if reading.state not in ("missing", "empty"):
                    odd += [*reading.messages, message("odd.service_twin", name=reading.name, twin=other.name)]
                reading = other
        if reading.state in ("empty", "read") and not len(reading.frame):
            odd.append(message("companion.empty", name=reading.name))
        elif reading.state != "missing":
            odd += reading.messages
        return reading, odd

    def of_events(self, missing: list[str], marks: pl.DataFrame) -> dict[str, Reading]:
        """The tables ``missing`` as far as the file of events has them, with the sizes in ``marks``."""
        if not missing or SPANS not in self.files:
            return {}
        try:
            tables = tables_of_events(self._folder / SPANS, marks)
        except OSError as error:
            self.odd.append(message("companion.unreadable", name=SPANS, why=reason(error)))
            return {}
        return {name: table_of_columns(SCHEMAS[name], SPANS, tables[name]) for name in missing}


def _table_in(path: Path, schema: Schema, known: int) -> Reading | None:
    """The table of ``schema`` in the database at ``path``; None without one, or if it has no more rows than ``known``.

    Raises ``InputError``.
    """
    with opened(path) as database:
        tables = DatabaseTables(database)
        table = tables.find(schema.stem)
        if table is None or tables.last(table.name) <= known:
            return None
        header = list(table.columns.values())
        name = f"{path.name}: {schema.stem}"
        reading = table_of_cells(schema, name, header, _column_chunks(tables.cells(table, *header)))
        return replace(reading, state="cut_off") if tables.damaged and reading.state == "read" else reading


def _column_chunks(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[list[str | None]]]:
    """The columns of some ``rows`` at a time, as texts."""
    while piece := list(itertools.islice(rows, _ROWS)):
        yield [[None if cell is None else as_text(cell) for cell in column] for column in zip(*piece, strict=True)]


def _date_clock(frames: list[pl.DataFrame]) -> DatedClock:
    """How dates become UTC."""
    dated = False
    for frame in frames:
        for name in (column for column in frame.columns if column.endswith("_date")):
            plain = name.removesuffix("_date")
            if plain in frame.columns:
                both = frame.lazy().select(plain, name).drop_nulls().head(_COMPARED).collect()
                ahead = (both[name] - both[plain]).to_numpy()
                if len(ahead := ahead[np.abs(ahead) < 24 * _HOUR]):
                    return DatedClock(whole_quarters(int(np.median(ahead))))
            dated = dated or frame[name].null_count() < len(frame)
    return DatedClock(_ASSUMED, "assumed") if dated else DatedClock()


class _Codes(Struct):
    """Texts as codes of all tables, and dates as ns since 1970: ``shift`` is taken off."""

    rids: ValueCodes[str]
    texts: ValueCodes[str]
    shift: int
    impossible: dict[tuple[str, str], int]
    """Values that cannot be, such as an end before its start, by file and column: they are unknown."""

    def filled(self, table: type[ServiceRows], frame: pl.DataFrame) -> tuple[ServiceRows, I64]:
        """The rows of ``frame`` as those of ``table``, by time, and where in the frame each stands."""
        columns = dict[str, Any]()
        for name, (kind, form, *_) in columns_of(table).items():
            if kind == "moment":
                columns[name] = values = self._moments(frame, name)
                self.leave_out(values, (values < 0) & (values != UNKNOWN), (table.FILE, name))
            elif kind in ("text", "label"):
                columns[name] = _coded(frame[name], self.rids if kind == "text" else self.texts)
            elif kind:
                columns[name] = values = _column_numbers(frame[name])
                if kind == "real":  # real numbers are shares
                    self.leave_out(values, (values < 0) | (values > 1), (table.FILE, name))
                elif form != "id" and name not in _MAY_BE_NEGATIVE:
                    self.leave_out(values, (values < 0) & (values != UNKNOWN), (table.FILE, name))
                if name in _ZERO_IS_UNKNOWN:
                    _erase(values, values == 0)
        if "end" in columns:
            reversed_ = (columns["end"] < columns["start"]) & (columns["end"] != UNKNOWN)
            self.leave_out(columns["end"], reversed_, (table.FILE, "end"))
            lasting = _column_numbers(frame["duration"])
            self.leave_out(lasting, (lasting < 0) & (lasting != UNKNOWN), (table.FILE, "duration"))
            columns["end"] = np.where(columns["end"] == UNKNOWN, plus(columns["start"], lasting), columns["end"])
            columns["start"] = np.where(columns["start"] == UNKNOWN, minus(columns["end"], lasting), columns["start"])
        if "passes" in table.__struct_fields__:
            passes = [PASS_OF.get(text.lower(), Pass.other) for text in self.texts]
            columns["passes"] = np.array([*passes, NONE], np.int8)[columns["name"]]
        if "kind" in table.__struct_fields__:
            columns["kind"] = self._kinds(columns)
        _leave_out_filled(columns)
        order = np.arange(len(frame))
        times = columns[table.BY]
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            columns = {name: column[order] if column.strides[0] else column for name, column in columns.items()}
        for name in CHANGES if table is Statuses else ():
            changes = _column_numbers(frame[f"{name}_change"])[order]
            if (there := changes != UNKNOWN).any():
                states = np.cumsum(np.where(there, changes, 0))
                columns[name] = states - min(int(states.min()), 0)  # some were there when the recording began
        return table(**columns), order

    def leave_out(self, values: npt.NDArray[Any], impossible: npt.NDArray[np.bool_], place: tuple[str, str]) -> None:
        """Make ``impossible`` values unknown, and count them: ``place`` is the table and the column."""
        _erase(values, impossible)
        if count := int(np.count_nonzero(impossible)):
            self.impossible[place] = self.impossible.get(place, 0) + count

    def _moments(self, frame: pl.DataFrame, name: str) -> I64:
        """Moments from ms since 1970, from dates where these are finer or the only ones."""
        moments = _column_numbers(frame[name]) if name in frame.columns else np.full(len(frame), UNKNOWN)
        if frame[f"{name}_date"].null_count() == len(frame):
            return moments
        dates = _column_numbers(frame[f"{name}_date"])
        dates = np.where(dates == UNKNOWN, UNKNOWN, dates - self.shift)
        finer = (moments % WHOLE_MS == 0) & (dates // WHOLE_MS == moments // WHOLE_MS)
        return np.where((dates != UNKNOWN) & ((moments < 0) | finer), dates, moments)

    def _kinds(self, columns: dict[str, Any]) -> I8:
        """What batches compute, by their type, without one by how many requests are in which phase."""
        by_type: I8 = np.array([*map(_batch_kind, self.texts), NONE], np.int8)[columns["type"]]
        if "prefill_size" not in columns:
            return by_type
        prefill, decode = columns["prefill_size"] > 0, columns["decode_size"] > 0
        by_size = np.select([prefill & decode, prefill, decode], [Kind.mixed, Kind.prefill, Kind.decode], NONE)
        return np.where(by_type == NONE, by_size.astype(np.int8), by_type)


def _leave_out_filled(columns: dict[str, Any]) -> None:
    """Make unknown what the tool fills with 0: blocks where there are none in all, parts of a batch that has none."""
    if "total_blocks" in columns:
        none = columns["total_blocks"] == 0
        for name in _BLOCKS:
            _erase(columns[name], none)
    if "decode_tokens" in columns:
        for names in (("tokens",), ("prefill_size", "decode_size"), ("prefill_tokens", "decode_tokens")):
            filled = (columns["size"] > 0) & np.logical_and.reduce([columns[name] == 0 for name in names])
            for name in names:
                _erase(columns[name], filled)
    if "output_tokens" in columns:
        for name in ("output_tokens", "execution"):  # there was a first token
            _erase(columns[name], (columns[name] == 0) & (columns["first_token"] != UNKNOWN))


def _erase(values: npt.NDArray[Any], where: npt.NDArray[np.bool_]) -> None:
    """Make ``values`` unknown ``where``; a column of which nothing is known has one value for all rows already."""
    if values.flags.writeable:
        values[where] = np.nan if values.dtype.kind == "f" else UNKNOWN


_BLOCKS = "total_blocks", "used_blocks", "free_blocks", "allocated_blocks", "freed_blocks", "usage"
_ZERO_IS_UNKNOWN = frozenset({"queue", "first_token", "prompt_tokens"})
"""What the tool writes as 0 where it has none."""
_MAY_BE_NEGATIVE = frozenset({"bubble"})


def _batch_kind(type_: str) -> Kind:
    """What a batch of ``type_`` computes."""
    words = set(re.findall(r"[a-z]+|\d+", type_.lower()))
    prefill, decode = bool(words & {"prefill", "extend", "0"}), bool(words & {"decode", "1"})
    if "mixed" in words or (prefill and decode):
        return Kind.mixed
    return Kind.prefill if prefill else Kind.decode if decode else Kind.dummy if "dummy" in words else Kind.other


def _column_numbers(values: pl.Series) -> npt.NDArray[Any]:
    """The numbers of a column, unknown where they are null; where all are, one value that must not be written to."""
    if values.null_count() == len(values):
        return np.broadcast_to(np.nan if values.dtype.is_float() else np.int64(UNKNOWN), len(values))
    if values.dtype.is_float():
        return values.fill_null(float("nan")).to_numpy(writable=True)
    return values.fill_null(UNKNOWN).to_numpy(writable=True)


_DECIMAL = re.compile(DECIMAL)


def _coded(values: pl.Series, codes: ValueCodes[str]) -> I32:
    """The codes of texts, those that are new included."""
    import polars as pl

    values = values.cast(pl.Categorical)
    distinct, numbers = values.unique(maintain_order=True).drop_nulls(), values.to_physical()
    table = np.full(int(numbers.max() or 0) + 2, NONE, np.int32)  # type: ignore[arg-type]
    table[distinct.to_physical()] = codes.of([_DECIMAL.sub(r"\1", text) for text in distinct.cast(pl.String).to_list()])
    coded: I32 = table[numbers.fill_null(len(table) - 1).to_numpy()]
    return coded


def _batch_members(
    counts: pl.Series, requests: pl.DataFrame | None, order: I64, codes: ValueCodes[str], service: Service
) -> Members:
    """The ``requests`` of the batches in ``order``; each row has ``counts`` of them."""
    if requests is None:
        nothing, nobody = np.zeros(0, np.int64), np.zeros(0, np.int32)
        return Members(np.zeros(len(order) + 1, np.int64), nobody, nobody, nothing, nothing, nothing)
    count = counts.fill_null(0).to_numpy()
    place: Any = slice(None)
    if (order[1:] < order[:-1]).any():
        place = spread((np.cumsum(count) - count)[order], count[order])
        count = count[order]
    rid = _coded(requests["rid"], codes)[place]
    service.rids[:] = codes.values_in_order
    numbers = (_column_numbers(requests[name].cast(int))[place] for name in requests.columns[1:])
    offset = np.append(0, np.cumsum(count))
    return Members(offset, np.repeat(np.arange(len(order), dtype=np.int32), count), rid, *numbers)
