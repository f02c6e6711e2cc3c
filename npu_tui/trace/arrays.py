"""Helpers for arrays of codes and slices: sorting, grouping, looking up; each replaces a slower call of NumPy.

Which slice a point in time on a lane belongs to: the rule binds every link end of the profiler's own files to a slice
that starts exactly there (ties: the one with the same connection id, then the deeper), else to the innermost slice
around the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.once import once

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_FEW = 1 << 16  # codes of 16 bits, which NumPy sorts by radix, in linear time


def sort_slices(lane: I32, start: I64, end: I64) -> I64:
    """The order (lane, start, -end, position) of slices as indices; (n,)."""
    if not len(start):
        return np.zeros(0, np.int64)
    low = int(start.min())
    bits = int(start.max() - low).bit_length()
    if bits + int(lane.max()).bit_length() > 62:
        order: I64 = np.lexsort((-end, start, lane))
        return order
    # Lane and start fit into one number, which sorts several times faster than three keys. Ends decide only among
    # the few slices that start together.
    key = (lane.astype(np.int64) << bits) | (start - low)
    if int(lane.max()) < _FEW:
        # NumPy sorts 16-bit numbers with a radix sort, and within most lanes slices are already in order.
        order = np.argsort(lane.astype(np.uint16), kind="stable")
        key = np.take(key, order)
        if (key[1:] < key[:-1]).any():
            again = np.argsort(key, kind="stable")
            order, key = np.take(order, again), np.take(key, again)
    else:
        order = np.argsort(key, kind="stable")
        key = np.take(key, order)
    same = np.zeros(len(key) + 1, np.bool_)
    np.equal(key[1:], key[:-1], out=same[1:-1])
    runs = np.flatnonzero(same[1:] | same[:-1])
    if len(runs):
        within = order[runs]
        order[runs] = within[np.lexsort((-end[within], key[runs]))]
    return order


_ROOM = 1 << 16  # entries of a table that cost nothing, however few the values are


def distinct(code: npt.NDArray[np.integer]) -> tuple[I64, I64]:
    """The distinct values of ``code``, ascending, and the index of each entry among them; (m,) and (n,).

    Like ``np.unique`` with its inverse. Codes of a narrow range are looked up in a table instead of sorted, which
    takes a fraction of the time.
    """
    least, most = (int(code.min()), int(code.max())) if len(code) else (0, -1)
    if most - least >= max(len(code), _ROOM):
        values, place = np.unique(code, return_inverse=True)
        return values.astype(np.int64, copy=False), place.astype(np.int64, copy=False)
    present = np.zeros(most - least + 1, np.bool_)
    at = code.astype(np.int64, copy=False) - least
    present[at] = True
    present_codes = np.flatnonzero(present)
    place_of = np.zeros(len(present), np.int64)
    place_of[present_codes] = np.arange(len(present_codes))
    return present_codes + least, place_of[at]


def once_each(values: I64) -> I64:
    """The distinct ``values``, ascending: ``np.unique``, many times as fast where they ascend in a few runs."""
    values = np.sort(values, kind="stable")
    first: Bools = np.append(True, values[1:] != values[:-1])[: len(values)]
    return values[first]


def less(items: I64, others: I64) -> I64:
    """The ``items`` that are not among ``others``, each once, ascending; ``np.setdiff1d``, by tables."""
    return once_each(items[~among(items, others)])


def most_first(values: npt.NDArray[Any], names: Sequence[str]) -> list[int]:
    """The places of ``values``, (n,), the largest first; equal ones by ``names``, whichever comes first in a file."""
    return sorted(range(len(values)), key=lambda k: (-values[k], names[k]))


def in_groups(code: npt.NDArray[np.integer]) -> list[I64]:
    """The positions of every distinct code, ascending; the code that occurs first comes first."""
    values, group = distinct(code)
    # NumPy sorts 16-bit numbers with a radix sort.
    order = np.argsort(group.astype(np.uint16) if len(values) < _FEW else group, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else []
    return sorted(groups, key=lambda positions: int(positions[0]))


def numbers_in(code: npt.NDArray[np.integer]) -> list[int]:
    """The distinct values of ``code``, small numbers from 0 on, ascending."""
    return np.flatnonzero(np.bincount(code)).tolist() if len(code) else []


def summed(code: npt.NDArray[np.integer], values: I64, count: int) -> I64:
    """The exact sum of the ``values`` >= 0 of each of ``count`` codes, what 64 bits hold at the most; (count,)."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, code, values)
    most = np.iinfo(np.int64).max
    if int(values.max(initial=0)) * len(values) > most:
        sums[np.bincount(code, values, count) >= float(most)] = most
    return sums


