"""What every cell of the screen sums up of rows of slices: the loop of ``cells.c``, and its slower twin."""

from __future__ import annotations

from functools import cached_property
from itertools import count

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.native.layout import CELL_REGION, CELL_WORD
from npu_tui.native.library import library

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_BEFORE = np.iinfo(np.int64).min // 4
_SHIFT = 4  # each level holds the longest of 16 entries below it
_DIRECT = 32  # so few slices are compared without the levels
_FEW = 64  # entries of a level that are compared without the next one
_BUILD = 1 << 20  # slices at a time, which bounds the memory while levels are made


def spread(first: I64, length: I64) -> I64:
    """The indices ``first[k] .. first[k] + length[k] - 1`` of every k, one range after the other."""
    stop = np.cumsum(length)
    total = int(stop[-1]) if len(stop) else 0
    return np.repeat(first - (stop - length), length) + np.arange(total, dtype=np.int64)


class Cells(Struct):
    """What lies in each cell; all arrays are (rows on screen, columns).

    ``count`` slices touch the cell and cover ``busy`` ns of it. ``item`` is the slice that covers most of it (-1 in an
    empty cell; the earlier on ties) and ``position`` its place in its ``Rows``, ``first`` that of the first slice.
    ``other`` is the second slice of a cell that holds the end of one and the start of another and nothing else (-1
    elsewhere); ``leads``: ``item`` is the earlier of the two. ``from_left`` and ``to_right``: a slice reaches over
    that edge.
    ``touches``: the only slice, over an edge, and less than a quarter of a cell away from its neighbour in the row.
    ``end8`` is where the first slice ends and ``start8`` where the last one starts, in eighths of the cell (0..8).
    """

    count: I64
    busy: I64
    item: I32
    position: I64
    first: I64
    other: I32
    leads: Bools
    from_left: Bools
    to_right: Bools
    touches: Bools
    start8: I8
    end8: I8

    @classmethod
    def empty(cls, rows: int, width: int) -> Cells:
        """Cells in which nothing lies."""
        shape = (rows, width)
        return cls(
            count=np.zeros(shape, np.int64),
            busy=np.zeros(shape, np.int64),
            item=np.full(shape, -1, np.int32),
            position=np.full(shape, -1, np.int64),
            first=np.zeros(shape, np.int64),
            other=np.full(shape, -1, np.int32),
            leads=np.zeros(shape, np.bool_),
            from_left=np.zeros(shape, np.bool_),
            to_right=np.zeros(shape, np.bool_),
            touches=np.zeros(shape, np.bool_),
            start8=np.zeros(shape, np.int8),
            end8=np.zeros(shape, np.int8),
        )


