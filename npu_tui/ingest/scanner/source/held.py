"""The most that holds in every column of values that each hold until the next one: ``view.frame.held`` in one loop."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.before import all_before, lie_before, started_before
from npu_tui.ingest.scanner.source.memory import Region, compiled, read64, region, write8, write64

_SHIFT = 4
_DIRECT = 32
_LOWEST, _FLOAT = 1, 2
_SIGN_OFF = (1 << 63) - 1


@compiled
def ordered(value: int, kind: int) -> int:
    """A number whose order is that of values of this ``kind``: 0 for integers, 1 the other way round, 2 for floats.

    Whoever asks for the order of such a number gets the value back.
    """
    if kind == _LOWEST:
        return -1 - value
    return value ^ ((value >> 63) & _SIGN_OFF) if kind == _FLOAT else value


@compiled
def most(values: Region, kind: int, keys: Region, level_at: int, low: int, high: int, best: int) -> int:
    """The most of ``best`` and of the keys ``[low, high)`` of a level, which begins at ``level_at`` (-1: values)."""
    for k in range(low, high):
        key = ordered(read64(values, 8 * k), kind) if level_at < 0 else read64(keys, 8 * (level_at + k))
        best = key if key > best else best
    return best


@compiled
def held(plan_address: int, plan_bytes: int) -> int:
    """The most that holds in each column; 0.

    The plan has nine regions, each as address and length in bytes: times, every 64th of them, values, keys of all
    levels of blocks of 16, where these begin, edges of the columns; then what holds, whether anything does (a byte
    each), and room for a place per column. After them: values, columns, levels and the kind of ``ordered``.
    """
    plan = (plan_address, plan_bytes)
    times, marks, values, keys, levels = (
        region(plan, 0), region(plan, 1), region(plan, 2), region(plan, 3), region(plan, 4)
    )  # fmt: skip
    edges, found, known, places = region(plan, 5), region(plan, 6), region(plan, 7), region(plan, 8)
    count, columns, depth, kind = read64(plan, 144), read64(plan, 152), read64(plan, 160), read64(plan, 168)
    left = read64(edges, 0)
    begun = started_before(times, marks, 0, count, left)
    all_before(times, marks, begun, count, edges, columns, places, 0)
    for column in range(columns):
        last = read64(places, 8 * column)
        # What holds at the left edge began before it, unless a value begins right there.
        first = begun - 1 if begun > 0 else 0
        if begun < count and read64(times, 8 * begun) == left:
            first = lie_before(times, begun, count, left + 1) - 1
        write8(known, column, 1 if last > first else 0)
        low, high, at, level = first, last, -1, 0
        best = ordered(read64(values, 8 * first), kind) if last > first else ordered(0, kind)
        while high - low > _DIRECT and level < depth:
            inner, outer = (low + 15) >> _SHIFT, high >> _SHIFT
            best = most(values, kind, keys, at, low, inner << _SHIFT, best)
            best = most(values, kind, keys, at, outer << _SHIFT, high, best)
            low, high, at = inner, outer, read64(levels, 8 * level)
            level += 1
        best = most(values, kind, keys, at, low, high, best)
        write64(found, 8 * column, ordered(best, kind))
        begun, left = last, read64(edges, 8 * column + 8)
    return 0
