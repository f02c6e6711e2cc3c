"""Rows of cells as what a terminal is sent: ``view.cells.ansi`` as one loop over the cells."""

from __future__ import annotations

from npu_tui.ingest.scanner.source.memory import Region, compiled, read8, read32, read64, region, write8, write64

_SPACE, _UNDERLINE, _REVERSE, _WEIGHT, _SAME, _WORTH, _RECORD = 32, 4, 8, 3, 256, 3, 32


@compiled
def look_same(chars: Region, fgs: Region, bgs: Region, attrs: Region, old_chars: Region, old_fgs: Region,
              old_bgs: Region, old_attrs: Region, cell: int) -> int:  # fmt: skip
    """1 if a cell looks the same in both grids: a blank's foreground does not count."""
    char, attr, old = read32(chars, 4 * cell), read8(attrs, cell), read8(old_attrs, cell)
    if char != read32(old_chars, 4 * cell) or read8(bgs, cell) != read8(old_bgs, cell):
        return 0
    if char == _SPACE and attr & _UNDERLINE == 0:
        return 1 if old & _UNDERLINE == 0 else 0
    return 1 if attr == old and read8(fgs, cell) == read8(old_fgs, cell) else 0


@compiled
def put_number(out: Region, at: int, number: int) -> int:
    """Write ``number`` in decimal digits; where they end."""
    size, rest = 1, number // 10
    while rest > 0:
        size, rest = size + 1, rest // 10
    for k in range(size):
        write8(out, at + size - 1 - k, 48 + number % 10)
        number = number // 10
    return at + size


@compiled
def put_code(out: Region, at: int, table: Region, record: int, begun: int) -> int:
    """Write the codes of a record, after those since ``begun`` if there are any; where they end."""
    size = read8(table, _RECORD * record)
    if size > 0:
        if at > begun:
            write8(out, at, 59)
            at += 1
        for k in range(size):
            write8(out, at + k, read8(table, _RECORD * record + 1 + k))
        at += size
    return at


@compiled
def put_char(out: Region, at: int, char: int) -> int:
    """Write a code point in UTF-8; where it ends."""
    if char < 0x80:
        write8(out, at, char)
        return at + 1
    if char < 0x800:
        write8(out, at, 0xC0 | char >> 6)
        write8(out, at + 1, 0x80 | char & 63)
        return at + 2
    if char < 0x10000:
        write8(out, at, 0xE0 | char >> 12)
        write8(out, at + 1, 0x80 | char >> 6 & 63)
        write8(out, at + 2, 0x80 | char & 63)
        return at + 3
    write8(out, at, 0xF0 | char >> 18 & 7)
    write8(out, at + 1, 0x80 | char >> 12 & 63)
    write8(out, at + 2, 0x80 | char >> 6 & 63)
    write8(out, at + 3, 0x80 | char & 63)
    return at + 4


@compiled
def mark_kept(plan: Region, begin: int, width: int, kept: Region) -> None:
    """Mark in ``kept`` the cells of a row that stay as the terminal shows them, in stretches worth a cursor move."""
    chars, fgs, bgs, attrs = region(plan, 0), region(plan, 1), region(plan, 2), region(plan, 3)
    old_chars, old_fgs, old_bgs, old_attrs = region(plan, 4), region(plan, 5), region(plan, 6), region(plan, 7)
    for x in range(width):
        same = look_same(chars, fgs, bgs, attrs, old_chars, old_fgs, old_bgs, old_attrs, begin + x)
        write8(kept, x, same)
    # A character of two cells is written or passed over as a whole.
    x = width - 1
    while x > 0:
        if read32(chars, 4 * (begin + x)) == 0:
            write8(kept, x, read8(kept, x) & read8(kept, x - 1))
        x -= 1
    for x in range(width - 1):
        if read32(chars, 4 * (begin + x + 1)) == 0:
            write8(kept, x, read8(kept, x) & read8(kept, x + 1))
    x = 0
    while x < width:
        stop = x
        while stop < width and read8(kept, stop) == 1:
            stop += 1
        if 0 < stop - x < _WORTH:
            for k in range(x, stop):
                write8(kept, k, 0)
        x = stop + 1


