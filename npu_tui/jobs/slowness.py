"""How slow every rank is, what that costs the job, in which pattern, and why.

A rank is compared with its peers, the ranks that do the same work. ``SavingsModel`` replays the collectives of a job to
price what it would gain if some of them arrived earlier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from statistics import median_low
from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.graph import NEVER, Graph
from npu_tui.analysis.limits import FEWEST_EQUALS, HALF, HARDLY_ANY, NEARLY_ALL, OUTLYING, SOME, UNSEEN
from npu_tui.analysis.statistics import MAD_TO_SIGMA
from npu_tui.jobs.blame import Blame
from npu_tui.jobs.model import Busy, RankProfile
from npu_tui.trace.arrays import F64, I64, Bools

_REPLAYED = 16
"""At most this many ranks are replayed, those that most exceed the work of their peers."""


class RankSum(Struct):
    """One rank over all collectives, times in ns.

    ``own`` is its work above that of its peers, ``inherited`` the lateness that other ranks caused. It was the last of
    ``came_last`` of its ``collectives``, and the others waited ``cost`` for it. ``exposed`` is the part of ``cost`` not
    covered by computing on at least one waiting rank, None unless traces cover all of it. ``gain`` is what the job
    would save if the rank worked as fast as its peers, None for ranks beyond the first ``_REPLAYED``.
    """

    rank: int
    own: int = 0
    inherited: int = 0
    came_last: int = 0
    collectives: int = 0
    cost: int = 0
    gain: int | None = 0
    exposed: int | None = None


class ByStep(Struct, frozen=True, eq=False):
    """Excess work and largest lateness of every rank in every step, ns; (ranks with files, steps) each.

    ``took_part`` is the mask of the steps that a rank took part in; ``steps`` names the columns.
    """

    steps: list[str]
    own: I64
    late: I64
    took_part: Bools


class Reduction(Struct, frozen=True, eq=False):
    """Work removed ``before`` each arrival, (n,), and from the ``tail`` of each rank after its last collective, ns."""

    before: I64
    tail: I64


class SavingsModel:
    """What the job of ``blame`` would save in what-if cases, by a replay of its collectives.

    ``island`` (ranks,) numbers the groups of ranks with a common clock. ``exposed`` (ranks,) is how long each rank
    communicates while it computes nothing, ns: -1 if that is unknown, or if its trace has the exact overlap.
    ``tail`` (ranks,) is how long each works on after its last collective, ns, and ``tail_excess`` how much longer than
    its peers. All three are of the ranks with files.
    """

    def __init__(self, blame: Blame, island: I64, exposed: I64, tail: I64, tail_excess: I64) -> None:
        self._blame = blame
        self._exposed = exposed
        # Node k + 1 is collective k, node 0 the start of the job. An arrival is an edge from the previous collective of
        # its rank, and the latest one decides. Every rank leaves as long after that as it did in the recording, so
        # transfers keep their times.
        island = np.append(island, np.zeros(len(blame.ranks) - len(island), np.int64))
        self._begun = np.full(int(island.max(initial=0)) + 1, np.iinfo(np.int64).max)
        inside = ~blame.outside
        np.minimum.at(self._begun, island[blame.rank[inside]], blame.start[inside])
        begun = self._begun.copy()
        self._begun -= (since := int(self._begun.min()))
        order = np.argsort(blame.rank, kind="stable")
        again = np.diff(blame.rank[order]) == 0
        before = np.full(len(order), -1)
        before[order[1:][again]] = order[:-1][again]
        left = np.maximum(blame.end - blame.come[blame.row], 0)
        follows = blame.has_gap & (before >= 0) & ~blame.at_most
        free = np.where(blame.has_gap, self._begun[island[blame.rank]] + blame.gap, blame.start - since)
        lag = np.where(follows, left[before] + blame.gap, np.where(blame.at_most, NEVER, free))
        source = np.where(follows, blame.row[before] + 1, 0)
        self._graph = Graph.of(source, blame.row + 1, lag, len(blame) + 1)
        self._source = source
        self._arrival_before = np.where(follows, before, -1)
        # Islands share no clock: the job is as long as its longest island, and a case shortens only its own.
        last = order[np.append(~again, True)[: len(order)]]
        no_files = np.zeros(len(blame.ranks) - len(tail), np.int64)
        tail, tail_excess = np.append(tail, no_files), np.append(tail_excess, no_files)
        self._tail, self._tail_excess = tail, tail_excess
        self._rank_of_end, self._last_arrivals = blame.rank[last], last
        final = np.full(len(blame.ranks), -1)
        final[blame.rank[last]] = blame.steps[blame.row[last]]
        self._final_arrivals = np.flatnonzero(blame.steps[blame.row] == final[blame.rank])  # of each rank's last step
        self._ends = blame.row[last] + 1, left[last] + tail[blame.rank[last]], island[blame.rank[last]]
        self._unchanged = self.reduced_to_median(np.zeros(len(blame.row), np.bool_))
        self._replayed = self._lengths(self._unchanged)
        ended = begun.copy()
        np.maximum.at(ended, island[blame.rank[last]], blame.end[last] + tail[blame.rank[last]])
        self._measured = ended - begun

    def _lengths(self, reduction: Reduction) -> I64:
        """The length of each island of the job with ``reduction``, ns; (islands,)."""
        node, left, island = self._ends
        ends = self._begun.copy()
        np.maximum.at(ends, island, self._times(reduction)[node] + left - reduction.tail[self._rank_of_end])
        return np.asarray(ends - self._begun)

    def _times(self, reduction: Reduction) -> I64:
        """When each node of the graph is passed with ``reduction``, ns."""
        return self._graph.times(self._graph.less(np.arange(len(reduction.before)), reduction.before))

    def time_saved(self, reduction: Reduction) -> tuple[I64, I64]:
        """How much earlier each rank arrives at a collective and leaves it with ``reduction``, ns; (n,) each."""
        blame = self._blame
        shift = self._times(self._unchanged) - self._times(reduction)
        left = shift[blame.row + 1]
        return np.where(blame.at_most, left, shift[self._source] + reduction.before), left

    def time_saved_at_end(self, reduction: Reduction) -> dict[int, tuple[int, int]]:
        """By the place of a rank: how long it works after its last collective, and how much earlier it ends, ns."""
        node, _, _ = self._ends
        shift = self._times(self._unchanged) - self._times(reduction)
        saved = (shift[node] + reduction.tail[self._rank_of_end]).tolist()
        places = self._rank_of_end.tolist()
        return {place: (int(self._tail[place]), by) for place, by in zip(places, saved, strict=True)}

    @property
    def length(self) -> int:
        """The length of the job when its collectives are replayed unchanged, ns: that of its longest island."""
        return int(self._replayed.max(initial=0))

    @property
    def measured(self) -> int:
        """The length of the job as recorded, from the first arrival to the end of the last rank, ns."""
        return int(self._measured.max(initial=0))

    def gains(self, cases: Sequence[Bools]) -> list[int]:
        """What each case saves, ns. A case is a mask of arrivals, (n,), that have only the work of the median rank."""
        saved = self.saved([self.reduced_to_median(named) for named in cases])
        return [min(gain, self._gain_limit(named)) for gain, named in zip(saved, cases, strict=True)]

    def reduced_to_median(self, named: Bools, part: F64 | None = None) -> Reduction:
        """The reduction that makes the arrivals ``named`` (n,) as early as those of the median rank.

        ``part`` (n,) is the share of each excess that goes, 0..1. The work after the last collective belongs to the
        last step of a rank: it shrinks with the arrivals of that step.
        """
        blame = self._blame
        waited = np.where(blame.rank == blame.last[blame.row], blame.cost[blame.row], 0)
        share = np.where(named, 1.0 if part is None else part, 0.0)
        ending = np.zeros(len(self._tail_excess))
        np.maximum.at(ending, blame.rank[self._final_arrivals], share[self._final_arrivals])
        before = share * np.where(blame.outside, waited, blame.own)
        return Reduction(before.astype(np.int64), (ending * self._tail_excess).astype(np.int64))

    def reduced_transfers(self, moved: I64) -> Reduction:
        """The reduction by which each rank leaves the collective of each arrival ``moved`` ns earlier; (n,)."""
        before = np.where(self._arrival_before >= 0, moved[self._arrival_before], 0)
        tail = np.zeros(len(self._tail), np.int64)
        tail[self._rank_of_end] = moved[self._last_arrivals]
        return Reduction(before, tail)

    def _gain_limit(self, named: Bools) -> int:
        """Upper bound of a gain, ns: the smallest exposed communication of the ranks without arrivals in ``named``.

        A step cannot become shorter than what such a rank does besides communicating.
        """
        others = np.ones(len(self._exposed), np.bool_)
        ranks = np.unique(self._blame.rank[named])
        others[ranks[ranks < len(others)]] = False
        exposed = self._exposed[others]
        return int(exposed.min()) if len(exposed) and exposed.min() >= 0 else int(np.iinfo(np.int64).max)

    def saved(self, reductions: Sequence[Reduction]) -> list[int]:
        """What the job saves with each of ``reductions``, ns."""
        return [max(int((self._replayed - self._lengths(each)).max()), 0) for each in reductions]


def exposed_transfers(blame: Blame, busy: Sequence[Busy | None], over: Bools) -> I64:
    """How long each arrival that is ``over`` (n,) moves data while its rank computes nothing, ns; 0 elsewhere; (n,)."""
    moving = np.where(over & (blame.call >= 0), blame.end - np.maximum(blame.come[blame.row], blame.start), 0).clip(0)
    for place, computed in enumerate(busy):
        if computed is not None:
            own = np.flatnonzero((moving > 0) & (blame.rank == place))
            ended = blame.met.table.end[blame.call[own]]
            hidden = computed.until(ended) - computed.until(ended - moving[own])
            moving[own] = np.maximum(moving[own] - hidden, 0)
    return np.asarray(moving)


def tail_excess(tail: I64, peers: Sequence[Hashable]) -> I64:
    """How much longer the ``tail`` of each rank is than the median of its ``peers``, ns, at least 0; (ranks,)."""
    same: dict[Hashable, list[int]] = defaultdict(list)
    for time, key in zip(tail.tolist(), peers, strict=True):
        same[key].append(time)
    excess = [time - median_low(same[key]) for time, key in zip(tail.tolist(), peers, strict=True)]
    return np.maximum(np.array(excess, np.int64), 0)


def rank_sums(blame: Blame, savings: SavingsModel) -> list[RankSum]:
    """A ``RankSum`` for every rank, those with files first."""
    count = len(blame.ranks)

    def sum_by_rank(rank: I64, values: I64) -> list[int]:
        sums_of = np.zeros(count, np.int64)
        np.add.at(sums_of, rank, values)
        return [int(value) for value in sums_of]

    inherited_late = np.maximum(blame.late - np.maximum(blame.own, 0), 0)
    certain = blame.last >= 0
    own, inherited = sum_by_rank(blame.rank, blame.own), sum_by_rank(blame.rank, inherited_late)
    last_counts = np.bincount(blame.last[certain], minlength=count).tolist()
    collectives = np.bincount(blame.rank, minlength=count).tolist()
    cost = sum_by_rank(blame.last[certain], blame.cost[certain])
    sums = [RankSum(*row) for row in zip(blame.ranks, own, inherited, last_counts, collectives, cost, strict=True)]
    unknown = np.bincount(blame.last[certain & (blame.exposed < 0)], minlength=count)
    uncovered = sum_by_rank(blame.last[certain], blame.exposed[certain])
    for row, exposed_time, missing in zip(sums, uncovered, unknown.tolist(), strict=True):
        row.exposed = None if missing or not row.came_last else exposed_time
    outside = np.zeros(count, np.bool_)
    outside[blame.rank[blame.outside]] = True
    excess = np.where(outside, cost, own)
    worth = np.flatnonzero((excess > 0) & (excess >= UNSEEN * savings.length))
    worth = worth[np.argsort(-excess[worth], kind="stable")]
    replayed = worth[:_REPLAYED].tolist()
    for place, gain in zip(replayed, savings.gains([blame.rank == place for place in replayed]), strict=True):
        # Of a rank without files only the waits are known. Waits hidden behind computing cost nothing.
        exposed = sums[place].exposed if outside[place] else None
        sums[place].gain = gain if exposed is None else min(gain, exposed)
    for place in worth[_REPLAYED:].tolist():
        sums[place].gain = None
    return sums


def by_step(blame: Blame, ranks: int, steps: list[str]) -> ByStep:
    """The table of the first ``ranks`` ranks over ``steps``."""
    column = {step: number for number, step in enumerate(steps)}
    inside = ~blame.outside
    of_code = np.array([column.get(step, -1) for step in blame.step_names] or [0], np.int64)
    inside[inside] = of_code[blame.steps[blame.row[inside]]] >= 0  # calls outside of steps are left out
    step = of_code[blame.steps[blame.row[inside]]]
    rank = blame.rank[inside]
    shape = ranks, max(len(steps), 1)
    more, late = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    took_part = np.zeros(shape, np.bool_)
    np.add.at(more, (rank, step), blame.own[inside])
    np.maximum.at(late, (rank, step), blame.late[inside])
    took_part[rank, step] = True
    return ByStep(steps or [""], more, late, took_part)


Shape = Literal["always", "stage", "host", "wandering", "once"]


# With this many ranks the noise of a step is estimated from its own ranks; with fewer, from the steps of each rank.
_MANY = 8
_CHANCE = OUTLYING * MAD_TO_SIGMA  # medians of the noise by which the excess of a slow rank is no chance
# A stage that computes this many times as long as the fastest one holds up the pipeline.
_STAGE = 1.15


class SlowStage(Struct, frozen=True):
    """A stage of the pipeline that computes longer than the others; times in ns over all steps.

    It computes ``time``, the stage ``fastest`` only ``less``. ``even`` is how much less it would compute if the work
    were divided evenly among the stages.
    """

    stage: int
    fastest: int
    ranks: tuple[int, ...]
    time: float
    less: float
    even: float


def slow_cells(table: ByStep, length: int) -> Bools:
    """The mask of the steps in which a rank's own work is slow, (ranks, steps), in a job of ``length`` ns."""
    least = np.full(len(table.steps), max(HARDLY_ANY * length / max(len(table.steps), 1), 1))
    if len(table.own) >= _MANY:  # with so many, one is far from the median by chance
        fast = [column[column <= 0] for column in table.own.T]
        chance = [-float(np.median(column)) if len(column) else 0.0 for column in fast]
        least = np.maximum(least, _CHANCE * np.array(chance))
    elif table.own.size:
        few = len(table.steps) < FEWEST_EQUALS  # too few to see ranks take turns
        middle = np.median(table.own, axis=1) if few else _shorths(table.own)
        apart = np.abs(table.own - middle[:, None])
        least = np.maximum(least, _CHANCE * float(np.percentile(apart, 50, method="linear" if few else "lower")))
    return np.asarray((table.own >= least) & (table.own >= HALF * table.own.max(axis=0, initial=0)))


