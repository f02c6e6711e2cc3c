"""JSON of one event that strict parsers refuse, read all the same.

Python's writer puts ``NaN`` and ``Infinity`` bare, keeps lone surrogates and writes in the encoding of the host, which
torch_npu leaves to the locale (GBK); other writers leave control characters in texts as they are.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import msgspec

_LONGEST = 300
"""A whole number of more digits stays a text: none means anything, and Python refuses some of them."""

_DEEPEST = 100
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]+|[\]}]+', re.DOTALL)
"""A text, whose end may be missing, or brackets of one way."""

_strict = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


def loose_value(data: bytes) -> Any:
    """The value that ``data`` holds. Raises ``ValueError`` if it cannot be read as JSON at all."""
    try:
        return _strict(data)
    except (ValueError, RecursionError):
        return _parsed(data, None)


def strict_json(data: bytes) -> bytes:
    """``data`` as strict JSON in UTF-8, numbers with all their digits and ``NaN`` and ``Infinity`` as texts.

    Raises ``ValueError`` if it cannot be read as JSON at all.
    """
    return _encode(_parsed(data, Decimal))


def _parsed(data: bytes, parse_float: type[Decimal] | None) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("gb18030", "replace")
    try:
        return _loads(text, parse_float)
    except RecursionError:
        try:
            return _loads(_shallow(text), parse_float)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def _loads(text: str, parse_float: type[Decimal] | None) -> Any:
    return _paired(
        json.loads(
            text,
            strict=False,
            parse_float=parse_float,
            parse_int=_int_or_digits,
            parse_constant=str,
            object_pairs_hook=_without_surrogates,
        )
    )


def _shallow(text: str) -> str:
    """``text`` with an ellipsis in place of what lies deeper than ``_DEEPEST`` lists and objects."""
    kept, depth, begin = [], 0, 0
    for match in _BRACKETS.finditer(text):
        if match[0][0] in "[{":
            if depth <= _DEEPEST < depth + len(match[0]):
                kept.append(text[begin : match.start() + _DEEPEST - depth])
            depth += len(match[0])
        elif match[0][0] in "]}":
            if depth - len(match[0]) <= _DEEPEST < depth:
                kept.append('"…"')
                begin = match.start() + depth - _DEEPEST
            depth -= len(match[0])
    return "".join([*kept, text[begin:]]) if depth <= _DEEPEST else text


def _int_or_digits(text: str) -> int | str:
    return int(text) if len(text) <= _LONGEST else text


def _without_surrogates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {_paired(key): _paired(value) for key, value in pairs}


def _paired(value: Any) -> Any:
    """``value`` without lone surrogates in texts and lists; objects inside are free of them already."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return [_paired(item) for item in value] if isinstance(value, list) else value
