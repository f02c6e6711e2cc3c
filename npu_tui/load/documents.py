"""JSON files beside a trace, read whole or operation by operation, and the collectives in two of them in typed columns.

What a document takes is reckoned from its signs before it is parsed: a few bytes make an object of some hundred.

torch_npu and MindSpore write communication.json and communication_matrix.json from level 1 on; databases hold the same
in the tables ``CommAnalyzerTime``, ``CommAnalyzerBandwidth`` and ``CommAnalyzerMatrix``. They are described at
https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_1149.html
"""

from __future__ import annotations

import codecs
import errno
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from sys import intern
from typing import Any, TypeVar

import orjson
from msgspec import Struct

from npu_tui.load.companion_schema import JsonFile, Reading, reason
from npu_tui.load.times import INVALID, parse_time
from npu_tui.trace.side_file import read_regular
from npu_tui.trace.text import LONGEST

T = TypeVar("T")

Operation = tuple[str, str, str, str, dict[str, Any]]
"""The two members that an operation lies in, such as a step and ``collective``, its name, its group, and its own."""

TOTALS = ("Total Op Info", "total")

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("?)|[{}\[\],]', re.DOTALL)
_BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("?)|[{}\[\]]', re.DOTALL)
_CLOSING = {b"{": b"}", b"[": b"]"}
_DEEPEST = 1024
"""Brackets within brackets that are read: those of orjson."""
# About the bytes that a list, an object, one more value and one more member take while they are parsed.
_COSTS = {b"[": 72, b"{": 150, b",": 60, b":": 240}
_WIDE = 3  # bytes more that a sign takes in a text with one that needs four
_ROOM, _TIMES = 100 << 20, 2
"""Bytes that a document may take, and more of them for each of its own."""
_BLANK = re.compile(rb"[ \t\r\n\0]*")
_PIECE = 1 << 20
"""Bytes of which no text takes too much memory."""


def fits(data: bytes, room: int | None = None) -> bool:
    """Whether what the JSON text ``data`` is parsed to takes no more than ``room``, by default that of a file."""
    room = _ROOM + _TIMES * len(data) if room is None else room
    wide = 0 if data.isascii() else _WIDE * len(data)
    return wide + sum(data.count(sign) * cost for sign, cost in _COSTS.items()) <= room


def parsed(data: bytes) -> Any:
    """The value of the JSON text ``data``. Raises ``ValueError``, ``OSError`` where it would take too much memory."""
    if not fits(data):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return orjson.loads(data)


def read_document(path: Path) -> JsonFile:
    """The content of the JSON file ``path``."""
    data = _content(path)
    return data if isinstance(data, JsonFile) else _document(data)


def read_operations(
    path: Path, rows: Callable[[Iterable[Operation]], Iterator[T]], size: Callable[[T], int]
) -> JsonFile:
    """The ``rows`` of the operations in the JSON file ``path``; ``size`` is how many bytes one takes.

    Both files on collectives nest them: ``{"step50": {"collective": {"hcom_allReduce__586_0_1@9": {...}}}}``. Sums over
    operations are left out.
    """
    data = _content(path)
    if isinstance(data, JsonFile):
        return data
    # A file that takes little memory is parsed in one go; of others one operation at a time is in memory.
    if fits(data):
        document = _document(data)
        listed = None if document.value is None else list(rows(operations_in(document.value)))
        return JsonFile(document.state, listed, document.why)
    kept: list[T] = []
    room, operations = _ROOM + _TIMES * len(data), _OneByOne(data)
    try:
        for row in rows(operations):
            kept.append(row)
            room -= size(row)
            if room < 0:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    except (OSError, ValueError) as error:
        return JsonFile("unreadable", why=reason(error))
    return JsonFile("read" if operations.are_whole else "cut_off", kept)


def _content(path: Path) -> bytes | JsonFile:
    """The text of a file as UTF-8, or what became of it."""
    try:
        if not path.exists():
            return JsonFile("missing")
        data = read_regular(path).removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        return JsonFile("unreadable", why=reason(error))
    if _BLANK.fullmatch(data):
        return JsonFile("empty")
    try:
        for _ in () if data.isascii() else codecs.iterdecode(_document_pieces(data), "utf-8"):
            pass
    except UnicodeDecodeError:
        return b"".join(text.encode() for text in codecs.iterdecode(_document_pieces(data), "gb18030", "replace"))
    return data


def _document_pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))


