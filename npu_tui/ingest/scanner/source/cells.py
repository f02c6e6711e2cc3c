"""What every cell of the screen sums up of rows of slices: ``view.cells.raster`` without a temporary array."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.before import all_before, started_before
from npu_tui.ingest.scanner.source.memory import (
    Region,
    compiled,
    fetch,
    read32,
    read64,
    region,
    write8,
    write32,
    write64,
)

_BEFORE = -(1 << 61)
_SHIFT = 4
_DIRECT = 32
_FEW = 64
_AHEAD = 12
"""Columns whose memory is asked for before it is read."""


@compiled
def highest(starts: Region, ends: Region, keys: Region, level_at: int, first: int, last: int, bits: int, drop: int,
            best: int) -> int:  # fmt: skip
    """The most of ``best`` and of the keys ``[first, last)`` of a level, which begins at ``level_at`` (-1: slices)."""
    mask = (1 << bits) - 1
    for k in range(first, last):
        if level_at < 0:
            key = (((read64(ends, 8 * k) - read64(starts, 8 * k)) >> drop) << bits) | (mask - k)
        else:
            key = read64(keys, 8 * (level_at + k))
        if key > best:
            best = key
    return best


@compiled
def around(low: int, high: int, count: int) -> tuple[int, int, int]:
    """The level on which whole blocks around ``[low, high)`` are few, and the first and the end of these."""
    inner, outer, level = low >> _SHIFT, ((high - 1) >> _SHIFT) + 1, 0
    while outer - inner > _FEW and level + 1 < count:
        inner, outer, level = inner >> _SHIFT, ((outer - 1) >> _SHIFT) + 1, level + 1
    return level, inner, outer


@compiled
def ask(starts: Region, ends: Region, sums: Region, keys: Region, levels: Region, count: int, low: int,
        high: int) -> None:  # fmt: skip
    """Ask for what a cell with the slices ``[low, high)`` is made of."""
    fetch(sums, 8 * high)
    fetch(starts, 8 * high)
    fetch(starts, 8 * high - 8)
    fetch(ends, 8 * high)
    fetch(ends, 8 * high - 8)
    if high - low > _DIRECT:
        level, inner, outer = around(low, high, count)
        at = read64(levels, 8 * level)
        for k in range(inner, outer + 7, 8):
            fetch(keys, 8 * (at + k))
    else:
        for k in range(low, high, 8):
            fetch(starts, 8 * k)
            fetch(ends, 8 * k)


@compiled
def longest(starts: Region, ends: Region, keys: Region, levels: Region, count: int, low: int, high: int, bits: int,
            drop: int) -> int:  # fmt: skip
    """The key of the longest slice of ``[low, high)``, the earlier on ties; ``view.frame.levels`` has the keys."""
    mask = (1 << bits) - 1
    if high - low > _DIRECT:
        # Whole blocks around the range are a few keys; it is rare that their winner lies outside of the range.
        level, inner, outer = around(low, high, count)
        best = highest(starts, ends, keys, read64(levels, 8 * level), inner, outer, bits, drop, -1)
        found = mask - (best & mask)
        if low <= found < high:
            return best
    best, level, at = -1, 0, -1
    while high - low > _DIRECT and level < count:
        inner, outer = (low + 15) >> _SHIFT, high >> _SHIFT
        best = highest(starts, ends, keys, at, low, inner << _SHIFT, bits, drop, best)
        best = highest(starts, ends, keys, at, outer << _SHIFT, high, bits, drop, best)
        low, high, at = inner, outer, read64(levels, 8 * level)
        level += 1
    return highest(starts, ends, keys, at, low, high, bits, drop, best)


@compiled
def eighths(time: int, width: int) -> int:
    """``time`` ns into a cell of ``width`` ns as eighths, rounded to the nearest."""
    inside = 0 if time < 0 else width if time > width else time
    return (16 * inside + width) // (2 * width)


@compiled
def cells(plan_address: int, plan_bytes: int) -> int:
    """The cells of some rows between column edges; 0, or 1 where a row ends after the slices.

    The plan has 22 regions, each as address and length in bytes: offsets, items (int32), starts, ends and sums of the
    rows, which of them are wanted, edges, keys, where their levels begin, and every 64th start; then the twelve columns
    of ``view.cells.raster.Cells``. After them: rows wanted, columns, levels, bits and drop of the keys.
    """
    plan = (plan_address, plan_bytes)
    offsets, items, starts, ends = region(plan, 0), region(plan, 1), region(plan, 2), region(plan, 3)
    sums, which, edges, keys, levels, marks = (
        region(plan, 4), region(plan, 5), region(plan, 6), region(plan, 7), region(plan, 8), region(plan, 9)
    )  # fmt: skip
    counts, busies, shown, positions = region(plan, 10), region(plan, 11), region(plan, 12), region(plan, 13)
    firsts, others, leads, from_left = region(plan, 14), region(plan, 15), region(plan, 16), region(plan, 17)
    to_right, touches, start8, end8 = region(plan, 18), region(plan, 19), region(plan, 20), region(plan, 21)
    lines, columns, depth = read64(plan, 352), read64(plan, 360), read64(plan, 368)
    bits, drop = read64(plan, 376), read64(plan, 384)
    size, mask = items[1] >> 2, (1 << bits) - 1
    for line in range(lines):
        row = read64(which, 8 * line)
        origin, end_of_row = read64(offsets, 8 * row), read64(offsets, 8 * row + 8)
        if origin < 0 or end_of_row < origin or end_of_row > size or size == 0:
            return 1
        left = read64(edges, 0)
        started = started_before(starts, marks, origin, end_of_row, left)
        before = started - 1 if started > 0 else 0
        ended = read64(ends, 8 * before) if started > origin else _BEFORE
        over = ended - left if ended > left else 0
        total = read64(sums, 8 * started) - over
        all_before(starts, marks, started, end_of_row, edges, columns, firsts, line * columns)
        asked = started
        for column in range(columns if columns < _AHEAD else _AHEAD):
            behind_it = read64(firsts, 8 * (line * columns + column))
            ask(starts, ends, sums, keys, levels, depth, asked, behind_it)
            asked = behind_it
        for column in range(columns):
            cell = line * columns + column
            if column + _AHEAD < columns:
                behind_it = read64(firsts, 8 * (cell + _AHEAD))
                ask(starts, ends, sums, keys, levels, depth, asked, behind_it)
                asked = behind_it
            right = read64(edges, 8 * column + 8)
            width = right - left
            next_started = read64(firsts, 8 * cell)
            last = next_started - 1 if next_started > 0 else 0
            next_ended = read64(ends, 8 * last) if next_started > origin else _BEFORE
            next_over = next_ended - right if next_ended > right else 0
            next_total = read64(sums, 8 * next_started) - next_over
            hangs, goes_on = 1 if over > 0 else 0, 1 if next_over > 0 else 0
            first = started - hangs
            count = next_started - first
            entered = started if started < size else size - 1
            first_start = left if hangs else read64(starts, 8 * entered)
            first_end = ended if hangs else read64(ends, 8 * entered)
            last_start = read64(starts, 8 * last)
            position = first
            if count >= 2:
                lead = first_end - first_start
                if count >= 3:
                    key = longest(starts, ends, keys, levels, depth, first + 1, last, bits, drop)
                    middle, inner = mask - (key & mask), key >> bits
                    if drop > 0:
                        inner = read64(ends, 8 * middle) - read64(starts, 8 * middle)
                    if inner > lead:
                        position, lead = middle, inner
                if (next_ended if next_ended < right else right) - last_start > lead:
                    position = last
            other, near = -1, 0
            if count == 2 and hangs == 1 and goes_on == 1:
                other = read32(items, 4 * (last if position == first else first))
            if count == 1 and hangs + goes_on > 0:
                previous, behind = (
                    position - 1 if position > 0 else 0,
                    position + 1 if position + 1 < size else size - 1,
                )
                gap_before = read64(starts, 8 * position) - read64(ends, 8 * previous)
                gap_behind = read64(starts, 8 * behind) - read64(ends, 8 * position)
                near = 1 if 0 <= gap_before <= width // 4 or 0 <= gap_behind <= width // 4 else 0
            write64(counts, 8 * cell, count)
            write64(busies, 8 * cell, next_total - total)
            write32(shown, 4 * cell, read32(items, 4 * position) if count > 0 else -1)
            write64(positions, 8 * cell, position if count > 0 else -1)
            write64(firsts, 8 * cell, first)
            write32(others, 4 * cell, other)
            write8(leads, cell, 1 if position == first else 0)
            write8(from_left, cell, hangs)
            write8(to_right, cell, goes_on)
            write8(touches, cell, near)
            write8(start8, cell, eighths(last_start - left, width))
            write8(end8, cell, eighths(first_end - left, width))
            started, ended, over, total, left = next_started, next_ended, next_over, next_total, right
    return 0
