"""Companion files in JSON, also those that are cut off."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from npu_tui.ingest.companions.reading import State, reason

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("?)|[{}\[\],]', re.DOTALL)
_CLOSING = {b"{": b"}", b"[": b"]"}


class Document(Struct, frozen=True):
    """What became of a JSON file: its ``value`` (None without one), of a file that is cut off what stands before."""

    state: State
    value: Any = None
    why: str = ""


def read_document(path: Path) -> Document:
    """The content of the JSON file ``path``."""
    try:
        if not path.exists():
            return Document("missing")
        data = path.read_bytes()
    except OSError as error:
        return Document("unreadable", why=reason(error))
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip(b" \t\r\n\0"):
        return Document("empty")
    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode("gb18030", "replace").encode()
    try:
        value = orjson.loads(data)
    except ValueError as error:
        closed = _closed(data)
        try:
            return Document("cut_off", orjson.loads(closed)) if closed else Document("unreadable", why=reason(error))
        except ValueError:
            return Document("unreadable", why=reason(error))
    return Document("read" if value not in ({}, [], None) else "empty", value)


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
        elif token in (b"}", b"]"):
            if not ends or ends.pop() != token:
                return b""
            whole = match.end()
        elif token == b",":
            whole = match.start()
    return data[:whole] + b"".join(reversed(ends)) if ends else b""
