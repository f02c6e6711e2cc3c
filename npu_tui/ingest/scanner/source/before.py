"""How many of ascending times lie before others."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import Region, compiled, read64, write64


@compiled
def lie_before(starts: Region, low: int, high: int, edge: int) -> int:
    """How many of the ascending ``starts`` lie before ``edge``, of which ``low`` are known to and ``high`` may."""
    step = 1
    while low + step <= high and read64(starts, 8 * (low + step - 1)) < edge:
        low += step
        step *= 2
    stop = low + step - 1
    if stop > high:
        stop = high
    while low < stop:
        middle = (low + stop) >> 1
        if read64(starts, 8 * middle) < edge:
            low = middle + 1
        else:
            stop = middle
    return low


@compiled
def started_before(starts: Region, marks: Region, low: int, high: int, edge: int) -> int:
    """``lie_before``; ``marks``, every 64th start, lie closer together in memory."""
    first, behind = (low + 63) >> 6, (high + 63) >> 6
    mark = lie_before(marks, first, behind, edge) if first < behind else first
    if mark > first:
        low = 64 * (mark - 1) + 1
    return lie_before(starts, low, 64 * mark if mark < behind else high, edge)


@compiled
def all_before(starts: Region, marks: Region, low: int, high: int, edges: Region, count: int, found: Region,
               at: int) -> None:  # fmt: skip
    """``started_before`` for ``count`` ascending ``edges`` from the second on, written to ``found`` from ``at`` on.

    Each halving is done for all of them before the next one, so that none of their reads waits for another.
    """
    last = started_before(starts, marks, low, high, read64(edges, 8 * count))
    first, behind = (low + 63) >> 6, (last + 63) >> 6
    for k in range(count):
        write64(found, 8 * (at + k), first)
    left = behind - first
    while left > 0:
        half = (left + 1) >> 1
        for k in range(count):
            mark = read64(found, 8 * (at + k))
            before = 1 if read64(marks, 8 * (mark + half - 1)) < read64(edges, 8 * k + 8) else 0
            write64(found, 8 * (at + k), mark + half * before)
        left >>= 1
    for k in range(count):
        mark = read64(found, 8 * (at + k))
        write64(found, 8 * (at + k), 64 * (mark - 1) if mark > first else low)
    left = last - low if last - low < 64 else 64
    while left > 0:
        half = (left + 1) >> 1
        for k in range(count):
            place = read64(found, 8 * (at + k))
            probe = place + half - 1
            inside = probe if probe < last else last - 1
            before = 1 if read64(starts, 8 * inside) < read64(edges, 8 * k + 8) else 0
            write64(found, 8 * (at + k), place + (half * before if probe < last else 0))
        left >>= 1
