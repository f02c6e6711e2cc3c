"""One clock for all ranks, from what they recorded of each other, and the bounds of what it can be.

What happened on one rank after something on another bounds how far their clocks are apart: a wait ends after the record
it waits for has started, and no rank leaves a barrier before all have come. Shortest paths over these bounds give every
rank an interval that is certain; where it is wide, what ranks saw at one time gives the point in it.

Ranks leave a barrier together, and a third rank comes at one moment for all that wait for it. Alternating medians: when
an event was given the clocks, then what the clock of a rank is given the events. A rank that meets the reference only
through others comes to it step by step. Clocks run apart by a drift; what is left of one that does not run evenly is
part of its ±.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import FEWEST_EQUALS, ROUNDING_NS, SOME
from npu_tui.analysis.statistics import MAD_TO_SIGMA, WITHIN
from npu_tui.jobs.columns import MOST_ROUNDS, ROUNDED, Grouped, TextCodes, run_begins
from npu_tui.jobs.meetings import RankMeetings, views
from npu_tui.jobs.model import RankProfile, is_message, is_send
from npu_tui.jobs.rank_files import call_name
from npu_tui.trace.arrays import F64, I64, Bools

# Bounds that a shortest path leads over at most; what still gets shorter then goes around a negative cycle.
_MOST_HOPS = 256


class ClockPairs(Struct, frozen=True, eq=False):
    """Something began on ``source`` and cannot have ended on ``target`` before: places and times of both; (n,) each."""

    source: I64
    target: I64
    began: I64
    ended: I64


class Bounds(Struct, frozen=True, eq=False):
    """All bounds of a job, ns by the clock of each rank as if it ran evenly; ``edges`` counts those of every rank.

    ``pairs`` as (source, target, clock[target] − clock[source] at most); of the barriers ``row``, ``rank``, ``start``
    and ``end`` of every call: no end of a row comes before any start of it.
    """

    pairs: tuple[I64, I64, F64]
    row: I64
    rank: I64
    start: F64
    end: F64
    edges: I64

    @staticmethod
    def of(met: RankMeetings, notified: ClockPairs, messages: ClockPairs, zero: I64, drift: F64) -> Bounds:
        """All bounds, with times since the ``zero`` of their rank, ns, and without its ``drift``; (ranks,) both."""

        def straight(time: I64, rank: I64) -> F64:
            since = (time - zero[rank]).astype(np.float64)
            return np.asarray(np.rint(since - drift[rank] * since))

        pairs = [np.concatenate(both) for both in ((notified.source, messages.source),
                 (notified.target, messages.target), (notified.began, messages.began),
                 (notified.ended, messages.ended))]  # fmt: skip
        source, target, began, ended = pairs
        of_barrier = met.barrier[met.row]
        rank, call = met.rank[of_barrier], met.call[of_barrier]
        edges = np.bincount(np.concatenate((source, target, rank)), minlength=len(zero))
        return Bounds(
            (source, target, straight(ended, target) - straight(began, source)),
            met.row[of_barrier],
            rank,
            straight(met.table.start[call], rank),
            straight(met.table.end[call], rank),
            edges,
        )


def notify_bounds(ranks: Sequence[RankProfile], index: dict[int, int]) -> ClockPairs:
    """Bounds from notifies: within one collective and id the k-th wait ends after the k-th record starts.

    Each rank of a message gives it a name of its own, so messages are paired by their id alone.
    """
    some = [(index[profile.rank], profile.notifies) for profile in ranks if len(profile.notifies)]
    if not some:
        return _no_pairs()
    codes = TextCodes()
    name = np.concatenate([codes.of(rows.name) for _, rows in some])
    of_messages = np.array([is_message(call_name(text)[0]) for text in codes.texts], np.bool_)
    name[of_messages[name]] = len(codes)
    waits = np.concatenate([rows.waits for _, rows in some])
    place = np.repeat([place for place, _ in some], [len(rows) for _, rows in some])
    peer = _rank_places(np.concatenate([rows.peer for _, rows in some]), index)
    key = np.concatenate([rows.key for _, rows in some])
    time = np.concatenate([np.where(rows.waits, rows.end, rows.start) for _, rows in some])
    source, target = np.where(waits, peer, place), np.where(waits, place, peer)
    known = np.flatnonzero(peer >= 0)
    same = ((source * len(index) + target) * (len(codes) + 1) + name)[known]
    order = np.lexsort((time[known], waits[known], key[known], same))
    picked, same = known[order], same[order]
    begins = run_begins(same, key[picked])
    size = np.diff(np.append(begins, len(same)))
    waiting = np.add.reduceat(waits[picked].astype(np.int64), begins) if len(begins) else size
    # A record without its wait, or the other way round, shifts all that follow: such an id says nothing.
    even = waiting * 2 == size
    first = np.repeat(begins[even], waiting[even])
    number = np.arange(len(first)) - np.repeat(np.cumsum(waiting[even]) - waiting[even], waiting[even])
    began = picked[first + number]
    ended = picked[first + number + np.repeat(waiting[even], waiting[even])]
    return ClockPairs(source[began], target[began], time[began], time[ended])


def _rank_places(ranks: I64, index: dict[int, int]) -> I64:
    """The place of each rank, -1 for one that ``index`` does not have."""
    known = np.array(sorted(index), np.int64)
    at = np.minimum(np.searchsorted(known, ranks), len(known) - 1)
    places = np.array([index[rank] for rank in known.tolist()], np.int64)
    return np.where(known[at] == ranks, places[at], -1)


def message_bounds(met: RankMeetings) -> ClockPairs:
    """Bounds from messages: a receive cannot end before its send began."""
    sends = np.array([is_send(kind) for _, kind, _ in met.table.kinds], np.bool_)
    at = met.first[:-1][~met.barrier]
    if not len(at):
        return _no_pairs()
    first, second = met.call[at], met.call[at + 1]
    by_first, by_second = sends[met.table.kind[first]], sends[met.table.kind[second]]
    sender, receiver = np.where(by_first, first, second), np.where(by_first, second, first)
    sender, receiver = sender[by_first != by_second], receiver[by_first != by_second]
    table = met.table
    return ClockPairs(table.rank[sender], table.rank[receiver], table.start[sender], table.end[receiver])


def _no_pairs() -> ClockPairs:
    nothing = np.zeros(0, np.int64)
    return ClockPairs(nothing, nothing, nothing, nothing)


def islands(count: int, row: I64, rank: I64, notified: ClockPairs) -> I64:
    """The island of each rank: the ranks that collectives (``row`` and ``rank`` of each call, (n,)) or notifies tie.

    An island is numbered by the place of its lowest rank; (ranks,).
    """
    lowest = np.arange(count)
    # The lowest rank spreads over collectives and notifies until no island grows any more.
    while True:
        before = lowest.copy()
        of_row = np.full(int(row.max(initial=-1)) + 1, count)
        np.minimum.at(of_row, row, lowest[rank])
        np.minimum.at(lowest, rank, of_row[row])
        both = np.minimum(lowest[notified.source], lowest[notified.target])
        np.minimum.at(lowest, notified.source, both)
        np.minimum.at(lowest, notified.target, both)
        lowest = lowest[lowest]
        if (lowest == before).all():
            return np.asarray(np.unique(lowest, return_inverse=True)[1])


def intervals(bounds: Bounds, references: I64) -> tuple[F64, F64]:
    """The lowest and the highest clock of each rank against its reference's that all ``bounds`` allow, (ranks,) each.

    Where bounds contradict each other (a clock that is not constant) both are NaN.
    """
    source, target, most = bounds.pairs
    high = _shortest(bounds, references, source, target, most, -bounds.start, bounds.end)
    low = _shortest(bounds, references, target, source, most, bounds.end, -bounds.start)
    return -low, high


def _shortest(bounds: Bounds, references: I64, source: I64, target: I64, most: F64, into: F64, out: F64) -> F64:
    """The length of the shortest path from each rank's reference to it (Bellman–Ford), ns; (ranks,).

    A pair leads from ``source`` to ``target`` and is ``most`` ns long. A barrier of ``bounds`` joins all of its calls:
    the way into it is ``into`` ns long and the way out of it ``out`` ns, (calls,) each. Without a path the length is
    inf; it is NaN where a path leads through a cycle of negative length, which contradicting bounds make.
    """
    count = len(references)
    distance = np.where(references == np.arange(count), 0.0, np.inf)
    order = np.lexsort((bounds.row,))
    rank, row = bounds.rank[order], bounds.row[order]
    begins = run_begins(row)
    sizes = np.diff(np.append(begins, len(row)))
    into, out = into[order], out[order]
    for _ in range(min(count + 1, _MOST_HOPS)):
        reached = distance.copy()
        np.minimum.at(reached, target, distance[source] + most)
        if len(row):
            nearest = np.repeat(np.minimum.reduceat(distance[rank] + into, begins), sizes)
            np.minimum.at(reached, rank, nearest + out)
        if np.array_equal(reached, distance):
            return distance
        if (reached[references == np.arange(count)] < 0).any():
            break  # a way back to where it began is negative
        distance = reached
    return np.where(np.isfinite(distance), np.nan, distance)


Method = Literal["reference", "notify", "third_rank", "collective_ends", "none"]

_NARROW = 5_000  # ns: an interval this narrow needs no estimate within it


class RankClock(Struct, frozen=True):
    """How far the device clock of ``rank`` is ahead of the reference rank's, ns: ``offset`` at ``at``, and its drift.

    ``low`` and ``high`` are certain bounds (None where nothing bounds it), ``error`` is the ± of ``offset``: half the
    interval, or what the common events leave open. ``edges`` counts the bounds and events it rests on. ``method``
    ``none`` says that nothing ties it to the lowest rank; its offset is then against ``reference``, the lowest of the
    ranks that it is tied to.
    """

    rank: int
    method: Method
    offset: int = 0
    low: int | None = None
    high: int | None = None
    error: float = 0.0
    drift: float = 0.0
    at: int = 0
    edges: int = 0
    reference: int = 0

    @property
    def is_tied(self) -> bool:
        """Whether times of this rank can be compared with those of the lowest one."""
        return self.method != "none"

    def to_common(self, time: int) -> int:
        """``time`` of this rank's device on the clock of the reference."""
        return time - self.offset - round(self.drift * (time - self.at))


