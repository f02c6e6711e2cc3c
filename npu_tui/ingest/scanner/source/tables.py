"""Entities (texts, threads, series) numbered by first appearance, and dictionaries of them."""

from __future__ import annotations

from npu_tui.ingest.scanner.layout import DICTIONARIES, NUMBER, REGION
from npu_tui.ingest.scanner.source.memory import (
    Region,
    compiled,
    read32,
    read64,
    shifted_right,
    write32,
    write64,
)

_SLOTS, _HASH, _OFFSET, _LENGTH, _HEAP = (
    REGION["slots"],
    REGION["hash"],
    REGION["offset"],
    REGION["length"],
    REGION["heap"],
)
_CODE, _LIST = REGION["code"], REGION["list"]
_ENTITIES, _HEAP_USED, _ROOM = 8 * NUMBER["entities"], 8 * NUMBER["heap_used"], 8 * NUMBER["entity_room"]
_KNOWN = 8 * NUMBER[f"known_{DICTIONARIES[0]}"]
_FACTOR = -0x61C8864680B583EB
_OTHER_FACTOR = -0x4B47D0C5D6A8A5BD


@compiled
def region(state: Region, word: int) -> Region:
    """The region whose address is at ``word`` of the state."""
    return read64(state, 8 * word), read64(state, 8 * word + 8)


@compiled
def number(state: Region, word: int) -> int:
    """The plain number at ``word`` of the state."""
    return read64(state, 8 * word)


@compiled
def put(state: Region, word: int, value: int) -> None:
    """Set the plain number at ``word`` of the state."""
    write64(state, 8 * word, value)


@compiled
def last_word(memory: Region, at: int, count: int) -> int:
    """The ``count`` bytes at ``at``, fewer than 8, as a word."""
    return read64(memory, at) & ((1 << (8 * count)) - 1)


@compiled
def hashed(memory: Region, at: int, length: int, kind: int) -> int:
    """A hash of ``length`` bytes at ``at``, which are of ``kind``."""
    first, second = length * 8 + kind, _OTHER_FACTOR
    while length >= 16:
        first = (first ^ read64(memory, at)) * _FACTOR
        second = (second ^ read64(memory, at + 8)) * _OTHER_FACTOR
        first ^= shifted_right(first, 29)
        second ^= shifted_right(second, 31)
        at += 16
        length -= 16
    if length >= 8:
        first = (first ^ read64(memory, at)) * _FACTOR
        first ^= shifted_right(first, 29)
        at += 8
        length -= 8
    if length > 0:
        second = (second ^ last_word(memory, at, length)) * _OTHER_FACTOR
        second ^= shifted_right(second, 31)
    first = (first ^ second) * _FACTOR
    return first ^ shifted_right(first, 32)


@compiled
def is_same(heap: Region, known: int, memory: Region, at: int, length: int) -> bool:
    """Whether the bytes at ``known`` of the heap are those at ``at``."""
    while length >= 8:
        if read64(heap, known) != read64(memory, at):
            return False
        known += 8
        at += 8
        length -= 8
    return length == 0 or last_word(heap, known, length) == last_word(memory, at, length)


@compiled
def entity(state: Region, kind: int, memory: Region, at: int, length: int) -> int:
    """The number of the ``length`` bytes at ``at`` of ``memory``, a new one if they are not known.

    There must be room for it, and 8 bytes more than its length in the heap.
    """
    slots = region(state, _SLOTS)
    mask = (slots[1] >> 2) - 1
    code = hashed(memory, at, length, kind)
    slot = code & mask
    tag = length * 8 + kind
    while True:
        found = read32(slots, 4 * slot) - 1
        if found < 0:
            break
        if read64(region(state, _HASH), 8 * found) == code and read64(region(state, _LENGTH), 8 * found) == tag:
            known = read64(region(state, _OFFSET), 8 * found)
            if is_same(region(state, _HEAP), known, memory, at, length):
                return found
        slot = (slot + 1) & mask
    found = read64(state, _ENTITIES)
    write64(state, _ENTITIES, found + 1)
    write32(slots, 4 * slot, found + 1)
    heap, used = region(state, _HEAP), read64(state, _HEAP_USED)
    write64(region(state, _HASH), 8 * found, code)
    write64(region(state, _LENGTH), 8 * found, tag)
    write64(region(state, _OFFSET), 8 * found, used)
    copied = 0
    while copied + 8 <= length:
        write64(heap, used + copied, read64(memory, at + copied))
        copied += 8
    if copied < length:
        write64(heap, used + copied, last_word(memory, at + copied, length - copied))
    write64(state, _HEAP_USED, used + ((length + 7) & ~7))
    return found


@compiled
def code_of(state: Region, dictionary: int, thing: int) -> int:
    """The code of an entity in a dictionary, a new one if it has none."""
    room = read64(state, _ROOM)
    codes = region(state, _CODE)
    place = 4 * (dictionary * room + thing)
    code = read32(codes, place)
    if code < 0:
        code = read64(state, _KNOWN + 8 * dictionary)
        write64(state, _KNOWN + 8 * dictionary, code + 1)
        write32(codes, place, code)
        write32(region(state, _LIST), 4 * (dictionary * room + code), thing)
    return code


@compiled
def rehash(address: int, words: int) -> None:
    """Find the slots of all entities again, after the table of slots was emptied."""
    state = (address, 8 * words)
    slots = region(state, _SLOTS)
    mask = (slots[1] >> 2) - 1
    for thing in range(read64(state, _ENTITIES)):
        slot = read64(region(state, _HASH), 8 * thing) & mask
        while read32(slots, 4 * slot) != 0:
            slot = (slot + 1) & mask
        write32(slots, 4 * slot, thing + 1)
