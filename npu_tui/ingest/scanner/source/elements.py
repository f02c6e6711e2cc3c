"""Where the elements of a piece of JSON begin and end, by its quotes and brackets alone."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import (
    Region,
    bracket_bytes,
    compiled,
    equal_bytes,
    trailing_zeros,
    write64,
)

_QUOTE, _BACKSLASH, _OPENING, _CLOSING = 0x22, 0x5C, 0x7B, 0x7D
_BLOCK = 32
_ALL = (1 << _BLOCK) - 1


@compiled
def unescaped(quotes: int, backslashes: int) -> int:
    """``quotes`` without those after a backslash that is not escaped itself; bit 32 of it tells of the next block."""
    while backslashes:
        lowest = backslashes & -backslashes
        following = lowest << 1
        quotes = (quotes | 1 << _BLOCK) if following > _ALL else quotes & ~following
        backslashes &= ~(lowest | following)
    return quotes


@compiled
def quoted(quotes: int) -> int:
    """A bit for every byte from an opening quote to the one before the closing quote."""
    quotes ^= quotes << 1
    quotes ^= quotes << 2
    quotes ^= quotes << 4
    quotes ^= quotes << 8
    quotes ^= quotes << 16
    return quotes & _ALL


@compiled
def elements(text_address: int, length: int, padded: int, found_address: int, room: int) -> int:
    """The objects and lists in ``length`` bytes that are in no other: how many, or -1 where brackets do not match.

    Begin and end of each go to ``found`` as int64, of at most ``room`` of them. ``padded`` is the length with the 32
    bytes or more after the text, whatever they are. The text is not checked otherwise.
    """
    text: Region = (text_address, padded)
    found: Region = (found_address, 16 * room)
    count = depth = begin = at = 0
    inside = escaped = 0
    while at < length:
        quotes, backslashes = equal_bytes(text, at, _QUOTE), equal_bytes(text, at, _BACKSLASH)
        own = _ALL
        if length - at < _BLOCK:
            own = (1 << (length - at)) - 1
            quotes &= own
            backslashes &= own
        if escaped:
            quotes, backslashes, escaped = quotes & ~1, backslashes & ~1, 0
        if backslashes:
            quotes = unescaped(quotes, backslashes)
            escaped, quotes = quotes >> _BLOCK, quotes & _ALL
        within = quoted(quotes) ^ inside
        inside = _ALL if within >> (_BLOCK - 1) else 0
        opening = bracket_bytes(text, at, _OPENING) & ~within
        brackets = (opening | (bracket_bytes(text, at, _CLOSING) & ~within)) & own
        while brackets:
            place = trailing_zeros(brackets)
            brackets &= brackets - 1
            if opening >> place & 1:
                if depth == 0:
                    begin = at + place
                depth += 1
            else:
                depth -= 1
                if depth < 0 or count == room:
                    return -1
                if depth == 0:
                    write64(found, 16 * count, begin)
                    write64(found, 16 * count + 8, at + place + 1)
                    count += 1
        at += _BLOCK
    return -1 if depth or inside else count
