"""Rows of SQLite's tables out of the pages they lie on (https://www.sqlite.org/fileformat.html, 1.6 and 2.1).

What is not exactly as SQLite writes it is refused, and so is what takes more than one page: SQLite itself reads that.
"""

from __future__ import annotations

from npu_tui.ingest.scanner.layout import ABSENT, AS_REAL, AS_ROW_NUMBER, NOT_WANTED, PAGE_PADDING
from npu_tui.ingest.scanner.source.memory import (
    Region,
    bits_of_float,
    compiled,
    float_of_bits,
    read8,
    read64,
    swapped,
    write64,
)
from npu_tui.ingest.scanner.source.numbers import are_digits, eight_digits

_LEAF = 13
_LEAF_HEADER = 8
_LENGTHS = 0x0088643210
"""Four bits for each of the types 0 to 9: how many bytes a value takes."""
_REAL, _NOUGHT, _ONE, _RESERVED, _FIRST_TEXT = 7, 8, 9, 10, 13
_LIMIT = 9.2e18
"""Reals below this have a whole part of 64 bits."""
_NOT_A_NUMBER = 0x7FF8000000000000
_MOST_TENTHS, _LAST_DIGIT = 922337203685477580, 7
"""What a number of 64 bits is without its last digit at most, and the highest last digit then."""


@compiled
def varint(pages: Region, at: int) -> tuple[int, int]:
    """A number of one to nine bytes and where it ends."""
    byte = read8(pages, at)
    if byte < 128:
        return byte, at + 1
    value = byte & 127
    for k in range(1, 8):
        byte = read8(pages, at + k)
        value = (value << 7) | (byte & 127)
        if byte < 128:
            return value, at + k + 1
    return (value << 8) | read8(pages, at + 8), at + 9


@compiled
def text_number(pages: Region, at: int, length: int) -> tuple[int, bool]:
    """The whole number that a text of ``length`` bytes is, and whether it is one; an empty one is 0, as for SQLite."""
    negative = length > 1 and read8(pages, at) == 45
    if negative:
        at += 1
        length -= 1
    if length > 19 or (negative and length == 19):
        return 0, False
    value = 0
    while length >= 8:
        word = read64(pages, at)
        if not are_digits(word):
            return 0, False
        value = value * 100000000 + eight_digits(word)
        at += 8
        length -= 8
    while length > 0:
        digit = read8(pages, at) - 48
        if digit < 0 or digit > 9 or value > _MOST_TENTHS or (value == _MOST_TENTHS and digit > _LAST_DIGIT):
            return 0, False
        value = value * 10 + digit
        at += 1
        length -= 1
    if negative:
        value = -value
    return value, True


@compiled
def length_of(kind: int) -> int:
    """How many bytes a value of a type takes."""
    if kind < _RESERVED:
        return (_LENGTHS >> (4 * kind)) & 15
    return (kind - 12) >> 1


@compiled
def value_of(pages: Region, at: int, kind: int, real: bool) -> tuple[int, bool]:
    """The bits of a value, and whether it is a number."""
    if kind == 0:
        return (_NOT_A_NUMBER if real else ABSENT), True
    if kind <= 6:
        value = swapped(read64(pages, at)) >> (64 - 8 * length_of(kind))
    elif kind == _REAL:
        bits = swapped(read64(pages, at))
        if real:
            return bits, True
        exact = float_of_bits(bits)
        return (int(exact), True) if -_LIMIT < exact < _LIMIT else (0, False)
    elif kind <= _ONE:
        value = kind - _NOUGHT
    else:
        if kind < _FIRST_TEXT or kind & 1 == 0:
            return 0, False
        value, known = text_number(pages, at, length_of(kind))
        if not known:
            return 0, False
    if real:
        return bits_of_float(float(value)), True
    return value, True


@compiled
def row(
    pages: Region, at: int, size: int, number: int, plan: Region, columns: int, out: Region, room: int, to: int
) -> bool:
    """Write the row with that record of ``size`` bytes; False if it is none that is understood."""
    head, kind_at = varint(pages, at)
    head_end, end = at + head, at + size
    if head < 1 or head > size or kind_at > head_end:
        return False
    value_at = head_end
    column = 0
    while kind_at < head_end:
        kind = read8(pages, kind_at)
        if kind < 128:
            kind_at += 1
        else:
            kind, kind_at = varint(pages, kind_at)
        if kind < 0 or kind > 1 << 40 or kind == _RESERVED or kind == _RESERVED + 1 or column >= columns:
            return False
        length = length_of(kind)
        if value_at + length > end:
            return False
        wanted = read64(plan, 8 * column)
        if wanted != NOT_WANTED:
            how = wanted & 3
            if how == AS_ROW_NUMBER:
                value, known = number, kind == 0
            else:
                value, known = value_of(pages, value_at, kind, how == AS_REAL)
            if not known:
                return False
            write64((read64(out, 8 * (wanted >> 2)), 8 * room), 8 * to, value)
        value_at += length
        column += 1
    if kind_at != head_end or value_at != end:
        return False
    while column < columns:  # it is older than its last columns
        wanted = read64(plan, 8 * column)
        if wanted != NOT_WANTED:
            how = wanted & 3
            if how == AS_ROW_NUMBER:
                return False
            absent = _NOT_A_NUMBER if how == AS_REAL else ABSENT
            write64((read64(out, 8 * (wanted >> 2)), 8 * room), 8 * to, absent)
        column += 1
    return True


@compiled
def table_rows(
    pages_address: int, pages_bytes: int, leaves_address: int, leaf_count: int, usable: int, plan_address: int,
    columns: int, out_address: int, out_count: int, room: int, first: int,
) -> int:  # fmt: skip
    """How many rows of ``leaf_count`` leaves were written from row ``first`` on, -1 if they are not all understood.

    A leaf is three int64: where it lies among the pages, a row number below all of its own, and the highest it may
    have. The plan has for each column of the table ``NOT_WANTED`` or the number of its output times four and how it is
    wanted. ``out_count`` addresses lead to outputs of ``room`` int64 or doubles; the first one takes the row numbers.
    """
    pages = (pages_address, pages_bytes + PAGE_PADDING)
    leaves, plan, out = (leaves_address, 24 * leaf_count), (plan_address, 8 * columns), (out_address, 8 * out_count)
    numbers = (read64(out, 0), 8 * room)
    to = first
    for leaf in range(leaf_count):
        page, below, highest = read64(leaves, 24 * leaf), read64(leaves, 24 * leaf + 8), read64(leaves, 24 * leaf + 16)
        if page < 0 or page + usable > pages_bytes or read8(pages, page) != _LEAF:
            return -1
        cells = (read8(pages, page + 3) << 8) | read8(pages, page + 4)
        content = _LEAF_HEADER + 2 * cells
        if cells == 0 or content > usable or to + cells > room:  # only a table without rows has a leaf without any
            return -1
        for cell in range(cells):
            pointer = page + _LEAF_HEADER + 2 * cell
            offset = (read8(pages, pointer) << 8) | read8(pages, pointer + 1)
            if offset < content or offset >= usable:
                return -1
            size, at = varint(pages, page + offset)
            number, at = varint(pages, at)
            if size < 1 or size > usable - 35 or at + size > page + usable or number <= below or number > highest:
                return -1
            below = number
            if not row(pages, at, size, number, plan, columns, out, room, to):
                return -1
            write64(numbers, 8 * to, number)
            to += 1
    return to - first
