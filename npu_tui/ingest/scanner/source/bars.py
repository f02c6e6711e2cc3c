"""Bars in the cells of the screen: ``view.cells.bars`` as one loop over the cells."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import (
    Region,
    compiled,
    read8,
    read32,
    read64,
    region,
    write8,
    write32,
    write64,
)

_ROOM, _GAP8 = 3, 2
_RULE, _SELECTED, _LANE, _WAIT_GROUND, _RANGE, _RANGE_FOCUS, _CURSOR, _HIT = range(8)
_WAIT, _SHADES, _LIT, _UNDERLINE = range(8, 12)
_LEFT, _LOWER, _THIN = range(0, 27, 9)
_HATCH, _TICK, _EDGE, _WHOLE, _LEFT_HALF, _RIGHT_HALF, _STRONG = range(27, 34)


@compiled
def number(inks: Region, which: int) -> int:
    """One of the numbers that the caller names."""
    return read64(inks, 8 * which)


@compiled
def put(chars: Region, at: int, glyphs: Region, which: int) -> None:
    """Write a glyph."""
    write32(chars, 4 * at, read32(glyphs, 4 * which))


@compiled
def label_runs(plan: Region, lines: int, columns: int) -> int:
    """The runs of cells that have room for a name, as first cell and length; how many."""
    counts, positions, from_left, to_right = region(plan, 0), region(plan, 2), region(plan, 3), region(plan, 4)
    start8, end8, firsts, lengths = region(plan, 7), region(plan, 8), region(plan, 24), region(plan, 25)
    found = 0
    for line in range(lines):
        column = 0
        while column < columns:
            first = line * columns + column
            stop = column
            while stop < columns:
                cell = line * columns + stop
                body = read64(counts, 8 * cell) == 1 and read8(from_left, cell) == 1
                body = body and (read8(to_right, cell) == 1 or read8(end8, cell) == 8)
                if not body or read64(positions, 8 * cell) != read64(positions, 8 * first):
                    break
                stop += 1
            length = stop - column
            # One blank keeps a name off the gutter and off a bar's edge where no tick does.
            if length > 0 and (column == 0 or (length > _ROOM and read8(start8, first - 1) >= 4)):
                first, length = first + 1, length - 1
            if length >= _ROOM:
                write64(firsts, 8 * found, first)
                write64(lengths, 8 * found, length)
                found += 1
            column = stop if stop > column else column + 1
    return found


@compiled
def bars(plan_address: int, plan_bytes: int) -> int:
    """Draw the bars of some rows of cells; how many runs of them have room for a name.

    The plan has 26 regions, each as address and length in bytes: count, busy, position, from_left, to_right, touches,
    leads, start8 and end8 of ``view.cells.raster.Cells``; kinds of the slice and of the other one (int8), the shade of
    each row (uint8), whether the slice and the other one are selected, whether the cell is hit, the widths of the
    columns; the numbers and the glyphs (uint32) that ``view.cells.bars`` lists; characters, foregrounds, backgrounds
    and attributes of the grid; which cells are free and which are filled from edge to edge; first cells and lengths
    of the runs. Behind them: rows, columns, how far apart the widths of two rows are, how far apart two rows of the
    grid are, whether hits alone are bright, and the column of the cursor (-1: none).
    """
    plan = (plan_address, plan_bytes)
    counts, busies, positions, from_left = region(plan, 0), region(plan, 1), region(plan, 2), region(plan, 3)
    to_right, touches, leads, start8, end8 = (
        region(plan, 4), region(plan, 5), region(plan, 6), region(plan, 7), region(plan, 8)
    )  # fmt: skip
    kinds, other_kinds, shades, selected = region(plan, 9), region(plan, 10), region(plan, 11), region(plan, 12)
    others_selected, hits, widths, inks = region(plan, 13), region(plan, 14), region(plan, 15), region(plan, 16)
    glyphs, chars, fgs, bgs, attrs = (
        region(plan, 17), region(plan, 18), region(plan, 19), region(plan, 20), region(plan, 21)
    )  # fmt: skip
    free, filled = region(plan, 22), region(plan, 23)
    lines, columns, apart, stride = read64(plan, 416), read64(plan, 424), read64(plan, 432), read64(plan, 440)
    hits_only, cursor = read64(plan, 448), read64(plan, 456)
    waiting, per_kind, rule, chosen = (
        number(inks, _WAIT), number(inks, _SHADES), number(inks, _RULE), number(inks, _SELECTED)
    )  # fmt: skip
    for line in range(lines):
        for column in range(columns):
            cell, at = line * columns + column, line * stride + column
            count = read64(counts, 8 * cell)
            write8(free, cell, 1 if count == 0 else 0)
            write8(filled, cell, 0)
            if count == 0:
                continue
            left, right, position = read8(from_left, cell), read8(to_right, cell), read64(positions, 8 * cell)
            starts, ends, kind, ground = read8(start8, cell), read8(end8, cell), read8(kinds, cell), read8(bgs, at)
            is_selected, is_hit = read8(selected, cell), read8(hits, cell)
            # Within a row only neighbours that touch need two shades; elsewhere a change would only cost bytes.
            shade = read8(shades, line)
            if count == 1 and read8(touches, cell) == 1 and left + right > 0:
                shade = position & 1
            if column == cursor:
                shade = number(inks, _LIT)
            ink = kind * per_kind + shade
            if hits_only == 1 and is_hit == 0:
                ink = rule
            if is_selected == 1:
                ink = chosen
            waits = kind == waiting
            fill = ink
            if waits and is_selected == 0:
                # A wait is transparent enough to show the range and the cursor's column.
                tinted = ground == number(inks, _RANGE) or ground == number(inks, _RANGE_FOCUS)
                fill = ground if tinted or ground == number(inks, _CURSOR) else number(inks, _WAIT_GROUND)
            whole = False
            if count == 1:
                if (left == 1 or starts == 0) and (right == 1 or ends == 8):
                    write8(bgs, at, fill)
                    if left == 0:
                        put(chars, at, glyphs, _TICK)
                        write8(fgs, at, ink if waits else ground)
                    else:
                        whole = True
                elif left == 0 and right == 0:
                    size, middle = ends - starts, (ends + starts) >> 1
                    glyph = _THIN + middle
                    if size >= 6:
                        glyph = _WHOLE
                    elif size >= 3:
                        glyph = _LEFT_HALF if middle < 4 else _RIGHT_HALF
                    elif size == 2:
                        glyph = _STRONG
                    put(chars, at, glyphs, glyph)
                    write8(fgs, at, ink)
                elif waits:
                    # A wait has no body to cut in eighths: one that fills most of a cell is hatched there.
                    mostly = starts <= 4 if left == 0 else ends >= 5
                    put(chars, at, glyphs, _HATCH if mostly else _EDGE if left == 0 else _TICK)
                    write8(fgs, at, number(inks, _LANE) if mostly and fill == ink else ink)
                    if mostly:
                        write8(bgs, at, fill)
                elif left == 0:
                    put(chars, at, glyphs, _LEFT + (starts if starts < 7 else 7))
                    write8(fgs, at, ground)
                    write8(bgs, at, fill)
                else:
                    put(chars, at, glyphs, _LEFT + (ends if ends > 1 else 1))
                    write8(fgs, at, ink)
            elif count == 2 and left == 1 and right == 1 and starts - ends < _GAP8:
                # Neighbours in a row differ by one position, so the dominating slice's parity tells both shades.
                parity, other_kind = position & 1, read8(other_kinds, cell)
                ours, others = kind * per_kind + parity, other_kind * per_kind + 1 - parity
                if is_selected == 1:
                    ours = chosen
                if read8(others_selected, cell) == 1:
                    others = chosen
                first, last, last_kind = ours, others, other_kind
                if read8(leads, cell) == 0:
                    first, last, last_kind = others, ours, kind
                if hits_only == 1 and is_hit == 0:
                    first = first if first == chosen else rule
                    last = last if last == chosen else rule
                put(chars, at, glyphs, _LEFT + (1 if ends < 1 else ends if ends < 7 else 7))
                write8(fgs, at, first)
                write8(bgs, at, number(inks, _WAIT_GROUND) if last_kind == waiting and last != chosen else last)
            else:
                busy, width = read64(busies, 8 * cell), read64(widths, 8 * (line * apart + column))
                if 8 * busy >= 7 * width:
                    write8(bgs, at, fill)
                    whole = True
                else:
                    level = (16 * busy + width) // (2 * width)
                    put(chars, at, glyphs, _LOWER + (1 if level < 1 else level if level < 7 else 7))
                    write8(fgs, at, ink)
            if whole and waits:
                put(chars, at, glyphs, _HATCH)
                write8(fgs, at, number(inks, _LANE) if is_selected == 1 else ink)
            elif whole:
                write8(filled, cell, 1)
            if is_hit == 1:
                write8(attrs, at, read8(attrs, at) | number(inks, _UNDERLINE))
                if count == 1 and left == 0 and right == 0:
                    write8(fgs, at, number(inks, _HIT))
    return label_runs(plan, lines, columns)
