"""The tolerant reader of a text trace, in Python, and the columns of the whole trace that both readers fill.

It takes all that calls itself a trace in the Trace Event Format
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): ``json_chunks`` finds the events,
``json_events`` decodes them, ``json_columns`` makes columns of them.
"""

from __future__ import annotations

import os
import threading
from binascii import crc32
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.load.json_chunks import BOUNDARY, Chunk, ChunkReader, TooLongError, object_spans
from npu_tui.load.json_columns import PHASES, Dictionaries, EventColumns, RangeColumns
from npu_tui.load.json_events import Event, Metadata, decode_events, strict_json
from npu_tui.load.times import INVALID, TimeUnit, parse_times
from npu_tui.load.unpack import open_file, stream_at
from npu_tui.trace.arrays import F64, I32, I64
from npu_tui.trace.memory import RowRoom
from npu_tui.trace.model import UNFINISHED

Array = npt.NDArray[Any]

# The columns that hold codes, each with the dictionary they are of; -1 stands for absent.
_DICTIONARY = {
    "x_thread": "threads",
    "x_name": "names",
    "x_category": "categories",
    "x_task_type": "task_types",
    "x_stack": "stacks",
    "c_series": "series",
    "l_category": "link_categories",
    "l_thread": "threads",
}

_NOTHING = np.array([-1], np.int32)

# The phases of the link ends that slices with a ``bind_id`` stand for, by ``flow_in`` and ``flow_out``.
_FLOW_PHASES = {(True, True): "t", (False, True): "s", (True, False): "f"}

Numbered = tuple[int, Event]
"""An event with its ordinal in the file."""


