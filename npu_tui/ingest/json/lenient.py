"""JSON of one event that strict parsers refuse, read all the same.

Python's writer puts ``NaN`` and ``Infinity`` bare, keeps lone surrogates and writes in the encoding of the host, which
torch_npu leaves to the locale (GBK); other writers leave control characters in texts as they are.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec

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
        return _paired(
            json.loads(
                text, strict=False, parse_float=parse_float, parse_constant=str, object_pairs_hook=_without_surrogates
            )
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _without_surrogates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {_paired(key): _paired(value) for key, value in pairs}


def _paired(value: Any) -> Any:
    """``value`` without lone surrogates in texts and lists; objects inside are free of them already."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return [_paired(item) for item in value] if isinstance(value, list) else value
