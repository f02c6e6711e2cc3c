"""Rows of slices: the lowest one that is free, what is on top where they lie above each other, and which cross others.

The loops of ``rows.c``, each with its slower twin.

``columns.c`` makes the columns of a CSV file from some of its rows.

Processor time of the loop against that of polars and regular expressions, which read what is odd: 627 MB of an
inference service open in 6.3 s instead of 9.8, the requests of its batches in 1.6 s instead of 4.7; 140 MB of
kernel_details.csv in 2.6 s instead of 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.native.layout import CSV_LEFT_OUT, CSV_REGION, CSV_REQUESTS, CSV_TEXT, CSV_WORD, PADDING, POWERS
from npu_tui.native.library import library

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Pieces = tuple[I32, I64, I64]
"""Of which slice each piece is, where it begins and where it stops; (pieces,) each."""

_WORDS = 1 << 12
_FOREVER = (1 << 63) - 1
_BLOCK = 1 << 16
"""Slices at a time that are plain numbers, which take up ten times the memory."""


def first_fit(lane: I32, start: I64, end: I64) -> I32:
    """The row of every slice within its lane: the lowest row whose last slice has ended; (n,) int32.

    The slices are in the order of ``trace.arrays.sort_slices``. A slice without duration takes up one nanosecond, so
    that it never shares a place with another one.
    """
    compiled = library()
    if compiled is None:
        return slow_first_fit(lane, start, end)
    lane = np.ascontiguousarray(lane, np.int32)
    start, end = np.ascontiguousarray(start, np.int64), np.ascontiguousarray(end, np.int64)
    depth = np.empty(len(lane), np.int32)
    words = _WORDS
    while True:
        tree = np.empty(words, np.int64)
        if compiled.first_fit(lane, start, end, depth, len(lane), tree, tree.nbytes) == 0:
            return depth
        words *= 16  # more rows than are ever drawn


def slow_first_fit(lane: I32, start: I64, end: I64) -> I32:
    """``first_fit`` without the library."""
    until = np.maximum(end, start + 1)
    first = _crowd_starts(lane, start, until)
    # A slice that overlaps no other one of its lane is alone in row 0.
    lonely = first.copy()
    lonely[:-1] &= first[1:]
    crowded = np.flatnonzero(~lonely)
    depth = np.zeros(len(start), np.int32)
    depth[crowded] = _packed(start[crowded], until[crowded], first[crowded])
    return depth


def pieces_of(start: I64, end: I64, level: npt.NDArray[np.integer], levels: int) -> Pieces:
    """The pieces of slices that no higher one hides, by their starts, which ascend, their ends, and the level of each.

    Levels are below ``levels``, and no two slices of one level overlap. What has no duration is a piece of its own,
    before the one that begins there; neighbouring pieces of one slice are merged.
    """
    compiled = library()
    if compiled is None:
        return slow_pieces(start, end, level, levels)
    start, end = np.ascontiguousarray(start, np.int64), np.ascontiguousarray(end, np.int64)
    height = np.ascontiguousarray(level, np.int32)
    room = 2 * len(start)  # every start and every end begins one piece at most
    who, begin, stop = np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    active, marks = np.zeros(2 * levels, np.int64), np.zeros(-(-levels // 64), np.int64)
    count = compiled.leaves(start, end, height, len(start), who, begin, stop, room, active, levels, marks)
    if count < 0:
        return slow_pieces(start, end, level, levels)
    return who[:count].copy(), begin[:count].copy(), stop[:count].copy()


def crossing(start: I64, end: I64) -> int:
    """How many slices of a lane, by start, end after the last one that is open when they start."""
    compiled = library()
    if compiled is None:
        return slow_crossing(start, end)
    start, end = np.ascontiguousarray(start, np.int64), np.ascontiguousarray(end, np.int64)
    opens = np.empty(len(start), np.int64)
    return int(compiled.crossing(start, end, len(start), opens, len(opens)))


def slow_crossing(start: I64, end: I64) -> int:
    """``crossing`` without the library."""
    count = 0
    open_until: list[int] = []
    for begin, until in zip(start.tolist(), end.tolist(), strict=True):
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        count += bool(open_until) and until > open_until[-1]
        open_until.append(until)
    return count


def _crowd_starts(lane: I32, start: I64, until: I64) -> npt.NDArray[np.bool_]:
    """Which slices begin when their lane is idle; (n,)."""
    count = len(start)
    opens = np.ones(count, np.bool_)
    bounds = np.flatnonzero(lane[1:] != lane[:-1]) + 1
    for first, last in zip([0, *bounds.tolist()], [*bounds.tolist(), count], strict=True):
        reach = np.maximum.accumulate(until[first:last])
        opens[first + 1 : last] = start[first + 1 : last] >= reach[:-1]
    return opens


def _packed(start: I64, until: I64, first: npt.NDArray[np.bool_]) -> I32:
    """The rows of slices that overlap others; the ``first`` begin when all before them have ended; (m,) int32.

    What is open is kept as a stack with the earliest end on top, which nested slices only push to and pop from; a slice
    that ends after the top waits in a heap instead. Rows from ``unused`` on are free, and so are those in the heap
    ``free``. A slice that ends before the next one starts takes no row from the others.
    """
    rows = np.empty(len(start), np.int32)
    now = np.where(first, _FOREVER, start)
    following = np.append(now[1:], _FOREVER)
    ends, held = [_FOREVER + 1], [0]
    crossing: list[tuple[int, int]] = [(_FOREVER + 1, 0)]
    free: list[int] = []
    unused = 0
    for low in range(0, len(start), _BLOCK):
        block = slice(low, low + _BLOCK)
        found: list[int] = []
        for time, end, later in zip(now[block].tolist(), until[block].tolist(), following[block].tolist(), strict=True):
            while ends[-1] <= time:
                ends.pop()
                row = held.pop()
                if row == unused - 1:
                    unused = row
                else:
                    heappush(free, row)
            while crossing[0][0] <= time:
                heappush(free, heappop(crossing)[1])
            row = free[0] if free else unused
            found.append(row)
            if end > later:
                if free:
                    heappop(free)
                else:
                    unused += 1
                if end <= ends[-1]:
                    ends.append(end)
                    held.append(row)
                else:
                    heappush(crossing, (end, row))
        rows[block] = found
    return rows


def slow_pieces(start: I64, end: I64, level: npt.NDArray[np.integer], levels: int) -> Pieces:
    """``pieces_of`` without the library."""
    asked = np.argsort(level.astype(np.int16) if levels < 1 << 15 else level, kind="stable")
    begun, ended, height = start[asked], end[asked], level[asked].astype(np.int64)
    # Sorting by hand: numpy's unique goes through a hash table, which takes four times as long here.
    times = np.sort(np.concatenate([start, end]))
    times = times[np.append(True, times[1:] != times[:-1])] if len(times) else times
    deepest = _deepest(times, begun, ended, height)
    piece = np.flatnonzero(deepest >= 0)
    owner = asked[_started_last(times[piece], deepest[piece], begun, ended, height)]

    who, begin, stop = owner, times[piece], times[np.minimum(piece + 1, len(times) - 1)]
    point = np.flatnonzero(start == end)
    if len(point):
        # A point stands before the piece that begins at the same time, so that starts and ends both ascend.
        at = np.searchsorted(begin, start[point])
        who, begin, stop = (
            np.insert(values, at, new) for values, new in ((who, point), (begin, start[point]), (stop, end[point]))
        )

    fresh = np.ones(len(who), np.bool_)
    fresh[1:] = (who[1:] != who[:-1]) | (begin[1:] != stop[:-1])
    head = np.flatnonzero(fresh)
    tail = np.append(head[1:], len(who))[: len(head)] - 1
    return who[head].astype(np.int32), begin[head], stop[tail]


def _deepest(times: I64, start: I64, end: I64, level: I64) -> I64:
    """The largest level that is active in ``[times[k], times[k + 1])``, -1 where none is."""
    lasting = end > start
    begin = np.searchsorted(times, start[lasting])
    stop = np.searchsorted(times, end[lasting])
    level = level[lasting]
    deepest = np.full(len(times), -1, np.int64)
    if not len(begin):
        return deepest
    # Every interval is covered by two of a power of two; those of each power are halved until they are one long.
    power = np.frexp((stop - begin).astype(np.float64))[1] - 1
    order = np.argsort(power.astype(np.int8), kind="stable")
    highest = int(power.max())
    bounds = np.searchsorted(power[order], np.arange(highest + 2))
    for size in range(highest, -1, -1):
        own = order[bounds[size] : bounds[size + 1]]
        np.maximum.at(deepest, begin[own], level[own])
        np.maximum.at(deepest, stop[own] - (1 << size), level[own])
        if size:
            half = 1 << size - 1
            deepest[half:] = np.maximum(deepest[half:], deepest[:-half])
    return deepest


def _started_last(times: I64, wanted: I64, start: I64, end: I64, depth: I64) -> I64:
    """For every time the index of the lasting slice of depth ``wanted`` that is active there; depths ascend."""
    lasting = np.flatnonzero(end > start)
    # Ranks instead of times keep the key of (depth, time) within 64 bits.
    key = depth[lasting] * (len(times) + 1) + np.searchsorted(times, start[lasting])
    # Asked depth by depth the queries ascend, which keeps the search in the processor's cache.
    order = np.argsort(wanted.astype(np.int16), kind="stable")
    found = np.empty(len(times), np.int64)
    found[order] = lasting[
        np.searchsorted(key, (wanted * (len(times) + 1) + np.arange(len(times)))[order], "right") - 1
    ]
    return found


NO_VALUE = int(np.iinfo(np.int64).min)
"""Stands for a cell without a value."""
_SHORTEST = 30  # no request of a list takes fewer bytes


class CsvColumns(Struct):
    """Columns of ``rows`` rows by their places: numbers, or the bits of floats, ``NO_VALUE`` where a cell has none.

    Those of texts have numbers, from 1 on, into ``texts``, which are as they stand in the file, quotes included.
    """

    rows: int
    values: dict[int, I64]
    texts: list[str]
    requests: I64
    """For the column of batches' requests, whose values say how many: name, iteration, phase, tokens; (n, 4)."""