def _document(data: bytes) -> JsonFile:
    try:
        value = parsed(data)
    except OSError as error:
        return JsonFile("unreadable", why=reason(error))
    except ValueError as error:
        closed = _closed(data)
        try:
            return JsonFile("cut_off", orjson.loads(closed)) if closed else JsonFile("unreadable", why=reason(error))
        except ValueError:
            return JsonFile("unreadable", why=reason(error))
    return JsonFile("read" if value not in ({}, [], None) else "empty", value)


def _closed(data: bytes) -> bytes:
    """``data`` up to its last whole member, with the brackets that are open there closed; empty if it is not cut."""
    ends: list[bytes] = []
    whole = 0
    for match in _TOKEN.finditer(data):
        token = match[0]
        if match[1] == b"":
            break  # the text that begins here is cut off
        if token in _CLOSING:
            ends.append(_CLOSING[token])
            whole = match.end()
            if len(ends) > _DEEPEST:
                return b""
        elif token in (b"}", b"]"):
            if not ends or ends.pop() != token:
                return b""
            whole = match.end()
        elif token == b",":
            whole = match.start()
    return data[:whole] + b"".join(reversed(ends)) if ends else b""


def operations_in(value: Any, of: type = dict) -> Iterator[tuple[str, str, str, str, Any]]:
    """The operations in the members of ``value``, a document that was parsed, those that are an ``of``."""
    for outer, inner in members_of(value).items():
        for kind, operations in members_of(inner).items():
            for key, body in members_of(operations).items():
                name, _, group = key.partition("@")
                if name not in TOTALS and isinstance(body, of):
                    yield outer, kind, name, group, body


class _OneByOne(Struct):
    """The operations of the text ``data``, each parsed by itself; ``are_whole`` once its end was seen.

    Raises ``ValueError`` for one that is malformed, ``OSError`` for one that takes too much memory.
    """

    data: bytes
    are_whole: bool = False

    def __iter__(self) -> Iterator[Operation]:
        if b"\0" in self.data:
            raise ValueError("zero bytes")
        keys, depth, begin, listed = [b""] * 4, 0, 0, _DEEPEST
        for match in _BRACKETS.finditer(self.data):
            sign = self.data[match.start()]
            if sign == _QUOTE:
                if match[1] and depth < len(keys):
                    keys[depth] = match[0]
            elif sign in _OPENING:
                listed = min(listed, depth) if sign == _LIST else listed
                begin = match.start() if depth == len(keys) - 1 else begin
                depth += 1
            else:
                depth -= 1
                body = self.data[begin : match.end()] if depth == len(keys) - 1 <= listed and sign == _END else b"{}"
                if body != b"{}":
                    outer, kind, key = map(orjson.loads, keys[1:])
                    name, _, group = key.partition("@")
                    if name not in TOTALS:
                        yield outer, kind, name, group, parsed(body) if len(body) > _PIECE else orjson.loads(body)
                listed = _DEEPEST if depth <= listed else listed
        self.are_whole = not depth


_QUOTE, _LIST, _END = b'"[}'
_OPENING = b"{["


def members_of(value: Any) -> dict[str, Any]:
    """``value`` if it is an object, else one without members."""
    return value if isinstance(value, dict) else {}


LARGEST = 2**62  # the sum of two numbers below it fits into 64 bits

COMMUNICATION, MATRIX = "communication.json", "communication_matrix.json"

