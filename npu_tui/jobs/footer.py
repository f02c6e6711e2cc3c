"""The footer of a Parquet file: how many values its columns unpack to, known before any of them is read.

Source: github.com/apache/parquet-format, ``parquet.thrift``, in the compact protocol of Thrift.
"""

from __future__ import annotations

import os
from pathlib import Path

_MAGIC = b"PAR1"
_TAIL = 8
"""Bytes at the end of the file: the length of the footer, and ``_MAGIC``."""
_LONGEST = 1 << 20
"""Bytes of a footer; that of a summary has 10,000."""
_NONE = "no footer of a Parquet file"

_SCHEMA, _ROW_GROUPS, _COLUMNS, _METADATA, _VALUES = 2, 4, 1, 3, 5
"""Numbers of the fields on the way to the number of values of a column in a group of rows, after the schema."""

_TRUE, _FALSE, _INTEGERS, _BINARY, _LISTS, _STRUCT = 1, 2, (4, 5, 6), 8, (9, 10), 12
_WIDTHS = {_TRUE: 1, _FALSE: 1, 3: 1, 7: 8}
"""Bytes of the other types in a list; as the field of a struct a Boolean has none."""
_MOST_BITS = 63


def values_in(path: Path, before: list[bytes] | None = None) -> int:
    """How many values the columns of ``path`` hold together, those of lists one by one: 36 KB can be 60 million.

    ``before`` keeps what the footers of a thousand summaries have in common: it is passed over in the next ones.

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
        return _values(footer, [] if before is None else before)
    except (IndexError, RecursionError) as error:
        raise ValueError(_NONE) from error


def _values(footer: bytes, before: list[bytes]) -> int:
    """The number of values of all columns in the groups of rows that ``footer`` lists.

    ``before`` are the bytes up to the end of the schema, then of each column from its metadata to its values.
    """
    at, number, values, known = 0, 0, 0, False
    if before and footer.startswith(before[0]):
        at, number = len(before[0]), _SCHEMA
    else:
        before.clear()
    while head := footer[at]:
        number, at = (number + (head >> 4), at + 1) if head >> 4 else _integer(footer, at + 1)
        if number == _ROW_GROUPS and head & 15 in _LISTS:
            count, at = _listed(footer, at)
            known = True
            for _ in range(count):
                more, at = _of_group(footer, at, before)
                values += more
        else:
            at = _after(footer, at, head & 15)
            if number == _SCHEMA and not before:
                before.append(footer[:at])
    if not known:
        raise ValueError(_NONE)
    return values


def _of_group(footer: bytes, at: int, before: list[bytes]) -> tuple[int, int]:
    """The number of values of the columns of the group of rows at ``at``, and where it ends."""
    number = values = 0
    known = False
    while head := footer[at]:
        number, at = (number + (head >> 4), at + 1) if head >> 4 else _integer(footer, at + 1)
        if number != _COLUMNS or head & 15 not in _LISTS:
            at = _after(footer, at, head & 15)
            continue
        count, at = _listed(footer, at)
        known = True
        for column in range(1, count + 1):
            more, at = _of_column(footer, at, before, column)
            values += more
    if not known:
        raise ValueError(_NONE)
    return values, at + 1


def _of_column(footer: bytes, at: int, before: list[bytes], column: int) -> tuple[int, int]:
    """The number of values of the column at ``at``, and where it ends."""
    number, values = 0, -1
    while head := footer[at]:
        number, at = (number + (head >> 4), at + 1) if head >> 4 else _integer(footer, at + 1)
        if number != _METADATA or head & 15 != _STRUCT:
            at = _after(footer, at, head & 15)
            continue
        field, begin = 0, at
        if column < len(before) and footer.startswith(before[column], at):
            field = _VALUES
            values, at = _integer(footer, at + len(before[column]))
        while head := footer[at]:
            field, at = (field + (head >> 4), at + 1) if head >> 4 else _integer(footer, at + 1)
            if field == _VALUES and head & 15 in _INTEGERS:
                if column == len(before):
                    before.append(footer[begin:at])
                values, at = _integer(footer, at)
            else:
                at = _after(footer, at, head & 15)
        at += 1
    if values < 0:
        raise ValueError(_NONE)
    return values, at + 1


def _after(footer: bytes, at: int, kind: int, listed: bool = False) -> int:
    """Where the value of ``kind`` at ``at`` ends; as a field of a struct a Boolean takes no byte, ``listed`` one."""
    if kind in _INTEGERS:
        while footer[at] & 0x80:
            at += 1
        return at + 1
    if kind == _BINARY:
        length, at = _unsigned(footer, at)
        return at + length
    if kind == _STRUCT:
        while head := footer[at]:
            at = at + 1 if head >> 4 else _integer(footer, at + 1)[1]
            at = _after(footer, at, head & 15)
        return at + 1
    if kind in _LISTS:
        kind = footer[at] & 15
        count, at = _listed(footer, at)
        for _ in range(count):
            at = _after(footer, at, kind, True)
        return at
    if kind not in _WIDTHS:
        raise ValueError(_NONE)
    return at if kind in (_TRUE, _FALSE) and not listed else at + _WIDTHS[kind]


def _listed(footer: bytes, at: int) -> tuple[int, int]:
    """How many values the list at ``at`` has, and where the first one is."""
    count = footer[at] >> 4
    return (count, at + 1) if count < 15 else _unsigned(footer, at + 1)


def _unsigned(footer: bytes, at: int) -> tuple[int, int]:
    """The number at ``at``, and where it ends."""
    value = shift = 0
    while (byte := footer[at]) & 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > _MOST_BITS:
            raise ValueError(_NONE)
    return value | byte << shift, at + 1


def _integer(footer: bytes, at: int) -> tuple[int, int]:
    """The number with a sign at ``at``, and where it ends."""
    value, at = _unsigned(footer, at)
    return (value >> 1) ^ -(value & 1), at
