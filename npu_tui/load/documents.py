"""JSON files beside a trace, read whole, or, where that takes too much memory, operation by operation.

What a document takes is reckoned from its signs before it is parsed: a few bytes make an object of some hundred.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import orjson
from msgspec import Struct

from npu_tui.load.companion_schema import JsonFile, reason
from npu_tui.trace.side_file import read_regular

T = TypeVar("T")

Operation = tuple[str, str, str, str, dict[str, Any]]
"""The two members that an operation lies in, such as a step and ``collective``, its name, its group, and its own."""

TOTALS = ("Total Op Info", "total")

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("?)|[{}\[\],]', re.DOTALL)
_BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("?)|[{}\[\]]', re.DOTALL)
_CLOSING = {b"{": b"}", b"[": b"]"}
_DEEPEST = 1024
"""Brackets within brackets that are read: those of orjson."""
_COSTS = {b"[": 72, b"{": 150, b",": 60, b":": 240}
"""About the bytes that a list, an object, one more value and one more member take while they are parsed."""
_WIDE = 3
"""Bytes more that a sign takes in a text with one that needs four."""
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
        for _ in () if data.isascii() else codecs.iterdecode(_pieces(data), "utf-8"):
            pass
    except UnicodeDecodeError:
        return b"".join(text.encode() for text in codecs.iterdecode(_pieces(data), "gb18030", "replace"))
    return data


def _pieces(data: bytes) -> Iterator[bytes]:
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
