"""A file of events cut into chunks of whole events.

Traces of Ascend profilers are one line, so lines cannot be used. A candidate boundary is a ``}, {`` that is followed by
the opening quote of a key: inside a text that quote would be the closing one, which only ``,``, ``:``, ``}``, ``]`` or
white space may follow. What is left are objects in arrays of ``args``; a chunk that begins at a true boundary parses
as an array exactly if it ends at one, so the parser proves each cut, and a failed one is redone by ``object_spans``.

An element that never ends, or ends where it should not, swallows those after it: reading goes on at the next place
where a whole event begins.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO, Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")

CHUNK = 256 * 1024
"""Bytes per chunk: as much as decodes at full speed, and little enough to be decoded again for one event."""

BOUNDARY = re.compile(rb'\}(\s*,\s*)\{\s*"(?![,:}\]\s])')
# Bytes from the end of a block that are searched first; four times as many while no boundary is in them.
_SEARCHED = 4096
LONGEST = 64 << 20
"""No event has more bytes."""
# Blocks shrink to this many bytes where there is damage, as every one of them is then looked at several times.
_SMALLEST = 1024
# An element without an end is taken for damage only in blocks of this many bytes or more: events may be long.
_LONG = 4096
# A whole event after damage is expected to end within this many bytes; nearly all are short.
_WINDOWS = (1024, 64 * 1024)
_GAP = 64  # blanks that may stand between two events
_TRIED = 4
"""How often every byte of a damaged block may be looked at again, so that no damage takes more than linear time."""
_FIELD = rb'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|args|bp|s)"\s*:'
_BEGINNING = re.compile(_FIELD)
_BETWEEN = re.compile(rb"\}\s*,\s*(?=%b)" % _FIELD)
_CLOSED_EARLY = re.compile(rb'[\]}](?:[^][{}]*"traceEvents"\s*:)?[\s,\[\]}]*(?=%b)' % _FIELD)
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("?)|[{\[]+|[}\]]+', re.DOTALL)
"""A text, whose group is empty if its end is missing (so that nothing is tried twice), or brackets of one way."""
_BLANK = b" \t\r\n\0,"
_SEPARATOR = re.compile(rb"[\s\0]*(?:,[\s\0]*)?")
_ARRAY = re.compile(rb'\s*(?:\{(?:.*?"traceEvents"\s*:\s*))?\[', re.DOTALL)
BOM = b"\xef\xbb\xbf"


def array_start(head: bytes) -> int | None:
    """Offset just after the ``[`` that opens the array of events, or None if ``head`` does not begin with one.

    Both forms of the Trace Event Format are known: the bare array and the object with ``traceEvents``.
    """
    skip = len(BOM) if head.startswith(BOM) else 0
    match = _ARRAY.match(head, skip)
    return match.end() if match else None


def candidate(block: bytes) -> tuple[int, int] | None:
    """The last likely boundary of ``block``: (end of the event before it, start of the event after it)."""
    searched = _SEARCHED
    while True:
        low = max(0, len(block) - searched)
        last = None
        for match in BOUNDARY.finditer(block, low):
            last = match
        if last is not None:
            return last.start(1), last.end(1)
        if low == 0:
            return None
        searched *= 4


def object_spans(
    block: bytes, at: int = 0, end: int | None = None, most: int = sys.maxsize
) -> tuple[list[tuple[int, int]], int | None]:
    """The complete top-level elements of ``block[at:end]``, which begins at a boundary, and where the array ends.

    Returns ([(start, end) of each object], offset of the closing bracket or None), no more than ``most`` elements. Only
    brackets and texts are looked at, so an element may still be malformed inside.
    """
    spans: list[tuple[int, int]] = []
    depth = 0
    start = 0
    for match in _TOKEN.finditer(block, at, len(block) if end is None else end):
        if match[1] == b"":
            break  # the text that begins here is cut off
        token = match[0]
        if token[0] in b"{[":
            if depth == 0:
                start = match.start()
            depth += len(token)
        elif token[0] in b"}]":
            if depth > len(token):
                depth -= len(token)
                continue
            closed = match.start() + depth
            if depth:
                spans.append((start, closed))
                if len(spans) == most:
                    break
            if depth < len(token):
                return spans, closed
            depth = 0
    return spans, None


class TooLongError(ValueError):
    """An element is longer than any event: ``offset`` says where it begins."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class Chunk(Struct, Generic[T], frozen=True):
    """``length`` bytes of whole events at ``offset`` of the file, and what ``decode`` made of them."""

    offset: int
    length: int
    events: list[T]


class ChunkReader(Generic[T]):
    """Iterates over the chunks of the array of events that begins at ``start`` of ``file``.

    ``decode`` turns ``[...]`` of whole events into a list and raises ``ValueError`` on malformed JSON; ``repair`` makes
    one malformed element well-formed or raises it too. While iterating, ``offset`` is the file offset reached;
    afterwards ``malformed`` counts the elements that could not be decoded, ``truncated`` says whether the array's end
    is missing and ``whole`` whether it is the end of the file.
    """

    def __init__(
        self,
        file: BinaryIO,
        start: int,
        decode: Callable[[bytes], list[T]],
        repair: Callable[[bytes], bytes] = bytes,
        chunk_size: int = CHUNK,
    ) -> None:
        self.offset = start
        self.malformed = 0
        self.truncated = False
        self.whole = False
        self._file = file
        self._decode = decode
        self._repair = repair
        self._chunk_size = chunk_size
        self._size = chunk_size
        self._block = b""
        self._exhausted = False
        self._mended: list[Chunk[T]] = []
        file.seek(start)

    def __iter__(self) -> Iterator[Chunk[T]]:
        while True:
            yield from self._mended
            self._mended.clear()
            self._read(self._size - len(self._block))
            if separator := _SEPARATOR.match(self._block):
                self._drop(separator.end())
            cut = candidate(self._block)
            if cut is not None and (chunk := self._decoded(self._block[: cut[0]])) is not None:
                self._drop(cut[1])
                self._size = min(2 * self._size, self._chunk_size)
                yield chunk
                continue
            if cut is None and self._exhausted and (chunk := self._last()) is not None:
                self.whole = True
                yield chunk
                return
            if cut is not None:
                self._size = max(self._size // 2, min(_SMALLEST, self._chunk_size))
            spans, closed = object_spans(self._block)
            if spans:
                yield from self._careful(spans)
            elif closed is not None:
                damaged = self._is_damaged(closed)
                if damaged and self._resumed(0, len(self._block)):
                    continue
                if damaged and len(self._block) < _WINDOWS[-1] and self._grown():
                    continue  # it was too short to hold a whole event after the damage
                if not self._reopened(closed):
                    self.malformed += damaged
                    return
            else:
                if (self._exhausted or len(self._block) >= _LONG) and self._resumed(0, len(self._block)):
                    continue
                if self._grown():
                    continue
                rest = self._block.rstrip()
                self.truncated = not (rest.endswith(b"]") and self._is_mended(0, len(rest) - 1))
                yield from self._mended
                return

    def _read(self, count: int) -> None:
        if count > 0 and not self._exhausted:
            more = self._file.read(count)
            self._exhausted = len(more) < count
            self._block += more

    def _grown(self) -> bool:
        """Whether the block has become longer."""
        if self._exhausted:
            return False
        if len(self._block) > LONGEST:
            raise TooLongError(self.offset)
        self._read(max(len(self._block), self._size))
        return True

    def _resumed(self, at: int, end: int) -> bool:
        """Whether a whole event begins after the damaged element at ``at``; all before it is given up."""
        short, long = _WINDOWS
        begin = self._event_from(at, end, short, len(self._block))
        if begin is None:
            begin = self._event_from(at, end, long, len(self._block))
        else:  # a long event may stand before the first short one
            longer = self._event_from(at, begin, long, begin)
            begin = begin if longer is None else longer
        if begin is None:
            return False
        self._mend(at, begin)
        self._drop(begin)
        self._shorten()
        return True

    def _mend(self, at: int, end: int) -> None:
        """Keep the events in ``[at, end)`` of the block that can be repaired, and count the others.

        Two events with odd quotes side by side look like one.
        """
        if not self._is_mended(at, end):
            cuts = [at, *(match.end() for match in _BETWEEN.finditer(self._block, at, end)), end]
            self.malformed += sum(not self._is_mended(*cut) for cut in itertools.pairwise(cuts))

    def _is_mended(self, at: int, end: int) -> bool:
        """Whether ``[at, end)`` of the block is a single event with quotes the wrong way that could be repaired."""
        element = self._block[at:end].rstrip(_BLANK)
        events = self._one(element) if b'"ph"' in element else None
        if events is None or len(events) != 1:
            return False
        self._mended.append(Chunk(self.offset + at, len(element), events))
        return True

    def _event_from(self, at: int, end: int, window: int, last: int) -> int | None:
        """Where the first whole event of at most ``window`` bytes that ends by ``last`` begins in ``[at, end)``."""
        budget = _TRIED * (end - at)
        for match in _BEGINNING.finditer(self._block, at, end):
            begin, stop = match.start(), min(match.start() + window, last)
            if self._block[max(at, begin - _GAP) : begin].rstrip()[-1:] not in (b",", b"]", b"}"):
                continue
            spans, _ = object_spans(self._block, begin, stop, most=1)
            if spans:
                stop = spans[0][1]
                element = self._block[begin:stop]
                if b'"ph"' in element and self._one(element) is not None:
                    return begin
            budget -= stop - begin
            if budget < 0:
                break
        return None

    def _shorten(self) -> None:
        """Give back what was read ahead, which would be looked at again for every damaged element in it."""
        if len(self._block) > 2 * self._size:
            self._block = self._block[: self._size]
            self._file.seek(self.offset + len(self._block))
            self._exhausted = False

    def _is_damaged(self, closed: int) -> bool:
        """Whether something stands before the bracket at ``closed`` that is no element: quotes may be the wrong way."""
        return bool(self._block[:closed].strip(_BLANK))

    def _reopened(self, closed: int) -> bool:
        """Whether events follow the bracket at ``closed``: it is one too many, or ends the first of two arrays."""
        while not (match := _CLOSED_EARLY.match(self._block, closed, closed + _SEARCHED)):
            if self._exhausted or len(self._block) - closed >= _SEARCHED:
                return False
            self._read(_SEARCHED)
        self.malformed += 1
        self._drop(match.end())
        return True

    def _drop(self, count: int) -> None:
        self._block = self._block[count:]
        self.offset += count

    def _decoded(self, data: bytes) -> Chunk[T] | None:
        try:
            return Chunk(self.offset, len(data), self._decode(b"[%b]" % data))
        except ValueError:
            return None

    def _one(self, data: bytes) -> list[T] | None:
        try:
            return self._decode(b"[%b]" % data)
        except ValueError:
            pass
        try:
            return self._decode(b"[%b]" % self._repair(data))
        except ValueError:
            return None

    def _last(self) -> Chunk[T] | None:
        """The rest of a well-formed file, or None."""
        rest = self._block.rstrip()
        return self._decoded(rest[:-1]) if rest.endswith(b"]") else None

    def _careful(self, spans: list[tuple[int, int]]) -> Iterator[Chunk[T]]:
        """The elements at ``spans`` as one chunk if they decode together, else one by one, counting the malformed."""
        if not spans:
            return
        end = spans[-1][1]
        chunk = self._decoded(self._block[:end])
        if chunk is not None:
            yield chunk
        else:
            base = self.offset
            for start, stop in spans:
                events = self._one(self._block[start:stop])
                if events is not None:
                    yield Chunk(base + start, stop - start, events)
                elif self._resumed(start, stop):
                    yield from self._mended
                    self._mended.clear()
                    return
                else:
                    self._mend(start, stop)
                    yield from self._mended
                    self._mended.clear()
        self._drop(end)
        self._shorten()
