"""Some args of some events of a piece of JSON, where they are whole numbers and plain texts."""

from __future__ import annotations

from npu_tui.ingest.scanner.layout import (
    CHOSEN_ABSENT,
    CHOSEN_NUMBER,
    CHOSEN_REGION,
    CHOSEN_TEXT,
    CHOSEN_UNREAD,
    CHOSEN_WORD,
)
from npu_tui.ingest.scanner.source.elements import elements
from npu_tui.ingest.scanner.source.memory import Region, compiled, read8, read32, read64, write8, write32, write64
from npu_tui.ingest.scanner.source.numbers import whole
from npu_tui.ingest.scanner.source.tables import hashed, is_same, last_word, number, put, region
from npu_tui.ingest.scanner.source.texts import blank_end, plain_end, value_end

_TEXT, _PIECES, _BOUNDS = (CHOSEN_REGION[name] for name in ("text", "pieces", "bounds"))
_POSITIONS, _KEYS, _LETTERS = (CHOSEN_REGION[name] for name in ("positions", "keys", "letters"))
_VALUES, _KINDS = CHOSEN_REGION["values"], CHOSEN_REGION["kinds"]
_SLOTS, _ENTRIES, _HEAP = (CHOSEN_REGION[name] for name in ("slots", "entries", "heap"))
_ASKED, _COUNT, _ROWS = (CHOSEN_WORD[name] for name in ("asked", "count", "rows"))
_KNOWN, _USED = CHOSEN_WORD["known"], CHOSEN_WORD["used"]
_ARGS = 0x73677261
_QUOTE, _COMMA, _COLON, _OPENING, _CLOSING, _NULL = 34, 44, 58, 123, 125, 110


@compiled
def text_code(plan: Region, text: Region, at: int, length: int) -> int:
    """The code of the ``length`` bytes at ``at``, a new one if they are not known, -1 if there is no room for it."""
    slots, entries, heap = region(plan, _SLOTS), region(plan, _ENTRIES), region(plan, _HEAP)
    mask = (slots[1] >> 2) - 1
    code = hashed(text, at, length, 0)
    slot = code & mask
    while True:
        found = read32(slots, 4 * slot) - 1
        if found < 0:
            break
        place = 24 * found
        if read64(entries, place) == code and read64(entries, place + 16) == length:
            if is_same(heap, read64(entries, place + 8), text, at, length):
                return found
        slot = (slot + 1) & mask
    found, used = number(plan, _KNOWN), number(plan, _USED)
    if 24 * (found + 1) > entries[1] or used + length + 8 > heap[1]:
        return -1
    write32(slots, 4 * slot, found + 1)
    write64(entries, 24 * found, code)
    write64(entries, 24 * found + 8, used)
    write64(entries, 24 * found + 16, length)
    copied = 0
    while copied + 8 <= length:
        write64(heap, used + copied, read64(text, at + copied))
        copied += 8
    if copied < length:
        write64(heap, used + copied, last_word(text, at + copied, length - copied))
    put(plan, _KNOWN, found + 1)
    put(plan, _USED, used + ((length + 7) & ~7))
    return found


@compiled
def key_number(plan: Region, text: Region, at: int, length: int) -> int:
    """Which of the keys stands at ``at``, -1 for none."""
    keys, letters = region(plan, _KEYS), region(plan, _LETTERS)
    for k in range(number(plan, _COUNT)):
        if read64(keys, 16 * k + 8) == length and is_same(letters, read64(keys, 16 * k), text, at, length):
            return k
    return -1