def clocks(ranks: Sequence[RankProfile], met: RankMeetings) -> list[RankClock]:
    """The clock of every rank, in the order of ``ranks``; the first rank is the reference."""
    if not ranks:
        return []
    count, index = len(ranks), {profile.rank: number for number, profile in enumerate(ranks)}
    notified = notify_bounds(ranks, index)
    island = islands(count, met.row, met.rank, notified)
    references = np.unique(island, return_index=True)[1][island]  # the lowest rank of each
    zero = _zeros(met, count)
    ends = _common_ends(met, zero)
    drift = drifts(ends, count, references)
    bounds = Bounds.of(met, notified, message_bounds(met), zero, drift)
    low, high = intervals(bounds, references)
    bounded = np.isfinite(low) & np.isfinite(high) & (low <= high)
    by_ends = _clocks_by_ends(ends.straightened(drift), references, np.where(bounded, low, np.nan), high)
    by_third = agreement(_third_ranks(ranks, met, zero).straightened(drift), references)
    exact = set(notified.source.tolist()) | set(notified.target.tolist())
    edges = bounds.edges + by_ends.sights + by_third.sights
    clocks_of = []
    for number, profile in enumerate(ranks):
        reference = int(references[number])
        at, base = int(zero[number]), int(zero[number] - zero[reference])
        reference_rank = ranks[reference].rank
        if number == reference:
            first: Method = "reference" if number == 0 else "none"
            clocks_of.append(
                RankClock(profile.rank, first, 0, 0, 0, 0.0, at=at, edges=int(edges[number]), reference=reference_rank)
            )
            continue
        method, point, error = _point(
            number, float(low[number]), float(high[number]), bool(bounded[number]), by_ends, by_third, number in exact
        )
        clocks_of.append(
            RankClock(
                profile.rank,
                method if reference == 0 else "none",
                base + round(point),
                base + round(float(low[number])) if bounded[number] else None,
                base + round(float(high[number])) if bounded[number] else None,
                error,
                float(drift[number]),
                at,
                int(edges[number]),
                reference_rank,
            )
        )
    return clocks_of


