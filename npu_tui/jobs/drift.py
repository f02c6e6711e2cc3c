"""Events that several ranks saw at the same time: clocks under which they agree, and how those run apart.

Ranks leave a barrier together, and a third rank comes at one moment for all that wait for it. Alternating medians: when
an event was given the clocks, then what the clock of a rank is given the events. A rank that meets the reference only
through others comes to it step by step. Clocks run apart by a drift; what is left of one that does not run evenly is
part of its ±.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.jobs.columns import F64, I64, ROUNDED, Bools, Grouped

_TOGETHER = 200_000  # ns: sights of an event that are further apart are none of the same moment


_WINDOW = 10_000_000_000  # ns over which a clock is taken as constant

_SHORTEST = 100_000_000  # ns that the windows span at least; less tells no drift

_LEAST_IN_WINDOW = 4  # sights of a clock from which the offset of a window is used
_FEW = 4.0
_STEADY = 2.0
"""A drift counts that is this many times as large as what it varies by from window to window."""

_ROUNDS = 40  # an end for clocks that never settle
_SETTLED = 10.0
"""ns by which no clock moves any more when they are settled."""

# The ± in medians of what is left between the sights of a rank and the common ones: two deviations of normal noise.
_CERTAINTY = 3.0


class SharedEvents(Struct, frozen=True, eq=False):
    """Who saw which event when: ``row`` is the event, ``rank`` a place among the ranks, ``time`` ns; (n,) each.

    Events of one ``group`` are seen by the same ranks in the same way, and so equally well.
    """

    row: I64
    rank: I64
    time: F64
    group: I64

    def of(self, kept: Bools) -> SharedEvents:
        """The events that are ``kept``."""
        return SharedEvents(self.row[kept], self.rank[kept], self.time[kept], self.group[kept])

    def straightened(self, drift: F64) -> SharedEvents:
        """The events as clocks without ``drift`` (ranks,) would show them."""
        return SharedEvents(self.row, self.rank, self.time - drift[self.rank] * self.time, self.group)


class Agreement(Struct, frozen=True, eq=False):
    """Clocks of all ranks, ns (ranks,): ``offset`` with its ± ``error``, and which the events tie to the references.

    ``sights`` counts what each rests on.
    """

    offset: F64
    error: F64
    tied: Bools
    sights: I64


def agreement(events: SharedEvents, references: I64) -> Agreement:
    """The clocks under which ``events`` agree best, (ranks,).

    ``references`` (ranks,) names for every rank the one whose clock is 0; a rank is tied if events lead to that. The ±
    adds up over the groups that lead there.
    """
    count = len(references)
    offset, tied = _linked(events, references)
    events = events.of(tied[events.rank])
    for _ in range(2):  # the second time without what was not seen at one time under the first clocks
        by_row = Grouped(events.row, int(events.row.max(initial=-1)) + 1)
        offset = _settled(events, offset, references, by_row)
        left = events.time - offset[events.rank]
        highest, lowest = np.full(by_row.count, -np.inf), np.full(by_row.count, np.inf)
        np.maximum.at(highest, events.row, left)
        np.minimum.at(lowest, events.row, left)
        together = (highest - lowest)[events.row] <= _TOGETHER
        if together.all() or not together.any():
            break
        events = events.of(together)
    left = events.time - offset[events.rank]
    rows = Grouped(events.row, int(events.row.max(initial=-1)) + 1)
    apart = np.abs(left - rows.medians(left)[events.row])
    return Agreement(offset, _errors(events, apart, references), tied, np.bincount(events.rank, minlength=count))


def _errors(events: SharedEvents, apart: F64, references: I64) -> F64:
    """The ± of every clock, (ranks,): what is left where it meets the next one, and so on to its reference.

    Of the ways through groups the surest counts; on each the ± of both ends of every meeting add up.
    """
    count = len(references)
    both, pair = np.unique(events.group * count + events.rank, return_inverse=True)
    group, rank = both // count, both % count
    few = 1 + _FEW / np.bincount(pair, minlength=len(both))  # a median of few sights says little of the others
    left = np.maximum(_CERTAINTY * few * Grouped(pair, len(both)).medians(apart), ROUNDED / 2)
    error = np.where(references == np.arange(count), 0.0, np.inf)
    groups = int(group.max(initial=-1)) + 1
    while True:
        best = np.full(groups, np.inf)
        np.minimum.at(best, group, error[rank] + left)
        reached = error.copy()
        np.minimum.at(reached, rank, best[group] + left)
        if np.array_equal(reached, error):
            return error
        error = reached


def drifts(events: SharedEvents, count: int, references: I64) -> F64:
    """How fast each clock runs against its reference's, as a share, (ranks,): from window to window.

    0 where the events span too little, and where what is found lies within what the windows tell.
    """
    window, parts = _event_windows(events)
    if not parts:
        return np.zeros(count)
    middle, offsets = _offsets(events, window, parts, references)
    span = float(np.ptp(events.time))
    # The median slope of all pairs of windows (Theil-Sen) is not moved by a window with few or odd sights.
    slopes = np.zeros(count)
    first, second = np.triu_indices(parts, 1)
    pairs = (offsets[second] - offsets[first]) / (middle[second] - middle[first])[:, None]
    some = ~np.isnan(pairs).all(axis=0)
    slopes[some] = np.nanmedian(pairs[:, some], axis=0)
    scatter = np.full(count, np.inf)
    scatter[some] = np.nanmedian(np.abs(pairs[:, some] - slopes[some]), axis=0)
    steady = (np.abs(slopes) > _STEADY * scatter) & (np.abs(slopes) * span > ROUNDED)
    return np.where(steady, slopes, 0.0)


def _event_windows(events: SharedEvents) -> tuple[I64, int]:
    """The window of every sight, (n,), and how many there are: 0 where the events span too little to tell a drift."""
    if not len(events.row):
        return np.zeros(0, np.int64), 0
    begun, span = float(events.time.min()), float(np.ptp(events.time))
    if span < _SHORTEST:
        return np.zeros(len(events.row), np.int64), 0
    parts = max(int(span // _WINDOW), 4)
    return np.minimum(((events.time - begun) / span * parts).astype(np.int64), parts - 1), parts


def _offsets(events: SharedEvents, window: I64, parts: int, references: I64) -> tuple[F64, F64]:
    """The middle of every window, (parts,), and in it the clock of every rank, (parts, ranks); NaN for few sights."""
    middle, offsets = np.full(parts, np.nan), np.full((parts, len(references)), np.nan)
    for part in range(parts):
        inside = events.of(window == part)
        if len(inside.row) < 2:
            continue
        clock = agreement(inside, references)
        known = clock.tied & (clock.sights >= _LEAST_IN_WINDOW)
        offsets[part, known] = clock.offset[known]
        middle[part] = np.median(inside.time)
    return middle, offsets


def _linked(events: SharedEvents, references: I64) -> tuple[F64, Bools]:
    """A first clock for every rank that common events lead to from its reference, and which those are."""
    offset = np.zeros(len(references))
    tied = references == np.arange(len(references))
    rows = int(events.row.max(initial=-1)) + 1
    while True:
        known = tied[events.rank]
        common = Grouped(events.row[known], rows).medians((events.time - offset[events.rank])[known])
        reached = ~known & ~np.isnan(common[events.row])
        if not reached.any():
            return offset, tied
        by_rank = Grouped(events.rank[reached], len(references))
        clock = by_rank.medians(events.time[reached] - common[events.row[reached]])
        new = ~np.isnan(clock)
        offset[new] = clock[new]
        tied |= new


def _settled(events: SharedEvents, offset: F64, references: I64, by_row: Grouped) -> F64:
    """``offset`` moved until no clock leaves the medians of its events; ``by_row`` groups the sights by event."""
    by_rank = Grouped(events.rank, len(references))
    for _ in range(_ROUNDS if len(events.row) else 0):
        common = by_row.medians(events.time - offset[events.rank])
        clock = by_rank.medians(events.time - common[events.row])
        following = np.where(np.isnan(clock), offset, clock)
        following -= following[references]
        moved = float(np.abs(following - offset).max(initial=0.0))
        offset = following
        if moved < _SETTLED:
            break
    return offset