_PLACE = {"step": str, "kind": str, "name": str, "group": str}
_SPANS = {
    "elapsed": "Elapse Time(ms)",
    "transit": "Transit Time(ms)",
    "wait": "Wait Time(ms)",
    "synchronization": "Synchronization Time(ms)",
    "idle": "Idle Time(ms)",
}

Place = tuple[str, str, str, str]
"""Step, kind (``collective`` or ``p2p``), name and group of a collective."""

MatrixRow = tuple[str, str, str, str, int, int, str | None, float | None, int | None, float | None, str | None]
"""``Place``, source, target, transport, size in MB, time in ns, GB/s and the operation."""


class Transport(Struct):
    """What a collective moved over one transport: MB, ms, GB/s, share of large packets; and packets of each size.

    ``packets`` are (count, ms) by size in MB. All are as the writer has them, None where there is no value.
    """

    size: Any
    time: Any
    speed: Any
    large: Any
    packets: dict[str, tuple[Any, ...]] = {}


class WrittenCollective(Struct):
    """A collective of a step with its times as the writer has them: ``start`` in us since 1970, ``spans`` in ms.

    ``spans`` are in the order elapsed, transit, wait, synchronization, idle.
    """

    place: Place
    start: Any = None
    spans: tuple[Any, ...] = (None,) * len(_SPANS)
    wait_ratio: Any = None
    synchronization_ratio: Any = None
    transports: dict[str, Transport] = {}

    @property
    def size(self) -> int:
        """About the bytes that it takes."""
        return ROW * (2 + sum(1 + len(transport.packets) for transport in self.transports.values()))


def collectives_in(operations: Iterable[Operation]) -> Iterator[WrittenCollective]:
    """The collectives among the ``operations`` of a communication.json, without those that say nothing."""
    for step, kind, name, group, body in operations:
        times = members_of(body.get("Communication Time Info"))
        transports = {
            transport: Transport(
                link.get("Transit Size(MB)"),
                link.get("Transit Time(ms)"),
                link.get("Bandwidth(GB/s)"),
                link.get("Large Packet Ratio"),
                {
                    size: (*counts, None, None)[:2] if isinstance(counts, list) else (None, None)
                    for size, counts in members_of(link.get("Size Distribution")).items()
                },
            )
            for transport, link in members_of(body.get("Communication Bandwidth Info")).items()
            if isinstance(link, dict)
        }
        if times or transports:
            yield WrittenCollective(
                (step.removeprefix("step"), kind, name, group),
                times.get("Start Timestamp(us)"),
                tuple(times.get(title) for title in _SPANS.values()),
                times.get("Wait Time Ratio"),
                times.get("Synchronization Time Ratio"),
                transports,
            )


def matrix_rows_in(operations: Iterable[Operation]) -> Iterator[MatrixRow]:
    """What every pair of ranks exchanged, by the ``operations`` of a communication_matrix.json."""
    for step, kind, name, group, body in operations:
        for pair, link in body.items():
            if isinstance(link, dict):
                place = step.removeprefix("step"), kind, name, group
                yield from matrix_row(place, pair.partition("-")[::2], *(link.get(title) for title in LINK))


LINK = "Transport Type", "Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)", "Op Name"
ROW = 400
"""About the bytes that a row, or a part of a collective, takes."""


def is_rank(text: str) -> bool:
    """Whether ``text`` is the number of a rank, which has fewer than 20 digits."""
    return text.isdecimal() and len(text) < _MOST_DIGITS


_MOST_DIGITS = 10  # of a rank, which fits into 32 bits


def matrix_row(
    place: Place, ends: tuple[str, ...], transport: Any, size: Any, time: Any, speed: Any, operation: Any
) -> list[MatrixRow]:
    """The row of these cells, MB, ms and GB/s; none if the ``ends`` are no two numbers of ranks."""
    source, target = ends
    if not (is_rank(source) and is_rank(target)):
        return []
    words = [None if word is None else intern(str(word)) for word in (transport, operation)]
    return [
        (*place, int(source), int(target), words[0], number_of(size), scaled(time, 1e6), number_of(speed), words[1])
    ]