def _shorths(own: I64) -> F64:
    """The midpoint of the shortest interval with half of each row, (rows,): steps slow in turns do not move it."""
    rows, steps = own.shape
    half = (steps + 1) // 2
    ordered = np.sort(own, axis=1)
    first = (ordered[:, half - 1 :] - ordered[:, : steps - half + 1]).argmin(axis=1)
    return np.asarray((ordered[np.arange(rows), first] + ordered[np.arange(rows), first + half - 1]) / 2)


def shapes_of(
    table: ByStep, slow: Bools, ranks: Sequence[int], hosts: Sequence[Sequence[int]], stage: SlowStage | None
) -> dict[int, Shape]:
    """The pattern of each of ``ranks`` that is ``slow`` (ranks, steps) in ``table``; ranks never slow are left out.

    ``hosts`` are the ranks of each host. Its ranks are slow with it where they are in nearly all steps, or where
    several are all in the same ones, or each in each step by twice as much as any rank elsewhere: chance does not sort
    ranks by hosts.
    """
    steps = int(table.took_part.any(axis=0).sum())
    counts, many = slow.sum(axis=1), steps >= FEWEST_EQUALS
    some = np.flatnonzero(counts)
    shapes: dict[int, Shape] = {ranks[number]: "once" for number in some.tolist()}
    if many:
        often = counts >= NEARLY_ALL * steps
        slow_steps = int(slow.any(axis=0).sum())
        # Two ranks take turns only if in nearly every step one of them is slow; three or more in half of the steps.
        least = (HALF if len(some) >= SOME else NEARLY_ALL) * steps
        turns = slow_steps >= least and counts.max() <= HALF * slow_steps
        for number in some.tolist():
            shapes[ranks[number]] = "always" if often[number] else "wandering" if turns else "once"
    place = {rank: number for number, rank in enumerate(ranks)}
    for host in hosts if len(hosts) > 1 else ():
        of_host = [place[rank] for rank in host]
        together = len(of_host) > 1 and (counts[of_host] > 0).sum() >= max(NEARLY_ALL * len(of_host), 2)
        some_steps = int(slow[of_host].any(axis=0).sum())
        at_once = len(of_host) >= SOME and slow[of_host].sum() >= NEARLY_ALL * len(of_host) * some_steps
        if together and (at_once or (many and some_steps >= NEARLY_ALL * steps)):
            shapes |= {ranks[number]: "host" for number in of_host if counts[number]}
        least, others = table.own[of_host].min(axis=0), np.delete(table.own, of_host, axis=0)
        apart = (least > 0) & (others.max(axis=0, initial=0) <= HALF * least)
        if min(len(of_host), len(others)) >= SOME and apart[table.took_part.any(axis=0)].all():
            shapes |= dict.fromkeys(host, "host")
    if stage is not None:
        shapes |= {rank: shapes.get(rank, "stage") for rank in stage.ranks}
    return shapes


