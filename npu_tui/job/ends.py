"""Common ends of collectives: clocks under which the ranks leave each of them together.

Alternating medians: when a collective ended given the clocks, then what the clock of a rank is given the ends. A rank
that meets the reference only through others comes to it step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu_tui.job.meetings import Meeting

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_TOGETHER = 200_000
"""ns: ends that are further apart are no common end."""

_ROUNDED = 500.0
"""ns to which communication.json rounds its times."""

_WINDOW = 10_000_000_000
"""ns over which a clock is taken as constant."""

_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Ends:
    """Who left which barrier collective when: ``row`` is the collective, ``rank`` an index, ``time`` ns; (n,) each."""

    row: I64
    rank: I64
    time: F64

    def of(self, kept: Bools) -> Ends:
        """Those that are ``kept``."""
        return Ends(self.row[kept], self.rank[kept], self.time[kept])


@dataclass(frozen=True, slots=True)
class Agreement:
    """Clocks of all ranks, ns (ranks,): ``offset`` with its ± ``error``, and which the ends tie to the first rank.

    The ± is twice the median of what is left between a rank's ends and the common ones.
    """

    offset: F64
    error: F64
    tied: Bools


def common_ends(met: Sequence[Meeting], index: dict[int, int]) -> tuple[Ends, int]:
    """The ends of all barrier collectives, ns after the first of them; that first end in ns since 1970."""
    found = [
        (row, index[rank], call.end)
        for row, each in enumerate(met)
        if each.is_barrier
        for rank, call in each.calls.items()
    ]
    first = min((end for _, _, end in found), default=0)
    table = np.array([(row, rank, end - first) for row, rank, end in found], np.int64).reshape(-1, 3)
    return Ends(table[:, 0], table[:, 1], table[:, 2].astype(np.float64)), first


def drifts(ends: Ends, count: int) -> F64:
    """How fast each clock runs against the first one's, as a share, (ranks,); 0 where the ends span no two windows."""
    window = (ends.time // _WINDOW).astype(np.int64)
    parts = np.unique(window)
    if len(parts) < 2:
        return np.zeros(count)
    offsets = np.full((len(parts), count), np.nan)
    for number, part in enumerate(parts.tolist()):
        found = agreement(ends.of(window == part), np.full(count, np.nan))
        offsets[number, found.tied] = found.offset[found.tied]
    middle = np.array([np.median(ends.time[window == part]) for part in parts])
    slopes = np.diff(offsets, axis=0) / np.diff(middle)[:, None]
    slopes[:, np.isnan(slopes).all(axis=0)] = 0.0
    return np.asarray(np.nanmedian(slopes, axis=0), np.float64)


def straightened(ends: Ends, drift: F64) -> Ends:
    """``ends`` as clocks without drift would show them."""
    return Ends(ends.row, ends.rank, ends.time - drift[ends.rank] * ends.time)


def agreement(ends: Ends, middle: F64) -> Agreement:
    """The clocks under which ``ends`` agree best, from ``middle`` (NaN where nothing else is known); (ranks,)."""
    offset, tied = _linked(ends, middle)
    ends = ends.of(tied[ends.rank])
    for _ in range(2):  # the second time without ends that are not common under the first clocks
        offset = _settled(ends, offset)
        left = ends.time - offset[ends.rank]
        rows = int(ends.row.max(initial=-1)) + 1
        highest, lowest = np.full(rows, -np.inf), np.full(rows, np.inf)
        np.maximum.at(highest, ends.row, left)
        np.minimum.at(lowest, ends.row, left)
        together = (highest - lowest)[ends.row] <= _TOGETHER
        if not together.any():
            break
        ends = ends.of(together)
    left = ends.time - offset[ends.rank]
    apart = np.abs(left - _medians(ends.row, left)[ends.row])
    error = _medians(ends.rank, apart, len(middle))
    return Agreement(offset, np.where(np.isnan(error), np.inf, np.maximum(2 * error, _ROUNDED)), tied)


def _linked(ends: Ends, middle: F64) -> tuple[F64, Bools]:
    """A first clock for every rank that common ends lead to from the first one, and which those are."""
    offset = np.where(np.isfinite(middle), middle, 0.0)
    tied = np.zeros(len(middle), np.bool_)
    tied[:1] = True
    rows = int(ends.row.max(initial=-1)) + 1
    while True:
        known = tied[ends.rank]
        common = _medians(ends.row[known], ends.time[known] - offset[ends.rank[known]], rows)
        reached = ~known & ~np.isnan(common[ends.row])
        if not reached.any():
            return offset, tied
        found = _medians(ends.rank[reached], ends.time[reached] - common[ends.row[reached]], len(middle))
        new = ~np.isnan(found)
        offset[new] = np.where(np.isfinite(middle[new]), middle[new], found[new])
        tied |= new


def _settled(ends: Ends, offset: F64) -> F64:
    for _ in range(_ROUNDS if len(ends.row) else 0):
        common = _medians(ends.row, ends.time - offset[ends.rank])
        found = _medians(ends.rank, ends.time - common[ends.row], len(offset))
        following = np.where(np.isnan(found), offset, found)
        following -= following[0]
        if np.allclose(following, offset, rtol=0.0, atol=0.5):
            return following
        offset = following
    return offset


def _medians(group: I64, value: F64, count: int = 0) -> F64:
    """The median of the values of every group 0..count-1, NaN for those without any; (groups,)."""
    count = max(count, int(group.max(initial=-1)) + 1)
    order = np.lexsort((value, group))
    size = np.bincount(group, minlength=count)
    first = np.cumsum(size) - size
    found = np.full(count, np.nan)
    some = size > 0
    low, high = first[some] + (size[some] - 1) // 2, first[some] + size[some] // 2
    ordered = value[order]
    found[some] = (ordered[low] + ordered[high]) / 2
    return found