class WholeColumns(Dictionaries):
    """Takes parts in file order; ``column`` gives a column of them all.

    Dictionaries are numbered by first appearance in the file, whichever reader met a value first. What stands in tables
    comes as slices and samples; each of the two may come from a thread of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.phases: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.metadata = Metadata()
        self._columns: dict[str, list[Array]] = {}
        self._tables: dict[tuple[str, str], I32] = {}
        """By reader and dictionary: code here by code there, -1 after the last one, and room for more."""
        self._marks: list[Numbered] = []
        self._flows: list[Numbered] = []
        self._lock = threading.Lock()
        self._room = RowRoom()

    def add(self, part: RangeColumns, reader: str = "", file: int = 0) -> None:
        """Take in the next part, read by ``reader`` from file number ``file``, after all that it read before.

        Raises ``MemoryError`` where there is no room for so many events.
        """
        self._room.take(part.count)
        codes: dict[str, I32] = {}
        for name, values in part.news.items():
            table, known = self._tables.get((reader, name), _NOTHING), part.known[name]
            # Codes of a part build on the dictionaries of those before it: none may be left out.
            assert table[known] == -1
            end = known + len(values)
            if end >= len(table):
                table = np.concatenate((table, np.empty(end + 1, np.int32)))
                self._tables[reader, name] = table
            table[known:end] = np.fromiter(map(self.dictionaries[name].__getitem__, values), np.int32, len(values))
            table[end] = -1
            codes[name] = table[: end + 1]
        for name, column in part.columns.items():
            self.put(name, self._adopted(name, column, codes))
        self.put("chunk_file", np.full(len(part.columns["chunk_first"]), file, np.int32))
        for ordinal, event in part.replay:
            if event.ph in PHASES:
                self._marks.append((self.count + ordinal, event))
            elif event.ph == "X":
                self._flows.append((self.count + ordinal, event))
            else:
                self.metadata.add(event)
        self.phases.update(part.phases)
        self.skipped.update(part.skipped)
        self.count += part.count

    def _adopted(self, name: str, values: Array, codes: dict[str, I32]) -> Array:
        """``values`` with the codes and ordinals of the whole trace."""
        if name in _DICTIONARY:
            in_place = values if values.flags.writeable and values.dtype == np.int32 else None
            return np.take(codes[_DICTIONARY[name]], values, out=in_place, mode="wrap")  # -1 is the last entry
        if name == "l_high" and len(values) and values.min() < 0:
            values = values.astype(np.int64)
            is_text = values < 0
            values[is_text] = -1 - codes["link_texts"][-1 - values[is_text]].astype(np.int64)
            return values
        if name in ("x_event", "l_event", "chunk_first"):
            return values.astype(np.int64) + self.count
        return values

    def close(self) -> None:
        """Make slices of begin and end marks, and links of the flows of slices, once all parts are in."""
        if self._flows:
            columns = EventColumns()
            columns.add_ends(
                [
                    (ordinal, replace(event, ph=phase, id=event.bind_id, bp="e"))
                    for ordinal, event in self._flows
                    if (phase := _FLOW_PHASES.get((event.flow_in, event.flow_out)))
                ]
            )
            self._flows = []
            self.add_behind(columns.take(), "flows")
        if not self._marks:
            return
        pairs, lane_names = paired_marks(self._marks, self.skipped, self._last_end())
        self._marks = []
        if pairs:
            columns = EventColumns()
            columns.add_pairs([(ordinal, event) for ordinal, event, _ in pairs])
            part = columns.take()
            part.columns["x_duration"] = np.array([duration for _, _, duration in pairs], np.int64)
            self.add_behind(part, "marks")
        for thread, name in lane_names.items():
            self.metadata.thread_name.setdefault(thread, name)

    def add_behind(self, part: RangeColumns, reader: str) -> None:
        """Take in rows made of events that are in already, whose ordinals are those of the file."""
        count, self.count = self.count, 0
        self.add(part, reader)
        self.count = count

    def _last_end(self) -> int:
        """When the last slice ends, ns; ``INVALID`` without any."""
        last = INVALID
        for start, duration in zip(self._columns.get("x_time", []), self._columns.get("x_duration", []), strict=True):
            timed = (start != INVALID) & (duration >= 0)
            last = max(last, int(np.max(start + duration, where=timed, initial=INVALID)))
        return last

    def put(self, name: str, values: Array) -> None:
        """Append to the column ``name``: its codes and ordinals are those of the whole trace already."""
        self._columns.setdefault(name, []).append(values)

    def thread(self, pid: int, tid: int, name: str, order: int | None = None) -> int:
        """The code of a thread, which is named once."""
        metadata = self.metadata
        metadata.thread_name.setdefault((pid, tid), name)
        metadata.thread_order.setdefault((pid, tid), tid if order is None else order)
        return self.threads[pid, tid]

    def slices(
        self,
        event: I64,
        thread: I32,
        start: I64,
        end: I64,
        name: I32,
        category: I32 | int,
        task_type: I32 | None = None,
        stream: I64 | None = None,
        connection: I64 | None = None,
        correlation: I64 | None = None,
        stack: I32 | None = None,
    ) -> None:
        """Take in slices, (n,) each; times are in ns since 1970, ``INVALID`` if missing."""
        count = len(event)
        self._count("X", count)
        columns: dict[str, npt.NDArray[Any]] = {
            "time": start,
            "duration": _durations(start, end),
            "thread": thread,
            "name": name,
            "category": np.broadcast_to(np.asarray(category, np.int32), count),
            "task_type": _or_absent(task_type, count, np.int32),
            "stream": _or_absent(stream, count, np.int64),
            "connection": _or_absent(connection, count, np.int64),
            "correlation": _or_absent(correlation, count, np.int64),
            "stack": _or_absent(stack, count, np.int32),
            "event": event,
        }
        for key, values in columns.items():
            self.put(f"x_{key}", values)

    def _count(self, phase: str, count: int) -> None:
        with self._lock:
            self.phases[phase] += count
            self.count += count

    def samples(self, pid: int, name: str, key: str, instance: str, time: I64, value: F64) -> None:
        """Take in the samples of one curve, (n,) each, without those that have no value."""
        there = ~np.isnan(value)
        time, value = time[there], value[there]
        if len(time):
            series = self.series[pid, name, key, instance]
            self.put("c_series", np.full(len(time), series, np.int32))
            self.put("c_time", time)
            self.put("c_value", value)
            self._count("C", len(time))

    def so_far(self) -> WholeColumns:
        """What was taken in until now, without link ends, to be put together before more comes."""
        early = WholeColumns()
        for name in ("count", "phases", "metadata", "dictionaries", *self.dictionaries):
            setattr(early, name, getattr(self, name))
        early._columns = {name: list(pieces) for name, pieces in self._columns.items() if not name.startswith("l_")}
        return early

    def column(self, name: str, dtype: npt.DTypeLike) -> Array:
        """All of the column ``name``, which is given away: it can be asked for once."""
        pieces = self._columns.pop(name, [])
        column = np.empty(sum(map(len, pieces)), dtype)
        at = 0
        while pieces:  # each piece is freed as soon as it is copied
            piece = pieces.pop(0)
            column[at : at + len(piece)] = piece
            at += len(piece)
        return column

    def in_order(self, name: str, dtype: npt.DTypeLike, order: I64) -> Array:
        """The column ``name`` in an ``order``, given away; one value of it that was spread without memory stays so."""
        pieces = [piece for piece in self._columns.get(name, []) if len(piece)]
        values = {int(piece[0]) for piece in pieces} if all(piece.strides == (0,) for piece in pieces) else set()
        if len(values) == 1:
            return np.broadcast_to(np.array(values.pop(), dtype), len(order))
        return np.take(self.column(name, dtype), order)

    def peek(self, name: str, dtype: npt.DTypeLike) -> Array:
        """A copy of the column ``name``, which stays."""
        return np.concatenate([np.zeros(0, dtype), *self._columns.get(name, [])])


def _durations(start: I64, end: I64) -> I64:
    """How long slices last, -1 where one of their times is ``INVALID``; (n,)."""
    if not len(start) or (start.min() != INVALID and end.min() != INVALID):
        return end - start
    timed = (start != INVALID) & (end != INVALID)
    return np.where(timed, end - np.where(timed, start, end), -1)


def _or_absent(values: npt.NDArray[np.signedinteger] | None, count: int, kind: type) -> npt.NDArray[np.signedinteger]:
    return np.broadcast_to(kind(-1), count) if values is None else values


class _OpenMarks:
    """Beginnings without an end so far, as (time, index); an end takes the last one of its process, else the last."""

    def __init__(self) -> None:
        self.left: set[int] = set()
        self._all: list[tuple[int, int]] = []
        self._of_process: dict[int, list[tuple[int, int]]] = {}

    def begin(self, pid: int, mark: tuple[int, int]) -> None:
        self.left.add(mark[1])
        self._all.append(mark)
        self._of_process.setdefault(pid, []).append(mark)

    def end(self, pid: int) -> tuple[int, int] | None:
        """The beginning that an end in process ``pid`` belongs to, if there is any."""
        for marks in (self._of_process.get(pid, []), self._all):
            while marks:
                mark = marks.pop()
                if mark[1] in self.left:  # it stands in both lists
                    self.left.remove(mark[1])
                    return mark
        return None


_MOST_OPEN = 64  # of a thread so many slices at most are drawn that never ended, the outermost ones


class MarkPairs(Struct, frozen=True):
    """Beginnings and ends that belong together, as places among the marks, in the order of their ends.

    ``begun`` are beginnings without an end, by time, with the thread or the asynchronous name they are of. ``time`` is
    that of every mark, ns.
    """

    pairs: list[tuple[int, int]]
    begun: list[tuple[int, tuple[object, ...]]]
    lone_ends: int
    time: list[int]


def mark_pairs(marks: list[Event]) -> MarkPairs:
    """Which of ``marks`` belong together.

    They are paired in the order of time, at equal times in that of the file: ``B`` and ``E`` within their thread,
    ``b`` and ``e`` (asynchronous ones) by category, id and name.
    """
    times = parse_times([event.ts for event in marks]).tolist()
    order = sorted((time, i) for i, time in enumerate(times) if time != INVALID)
    open_marks: dict[tuple[object, ...], _OpenMarks] = {}
    pairs: list[tuple[int, int]] = []
    lone_ends = 0
    for time, i in order:
        event = marks[i]
        key = (event.pid, event.tid) if event.ph in "BE" else (event.cat, str(event.id), event.name)
        if event.ph in "Bb":
            open_marks.setdefault(key, _OpenMarks()).begin(event.pid, (time, i))
        elif key in open_marks and (beginning := open_marks[key].end(event.pid)):
            pairs.append((beginning[1], i))
        else:
            lone_ends += 1
    begun = sorted((times[i], i, key) for key, left in open_marks.items() for i in left.left)
    return MarkPairs(pairs, [(i, key) for _, i, key in begun], lone_ends, times)


def paired_marks(
    marks: list[Numbered], skipped: Counter[str], last: int = INVALID
) -> tuple[list[tuple[int, Event, int]], dict[tuple[int, int], str]]:
    """One ``X`` event per beginning and end among ``marks``, and names of lanes.

    Each with the ordinal of its beginning before it and its duration, ns, after it.

    A beginning without an end lasts to the end of the trace: ``last``, the last time of all other slices, or that of
    the last mark. Asynchronous slices get a lane of their own. Other marks without a partner are counted in
    ``skipped``.
    """
    found = mark_pairs([event for _, event in marks])
    time = found.time
    slices: list[tuple[int, Event, int]] = []
    lane_names: dict[tuple[int, int], str] = {}

    def add(beginning: int, end: int, category: str | None = None) -> None:
        ordinal, first = marks[beginning]
        tid, label = first.tid, first.cat or first.name
        # Asynchronous slices overlap, which slices of a thread do not: each kind has a lane below all real numbers.
        if first.ph == "b":
            tid = -2 - crc32(f"async {label}".encode())
            lane_names[first.pid, tid] = label
        category = first.cat if category is None else category
        slices.append((ordinal, replace(first, ph="X", tid=tid, dur=0.0, cat=category), end - time[beginning]))

    for beginning, end in found.pairs:
        add(beginning, time[end])
    last = max([last, *(each for each in time if each != INVALID)])
    drawn: Counter[tuple[object, ...]] = Counter()
    for beginning, key in found.begun:
        thread = key if len(key) == 2 else key[:1]
        drawn[thread] += 1
        if drawn[thread] <= _MOST_OPEN:
            add(beginning, last, UNFINISHED)
    more = sum(max(count - _MOST_OPEN, 0) for count in drawn.values())
    skipped["skip.mark_time"] += time.count(INVALID)
    skipped["skip.lone_end"] += found.lone_ends
    skipped["skip.lone_begin"] += more
    skipped["odd.unfinished"] += len(found.begun) - more
    return sorted(slices, key=lambda pair: pair[0]), lane_names


_SEARCHED = 64 * 1024
_OVERLAP = 256  # a boundary may lie across two blocks
_FARTHEST = 16 << 20
"""A boundary is expected within this many bytes: no event is longer."""

_REPORT_BYTES = 2 << 20
_PART_BYTES = 32 << 20

Advance = Callable[[int, int], None]
"""Called with (bytes of the file read, events of the trace so far) several times a second; may raise."""


class ReadingOutcome(Struct):
    """How the reading of a file ended: the offset reached, what was wrong, where an endless element begins."""

    end: int = 0
    truncated: bool = False
    malformed: int = 0
    too_long: int | None = None


def read_tolerantly(
    path: str,
    start: int,
    whole: WholeColumns,
    file: int,
    chunk_size: int,
    advance: Advance,
    part_bytes: int = 0,
    unit: TimeUnit | None = None,
) -> ReadingOutcome:
    """Take the events of ``path`` from ``start``, where one begins, into ``whole``, ``part_bytes`` at a time.

    Their times are in ``unit``, if it is not microseconds.
    """
    columns, outcome = EventColumns(), ReadingOutcome()
    with open_file(path).stream() as stream:
        reader = ChunkReader(stream, start, partial(decode_events, unit=unit), strict_json, chunk_size)
        reported = taken = start
        try:
            for chunk in reader:
                columns.add(chunk.offset, chunk.length, chunk.events)
                if reader.offset - taken >= (part_bytes or _PART_BYTES):
                    taken = reader.offset
                    whole.add(columns.take(), f"file {file}", file)
                if reader.offset - reported >= min(part_bytes or _REPORT_BYTES, _REPORT_BYTES):
                    reported = reader.offset
                    advance(reported, whole.count + columns.count)
        except TooLongError as error:
            outcome.too_long = error.offset
    whole.add(columns.take(), f"file {file}", file)
    outcome.end, outcome.truncated, outcome.malformed = reader.offset, reader.truncated, reader.malformed
    return outcome


def boundary_from(descriptor: int, cut: int) -> int | None:
    """Where an event is likely to begin, the first one after one that ends after ``cut``; None if none is near."""
    at, overlap = cut, b""
    while at - cut < _FARTHEST:
        data = os.pread(descriptor, _SEARCHED, at)
        if not data:
            return None
        block = overlap + data
        if match := BOUNDARY.search(block):
            return at - len(overlap) + match.end(1)
        overlap = block[-_OVERLAP:]
        at += len(data)
    return None


def read_on(descriptor: int, start: int, cuts: list[int], chunk_size: int) -> RangeColumns:
    """The events from ``start``, where one begins, to the first of the boundaries after ``cuts`` that is one, or all.

    Nothing is cut off while reading: damage is handled as it is in a file that is read in one go.
    """
    columns = EventColumns()
    stops = [begin for begin in (boundary_from(descriptor, cut) for cut in cuts) if begin is not None]
    stop = too_long = None
    with stream_at(descriptor) as stream:
        reader = ChunkReader(stream, start, decode_events, strict_json, chunk_size)
        try:
            for chunk in reader:
                stop = _stop_in(descriptor, chunk, stops)
                if stop is None:
                    columns.add(chunk.offset, chunk.length, chunk.events)
                    continue
                count, length, _ = stop
                if count:
                    columns.add(chunk.offset, length, chunk.events[:count])
                break
        except TooLongError as error:
            too_long = error.offset
    part = columns.take(reader.offset if stop is None else stop[2])
    part.truncated, part.malformed, part.too_long = reader.truncated, reader.malformed, too_long
    part.last = stop is None
    return part


def _stop_in(descriptor: int, chunk: Chunk[Event], stops: list[int]) -> tuple[int, int, int] | None:
    """How many events of ``chunk``, of how many bytes, stand before one that begins at one of ``stops``, and that stop.

    The ascending ``stops`` before the end of the chunk that prove wrong are taken away.
    """
    end = chunk.offset + chunk.length
    while stops and stops[0] < end:
        stop = stops.pop(0)
        if stop >= chunk.offset:
            spans, _ = object_spans(os.pread(descriptor, chunk.length, chunk.offset))
            starts = [chunk.offset + first for first, _ in spans]
            if len(starts) == len(chunk.events) and stop in starts:
                count = starts.index(stop)
                return count, spans[count - 1][1] if count else 0, stop
    return None