def slow_stage(ranks: Sequence[RankProfile], stage_of: Callable[[int], int | None], steps: int) -> SlowStage | None:
    """The slowest stage where stages differ more than the ranks within them; None without one."""
    computing: dict[int, list[tuple[float, int]]] = {}
    for profile in ranks:
        stage = stage_of(profile.rank)
        if profile.steps and stage is not None:
            total = sum([step.computing for step in profile.steps]) / len(profile.steps)
            computing.setdefault(stage, []).append((total, profile.rank))
    if len(computing) < 2:
        return None
    times: Mapping[int, list[float]] = {stage: [time for time, _ in rows] for stage, rows in computing.items()}
    middle = {stage: float(np.median(computed)) for stage, computed in times.items()}
    slow, fast = max(middle, key=middle.__getitem__), min(middle, key=middle.__getitem__)
    apart = middle[slow] - middle[fast]
    within = max(float(np.subtract(*np.percentile(computed, (75, 25)))) for computed in times.values())
    if middle[fast] <= 0 or middle[slow] < _STAGE * middle[fast] or within > apart / 2:
        return None
    slowest = tuple(sorted(rank for _, rank in computing[slow]))
    even = middle[slow] - sum(middle.values()) / len(middle)
    count = max(steps, 1)
    return SlowStage(slow, fast, slowest, middle[slow] * count, middle[fast] * count, even * count)


