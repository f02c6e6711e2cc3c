"""The ends of slices in order of time."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import compiled, read64, write64

_MOVES = 4


@compiled
def ascending_ends(
    start_address: int, end_address: int, count: int, result_address: int, open_address: int, room: int
) -> int:
    """Write the ends of ``count`` slices, by start, to ``result`` in ascending order: 0.

    1 where sorting them all is quicker: too many are open at once for ``room`` or end in another order than nested ones
    do, or one ends before it starts. All columns are int64.
    """
    starts, ends, result = (start_address, 8 * count), (end_address, 8 * count), (result_address, 8 * count)
    opens = (open_address, 8 * room)
    known = depth = moves = 0
    for k in range(count):
        start, end = read64(starts, 8 * k), read64(ends, 8 * k)
        while depth > 0 and read64(opens, 8 * depth - 8) <= start:
            depth -= 1
            write64(result, 8 * known, read64(opens, 8 * depth))
            known += 1
        if end < start or depth == room or moves > _MOVES * count:
            return 1
        at = depth
        while at > 0 and read64(opens, 8 * at - 8) < end:
            write64(opens, 8 * at, read64(opens, 8 * at - 8))
            at -= 1
            moves += 1
        write64(opens, 8 * at, end)
        depth += 1
    while depth > 0:
        depth -= 1
        write64(result, 8 * known, read64(opens, 8 * depth))
        known += 1
    return 0
