"""Texts and whole values of JSON: where they end.

An end is an offset; a negative one, ``-1 - offset``, says where that what stands there is none. The rules are stricter
than those of any reader after this one: what is refused here is only read more slowly.
"""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import Region, compiled, read8, read64, special_bytes, trailing_zeros

_DEEPEST = 60


@compiled
def blank_end(buffer: Region, at: int) -> int:
    """The first byte from ``at`` that is no white space."""
    byte = read8(buffer, at)
    while byte == 32 or byte == 10 or byte == 13 or byte == 9:
        at += 1
        byte = read8(buffer, at)
    return at


@compiled
def is_hex(byte: int) -> bool:
    """Whether ``byte`` is a hexadecimal digit."""
    return 48 <= byte <= 57 or 65 <= byte <= 70 or 97 <= byte <= 102


@compiled
def escape_end(buffer: Region, at: int) -> int:
    """The place after the escape at ``at``; halves of characters are refused."""
    byte = read8(buffer, at + 1)
    if byte == 117:
        high = read8(buffer, at + 2)
        if (high == 100 or high == 68) and read8(buffer, at + 3) > 55:
            return -1 - at
        for k in range(2, 6):
            if not is_hex(read8(buffer, at + k)):
                return -1 - (at + k)
        return at + 6
    if byte == 34 or byte == 92 or byte == 47 or byte == 98 or byte == 102 or byte == 110 or byte == 114 or byte == 116:
        return at + 2
    return -1 - (at + 1)


@compiled
def is_continued(byte: int) -> bool:
    """Whether ``byte`` continues a character of UTF-8."""
    return byte & 0xC0 == 0x80


@compiled
def character_end(buffer: Region, at: int) -> int:
    """The place after the character of several bytes at ``at``, which must be well-formed UTF-8."""
    first, second = read8(buffer, at), read8(buffer, at + 1)
    if not is_continued(second):
        return -1 - (at + 1)
    if 0xC2 <= first <= 0xDF:
        return at + 2
    if not is_continued(read8(buffer, at + 2)):
        return -1 - (at + 2)
    if 0xE0 <= first <= 0xEF:
        if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
            return -1 - at
        return at + 3
    if not is_continued(read8(buffer, at + 3)):
        return -1 - (at + 3)
    if first < 0xF0 or first > 0xF4 or (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
        return -1 - at
    return at + 4


@compiled
def text_end(buffer: Region, at: int) -> int:
    """The closing quote of the text whose first character is at ``at``."""
    while True:
        found = special_bytes(buffer, at)
        if found == 0:
            at += 32
            continue
        at += trailing_zeros(found)
        byte = read8(buffer, at)
        if byte == 34:
            return at
        if byte == 92:
            at = escape_end(buffer, at)
        elif byte >= 128:
            at = character_end(buffer, at)
        else:
            return -1 - at
        if at < 0:
            return at


@compiled
def plain_end(buffer: Region, at: int) -> int:
    """The same for a text of ASCII without escapes."""
    while True:
        found = special_bytes(buffer, at)
        if found == 0:
            at += 32
            continue
        at += trailing_zeros(found)
        if read8(buffer, at) == 34:
            return at
        return -1 - at


@compiled
def number_end(buffer: Region, at: int) -> int:
    """The place after the number at ``at``."""
    if read8(buffer, at) == 45:
        at += 1
    begin = at
    byte = read8(buffer, at)
    while 48 <= byte <= 57:
        at += 1
        byte = read8(buffer, at)
    if at == begin or (at - begin > 1 and read8(buffer, begin) == 48):
        return -1 - at
    if byte == 46:
        at += 1
        begin = at
        byte = read8(buffer, at)
        while 48 <= byte <= 57:
            at += 1
            byte = read8(buffer, at)
        if at == begin:
            return -1 - at
    if byte == 101 or byte == 69:
        at += 1
        byte = read8(buffer, at)
        if byte == 43 or byte == 45:
            at += 1
        begin = at
        while 48 <= read8(buffer, at) <= 57:
            at += 1
        if at == begin or at - begin > 2:
            return -1 - at
    return at


@compiled
def scalar_end(buffer: Region, at: int) -> int:
    """The place after the text, number or literal at ``at``."""
    byte = read8(buffer, at)
    if byte == 34:
        end = text_end(buffer, at + 1)
        return end + 1 if end >= 0 else end
    if byte == 45 or 48 <= byte <= 57:
        return number_end(buffer, at)
    word = read64(buffer, at)
    if word & 0xFFFFFFFF == 0x65757274 or word & 0xFFFFFFFF == 0x6C6C756E:
        return at + 4
    if word & 0xFFFFFFFFFF == 0x65736C6166:
        return at + 5
    return -1 - at


@compiled
def value_end(buffer: Region, at: int) -> int:
    """The place after the value at ``at``, whatever it is, as long as it is not nested too deeply."""
    byte = read8(buffer, at)
    if byte != 123 and byte != 91:
        return scalar_end(buffer, at)
    depth, objects = 0, 0  # a bit for every level that is an object, the innermost lowest
    while True:
        # A value begins here.
        if byte == 123 or byte == 91:
            depth += 1
            if depth > _DEEPEST:
                return -1 - at
            objects = (objects << 1) | int(byte == 123)
            at = blank_end(buffer, at + 1)
            byte = read8(buffer, at)
            if byte == 93 + 32 * (objects & 1):
                at += 1
            else:
                if objects & 1 == 0:
                    continue
                at = key_end(buffer, at)
                if at < 0:
                    return at
                byte = read8(buffer, at)
                continue
        else:
            at = scalar_end(buffer, at)
            if at < 0:
                return at
            at = blank_end(buffer, at)
            byte = read8(buffer, at)
            if byte == 44:
                at = blank_end(buffer, at + 1)
                if objects & 1:
                    at = key_end(buffer, at)
                    if at < 0:
                        return at
                byte = read8(buffer, at)
                continue
            if byte != 93 + 32 * (objects & 1):
                return -1 - at
            at += 1
        # A list or object has just ended.
        while True:
            depth -= 1
            objects = objects >> 1
            if depth == 0:
                return at
            at = blank_end(buffer, at)
            byte = read8(buffer, at)
            if byte == 44:
                at = blank_end(buffer, at + 1)
                if objects & 1:
                    at = key_end(buffer, at)
                    if at < 0:
                        return at
                byte = read8(buffer, at)
                break
            if byte != 93 + 32 * (objects & 1):
                return -1 - at
            at += 1


@compiled
def key_end(buffer: Region, at: int) -> int:
    """Where the value of the key at ``at`` begins."""
    if read8(buffer, at) != 34:
        return -1 - at
    at = text_end(buffer, at + 1)
    if at < 0:
        return at
    at = blank_end(buffer, at + 1)
    if read8(buffer, at) != 58:
        return -1 - at
    return blank_end(buffer, at + 1)