class Longest(Struct, frozen=True):
    """The slowest ``rank`` of those with the same work, ns over all steps: ``more`` than their median.

    ``gain`` is its lead over the second slowest, at most what the others wait longer than it.
    """

    rank: int
    more: float
    gain: float


def longest_works(ranks: Sequence[RankProfile], peers: Sequence[Hashable]) -> Iterator[Longest]:
    """In each group of at least three ranks with the same ``peers`` the one all others wait for, by times of steps.

    Its lead must exceed the spread of the others.
    """
    same: dict[Hashable, list[RankProfile]] = defaultdict(list)
    for profile, key in zip(ranks, peers, strict=True):
        same[key].append(profile)
    for group in same.values():
        steps = set.intersection(*({step.step for step in profile.steps} for profile in group))
        if len(group) < SOME or not steps:
            continue
        told = [[step for step in profile.steps if step.step in steps] for profile in group]
        work = np.array([sum(step.computing + step.free for step in own) for own in told])
        waits = np.array([sum(step.exposed for step in own) for own in told])
        slow = int(work.argmax())
        others, waited = np.delete(work, slow), np.delete(waits, slow)
        gain = float(min(work[slow] - others.max(), waited.min() - waits[slow]))
        if gain > np.ptp(others):
            yield Longest(group[slow].rank, float(work[slow] - np.median(others)), gain)
