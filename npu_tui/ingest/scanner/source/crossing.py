"""Slices that end later than the one they began in."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import compiled, read64, write64


@compiled
def crossing(start_address: int, end_address: int, count: int, open_address: int, room: int) -> int:
    """How many of ``count`` slices of a lane, by start, end after the last one that is open when they start.

    Starts and ends are int64, and so are the ``room`` ends of open slices; -1 if these are too few.
    """
    starts, ends, opens = (start_address, 8 * count), (end_address, 8 * count), (open_address, 8 * room)
    found = depth = 0
    for k in range(count):
        start, end = read64(starts, 8 * k), read64(ends, 8 * k)
        while depth > 0 and read64(opens, 8 * depth - 8) <= start:
            depth -= 1
        if depth > 0 and end > read64(opens, 8 * depth - 8):
            found += 1
        if depth == room:
            return -1
        write64(opens, 8 * depth, end)
        depth += 1
    return found