class Levels:
    """Sums up rows of slices, whose ``columns`` are those of ``trace.model.Rows``, and finds the longest slices.

    An exact answer whose cost does not grow with the range: every level holds one key per block of 16 entries of the
    level below; a key is (duration, earlier position first) packed into one int64, so a plain maximum names the winner.

    Durations are compared to the nanosecond while the bits of the longest duration and of the number of positions
    fit 63 bits together (9 minutes at 10 M slices); beyond, the lowest bits of the durations are left out.
    """

    def __init__(self, offset: I64, item: I32, start: I64, end: I64, busy: I64) -> None:
        self.columns = offset, item, start, end, busy
        self._start, self._end = start, end
        self.bits = len(start).bit_length()
        """Bits of a position in a key."""
        longest = int((end - start).max(initial=0))
        self.drop = max(longest.bit_length() + self.bits - 63, 0)
        """Lowest bits of a duration that a key leaves out."""
        self._upper: list[I64] = [self._first_level()]
        while len(self._upper[-1]) > _DIRECT:
            below = self._upper[-1]
            self._upper.append(np.maximum.reduceat(below, np.arange(0, len(below), 1 << _SHIFT)))
        self.begins: I64 = np.cumsum([0, *(len(level) for level in self._upper[:-1])])
        """Where each level begins among the ``keys`` of all."""
        self.keys = np.concatenate(self._upper)
        self.marks = start[::64].copy()
        """Every 64th start."""
        self._upper = np.split(self.keys, self.begins[1:])

    @cached_property
    def plan(self) -> I64:
        """The plan of cells as far as it is the same for all frames; the memory that it names is held."""
        self._held = [np.ascontiguousarray(column) for column in (*self.columns, self.keys, self.begins, self.marks)]
        names = "offset", "item", "start", "end", "busy", "keys", "levels", "marks"
        plan = np.zeros(2 * len(CELL_REGION) + len(CELL_WORD), np.int64)
        for name, column in zip(names, self._held, strict=True):
            plan[CELL_REGION[name] : CELL_REGION[name] + 2] = column.ctypes.data, column.nbytes
        plan[[CELL_WORD[name] for name in ("depth", "bits", "drop")]] = len(self.begins), self.bits, self.drop
        return plan

    def longest(self, first: I64, last: I64) -> I64:
        """The position of the longest slice in each ``[first[k], last[k])`` (earlier on ties); no range is empty."""
        best = np.zeros(len(first), np.int64)  # less than any key
        direct = last - first <= _DIRECT
        self._raise_to(best, np.flatnonzero(direct), 0, first[direct], last[direct])
        # Whole blocks around a longer range are a few keys; it is rare that their winner lies outside of the range.
        active = np.flatnonzero(~direct)
        for level in count(1):
            if not len(active):
                break
            low, high = first[active] >> _SHIFT * level, (last[active] - 1 >> _SHIFT * level) + 1
            few = (high - low <= _FEW) | (level == len(self._upper))
            self._raise_to(best, active[few], level, low[few], high[few])
            active = active[~few]
        mask = (1 << self.bits) - 1
        found = mask - (best & mask)
        outside = np.flatnonzero((found < first) | (found >= last))
        if len(outside):
            found[outside] = self._exactly(first[outside], last[outside])
        return found

    def _exactly(self, first: I64, last: I64) -> I64:
        """``longest`` where whole blocks do not decide: what they leave at both ends is looked at by itself."""
        best = np.zeros(len(first), np.int64)  # less than any key
        active, low, high = np.arange(len(first)), first, last
        for level in count():
            direct = high - low <= _DIRECT
            self._raise_to(best, active[direct], level, low[direct], high[direct])
            rest = ~direct
            if not rest.any():
                break
            active, low, high = active[rest], low[rest], high[rest]
            inner_low, inner_high = -(-low >> _SHIFT), high >> _SHIFT
            self._raise_to(best, active, level, low, inner_low << _SHIFT)
            self._raise_to(best, active, level, inner_high << _SHIFT, high)
            low, high = inner_low, inner_high
        mask = (1 << self.bits) - 1
        return mask - (best & mask)

    def _raise_to(self, best: I64, which: I64, level: int, low: I64, high: I64) -> None:
        """Raise ``best[which]`` to the largest key of ``[low, high)`` on ``level``; empty ranges change nothing."""
        length = high - low
        some = length > 0
        if not some.all():
            which, low, length = which[some], low[some], length[some]
        if not len(which):
            return
        index = spread(low, length)
        keys = self._pack(self._end[index] - self._start[index], index) if level == 0 else self._upper[level - 1][index]
        starts = np.cumsum(length) - length
        best[which] = np.maximum(best[which], np.maximum.reduceat(keys, starts))

    def _pack(self, duration: I64, position: I64) -> I64:
        mask = (1 << self.bits) - 1
        return ((duration >> self.drop) << self.bits) | (mask - position)

    def _first_level(self) -> I64:
        """Keys of the blocks of 16 positions, made in pieces so that no whole-trace temporary is needed."""
        size = len(self._start)
        pieces = []
        for low in range(0, size, _BUILD):
            high = min(low + _BUILD, size)
            keys = self._pack(self._end[low:high] - self._start[low:high], np.arange(low, high))
            pieces.append(np.maximum.reduceat(keys, np.arange(0, high - low, 1 << _SHIFT)))
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


class AskedRows(Struct):
    """The ``rows`` of ``levels`` that the lines from ``line`` on show between the ``edges`` of columns, ns."""

    levels: Levels
    line: int
    rows: list[int]
    edges: I64


