"""The tolerant reader of a text trace: chunks to events to columns, in Python."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable
from itertools import compress
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.load.json_chunks import BOUNDARY, Chunk, ChunkReader, TooLongError, object_spans
from npu_tui.load.json_columns import (
    PHASES,
    SOURCE,
    STEP,
    TARGET,
    BeginEndEvents,
    Codes,
    CounterEvents,
    JointCodes,
    LinkEnds,
    SeriesKey,
)
from npu_tui.load.json_events import NO_DURATION, Event, Metadata, decode_events, decode_slice_args, strict_json
from npu_tui.load.times import Times, nanoseconds
from npu_tui.trace.model import Chunks

Array = npt.NDArray[Any]

DICTIONARY = {
    "x_thread": "threads",
    "x_name": "names",
    "x_category": "categories",
    "x_task_type": "task_types",
    "x_stack": "stacks",
    "c_series": "series",
    "l_category": "link_categories",
    "l_thread": "threads",
}
"""The columns that hold codes, each with the dictionary they are of; -1 stands for absent."""


class RangeColumns(Struct):
    """The columns of one range, by name, and what else is to be taken over in file order.

    Codes are those of the reader of the range: it knew ``known`` values of each dictionary before, ``news`` are those
    that came with the range. ``x_event``, ``l_event`` and ``chunk_first`` count from the range's first event.
    ``replay`` are the numbered events that concern the whole trace: metadata and the marks that pair up across ranges.

    ``start`` and ``end`` are file offsets: where it begins and what was reached. ``truncated`` says that the file ends
    without the array's end, ``too_long`` where an element begins that is longer than any event, ``last`` that nothing
    after is to be read.
    """

    count: int
    phases: dict[str, int]
    skipped: dict[str, int]
    known: dict[str, int]
    news: dict[str, list[Any]]
    replay: list[tuple[int, Event]]
    columns: dict[str, Array]
    start: int = 0
    end: int = 0
    truncated: bool = False
    malformed: int = 0
    too_long: int | None = None
    last: bool = False


_LINK_PHASES = {"s": SOURCE, "t": STEP, "f": TARGET}
_COMMON = ("X", "C", *_LINK_PHASES)


def _those(phases: str) -> bytes:
    """A table that makes 1 of the bytes that are one of ``phases`` and 0 of all others."""
    return bytes(chr(byte) in phases for byte in range(256))


_SLICES, _SAMPLES, _LINK_ENDS = _those("X"), _those("C"), _those("".join(_LINK_PHASES))
_LINK_PHASE = np.zeros(256, np.int8)
for _phase, _code in _LINK_PHASES.items():
    _LINK_PHASE[ord(_phase)] = _code


class Columns:
    """The events of a range so far. ``x_*`` belong to slices, ``c_*`` to counter samples, ``l_*`` to link ends."""

    def __init__(self) -> None:
        self.threads: Codes[tuple[int, int]] = Codes()
        self.names: Codes[str] = Codes()
        self.categories: Codes[str] = Codes()
        self.task_types: Codes[str] = Codes("")
        self.stacks: Codes[str] = Codes("")
        self.series: Codes[SeriesKey] = Codes()
        self.link_categories: Codes[str] = Codes()
        self.link_texts: Codes[str] = Codes()
        self.count = 0
        self._skipped: Counter[str] = Counter()
        self._kinds = JointCodes(self.threads, self.categories, self.task_types, self.stacks)
        self._samples = CounterEvents(self.series, self._skipped)
        self._ends = LinkEnds(self.threads, self.link_categories, self.link_texts, self._skipped)
        self._x_time, self._c_time = Times(), Times()
        self._begin()

    @property
    def dictionaries(self) -> dict[str, Codes[Any]]:
        """The dictionaries by name: a column of codes names the one it uses in ``parts.DICTIONARY``."""
        return {
            "threads": self.threads,
            "names": self.names,
            "categories": self.categories,
            "task_types": self.task_types,
            "stacks": self.stacks,
            "series": self.series,
            "link_categories": self.link_categories,
            "link_texts": self.link_texts,
        }

    def _begin(self) -> None:
        """A new range."""
        self.count = 0
        self._known = {name: codes.count for name, codes in self.dictionaries.items()}
        self._phases: Counter[str] = Counter()
        self._skipped.clear()
        self._replay: list[tuple[int, Event]] = []
        self._marks: list[bytes] = []
        self._pairs: list[int] = []
        self._x_name = array("i")
        self._x_duration = array("d")
        self._x_ids = {name: array("q") for name in ("stream", "connection", "correlation")}
        self._chunk_offset, self._chunk_length, self._chunk_first = array("q"), array("q"), array("q")

    def take(self) -> RangeColumns:
        """What the range held; the next one begins."""
        marks = b"".join(self._marks)
        duration = np.frombuffer(self._x_duration, np.float64)
        if without := int(np.count_nonzero(duration == NO_DURATION)):
            self._skipped["odd.no_duration"] += without
        self._phases.update({phase: found for phase in _COMMON if (found := marks.count(phase.encode()))})
        samples, series, value = self._samples.take()
        thread, category, task_type, stack = self._kinds.take()
        ends = self._ends.take(_places(marks, _LINK_ENDS))
        columns = {
            "x_duration": nanoseconds(duration),
            "x_thread": thread,
            "x_name": np.frombuffer(self._x_name, np.int32),
            "x_category": category,
            "x_task_type": task_type,
            "x_stack": stack,
            "x_event": np.array(self._pairs, np.int64) if self._pairs else _places(marks, _SLICES),
            **{f"x_{name}": np.frombuffer(values, np.int64) for name, values in self._x_ids.items()},
            "x_time": self._x_time.take(),
            "c_time": self._c_time.take()[samples],
            "c_series": series,
            "c_value": value,
            **{f"l_{name}": values for name, values in ends.items()},
            "l_phase": _LINK_PHASE[np.frombuffer(marks, np.uint8)[ends["event"]]],
            "chunk_offset": np.frombuffer(self._chunk_offset, np.int64),
            "chunk_length": np.frombuffer(self._chunk_length, np.int64),
            "chunk_first": np.frombuffer(self._chunk_first, np.int64),
        }
        part = RangeColumns(
            count=self.count,
            phases=dict(self._phases),
            skipped=dict(self._skipped),
            known=self._known,
            news={name: codes.since(self._known[name]) for name, codes in self.dictionaries.items()},
            replay=self._replay,
            columns=columns,
        )
        self._begin()
        return part

    def add(self, offset: int, length: int, events: list[Event]) -> None:
        """Take in the events of one chunk of ``length`` bytes at ``offset`` of the file."""
        self._chunk_offset.append(offset)
        self._chunk_length.append(length)
        self._chunk_first.append(self.count)
        marks = _marks(events)
        self._marks.append(marks)
        left = len(events)
        if slices := list(compress(events, marks.translate(_SLICES))):
            left -= len(slices)
            self._add_slices(slices)
        if left and (samples := list(compress(events, marks.translate(_SAMPLES)))):
            left -= len(samples)
            self._c_time.extend([event.ts for event in samples])
            self._samples.add(samples)
        if left and (ends := list(compress(events, marks.translate(_LINK_ENDS)))):
            left -= len(ends)
            self._ends.add(ends)
        if left:
            self._add_rare([(i, event) for i, event in enumerate(events, self.count) if event.ph not in _COMMON])
        self.count += len(events)

    def _add_rare(self, numbered: list[tuple[int, Event]]) -> None:
        """Take in what is neither slice nor sample nor link end."""
        for ordinal, event in numbered:
            self._phases[event.ph] += 1
            if event.ph == "M" or event.ph in PHASES:
                self._replay.append((ordinal, event))

    def add_pairs(self, pairs: list[tuple[int, Event]]) -> None:
        """Take in slices that are no events of their own, each with the ordinal of the event it begins with."""
        self._pairs.extend([ordinal for ordinal, _ in pairs])
        self._add_slices([event for _, event in pairs])

    def _add_slices(self, events: list[Event]) -> None:
        self._x_time.extend([event.ts for event in events])
        self._x_duration += array("d", [event.dur for event in events])
        args = decode_slice_args([event.args for event in events], self._skipped)
        self._kinds.add(
            [event.pid for event in events],
            [event.tid for event in events],
            [event.cat for event in events],
            [arg.task_type for arg in args],
            [arg.stack for arg in args],
        )
        self._x_name += array("i", list(map(self.names.__getitem__, [event.name for event in events])))
        ids = self._x_ids
        ids["stream"] += array("q", [arg.stream if arg.stream >= 0 else arg.physic_stream for arg in args])
        ids["connection"] += array("q", [arg.connection for arg in args])
        ids["correlation"] += array("q", [arg.correlation for arg in args])


def _marks(events: list[Event]) -> bytes:
    """The phase of every event as one byte; 0 stands for one that is no single character of ASCII."""
    phases = [event.ph for event in events]
    text = "".join(phases)
    if len(text) == len(phases) and "" not in phases and text.isascii():
        return text.encode()
    return "".join([phase if len(phase) == 1 and phase.isascii() else "\0" for phase in phases]).encode()


def _places(marks: bytes, those: bytes) -> Any:
    """Where ``marks`` are those of the table; (n,) int64."""
    return np.flatnonzero(np.frombuffer(marks.translate(those), np.bool_))


I32 = npt.NDArray[np.int32]


class WholeColumns:
    """Takes parts in file order; ``column`` gives a column of them all.

    Dictionaries are numbered by first appearance in the file, whoever read which part.
    """

    def __init__(self) -> None:
        self.count = 0
        self.phases: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.metadata = Metadata()
        self.threads: Codes[tuple[int, int]] = Codes()
        self.names: Codes[str] = Codes()
        self.categories: Codes[str] = Codes()
        self.task_types: Codes[str] = Codes("")
        self.stacks: Codes[str] = Codes("")
        self.series: Codes[SeriesKey] = Codes()
        self.link_categories: Codes[str] = Codes()
        self.link_texts: Codes[str] = Codes()
        self._columns: dict[str, list[Array]] = {}
        self._tables: dict[tuple[str, str], list[int]] = {}
        self._marks = BeginEndEvents()

    def _dictionary(self, name: str) -> Codes[Any]:
        return getattr(self, name)  # type: ignore[no-any-return]

    def add(self, part: RangeColumns, reader: str = "", file: int = 0) -> None:
        """Take in the next part, read by ``reader`` from file number ``file``, after all that it read before."""
        tables = {name: self._tables.setdefault((reader, name), []) for name in part.news}
        # Codes of a part build on the dictionaries of those before it: none may be left out.
        assert all(len(table) == part.known[name] for name, table in tables.items())
        for name, values in part.news.items():
            tables[name] += map(self._dictionary(name).__getitem__, values)
        remap = {name: np.array([*table, -1], np.int32) for name, table in tables.items()}
        for name, column in part.columns.items():
            self._columns.setdefault(name, []).append(self._adopted(name, column, remap))
        self._columns.setdefault("chunk_file", []).append(np.full(len(part.columns["chunk_first"]), file, np.int32))
        for ordinal, event in part.replay:
            if event.ph in PHASES:
                self._marks.add([(self.count + ordinal, event)])
            else:
                self.metadata.add(event)
        self.phases.update(part.phases)
        self.skipped.update(part.skipped)
        self.count += part.count

    def _adopted(self, name: str, values: Array, remap: dict[str, I32]) -> Array:
        """``values`` with the codes and ordinals of the whole trace."""
        if name in DICTIONARY:
            own = values if values.flags.writeable and values.dtype == np.int32 else None
            return np.take(remap[DICTIONARY[name]], values, out=own, mode="wrap")  # -1 is the last entry
        if name == "l_high" and len(values) and values.min() < 0:
            values = values.astype(np.int64)
            text = values < 0
            values[text] = -1 - remap["link_texts"][-1 - values[text]].astype(np.int64)
            return values
        if name in ("x_event", "l_event", "chunk_first"):
            return values.astype(np.int64) + self.count
        return values

    def close(self) -> None:
        """Make slices of begin and end marks, once all parts are in."""
        pairs = self._marks.slices(self.skipped)
        if pairs:
            columns = Columns()
            columns.add_pairs(pairs)
            part, count = columns.take(), self.count
            self.count = 0  # the ordinals of the pairs are those of the file
            self.add(part, "marks")
            self.count = count
        for thread, name in self._marks.lane_names.items():
            self.metadata.thread_name.setdefault(thread, name)
        self._marks = BeginEndEvents()

    def put(self, name: str, values: Array) -> None:
        """Append to the column ``name``: its codes and ordinals are those of the whole trace already."""
        self._columns.setdefault(name, []).append(values)

    def so_far(self) -> WholeColumns:
        """What was taken in until now, without link ends, to be put together before more comes."""
        part = WholeColumns()
        part.count, part.phases, part.metadata = self.count, self.phases, self.metadata
        part.threads, part.names, part.categories = self.threads, self.names, self.categories
        part.task_types, part.stacks, part.series = self.task_types, self.stacks, self.series
        part._columns = {name: list(pieces) for name, pieces in self._columns.items() if not name.startswith("l_")}
        return part

    @property
    def slices(self) -> int:
        """How many slices there are."""
        return sum(map(len, self._columns.get("x_time", [])))

    def column(self, name: str, dtype: npt.DTypeLike) -> Array:
        """The whole column ``name``; it is given away, so that each can be asked for once."""
        pieces = self._columns.pop(name, [])
        whole = np.empty(sum(map(len, pieces)), dtype)
        at = 0
        while pieces:
            piece = pieces.pop(0)
            whole[at : at + len(piece)] = piece
            at += len(piece)
        return whole

    def peek(self, name: str, dtype: npt.DTypeLike) -> Array:
        """A copy of the whole column ``name``, which stays."""
        return np.concatenate([np.zeros(0, dtype), *self._columns.get(name, [])])

    def chunks(self) -> Chunks:
        """Where the events lie in the files."""
        return Chunks(
            self.column("chunk_file", np.int32),
            self.column("chunk_offset", np.int64),
            self.column("chunk_length", np.int64),
            self.column("chunk_first", np.int64),
        )


_SEARCHED = 64 * 1024
_OVERLAP = 256
_FARTHEST = 16 << 20
"""A boundary is expected within this many bytes: no event is longer."""

_REPORT_BYTES = 2 << 20
_PART_BYTES = 32 << 20

Advance = Callable[[int, int], None]
"""Called with (bytes read, events read) several times a second; may raise."""


class Outcome(Struct):
    """How the reading of a file ended: the offset reached, what was wrong, where an endless element begins."""

    end: int = 0
    truncated: bool = False
    malformed: int = 0
    too_long: int | None = None

    def add(self, part: RangeColumns) -> None:
        """Note how the next part of the file ended."""
        self.malformed += part.malformed
        self.end, self.truncated, self.too_long = part.end, part.truncated, part.too_long


def read_tolerantly(
    path: str, start: int, whole: WholeColumns, file: int, chunk_size: int, advance: Advance, part_bytes: int = 0
) -> Outcome:
    """Take the events of ``path`` from ``start``, where one begins, into ``whole``, ``part_bytes`` at a time."""
    columns, outcome, before = Columns(), Outcome(), whole.count
    with open(path, "rb") as stream:
        reader = ChunkReader(stream, start, decode_events, strict_json, chunk_size)
        reported = taken = start
        try:
            for chunk in reader:
                columns.add(chunk.offset, chunk.length, chunk.events)
                if reader.offset - taken >= (part_bytes or _PART_BYTES):
                    taken = reader.offset
                    whole.add(columns.take(), f"file {file}", file)
                if reader.offset - reported >= min(part_bytes or _REPORT_BYTES, _REPORT_BYTES):
                    reported = reader.offset
                    advance(reported, whole.count - before + columns.count)
        except TooLongError as error:
            outcome.too_long = error.offset
    whole.add(columns.take(), f"file {file}", file)
    outcome.end, outcome.truncated, outcome.malformed = reader.offset, reader.truncated, reader.malformed
    return outcome


def boundary_from(descriptor: int, cut: int) -> int | None:
    """Where an event is likely to begin, the first one after one that ends after ``cut``; None if none is near."""
    at, kept = cut, b""
    while at - cut < _FARTHEST:
        data = os.pread(descriptor, _SEARCHED, at)
        if not data:
            return None
        block = kept + data
        if match := BOUNDARY.search(block):
            return at - len(kept) + match.end(1)
        kept = block[-_OVERLAP:]
        at += len(data)
    return None


def read_on(descriptor: int, start: int, cuts: list[int], chunk_size: int) -> RangeColumns:
    """The events from ``start``, where one begins, to the first of the boundaries after ``cuts`` that is one, or all.

    Nothing is cut off while reading: damage is handled as it is in a file that is read in one go.
    """
    columns = Columns()
    stops = [begin for begin in (boundary_from(descriptor, cut) for cut in cuts) if begin is not None]
    part_end = too_long = None
    with cast(BinaryIO, os.fdopen(os.dup(descriptor), "rb")) as stream:
        reader = ChunkReader(stream, start, decode_events, strict_json, chunk_size)
        try:
            for chunk in reader:
                stop = _stop_in(descriptor, chunk, stops)
                if stop is not None:
                    count, length, part_end = stop
                    if count:
                        columns.add(chunk.offset, length, chunk.events[:count])
                    break
                columns.add(chunk.offset, chunk.length, chunk.events)
        except TooLongError as error:
            too_long = error.offset
    part = columns.take()
    part.start, part.end = start, reader.offset if part_end is None else part_end
    part.truncated, part.malformed, part.too_long = reader.truncated, reader.malformed, too_long
    part.last = part_end is None
    return part


def _stop_in(descriptor: int, chunk: Chunk[Event], stops: list[int]) -> tuple[int, int, int] | None:
    """How many events of ``chunk``, of how many bytes, stand before one that begins at one of ``stops``, and that stop.

    The ascending ``stops`` before the end of the chunk that are none are taken away.
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