@compiled
def ansi(plan_address: int, plan_bytes: int) -> int:
    """Write rows of a grid to the output; how many bytes, or -1 if there is no room.

    The plan has 17 regions, each as address and length in bytes: characters (uint32), foregrounds, backgrounds and
    attributes of the grid and of the one that the terminal shows; the rows wanted; for every ink which one looks the
    same, and whether it is a ground; the codes of attributes (before, after), of paints and of grounds in records of
    32 bytes, the first of which is their length; a row of bytes to work with; the output; where each row ends in it.
    After them: rows wanted, columns, whether the terminal shows a grid, whether it has colours, and the four bytes
    that end a row.
    """
    plan = (plan_address, plan_bytes)
    chars, fgs, bgs, attrs = region(plan, 0), region(plan, 1), region(plan, 2), region(plan, 3)
    rows, looks, grounds = region(plan, 8), region(plan, 9), region(plan, 10)
    attribute_codes, paint_codes, ground_codes = region(plan, 11), region(plan, 12), region(plan, 13)
    kept, out, stops = region(plan, 14), region(plan, 15), region(plan, 16)
    count, width, compares, coloured = (
        read64(plan, 272), read64(plan, 280), read64(plan, 288), read64(plan, 296)
    )  # fmt: skip
    at = 0
    for line in range(count):
        begin = read64(rows, 8 * line) * width
        if at + 72 * width + 8 > out[1]:
            return -1
        if compares == 1:
            mark_kept(plan, begin, width, kept)
        paint, ground, weight, rest, was, was_kept, skipped, run_kept = _SAME, _SAME, 0, 0, 0, -1, 0, 0
        for x in range(width):
            cell = begin + x
            char, attr, bg = read32(chars, 4 * cell), read8(attrs, cell), read8(bgs, cell)
            stays = read8(kept, x) if compares == 1 else 0
            new_paint, new_ground = paint, ground
            if stays == 0:
                front, back = read8(looks, read8(fgs, cell)), read8(looks, bg)
                shown = char != _SPACE or attr & _UNDERLINE != 0
                if read8(grounds, bg) == 0:
                    new_paint = back
                    new_ground = front if shown else ground
                    rest = (attr & _UNDERLINE) | _REVERSE
                else:
                    new_ground = back
                    new_paint = front if shown else paint
                    rest = attr & _UNDERLINE
                if shown:
                    weight = attr & _WEIGHT
            now = weight | rest
            turns = now != was or stays != was_kept
            if coloured == 1 and (new_paint != paint or new_ground != ground):
                turns = True
            if x == 0 or (turns and char != 0):
                if skipped > 0:
                    write8(out, at, 27)
                    write8(out, at + 1, 91)
                    at = put_number(out, at + 2, skipped)
                    write8(out, at, 67)
                    at, skipped = at + 1, 0
                begun = at + 2
                end = put_code(out, begun, attribute_codes, 16 * was + now, begun)
                if coloured == 1:
                    if new_paint != paint:
                        end = put_code(out, end, paint_codes, new_paint, begun)
                    if new_ground != ground:
                        end = put_code(out, end, ground_codes, new_ground, begun)
                if end > begun:
                    write8(out, at, 27)
                    write8(out, at + 1, 91)
                    write8(out, end, 109)
                    at = end + 1
                run_kept = stays
            if run_kept == 1:
                skipped += 1
            elif char != 0:
                at = put_char(out, at, char)
            paint, ground, was, was_kept = new_paint, new_ground, now, stays
        if skipped > 0:
            write8(out, at, 27)
            write8(out, at + 1, 91)
            at = put_number(out, at + 2, skipped)
            write8(out, at, 67)
            at += 1
        for k in range(4):
            write8(out, at + k, read64(plan, 304) >> (8 * k) & 255)
        at += 4
        write64(stops, 8 * line, at)
    return at