def counted(data: bytes, byte: bytes) -> int:
    """How often ``byte`` stands in ``data``: where it is frequent, several times faster than ``bytes.count``."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == byte[0]))


def csv_columns(text: bytes, kinds: Sequence[int], missing: Sequence[str]) -> CsvColumns | None:
    """The columns of ``text``, whole rows in UTF-8, by the kind of each (``native.layout``).

    Texts of ``missing`` stand for no value. A column with a cell that is nothing of its kind is left out. None without
    the library, or where quotes or the number of cells in a row are odd.
    """
    compiled = library()
    if compiled is None:
        return None
    rows = counted(text, b"\n")
    wanted = np.array(kinds, np.uint8)
    listed = len(text) // _SHORTEST + 1 if CSV_REQUESTS in kinds else 1
    most = rows * kinds.count(CSV_TEXT) + listed
    columns: dict[str, npt.NDArray[Any]] = {
        "text": np.frombuffer(text + bytes(PADDING), np.uint8),
        "kinds": wanted,
        "values": np.empty(len(kinds) * rows, np.int64),
        "missing": np.array([int.from_bytes(word.encode(), "little") for word in missing], np.int64),
        "powers": POWERS,
        "slots": np.zeros(1 << (2 * most).bit_length(), np.int32),
        "entries": np.empty(2 * most, np.int64),
        "lists": np.empty(4 * listed, np.int64),
    }
    plan = np.zeros(2 * len(CSV_REGION) + len(CSV_WORD), np.int64)
    for name, at in CSV_REGION.items():
        plan[at : at + 2] = columns[name].ctypes.data, columns[name].nbytes
    plan[list(CSV_WORD.values())] = len(text), len(kinds), rows, 0, 0
    count = compiled.csv_columns(plan)
    if count < 0:
        return None
    values = columns["values"].reshape(len(kinds), rows)
    entries = columns["entries"][: 2 * int(plan[CSV_WORD["texts"]])].reshape(-1, 2).tolist()
    texts = [text[at : at + length].decode() for at, length in entries]
    requests = columns["lists"][: 4 * int(plan[CSV_WORD["listed"]])].reshape(-1, 4)
    wanted_places = np.flatnonzero(wanted != CSV_LEFT_OUT).tolist()
    return CsvColumns(count, {at: values[at, :count] for at in wanted_places}, texts, requests)
