"""The tolerant reader of a file of events: every event is decoded in Python, whatever it looks like.

It reads whole files where there is no compiled library, and in every file the events that the library refuses.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO, cast

from msgspec import Struct

from npu_tui.ingest.json.columns.event_columns import Columns
from npu_tui.ingest.json.columns.range_columns import RangeColumns
from npu_tui.ingest.json.columns.whole_columns import WholeColumns
from npu_tui.ingest.json.decoding.chunks import BOUNDARY, Chunk, ChunkReader, TooLongError, object_spans
from npu_tui.ingest.json.decoding.events import Event, decode_events
from npu_tui.ingest.json.decoding.lenient import strict_json

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