def _clocks_by_ends(ends: SharedEvents, references: I64, low: F64, high: F64) -> Agreement:
    """The clocks by the common ``ends``, (ranks,).

    Ranks that meet the reference in messages alone, such as a stage of a pipeline, agree with the one of them that
    these bound closest; bounds are NaN where there are none.
    """
    count = len(references)
    apart = islands(count, ends.row, ends.rank, _no_pairs())
    width = np.where(references == np.arange(count), -1.0, np.nan_to_num(high - low, nan=np.inf))
    order = np.lexsort((np.arange(count), width, apart))
    anchor = order[run_begins(apart[order])][apart]
    told, far = agreement(ends, anchor), anchor != references
    middle, half = (np.where(far, (high[anchor] + sign * low[anchor]) / 2, 0.0) for sign in (1, -1))
    tied = told.tied & ~np.isnan(middle) & ~(far & (anchor == np.arange(count)))
    return Agreement(told.offset + middle, told.error + half, tied, told.sights)


def _point(
    number: int, low: float, high: float, bounded: bool, ends: Agreement, third: Agreement, exact: bool
) -> tuple[Method, float, float]:
    """How the clock of a rank is known, its point within the interval, and its ±, ns."""
    bounded_method: Method = "notify" if exact else "collective_ends"
    if bounded and high - low <= _NARROW:
        return bounded_method, (low + high) / 2, (high - low) / 2
    views = bool(third.tied[number]) and int(third.sights[number]) >= SOME
    method: Method = "collective_ends"
    if views and (not ends.tied[number] or third.error[number] < ends.error[number]):
        method, point, error = "third_rank", float(third.offset[number]), float(third.error[number])
    elif ends.tied[number]:
        point, error = float(ends.offset[number]), float(ends.error[number])
    elif bounded:
        return bounded_method, (low + high) / 2, (high - low) / 2
    else:
        return "none", 0.0, float("inf")
    if bounded:  # what is seen is an estimate, the interval is certain
        point = min(max(point, low), high)
        error = min(error, max(high - point, point - low))
    return method, point, error


