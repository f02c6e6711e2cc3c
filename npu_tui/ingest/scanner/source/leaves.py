"""What is on top at every instant, of slices that lie above each other."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import (
    Region,
    compiled,
    leading_zeros,
    read32,
    read64,
    write32,
    write64,
)

_FOREVER = (1 << 63) - 1


@compiled
def highest(marks: Region, level: int) -> int:
    """The highest marked level up to ``level``, -1 without one."""
    if level < 0:
        return -1
    word = level >> 6
    found = read64(marks, 8 * word)
    if level & 63 < 63:
        found &= (1 << ((level & 63) + 1)) - 1
    while found == 0 and word > 0:
        word -= 1
        found = read64(marks, 8 * word)
    if found == 0:
        return -1
    return (word << 6) + 63 - leading_zeros(found)


@compiled
def mark(marks: Region, level: int, there: bool) -> None:
    """Mark a level, or take its mark away."""
    place = 8 * (level >> 6)
    bit = 1 << (level & 63)
    word = read64(marks, place)
    write64(marks, place, word | bit if there else word & ~bit)


@compiled
def put_piece(who: Region, begins: Region, stops: Region, place: int, own: int, begin: int, stop: int) -> int:
    """Write the piece number ``place``; how many there are then, or -1 if there is no room."""
    if 8 * place >= begins[1]:
        return -1
    write32(who, 4 * place, own)
    write64(begins, 8 * place, begin)
    write64(stops, 8 * place, stop)
    return place + 1


@compiled
def leaves(
    start_address: int, end_address: int, level_address: int, count: int, who_address: int, begin_address: int,
    stop_address: int, room: int, levels_address: int, levels: int, marks_address: int,
) -> int:  # fmt: skip
    """The pieces of ``count`` slices by start of which no higher one hides anything; how many there are.

    Starts and ends are int64, and so are the ``room`` places for begins and stops of pieces; levels, and the places for
    whose a piece is, are int32. Two slices of one level never overlap. What has no duration is a piece of its own,
    before the one that begins there. The loop works with ``levels`` pairs of int64 and a bit for each level, all zero.
    Negative: the slices do not stand by start, or have other levels.
    """
    starts, ends, heights = (start_address, 8 * count), (end_address, 8 * count), (level_address, 4 * count)
    who, begins, stops = (who_address, 4 * room), (begin_address, 8 * room), (stop_address, 8 * room)
    active, marks = (levels_address, 16 * levels), (marks_address, 8 * ((levels + 63) >> 6))
    found, now, top = 0, 0, -1
    for k in range(count + 1):
        until, end, level = _FOREVER, _FOREVER, 0
        if k < count:
            until, end, level = read64(starts, 8 * k), read64(ends, 8 * k), read32(heights, 4 * k)
            if level < 0 or level >= levels or (k > 0 and until < now):
                return -1
        while top >= 0:
            last = read64(active, 16 * top)
            stop = last if last < until else until
            if stop > now:
                own = read64(active, 16 * top + 8)
                if found > 0 and read32(who, 4 * found - 4) == own and read64(stops, 8 * found - 8) == now:
                    write64(stops, 8 * found - 8, stop)
                else:
                    found = put_piece(who, begins, stops, found, own, now, stop)
                    if found < 0:
                        return -1
                now = stop
            if last > until:
                break
            mark(marks, top, False)
            top = highest(marks, top - 1)
        now = until
        if k == count:
            break
        if end <= until:
            found = put_piece(who, begins, stops, found, k, until, until)
            if found < 0:
                return -1
        else:
            mark(marks, level, True)
            write64(active, 16 * level, end)
            write64(active, 16 * level + 8, k)
            if level > top:
                top = level
    return found