def cells(asked: list[AskedRows], lines: int, columns: int) -> Cells:
    """Cells of so many ``lines`` and ``columns``; nothing lies in a line that is not asked for."""
    result, compiled = Cells.empty(lines, columns), library()
    arrays = [getattr(result, name) for name in Cells.__struct_fields__]
    if compiled is None:
        for one in asked:
            made = slow_cells(one.levels, np.array(one.rows, np.int64), one.edges)
            for array, name in zip(arrays, Cells.__struct_fields__, strict=True):
                array[one.line : one.line + len(one.rows)] = getattr(made, name)
        return result
    if not asked:
        return result
    # A frame asks for many lines one by one, so what goes to the loop is written for all of them at once.
    which = np.array([row for one in asked for row in one.rows], np.int64)
    count = np.array([len(one.rows) for one in asked])
    line = np.array([one.line for one in asked])
    edges = [np.ascontiguousarray(one.edges) for one in asked]
    place, size = np.array([(array.ctypes.data, array.strides[0]) for array in arrays], np.int64).T
    plans = np.stack([one.levels.plan for one in asked])
    at, size_of_rows = CELL_REGION["which"], which.itemsize * count
    plans[:, at], plans[:, at + 1] = which.ctypes.data + np.cumsum(size_of_rows) - size_of_rows, size_of_rows
    at = CELL_REGION["edges"]
    plans[:, at], plans[:, at + 1] = [each.ctypes.data for each in edges], edges[0].nbytes
    first, behind = CELL_REGION["count"], CELL_REGION["end8"] + 2
    plans[:, first:behind:2], plans[:, first + 1 : behind : 2] = place + np.outer(line, size), np.outer(count, size)
    plans[:, CELL_WORD["lines"]], plans[:, CELL_WORD["columns"]] = count, columns
    for plan in plans:
        if compiled.cells(plan, plan.nbytes):
            raise IndexError("a row ends after the slices")
    return result


def slow_cells(levels: Levels, which: I64, edges: I64) -> Cells:
    """The cells of the rows ``which`` without the library."""
    offset, item, start, end, busy = levels.columns
    columns, stop = len(edges) - 1, len(item) - 1
    started = np.empty((len(which), columns + 1), np.int64)
    for line, row in enumerate(which.tolist()):
        low, high = offset[row], offset[row + 1]
        started[line] = low + start[low:high].searchsorted(edges)
    width = np.diff(edges)

    # Slices of a row never overlap: only the last one that started before an edge can hang over it.
    before = np.maximum(started - 1, 0)
    ended = np.where(started > offset[which][:, None], end[before], _BEFORE)
    over = np.maximum(ended - edges, 0)
    hangs = over > 0

    left, right = edges[:-1], edges[1:]
    first = started[:, :-1] - hangs[:, :-1]
    amount = started[:, 1:] - first
    entered = np.minimum(started[:, :-1], stop)
    first_start = np.where(hangs[:, :-1], left, start[entered])
    first_end = np.where(hangs[:, :-1], ended[:, :-1], end[entered])
    last = before[:, 1:]
    last_start = start[last]

    position = first.copy()
    several = amount >= 2
    if several.any():
        lead = first_end - first_start
        final = np.minimum(ended[:, 1:], right) - last_start
        many = amount >= 3
        if many.any():
            middle = levels.longest(first[many] + 1, last[many])
            inner = end[middle] - start[middle]
            better = inner > lead[many]
            position[many] = np.where(better, middle, position[many])
            lead[many] = np.where(better, inner, lead[many])
        position = np.where(several & (final > lead), last, position)

    leads = position == first
    other = np.full(amount.shape, -1, np.int32)
    pair = (amount == 2) & hangs[:, :-1] & hangs[:, 1:]
    other[pair] = item[np.where(leads, last, first)[pair]]
    touches = np.zeros(amount.shape, np.bool_)
    single = (amount == 1) & (hangs[:, :-1] | hangs[:, 1:])
    touches[single] = _is_close_to_neighbour(
        start, end, position[single], np.broadcast_to(width // 4, amount.shape)[single]
    )
    some = amount > 0
    return Cells(
        count=amount,
        busy=np.diff(busy[started] - over, axis=1),
        item=np.where(some, item[np.minimum(position, stop)], np.int32(-1)),
        position=np.where(some, position, -1),
        first=first,
        other=other,
        leads=leads,
        from_left=hangs[:, :-1],
        to_right=hangs[:, 1:],
        touches=touches,
        start8=_eighths(last_start - left, width),
        end8=_eighths(first_end - left, width),
    )


def _is_close_to_neighbour(start: I64, end: I64, here: I64, near: I64) -> Bools:
    """Whether the slice at ``here`` lies closer than ``near`` ns to the one before or after it."""
    before, behind = np.maximum(here - 1, 0), np.minimum(here + 1, len(start) - 1)
    # Neighbours in another row lie elsewhere in time; should they meet here, only a shade is at stake.
    gap_before, gap_behind = start[here] - end[before], start[behind] - end[here]
    return np.asarray(((gap_before >= 0) & (gap_before <= near)) | ((gap_behind >= 0) & (gap_behind <= near)))


def _eighths(time: I64, width: I64) -> I8:
    """``time`` ns into a cell of ``width`` ns as eighths 0..8, rounded to the nearest."""
    inside = np.clip(time, 0, width)
    return np.asarray((16 * inside + width) // (2 * width), np.int8)
