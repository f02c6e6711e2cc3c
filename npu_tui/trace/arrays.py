"""Helpers for arrays of codes and slices: sorting, grouping, looking up; each replaces a slower call of NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_FEW = 1 << 16


def sort_slices(lane: I32, start: I64, end: I64) -> I64:
    """The order (lane, start, -end, position) of slices as indices; (n,)."""
    if not len(start):
        return np.zeros(0, np.int64)
    low = int(start.min())
    bits = int(start.max() - low).bit_length()
    if bits + int(lane.max()).bit_length() > 62:
        order: I64 = np.lexsort((-end, start, lane))
        return order
    key = (lane.astype(np.int64) << bits) | (start - low)
    if int(lane.max()) < _FEW:  # numbers of 16 bits are sorted digit by digit, and most lanes are in order already
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


_ROOM = 1 << 16


def distinct(code: npt.NDArray[np.integer]) -> tuple[I64, I64]:
    """The distinct values of ``code``, ascending, and which of them each is; (m,) and (n,).

    Where they are not far apart they are looked up, which takes a fraction of the time of sorting them.
    """
    least, most = (int(code.min()), int(code.max())) if len(code) else (0, -1)
    if most - least >= max(len(code), _ROOM):
        values, place = np.unique(code, return_inverse=True)
        return values.astype(np.int64, copy=False), place.astype(np.int64, copy=False)
    there = np.zeros(most - least + 1, np.bool_)
    at = code.astype(np.int64, copy=False) - least
    there[at] = True
    found = np.flatnonzero(there)
    place_of = np.zeros(len(there), np.int64)
    place_of[found] = np.arange(len(found))
    return found + least, place_of[at]


def in_groups(code: npt.NDArray[np.integer]) -> list[I64]:
    """The places of every code, ascending, those of the code that comes first in front."""
    _, group = distinct(code)
    order = np.argsort(group, kind="stable")
    found = np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else []
    return sorted(found, key=lambda own: int(own[0]))


def among(code: npt.NDArray[np.integer], wanted: npt.NDArray[np.integer]) -> Bools:
    """Which of ``code`` are among ``wanted``; (n,). These are looked up where they are not far apart."""
    least, most = (int(wanted.min()), int(wanted.max())) if len(wanted) else (0, -1)
    if not len(wanted) or most - least >= max(len(code) + len(wanted), _ROOM):
        return np.isin(code, wanted)
    there = np.zeros(most - least + 3, np.bool_)  # at both ends one for all that lie outside
    there[wanted.astype(np.int64, copy=False) - (least - 1)] = True
    return there.take(code.astype(np.int64, copy=False) - (least - 1), mode="clip")


class BySlice:
    """A number from 0 to 2**31 - 2 for some slices; of several for one the first counts.

    There is room for the slices between the first and the last of them: those of a few lanes, mostly.
    """

    def __init__(self, items: npt.NDArray[np.integer], values: npt.NDArray[np.integer]) -> None:
        """``values`` are those of ``items``, (n,) each."""
        self._first, self._last = (int(items.min()), int(items.max())) if len(items) else (0, -1)
        self._found = np.zeros(self._last - self._first + 2, np.int32)  # the last one is that of all other slices
        self._found[items[::-1] - self._first] = values[::-1] + 1

    def of(self, items: npt.NDArray[np.integer]) -> I64:
        """The number of each of ``items`` (-1: no slice), -1 without one; (m,)."""
        at = items.astype(np.int64) - self._first
        at[(at < 0) | (at > self._last - self._first)] = -1
        found: I64 = self._found[at].astype(np.int64)
        found -= 1
        return found


def previous_same(kind: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """The position of the one before each that has the same ``kind``, -1 without one; (n,)."""
    if len(kind) and int(kind.max()) - (least := int(kind.min())) < 1 << 16:
        kind = (kind - least).astype(np.uint16)  # short numbers are sorted digit by digit
    order = np.argsort(kind, kind="stable")
    found = np.full(len(kind), -1, np.int64)
    same = np.flatnonzero(kind[order[1:]] == kind[order[:-1]])
    found[order[same + 1]] = order[same]
    return found