def among(code: npt.NDArray[np.integer], wanted: npt.NDArray[np.integer]) -> Bools:
    """Which of ``code`` are among ``wanted``; (n,). ``np.isin``, by a table where ``wanted`` is narrow."""
    least, most = (int(wanted.min()), int(wanted.max())) if len(wanted) else (0, -1)
    if not len(wanted) or most - least >= max(len(code) + len(wanted), _ROOM):
        return np.isin(code, wanted)
    present = np.zeros(
        most - least + 3, np.bool_
    )  # one more entry at both ends: ``clip`` sends codes outside the range there
    present[wanted.astype(np.int64, copy=False) - (least - 1)] = True
    return present.take(code.astype(np.int64, copy=False) - (least - 1), mode="clip")


class BySlice:
    """A map from slices to numbers from 0 to 2**31 - 2, such as the launch of each kernel.

    It is an array over the slices from the first to the last key, as the keys mostly lie on a few lanes.
    """

    def __init__(self, items: npt.NDArray[np.integer], values: npt.NDArray[np.integer]) -> None:
        """``values`` are the numbers of ``items``, (n,) each; among several for one slice the first counts."""
        self.items = items.astype(np.int64, copy=False)
        self._first, self._last = (int(items.min()), int(items.max())) if len(items) else (0, -1)
        self._numbers = np.zeros(self._last - self._first + 2, np.int32)  # one more entry for slices without a number
        # In reverse, as the last write to an entry wins.
        self._numbers[items[::-1] - self._first] = values[::-1] + 1

    def of(self, items: npt.NDArray[np.integer]) -> I64:
        """The number of each of ``items``, -1 without one and where the item itself is -1; (m,)."""
        at = items.astype(np.int64) - self._first
        at[(at < 0) | (at > self._last - self._first)] = -1
        numbers: I64 = self._numbers[at].astype(np.int64)
        numbers -= 1
        return numbers


def looked_up(column: I64, place: I64, none: int = 0) -> I64:
    """The entries of ``column`` at ``place``, ``none`` where that is -1; (n,)."""
    values = np.full(len(place), none, np.int64)
    known = np.flatnonzero(place >= 0)
    values[known] = column[place[known]]
    return values


