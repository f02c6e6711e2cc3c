"""A file of events in ranges that can be read independently, and one range read.

A range begins at the first likely boundary after its cut and ends at that of the next one. Whether the boundary is a
true one is proven by whoever reads up to it: the last chunk before it parses as whole events, and it began at a true
one itself. What turns out otherwise is read again, on to the next boundary that is one.
"""

from __future__ import annotations

import os
from typing import BinaryIO, cast

from msgspec import Struct

from npu_tui.ingest.json.columns.event_columns import Columns
from npu_tui.ingest.json.columns.range_columns import RangeColumns
from npu_tui.ingest.json.decoding.chunks import BOUNDARY, Chunk, ChunkReader, TooLongError, object_spans
from npu_tui.ingest.json.decoding.events import Event, decode_events, known_names
from npu_tui.ingest.json.decoding.lenient import strict_json

_SEARCHED = 64 * 1024
_OVERLAP = 256
_FARTHEST = 16 << 20
"""A boundary is expected within this many bytes: no event is longer."""


class Boundary(Struct, frozen=True):
    """Between two events: where the one before it ends and where the one after it starts."""

    end: int
    start: int


def boundary_from(descriptor: int, cut: int) -> Boundary | None:
    """The first likely boundary whose event before it ends after ``cut``, or None if none is near."""
    at, kept = cut, b""
    while at - cut < _FARTHEST:
        data = os.pread(descriptor, _SEARCHED, at)
        if not data:
            return None
        block = kept + data
        if match := BOUNDARY.search(block):
            first = at - len(kept)
            return Boundary(first + match.start(1), first + match.end(1))
        kept = block[-_OVERLAP:]
        at += len(data)
    return None


class _Window:
    """The bytes ``[start, end)`` of a file, and the bracket that makes them an array."""

    def __init__(self, descriptor: int, end: int) -> None:
        self._descriptor = descriptor
        self._end = end
        self._at = 0

    def seek(self, offset: int) -> int:
        self._at = offset
        return offset

    def read(self, count: int) -> bytes:
        data = os.pread(self._descriptor, max(min(count, self._end - self._at), 0), self._at)
        if len(data) < count and self._at + len(data) == self._end:
            data += b"]"
        self._at += len(data)
        return data


def read_range(descriptor: int, start: int, cut: int | None, columns: Columns, chunk_size: int) -> RangeColumns:
    """The events of ``descriptor`` from the boundary at ``start`` to the first one after ``cut`` (None: all).

    They are not complete, and empty, if what was read does not end at that boundary or holds damage, after which
    nothing is proven; the last range is always complete.
    """
    if cut is None:
        return read_on(descriptor, start, [], columns, chunk_size)
    edge = boundary_from(descriptor, cut)
    if edge is None:
        return give_up(columns, start)
    if edge.start > start:
        window = cast(BinaryIO, _Window(descriptor, edge.end))
        reader = ChunkReader(window, start, decode_events, strict_json, chunk_size)
        try:
            for chunk in reader:
                columns.add(chunk.offset, chunk.length, chunk.events)
                if reader.malformed:
                    break
        except TooLongError:
            return give_up(columns, start)
        if reader.malformed or not reader.whole:
            return give_up(columns, start)
    part = columns.take()
    part.start, part.end = start, max(edge.start, start)
    part.named = known_names()
    return part


def read_on(descriptor: int, start: int, cuts: list[int], columns: Columns, chunk_size: int) -> RangeColumns:
    """The events from ``start``, where one begins, to the first of the boundaries after ``cuts`` that is one, or all.

    Nothing is cut off while reading: damage is handled as it is in a file that is read in one go.
    """
    stops = [edge.start for edge in (boundary_from(descriptor, cut) for cut in cuts) if edge is not None]
    part_end = too_long = None
    with cast(BinaryIO, os.fdopen(os.dup(descriptor), "rb")) as stream:
        reader = ChunkReader(stream, start, decode_events, strict_json, chunk_size)
        try:
            for chunk in reader:
                found = _stop_in(descriptor, chunk, stops)
                if found is not None:
                    count, length, part_end = found
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
    part.named = known_names()
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


def give_up(columns: Columns, start: int) -> RangeColumns:
    """An empty part for a range at ``start`` that was not understood."""
    columns.give_up()
    part = columns.take()
    part.start, part.end, part.complete = start, start, False
    return part