@compiled
def args_end(plan: Region, text: Region, at: int, row: int) -> int:
    """The place after the args at ``at``, whose chosen values go to ``row``; negative where one is of another kind."""
    rows = number(plan, _ROWS)
    values, kinds = region(plan, _VALUES), region(plan, _KINDS)
    if read8(text, at) != _OPENING:
        return -1
    at = blank_end(text, at + 1)
    if read8(text, at) == _CLOSING:
        return at + 1
    seen = 0
    while True:
        if read8(text, at) != _QUOTE:
            return -1
        begin = at + 1
        end = plain_end(text, begin)
        if end < 0:
            return -1
        key = key_number(plan, text, begin, end - begin)
        at = blank_end(text, end + 1)
        if read8(text, at) != _COLON:
            return -1
        at = blank_end(text, at + 1)
        byte = read8(text, at)
        if key < 0 or byte == _NULL:
            at = value_end(text, at)
        else:
            place = key * rows + row
            if byte == _QUOTE:
                end = plain_end(text, at + 1)
                if end < 0:
                    return -1
                value = text_code(plan, text, at + 1, end - at - 1)
                if value < 0:
                    return -1
                write8(kinds, place, CHOSEN_TEXT)
                at = end + 1
            else:
                value, at = whole(text, at)
                write8(kinds, place, CHOSEN_NUMBER)
            write64(values, 8 * place, value)
        if key >= 0:
            if seen >> key & 1:
                return -1
            seen |= 1 << key
        if at < 0:
            return -1
        at = blank_end(text, at)
        byte = read8(text, at)
        if byte == _CLOSING:
            return at + 1
        if byte != _COMMA:
            return -1
        at = blank_end(text, at + 1)


@compiled
def chosen_end(plan: Region, text: Region, at: int, row: int) -> int:
    """The place after the event at ``at``; negative where it or one of the chosen args is not of the common kinds."""
    if read8(text, at) != _OPENING:
        return -1
    at = blank_end(text, at + 1)
    if read8(text, at) == _CLOSING:
        return at + 1
    seen = 0
    while True:
        if read8(text, at) != _QUOTE:
            return -1
        begin = at + 1
        end = plain_end(text, begin)
        if end < 0:
            return -1
        at = blank_end(text, end + 1)
        if read8(text, at) != _COLON:
            return -1
        at = blank_end(text, at + 1)
        if end - begin == 4 and read64(text, begin) & 0xFFFFFFFF == _ARGS:
            if seen == 1:
                return -1
            seen = 1
            at = args_end(plan, text, at, row)
        else:
            at = value_end(text, at)
        if at < 0:
            return -1
        at = blank_end(text, at)
        byte = read8(text, at)
        if byte == _CLOSING:
            return at + 1
        if byte != _COMMA:
            return -1
        at = blank_end(text, at + 1)


@compiled
def chosen(plan_address: int, plan_bytes: int, row: int) -> int:
    """Write the chosen args of the events asked for into their rows, from ``row`` on; how many are left unread.

    ``layout.CHOSEN_REGION`` and ``CHOSEN_WORD`` say what the plan has. A piece whose events cannot be told apart is
    left unread.
    """
    plan = (plan_address, plan_bytes)
    whole_text, pieces, bounds = region(plan, _TEXT), region(plan, _PIECES), region(plan, _BOUNDS)
    positions, kinds = region(plan, _POSITIONS), region(plan, _KINDS)
    rows, count = number(plan, _ROWS), number(plan, _COUNT)
    unread = 0
    for piece in range(number(plan, _ASKED)):
        offset, length = read64(pieces, 32 * piece), read64(pieces, 32 * piece + 8)
        events, last = read64(pieces, 32 * piece + 16), read64(pieces, 32 * piece + 24)
        text = (whole_text[0] + offset, whole_text[1] - offset)
        told = elements(text[0], length, text[1], bounds[0], bounds[1] >> 4) == events
        while row < last:
            position = read64(positions, 8 * row)
            for key in range(count):
                write8(kinds, key * rows + row, CHOSEN_ABSENT)
            if not told or (
                chosen_end(plan, text, read64(bounds, 16 * position), row) != read64(bounds, 16 * position + 8)
            ):
                unread += 1
                for key in range(count):
                    write8(kinds, key * rows + row, CHOSEN_UNREAD)
            row += 1
    return unread