def previous_same(kind: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """For each entry the position of the previous one with the same ``kind``, -1 without one; (n,)."""
    if len(kind) and int(kind.max()) - (least := int(kind.min())) < 1 << 16:
        kind = (kind - least).astype(np.uint16)  # NumPy sorts 16-bit numbers with a radix sort
    order = np.argsort(kind, kind="stable")
    previous = np.full(len(kind), -1, np.int64)
    same = np.flatnonzero(kind[order[1:]] == kind[order[:-1]])
    previous[order[same + 1]] = order[same]
    return previous


_AT_ONCE = 1 << 16  # queries per block: the temporary arrays of a block stay in the cache of the processor


class LaneIndex(Struct, dict=True, eq=False):
    """Finds slices by lane and time in the sorted columns of slices; queries are arrays.

    ``first`` and ``last`` bound each lane's slices; ``start`` and ``end`` are those of all slices, ns.
    """

    first: I64
    last: I64
    start: I64
    end: I64

    @once
    def _latest_end(self) -> list[I64]:
        """The maximum end of each slice, of each pair, of each four and so on: a segment tree, its leaves first."""
        levels = [self.end]
        while len(right_children := levels[-1][1::2]):
            levels.append(np.maximum(levels[-1][:-1:2], right_children))
        return levels

    def started(self, lane: npt.NDArray[np.int32], time: I64) -> I64:
        """The last slice of ``lane`` that starts at or before ``time``, -1 without one; (n,)."""
        items = np.full_like(time, -1)
        if not len(time):
            return items
        # Sorted by lane alone: times mostly ascend already, and NumPy sorts 16-bit numbers with a radix sort.
        short = lane.astype(np.int16) if int(lane.max()) < 1 << 15 else lane
        order = np.argsort(short, kind="stable")
        bounds = np.flatnonzero(np.diff(lane[order])) + 1
        for run in np.split(order, bounds):
            code = int(lane[run[0]])
            if code < 0:
                continue
            first, last = int(self.first[code]), int(self.last[code])
            at = first + np.searchsorted(self.start[first:last], time[run], "right") - 1
            items[run] = np.where(at >= first, at, -1)
        return items

    def exact(self, lane: npt.NDArray[np.int32], time: I64, connection: I64, connections: I64) -> I64:
        """The slice of ``lane`` that starts exactly at ``time``, else -1; (n,).

        Among several it prefers the one whose ``connections`` entry equals the query's ``connection`` (-1: any), then
        the deepest, which is the last in order.
        """
        items = self.started(lane, time)
        hit = items >= 0
        hit[hit] = self.start[items[hit]] == time[hit]
        items[~hit] = -1
        # Step back through slices that start together until one has the connection id of the query.
        query = np.flatnonzero(hit & (connection >= 0))
        at = items[query]
        while len(query):
            same = connections[at] == connection[query]
            items[query[same]] = at[same]
            query, at = query[~same], at[~same] - 1
            tied = at >= self.first[lane[query]]
            tied[tied] = self.start[at[tied]] == time[query[tied]]
            query, at = query[tied], at[tied]
        return items

    def innermost(self, lane: npt.NDArray[np.int32], time: I64) -> I64:
        """The slice of ``lane`` that started last among those open at ``time``, -1 without one; (n,).

        A slice that ends exactly at ``time`` counts only if no other is open.
        """
        begun = self.started(lane, time)
        # Open at ``time`` means to end after it, so at ``time + 1`` or later.
        items = self._last_reaching(begun, lane, time + 1)
        missing = np.flatnonzero(items < 0)
        items[missing] = self._last_reaching(begun[missing], lane[missing], time[missing])
        return items

    def enclosing(self, lane: npt.NDArray[np.int32], start: I64, end: I64) -> I64:
        """The slice of ``lane`` that started last among those that contain ``[start, end]``, -1 without one; (n,)."""
        return self._last_reaching(self.started(lane, start), lane, end)

    def parents(self, lane: npt.NDArray[np.int32]) -> I64:
        """The innermost slice around every slice of the index, -1 without one; (slices,).

        ``lane`` is the lane of every slice of the index.
        """
        return self._last_reaching(np.arange(-1, len(lane) - 1), lane, self.end)

    def _last_reaching(self, begun: I64, lane: npt.NDArray[np.int32], until: I64) -> I64:
        """The last slice at or before ``begun`` on its lane whose end is at least ``until``, else -1.

        Climbs the tree of latest ends to the left until a node reaches far enough, then descends into that node.
        """
        items = np.full_like(begun, -1)
        for low in range(0, len(begun), _AT_ONCE):
            active = low + np.flatnonzero(begun[low : low + _AT_ONCE] >= 0)
            node, goal = begun[active], until[active]
            for level, ends in enumerate(self._latest_end):
                if not len(active):
                    break
                enough = ends[node] >= goal
                leaf, far = node[enough], goal[enough]
                for below in reversed(self._latest_end[:level]):
                    right = leaf * 2 + 1
                    leaf = np.where(below[right] >= far, right, right - 1)
                items[active[enough]] = leaf
                # Next: the parent of the left neighbour; for a right child that is its own, with the sibling in it.
                node = (node - 1) >> 1
                rest = ~enough & (node >= 0)
                active, node, goal = active[rest], node[rest], goal[rest]
        # The tree spans all lanes: a slice of an earlier lane may reach far enough.
        items[items < self.first[lane]] = -1
        return items