def communication_times(document: JsonFile) -> Reading:
    """A row per collective: ``start`` (ns since 1970, rounded by its writer to 0.5 us) and its times in ns."""
    columns = {
        **_PLACE,
        "start": int,
        **dict.fromkeys(_SPANS, int),
        "wait_ratio": float,
        "synchronization_ratio": float,
    }
    rows = (
        (
            *collective.place,
            start_ns(collective.start),
            *(scaled(span, 1e6) for span in collective.spans),
            number_of(collective.wait_ratio),
            number_of(collective.synchronization_ratio),
        )
        for collective in document.value or ()
    )
    return _reading(COMMUNICATION, document, columns, rows)


def communication_bandwidth(document: JsonFile) -> Reading:
    """A row per collective and transport (SDMA, RDMA, HCCS, PCIE, SIO): size in MB, time in ns, GB/s."""
    columns = {
        **_PLACE, "transport": str, "size_mb": float, "transit": int, "gb_s": float, "large_packet_ratio": float,
    }  # fmt: skip
    rows = (
        (
            *collective.place,
            name,
            number_of(use.size),
            scaled(use.time, 1e6),
            number_of(use.speed),
            number_of(use.large),
        )
        for collective in document.value or ()
        for name, use in collective.transports.items()
    )
    return _reading(COMMUNICATION, document, columns, rows)


def communication_packets(document: JsonFile) -> Reading:
    """A row per collective, transport and size of packet in MB: how many there were, and their time in ns."""
    columns = {**_PLACE, "transport": str, "packet_mb": float, "count": int, "total": int}
    rows = (
        (*collective.place, name, number_of(size), scaled(count, 1), scaled(total, 1e6))
        for collective in document.value or ()
        for name, use in collective.transports.items()
        for size, (count, total) in use.packets.items()
    )
    return _reading(COMMUNICATION, document, columns, rows)


def communication_matrix(document: JsonFile) -> Reading:
    """A row per operation and pair of ranks of its group: size in MB, time in ns, GB/s."""
    columns = {
        **_PLACE, "source": int, "target": int, "transport": str, "size_mb": float, "transit": int, "gb_s": float,
        "operation": str,
    }  # fmt: skip
    return _reading(MATRIX, document, columns, document.value or [])


def _reading(name: str, document: JsonFile, columns: dict[str, type], rows: Iterable[tuple[Any, ...]]) -> Reading:
    import polars as pl

    types: dict[type, Any] = {str: pl.String, int: pl.Int64, float: pl.Float64}
    schema = {key: types[kind] for key, kind in columns.items()}
    frames, left = [pl.DataFrame(schema=schema)], iter(rows)
    while some := list(islice(left, _AT_ONCE)):
        frames.append(pl.DataFrame(some, schema=schema, orient="row"))
    frame = pl.concat(frames)
    state = "empty" if document.state == "read" and not len(frame) else document.state
    return Reading(name, state, frame, tuple(columns) if len(frame) else (), why=document.why)


_AT_ONCE = 1 << 16  # rows of a frame that are lists for a while


def number_of(value: Any) -> float | None:
    """The number that a cell or a member is or reads as; None for a word, an infinity or none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def start_ns(value: Any) -> int | None:
    """A writer's time in us since 1970, in ns; None if ``value`` is no time."""
    time = INVALID if value is None else parse_time(str(value))
    return None if time == INVALID else time


def scaled(value: Any, factor: float) -> int | None:
    """``value`` times ``factor`` as a whole length or size; None if it is no number or exceeds ``LONGEST``."""
    number = number_of(value)
    return None if number is None or abs(number * factor) >= LONGEST else round(number * factor)
