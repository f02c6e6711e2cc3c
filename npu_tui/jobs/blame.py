"""Which rank the others wait for at each collective, and whether its own work made it late.

On the common clock the last rank to arrive at a collective makes the others wait. That does not make it the culprit: an
earlier collective may have held it up. So its work since that one is compared with that of its peers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import LONG_NS
from npu_tui.jobs.clock import RankClock
from npu_tui.jobs.columns import Grouped, RowColumns, place_in_run, run_begins
from npu_tui.jobs.meetings import Meeting, RankMeetings, views
from npu_tui.jobs.model import Busy, CallTable, RankProfile
from npu_tui.trace.arrays import I64, Bools

_OF_ARRIVALS = ("rank", "call", "start", "end", "gap", "has_gap", "own", "has_own", "at_most")
_OF_COLLECTIVES = ("come", "middle", "last", "cost", "exposed", "transfer", "spread")
"""Columns of ``Blame`` with a value for each arrival, and for each collective."""


class Arrival(Struct, frozen=True):
    """One rank at one collective on the common clock, ns: when it arrived, how long it waited, when it left.

    ``late`` is how much later than the median rank it arrived, ``gap`` the time since its previous collective (None for
    its first one), ``own`` how much more work it did than peers with the same work (None without peers). A rank that is
    ``outside`` has no files here: the end of the others' waits for it shows when it arrived. With ``at_most`` that is
    an upper bound.
    """

    rank: int
    start: int
    end: int
    wait: int
    late: int
    gap: int | None
    own: int | None
    outside: bool = False
    at_most: bool = False


class BlamedCollective(Struct, frozen=True):
    """A collective with its arrivals in order. ``last`` arrived ``cost`` ns after the rank before it.

    They are None and 0 if the clocks are too imprecise to decide. ``exposed`` is the most of ``cost`` that a waiting
    rank did not hide behind computing, None if no waiting rank has a trace. ``transfer`` is from the last arrival to
    the first departure, ``spread`` from the first departure to the last.
    """

    meeting: Meeting
    arrivals: tuple[Arrival, ...]
    transfer: int
    spread: int
    last: int | None
    cost: int
    exposed: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Blame(RowColumns[BlamedCollective]):
    """Every collective on the common clock, by time, as columns; rows are built on access.

    ``meeting`` (m,) indexes ``met``. The arrivals of collective k are at ``first[k]:first[k + 1]`` in order of time:
    ``row`` is k, ``rank`` an index into ``ranks``, where ranks without files come last; ``call`` the row of the table
    (-1 outside); ``gap`` and ``own`` with ``has_gap`` and ``has_own``; (n,) each. ``come`` is the latest arrival that
    is exact and not a bound, ``middle`` the median one, ``last`` the index of the last rank (-1 if the clocks do not
    show it), ``cost``, ``exposed`` (-1 if no trace shows it), ``transfer``, ``spread``; (m,) each.
    """

    met: RankMeetings
    ranks: tuple[int, ...]
    meeting: I64
    first: I64
    row: I64
    rank: I64
    call: I64
    start: I64
    end: I64
    gap: I64
    has_gap: Bools
    own: I64
    has_own: Bools
    at_most: Bools
    come: I64
    middle: I64
    last: I64
    cost: I64
    exposed: I64
    transfer: I64
    spread: I64

    def __len__(self) -> int:
        return len(self.meeting)

    @property
    def outside(self) -> Bools:
        """Which arrivals are those of ranks without files."""
        return self.call < 0

    @property
    def late(self) -> I64:
        """How much later than the median rank of its collective each arrived, ns."""
        return self.start - self.middle[self.row]

    @property
    def wait(self) -> I64:
        """How long each waited for the last, ns."""
        return np.asarray(np.maximum(self.come[self.row] - self.start, 0))

    @property
    def steps(self) -> I64:
        """The step of every collective, as a place in ``step_names``, (m,)."""
        return self._step_codes()[0]

    @property
    def step_names(self) -> list[str]:
        """The names of steps that ``steps`` indexes."""
        return self._step_codes()[1]

    def _step_codes(self) -> tuple[I64, list[str]]:
        codes: dict[str, int] = {}
        of_kind = np.array([codes.setdefault(step, len(codes)) for _, _, step in self.met.table.kinds], np.int64)
        return of_kind[self.met.kind[self.meeting]] if len(self) else np.zeros(0, np.int64), list(codes)

    def of(self, kept: Bools) -> Blame:
        """Only the collectives that are ``kept`` (m,)."""
        rows = kept[self.row]
        sizes = np.diff(self.first)[kept]
        return replace(
            self,
            meeting=self.meeting[kept],
            first=np.concatenate(([0], np.cumsum(sizes))),
            row=np.repeat(np.arange(len(sizes)), sizes),
            **{name: getattr(self, name)[rows] for name in _OF_ARRIVALS},
            **{name: getattr(self, name)[kept] for name in _OF_COLLECTIVES},
        )

    def row_at(self, place: int) -> BlamedCollective:
        """The collective at ``place``."""
        came = slice(int(self.first[place]), int(self.first[place + 1]))
        come, middle = int(self.come[place]), int(self.middle[place])
        arrivals = tuple(
            Arrival(self.ranks[rank], start, end, max(come - start, 0), start - middle, gap if has_gap else None,
                    more if has_own else None, call < 0, at_most)
            for rank, start, end, gap, has_gap, more, has_own, call, at_most in zip(
                *(column[came].tolist() for column in (self.rank, self.start, self.end, self.gap, self.has_gap,
                                                      self.own, self.has_own, self.call, self.at_most)),
                strict=True,
            )
        )  # fmt: skip
        last = int(self.last[place])
        return BlamedCollective(
            self.met[int(self.meeting[place])],
            arrivals,
            int(self.transfer[place]),
            int(self.spread[place]),
            None if last < 0 else self.ranks[last],
            int(self.cost[place]),
            None if self.exposed[place] < 0 else int(self.exposed[place]),
        )


def common_times(time: I64, rank: I64, clocks: Sequence[RankClock]) -> I64:
    """``time`` of each ``rank`` (an index into ``clocks``) converted to the clock of its reference, ns since 1970."""
    offset = np.array([clock.offset for clock in clocks], np.int64)
    drift = np.array([clock.drift for clock in clocks])
    at = np.array([clock.at for clock in clocks], np.int64)
    gained = drift[rank] * (time - at[rank])
    return np.asarray(time - offset[rank] - np.rint(gained).astype(np.int64))


class _Outside(Struct, frozen=True, eq=False):
    """Ranks without files at collectives: the meeting, the rank, its arrival, whether that is an upper bound; (n,)."""

    row: I64
    peer: I64
    come: I64
    at_most: Bools


def blame(
    ranks: Sequence[RankProfile], met: RankMeetings, clocks: Sequence[RankClock], own_work: tuple[I64, Bools]
) -> Blame:
    """All collectives in order of their last arrivals. ``own_work`` is what ``excess`` returns for ``met.table``."""
    table, count = met.table, len(ranks)
    start = common_times(table.start[met.call], met.rank, clocks)
    end = common_times(table.end[met.call], met.rank, clocks)
    row, rank, call = met.row, met.rank, met.call
    names, at_most = [profile.rank for profile in ranks], np.zeros(len(row), np.bool_)
    outside = _outside(ranks, met, start)
    if len(outside.row):
        peers, place = np.unique(outside.peer, return_inverse=True)
        names += peers.tolist()
        row, rank = np.append(row, outside.row), np.append(rank, count + place)
        call = np.append(call, np.full(len(place), -1))
        start = np.append(start, outside.come)
        end = np.append(end, np.maximum.reduceat(end, met.first[:-1])[outside.row])
        at_most = np.append(at_most, outside.at_most)
    order = np.lexsort((start, row))
    row, rank, call = row[order], rank[order], call[order]
    start, end, at_most = start[order], end[order], at_most[order]
    first = np.searchsorted(row, np.arange(len(met) + 1))
    # An upper bound of an arrival does not prove who was last: only exact ones count.
    sure = np.flatnonzero(~at_most)
    last = sure[np.searchsorted(row[sure], np.arange(len(met)), "right") - 1] if len(met) else first[:0]
    come = start[last]
    by_time = np.argsort(come, kind="stable")
    sizes = np.diff(first)[by_time]
    picked = np.repeat(first[:-1][by_time], sizes) + np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    first = np.concatenate(([0], np.cumsum(sizes)))
    rank, call, start, end, at_most = rank[picked], call[picked], start[picked], end[picked], at_most[picked]
    row = np.repeat(np.arange(len(met)), sizes)
    gap, has_gap = _gaps(rank, start, end)
    more, has_own = _since_before(own_work, table.first, rank, call)
    return _priced(
        Blame(
            met, tuple(names), by_time, first, row, rank, call, start, end, gap, has_gap,
            more, has_own, at_most, come[by_time], *(first[:0],) * 6,
        ),
        clocks,
        [profile.busy for profile in ranks],
    )  # fmt: skip


def _since_before(own_work: tuple[I64, Bools], first: I64, rank: I64, call: I64) -> tuple[I64, Bools]:
    """``own_work`` (calls of the table) of every arrival, summed over its call and those since the previous collective.

    Returns the sums and whether they are known, (n,) each. A rank may work longer before a call in which no other rank
    takes part, and so arrive late at the next collective.
    """
    since, is_known = np.zeros(len(call), np.int64), np.zeros(len(call), np.bool_)
    inside = np.flatnonzero(call >= 0)
    order = inside[np.argsort(call[inside])]
    sums, counts = (np.concatenate(([0], np.cumsum(column, dtype=np.int64))) for column in own_work)
    begun = first[rank[order]]
    before = np.maximum(np.concatenate(([0], call[order][:-1] + 1))[: len(order)], begun)
    since[order] = sums[call[order] + 1] - sums[before]
    is_known[order] = counts[call[order] + 1] > counts[before]
    return since, is_known


def _priced(blamed: Blame, clocks: Sequence[RankClock], busy: Sequence[Busy | None]) -> Blame:
    """``blamed`` with the columns that depend on who came last; ``busy`` is when each rank computed in collectives."""
    count = len(blamed)
    if not count:
        return blamed
    sure = np.flatnonzero(~blamed.at_most)
    at = np.searchsorted(blamed.row[sure], np.arange(count), "right")
    last, second = sure[at - 1], sure[np.maximum(at - 2, 0)]
    error = np.array([clock.error for clock in clocks] + [0.0] * (len(blamed.ranks) - len(clocks)))
    ahead = blamed.come - blamed.start[second]
    # No rank is blamed for a lag within the error of the two clocks.
    certain = (blamed.row[second] == blamed.row[last]) & (second != last)
    certain &= ahead > 2 * np.maximum(error[blamed.rank[last]], error[blamed.rank[second]])
    sizes = np.diff(blamed.first)
    middle = blamed.start[blamed.first[:-1] + (sizes - 1) // 2]
    # Departures of ranks without files are unknown: they count neither for the first nor for the last one.
    huge = np.iinfo(np.int64).max
    ends = np.where(blamed.outside, huge, blamed.end)
    early = np.minimum.reduceat(ends, blamed.first[:-1])
    late = np.maximum.reduceat(np.where(blamed.outside, -huge, blamed.end), blamed.first[:-1])
    return replace(
        blamed,
        middle=middle,
        last=np.where(certain, blamed.rank[last], -1),
        cost=np.where(certain, ahead, 0),
        exposed=_exposed(blamed, np.where(certain, ahead, 0), busy),
        transfer=np.maximum(early - blamed.come, 0),
        spread=late - early,
    )


def before_recorded(blamed: Blame, ranks: Sequence[RankProfile], clocks: Sequence[RankClock]) -> Bools:
    """Which collectives waited mostly for a rank whose recording had not begun; (m,)."""
    known = np.array([profile.recorded is not None for profile in ranks] + [False])
    began = np.array([profile.recorded or 0 for profile in ranks] + [0], np.int64)
    places = np.arange(len(ranks))
    began[:-1] = common_times(began[:-1], places, clocks)
    last = np.where(blamed.last < len(ranks), blamed.last, -1)
    unrecorded = began[last] - (blamed.come - blamed.cost)
    before: Bools = (last >= 0) & known[last] & (blamed.cost >= LONG_NS) & (2 * unrecorded > blamed.cost)
    return before


def _exposed(blamed: Blame, cost: I64, busy: Sequence[Busy | None]) -> I64:
    """The most of ``cost`` (m,) that a waiting rank did not hide behind computing, -1 without a trace of one; (m,)."""
    exposed = np.full(len(blamed), -1, np.int64)
    if all(computed is None for computed in busy):
        return exposed
    waited = np.flatnonzero(~blamed.outside & (blamed.start <= (blamed.come - cost)[blamed.row]))
    waited = waited[np.argsort(blamed.rank[waited], kind="stable")]
    first = np.searchsorted(blamed.rank[waited], np.arange(len(busy) + 1))
    for place, computed in enumerate(busy):
        if computed is None:
            continue
        at = waited[first[place] : first[place + 1]]
        row = blamed.row[at]
        # Within one wait the drift of the rank's clock is negligible.
        until = blamed.met.table.start[blamed.call[at]] + blamed.come[row] - blamed.start[at]
        hidden = computed.until(until) - computed.until(until - cost[row])
        np.maximum.at(exposed, row, np.maximum(cost[row] - hidden, 0))
    return exposed


def _gaps(rank: I64, start: I64, end: I64) -> tuple[I64, Bools]:
    """The time since the rank of every arrival left its previous collective, ns, and which arrivals have one."""
    order = np.lexsort((np.arange(len(rank)), rank))
    gap, has = np.zeros(len(rank), np.int64), np.zeros(len(rank), np.bool_)
    same = np.diff(rank[order]) == 0
    gap[order[1:][same]] = (start[order[1:]] - end[order[:-1]])[same]
    has[order[1:][same]] = True
    return gap, has


def _outside(ranks: Sequence[RankProfile], met: RankMeetings, start: I64) -> _Outside:
    """When ranks without files arrived on the common clock, and whether that is an upper bound.

    If several ranks saw the same arrival, exact times win over bounds, then the earliest one.
    """
    seen = views(met, [profile.seen for profile in ranks])
    outside = (seen.entry >= 0) & ~np.isin(seen.peer, [profile.rank for profile in ranks])
    entry, peer, at_most = seen.entry[outside], seen.peer[outside], seen.at_most[outside]
    come = start[entry] + seen.after[outside]
    order = np.lexsort((come, at_most, peer, met.row[entry]))
    row, peer, come, at_most = met.row[entry][order], peer[order], come[order], at_most[order]
    first = run_begins(row, peer)
    return _Outside(row[first], peer[first], come[first], at_most[first])


def excess(
    table: CallTable, key: Callable[[int], Hashable], begun: Sequence[int | None] = (), busy: Sequence[Busy | None] = ()
) -> tuple[I64, Bools]:
    """How much longer each rank worked before a call than its peers with the same work, ns, and where that is known.

    (calls of the table,) each. Work is the time since the previous call of the same rank, so it needs no common clock;
    before the first call, the time since ``begun``, the start of the rank's first step (ns since 1970, None: unknown).
    A rank that computes during its calls has less left to do afterwards: if ``busy`` is known of all ranks, that counts
    too. Calls are of the same work if their type, the turn of their group on the rank and their place in the order of
    its calls of the step agree, on ranks with the same ``key``: calls of several groups come in any order. Each is
    compared with the median of its peers, of two ranks with the faster one.
    """
    count = len(table.rank)
    more, known = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    if not count:
        return more, known
    codes: dict[Hashable, int] = {}
    peers = np.array([codes.setdefault(key(rank), len(codes)) for rank in table.ranks], np.int64)[table.rank]
    groups_by_name: dict[str, int] = {}
    types: dict[tuple[str, str], int] = {}
    steps: dict[str, int] = {}
    of_kind = [
        (
            groups_by_name.setdefault(group, len(groups_by_name)),
            types.setdefault((step, kind), len(types)),
            steps.setdefault(step, len(steps)),
        )
        for group, kind, step in table.kinds
    ]
    group_of, type_of, step_of = np.array(of_kind, np.int64)[table.kind].T
    turn = _group_turns(table.rank, group_of)
    by_step = np.lexsort((np.arange(count), turn, step_of, table.rank))
    place = np.empty(count, np.int64)
    place[by_step] = place_in_run(table.rank[by_step], step_of[by_step], turn[by_step])
    by_step = np.lexsort((np.arange(count), step_of, table.rank))
    work, gap, has_before = np.zeros(count, np.int64), np.zeros(count, np.int64), np.ones(count, np.bool_)
    has_before[table.first[:-1][np.diff(table.first) > 0]] = False
    bounds = zip(table.first[:-1].tolist(), table.first[1:].tolist(), strict=True)
    hidden = busy if None not in busy else ()
    for (low, high), since, inside in zip_longest(bounds, begun, hidden):
        if since is not None and low < high and since <= table.start[low]:
            work[low], has_before[low] = table.start[low] - since, True
        left = np.maximum.accumulate(table.end[low : max(high - 1, low)])
        gap[low + 1 : high] = np.maximum(table.start[low + 1 : high] - left, 0)
        work[low + 1 : high] = gap[low + 1 : high]
        if inside is not None:
            work[low + 1 : high] += np.diff(inside.until(table.start[low:high]))
    some = np.flatnonzero(has_before)
    group = _codes(peers[some], type_of[some], turn[some], place[some])
    groups = int(group.max(initial=-1)) + 1
    usual = Grouped(group, groups).low_medians(work[some])
    most = int(table.rank.max(initial=0)) + 1
    pairs = np.unique(group * most + table.rank[some])  # a rank that made several such calls counts once
    ranks = np.bincount(pairs // most, minlength=groups)
    more[some] = work[some] - usual[group]
    known[some] = ranks[group] >= 2
    more[~known] = 0
    if hidden:
        more[by_step] = _above_usual(more[by_step], table.rank[by_step], _codes(peers, step_of)[by_step])
        for low, high in zip(table.first[:-1].tolist(), table.first[1:].tolist(), strict=True):
            begin = low + (low < high and not has_before[low])
            more[begin:high] = before_calls(more[begin:high], gap[begin:high])
    return more, known


def _group_turns(rank: I64, group: I64) -> I64:
    """Which of the groups of its ``rank`` that of each call is, in the order in which they are met; (n,)."""
    own = _codes(rank, group)
    _, first = np.unique(own, return_index=True)
    by_time = np.argsort(first)
    turn = np.empty(len(first), np.int64)
    turn[by_time] = place_in_run(rank[first][by_time])
    return np.asarray(turn[own])


def _above_usual(more: I64, rank: I64, step: I64) -> I64:
    """``more`` work without what the median of the ranks in a step has more of over all its calls, ns; (n,).

    Ranks that wait compute what those they wait for do a call later. Where half of them wait, the usual work before
    each call is now of the one half, now of the other: together that is less than any rank does. The last calls of each
    rank in its step lose it. Calls are in order of ranks and of the steps of peers.
    """
    begins = run_begins(rank, step)
    size = np.diff(np.append(begins, len(more)))
    sums, of_step = np.add.reduceat(more, begins), step[begins]
    spare = np.maximum(Grouped(of_step, int(of_step.max()) + 1).low_medians(sums), 0)[of_step]
    above = np.maximum(more, 0)
    so_far = np.cumsum(above)
    left = so_far[begins + size - 1].repeat(size) - so_far  # in the calls after each
    return np.asarray(more - np.clip(spare.repeat(size) - left, 0, above))


def before_calls(more: I64, gap: I64) -> I64:
    """``more`` work of one rank before each call, ns, (n,) in order of time, capped at the ``gap`` before the call.

    What exceeds the gap was done during earlier calls, in which the rank waited, and is moved to them. The sum stays
    the same.
    """
    if not len(more):
        return more
    # From the last call back: what is beyond the gaps so far, which earlier gaps take up as far as they have room.
    beyond = np.cumsum((more - np.maximum(gap, 0))[:0:-1])
    carried = np.append(0, beyond - np.minimum(np.minimum.accumulate(beyond), 0) if len(beyond) else beyond)[::-1]
    return np.asarray(more + carried - np.append(0, carried[:-1]))


def _codes(*columns: I64) -> I64:
    """A number for every combination of values, (n,)."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        code = code * (int(column.max(initial=0)) + 1) + column
    return np.asarray(np.unique(code, return_inverse=True)[1])
