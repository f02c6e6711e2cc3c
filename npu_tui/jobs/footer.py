"""The footer of a Parquet file: how many values its columns unpack to, known before any of them is read.

Source: github.com/apache/parquet-format, ``parquet.thrift``, in the compact protocol of Thrift.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_MAGIC = b"PAR1"
_TAIL = 8
"""Bytes at the end of the file: the length of the footer, and ``_MAGIC``."""
_LONGEST = 1 << 20
"""Bytes of a footer; that of a summary has 10,000."""
_NONE = "no footer of a Parquet file"

_ROW_GROUPS, _COLUMNS, _METADATA, _VALUES = 4, 1, 3, 5
"""Numbers of the fields on the way to the number of values of a column in a group of rows."""

_TRUE, _FALSE, _INTEGERS, _BINARY, _LISTS, _STRUCT = 1, 2, (4, 5, 6), 8, (9, 10), 12
_WIDTHS = {_TRUE: 1, _FALSE: 1, 3: 1, 7: 8}
"""Bytes of the other types in a list; as the field of a struct a Boolean has none."""
_MOST_BITS = 63


def values_in(path: Path) -> int:
    """How many values the columns of ``path`` hold together, those of lists one by one: 36 KB can be 60 million.

    Raises ``OSError``, and ``ValueError`` where there is no footer.
    """
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - _TAIL, 0))
        tail = stream.read(_TAIL)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or length > min(size - _TAIL, _LONGEST):
            raise ValueError(_NONE)
        stream.seek(size - _TAIL - length)
        footer = stream.read(length)
    try:
        groups = _Compact(footer).struct()[_ROW_GROUPS]
        return sum(int(column[_METADATA][_VALUES]) for group in groups for column in group[_COLUMNS])
    except (IndexError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(_NONE) from error


class _Compact:
    """Values of Thrift's compact protocol, one after the other; texts and decimals are passed over as None."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def struct(self) -> dict[int, Any]:
        """The fields of a struct by number."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            if kind not in (_TRUE, _FALSE):  # whose value is the kind itself
                fields[number] = self._integer() if kind in _INTEGERS else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind == _STRUCT:
            return self.struct()
        if kind in _LISTS:
            head = self._byte()
            count, kind = head >> 4, head & 15
            count = self._unsigned() if count == 15 else count
            return [self._value(kind) for _ in range(count)]
        if kind not in _WIDTHS and kind != _BINARY:
            raise ValueError(_NONE)
        width = self._unsigned() if kind == _BINARY else _WIDTHS[kind]
        self._at += width
        return None

    def _byte(self) -> int:
        byte = self._content[self._at]
        self._at += 1
        return byte

    def _unsigned(self) -> int:
        byte = self._content[self._at]
        self._at += 1
        if byte < 0x80:
            return byte
        value, shift = byte & 0x7F, 7
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > _MOST_BITS:
                raise ValueError(_NONE)
        return value | byte << shift

    def _integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
