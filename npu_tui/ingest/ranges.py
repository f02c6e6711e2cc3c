"""A file of events in ranges that can be read independently, and one range read.

A range begins at the first likely boundary behind its cut and ends at that of the next one. Whether the boundary is a
true one is proven by whoever reads up to it: the last chunk before it parses as whole events, and it began at a true
one itself. What turns out otherwise is read again as one range with those behind it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, cast

from npu_tui.ingest.chunks import BOUNDARY, ChunkReader, TooLongError
from npu_tui.ingest.columns import Columns
from npu_tui.ingest.events import decode_events, known_names
from npu_tui.ingest.lenient import strict_json
from npu_tui.ingest.parts import Part

Advance = Callable[[int, int], None]

_SEARCHED = 64 * 1024
_OVERLAP = 256
_FARTHEST = 16 << 20
"""A boundary is expected within this many bytes: no event is longer."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Between two events: where the one before it ends and where the one behind it starts."""

    end: int
    start: int


def boundary_from(descriptor: int, cut: int) -> Boundary | None:
    """The first likely boundary whose event before it ends behind ``cut``, or None if none is near."""
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


def read_range(
    descriptor: int, start: int, cut: int | None, columns: Columns, chunk_size: int, advance: Advance | None = None
) -> Part:
    """The events of ``descriptor`` from the boundary at ``start`` to the first one behind ``cut`` (None: all).

    ``Part.complete`` is False, and the part is empty, if what was read does not end at that boundary; the last range is
    always complete. ``advance`` is called with the offset reached and the events so far.
    """
    edge = None if cut is None else boundary_from(descriptor, cut)
    if cut is not None and edge is None:
        return give_up(columns, start)
    if edge is not None and edge.start <= start:
        part = columns.take()
        part.end = start
        return part
    if edge is None:
        stream = cast(BinaryIO, os.fdopen(os.dup(descriptor), "rb"))
    else:
        stream = cast(BinaryIO, _Window(descriptor, edge.end))
    reader = ChunkReader(stream, start, decode_events, strict_json, chunk_size)
    too_long = ""
    try:
        for chunk in reader:
            columns.add(chunk.offset, chunk.length, chunk.events)
            if advance is not None:
                advance(reader.offset, columns.count)
    except TooLongError as error:
        too_long = str(error)
    finally:
        if edge is None:
            stream.close()
    if edge is not None and not reader.whole:
        return give_up(columns, start)
    part = columns.take()
    part.end = reader.offset if edge is None else edge.start
    part.truncated = reader.truncated
    part.malformed = reader.malformed
    part.too_long = too_long
    part.named = known_names()
    return part


def give_up(columns: Columns, start: int) -> Part:
    """An empty part for a range at ``start`` that was not understood."""
    columns.give_up()
    part = columns.take()
    part.end, part.complete = start, False
    return part
