"""A file of events cut into chunks of whole events.

Traces of Ascend profilers are one line, so lines cannot be used. A candidate boundary is a ``}, {`` that is followed by
the opening quote of a key: inside a text that quote would be the closing one, which only ``,``, ``:``, ``}``, ``]`` or
white space may follow. What is left are objects in arrays of ``args``; a chunk that begins at a true boundary parses
as an array exactly if it ends at one, so the parser proves each cut, and a failed one is redone by ``object_spans``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Generic, TypeVar

T = TypeVar("T")

CHUNK = 64 * 1024
"""Bytes per chunk: small enough that the decoded objects stay in the processor's cache."""

_BOUNDARY = re.compile(rb'\}(\s*,\s*)\{\s*"(?![,:}\]\s])')
_SEARCHED = 4096
_LONGEST = 256 << 20
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)
_SEPARATOR = re.compile(rb"\s*,?\s*")
_ARRAY = re.compile(rb'\s*(?:\{(?:.*?"traceEvents"\s*:\s*))?\[', re.DOTALL)
BOM = b"\xef\xbb\xbf"


def array_start(head: bytes) -> int | None:
    """Offset just behind the ``[`` that opens the array of events, or None if ``head`` does not begin with one.

    Both forms of the Trace Event Format are known: the bare array and the object with ``traceEvents``.
    """
    skip = len(BOM) if head.startswith(BOM) else 0
    match = _ARRAY.match(head, skip)
    return match.end() if match else None


def candidate(block: bytes) -> tuple[int, int] | None:
    """The last likely boundary of ``block``: (end of the event before it, start of the event behind it)."""
    searched = _SEARCHED
    while True:
        low = max(0, len(block) - searched)
        last = None
        for match in _BOUNDARY.finditer(block, low):
            last = match
        if last is not None:
            return last.start(1), last.end(1)
        if low == 0:
            return None
        searched *= 4


def object_spans(block: bytes) -> tuple[list[tuple[int, int]], int | None]:
    """The complete top-level elements of ``block``, which begins at a boundary, and where the array ends.

    Returns ([(start, end) of each object], offset of the closing ``]`` or None). Only brackets and texts are looked
    at, so an element may still be malformed inside.
    """
    spans: list[tuple[int, int]] = []
    depth = 0
    start = 0
    for match in _TOKEN.finditer(block):
        token = match[0]
        if token == b'"':
            break  # the text that begins here is cut off
        if token in (b"{", b"["):
            if depth == 0:
                start = match.start()
            depth += 1
        elif token in (b"}", b"]"):
            if depth == 0:
                return spans, match.start()
            depth -= 1
            if depth == 0:
                spans.append((start, match.end()))
    return spans, None


class TooLongError(ValueError):
    """An element is longer than any event: ``str()`` says where it begins."""


@dataclass(frozen=True, slots=True)
class Chunk(Generic[T]):
    """``length`` bytes of whole events at ``offset`` of the file, and what ``decode`` made of them."""

    offset: int
    length: int
    events: list[T]


class ChunkReader(Generic[T]):
    """Iterates over the chunks of the array of events that begins at ``start`` of ``file``.

    ``decode`` turns ``[...]`` of whole events into a list and raises ``ValueError`` on malformed JSON; ``repair`` makes
    one malformed element well-formed or raises it too. While iterating, ``offset`` is the file offset reached;
    afterwards ``malformed`` counts the elements that could not be decoded and ``truncated`` says whether the array's
    end is missing.
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
        self._file = file
        self._decode = decode
        self._repair = repair
        self._chunk_size = chunk_size
        self._block = b""
        self._exhausted = False
        file.seek(start)

    def __iter__(self) -> Iterator[Chunk[T]]:
        while True:
            self._read(self._chunk_size - len(self._block))
            if separator := _SEPARATOR.match(self._block):
                self._drop(separator.end())
            cut = candidate(self._block)
            if cut is None and not self._exhausted:
                self._grow()
                continue
            if cut is not None and (chunk := self._decoded(self._block[: cut[0]])) is not None:
                self._drop(cut[1])
                yield chunk
                continue
            if cut is None and (chunk := self._last()) is not None:
                yield chunk
                return
            spans, closed = object_spans(self._block)
            if not spans and closed is None and not self._exhausted:
                self._grow()
                continue
            yield from self._careful(spans)
            if closed is not None:
                return
            if self._exhausted:
                self.truncated = True
                return

    def _read(self, count: int) -> None:
        if count > 0 and not self._exhausted:
            more = self._file.read(count)
            self._exhausted = len(more) < count
            self._block += more

    def _grow(self) -> None:
        if len(self._block) > _LONGEST:
            raise TooLongError(f"byte {self.offset}: an event of more than {_LONGEST >> 20} MB")
        self._read(len(self._block))

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
                if events is None:
                    self.malformed += 1
                else:
                    yield Chunk(base + start, stop - start, events)
        self._drop(end)