def _zeros(met: RankMeetings, count: int) -> I64:
    """The zero of the times of every rank: the end of its first collective, ns since 1970; (count,).

    Counted from there, times are small enough to keep their nanoseconds, even if clocks are decades apart.
    """
    zero = np.zeros(count, np.int64)
    table = met.table
    place = met.rank[::-1]
    zero[place] = table.end[met.call[::-1]]
    return zero


def _common_ends(met: RankMeetings, zero: I64) -> SharedEvents:
    """The ends of all barriers, ns by the clock of each rank since its ``zero``."""
    of_barrier = met.barrier[met.row]
    rank = met.rank[of_barrier]
    groups: dict[str, int] = {}
    group = np.array([groups.setdefault(name, len(groups)) for name, _, _ in met.table.kinds], np.int64)
    call = met.call[of_barrier]
    time = (met.table.end[call] - zero[rank]).astype(np.float64)
    return SharedEvents(met.row[of_barrier], rank, time, group[met.table.kind[call]])


def _third_ranks(ranks: Sequence[RankProfile], met: RankMeetings, zero: I64) -> SharedEvents:
    """When ranks arrived that several others waited for, ns since ``zero``: one event per collective and arrival."""
    seen = views(met, [profile.seen for profile in ranks])
    entry, peer, after = (column[(seen.entry >= 0) & ~seen.at_most] for column in (seen.entry, seen.peer, seen.after))
    key = met.row[entry] * (int(peer.max(initial=0)) + 1) + peer
    order = np.argsort(key, kind="stable")
    begins = run_begins(key[order])
    sizes = np.diff(np.append(begins, len(key)))
    order, sizes = order[np.repeat(sizes > 1, sizes)], sizes[sizes > 1]
    entry = entry[order]
    place, call = met.rank[entry], met.call[entry]
    time = met.table.start[call] + after[order] - zero[place]
    number = np.repeat(np.arange(len(sizes)), sizes)
    return SharedEvents(number, place, time.astype(np.float64), np.zeros(len(number), np.int64))


_TOGETHER = 200_000  # ns: sights of an event that are further apart are none of the same moment


_WINDOW = 10_000_000_000  # ns over which a clock is taken as constant

_SHORTEST = 100_000_000  # ns that the windows span at least; less shows no drift

_FEW = 4.0  # the uncertainty of a median of n sights is 1 + 4 / n times that of many

_CERTAINTY = WITHIN * MAD_TO_SIGMA
"""The ± in medians of what is left between the sights of a rank and the common ones."""


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

    The surest way through groups counts; on each the ± of both ends of every meeting add up.
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

    0 where the events span too little, and where what is found lies within the error of the windows.
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
    # It varies from window to window.
    steady = (np.abs(slopes) > WITHIN * scatter) & (np.abs(slopes) * span > ROUNDED)
    return np.where(steady, slopes, 0.0)


def _event_windows(events: SharedEvents) -> tuple[I64, int]:
    """The window of every sight, (n,), and how many there are: 0 where the events span too little to show a drift."""
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
        known = clock.tied & (clock.sights >= FEWEST_EQUALS)
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
    for _ in range(MOST_ROUNDS if len(events.row) else 0):
        common = by_row.medians(events.time - offset[events.rank])
        clock = by_rank.medians(events.time - common[events.row])
        following = np.where(np.isnan(clock), offset, clock)
        following -= following[references]
        moved = float(np.abs(following - offset).max(initial=0.0))
        offset = following
        if moved < ROUNDING_NS:
            break
    return offset
