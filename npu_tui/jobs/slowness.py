"""How slow every rank is: its work over all collectives, what that costs the job, in which shape, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from statistics import median_low
from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.graph import NEVER, Graph
from npu_tui.analysis.limits import (
    FEWEST_EQUALS,
    HALF,
    HARDLY_ANY,
    NAMED,
    NEARLY_ALL,
    NOTABLE,
    SOME,
    UNSEEN,
)
from npu_tui.jobs.blame import Blame
from npu_tui.jobs.columns import F64, I64, Bools
from npu_tui.jobs.model import RankProfile, WaitedLine
from npu_tui.trace.message import Message, message

_REPLAYED = 16
"""Ranks that are replayed at most, those with the most work above their peers."""


class RankSum(Struct):
    """One rank over all collectives, ns. ``gain``: what the job would save if this rank worked as fast as its peers.

    ``inherited`` is the lateness that others caused; ``gain`` is None where many others would save more. ``exposed`` is
    the part of ``cost`` that some waiting rank did not hide behind computing, None without a trace for all of it.
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
    """Own excess and greatest lateness of every rank in every step, ns; (ranks with files, steps) each.

    ``there`` says where a rank took part; ``steps`` names the columns.
    """

    steps: list[str]
    own: I64
    late: I64
    there: Bools


class Less(Struct, frozen=True, eq=False):
    """How much less work there is ``before`` each arrival, (n,), and ``after`` the last collective of each rank, ns."""

    before: I64
    after: I64


class Prices:
    """What the job of ``blame`` would save in cases; ``island`` is that of every rank with files, (ranks,).

    ``exposed`` (ranks,) is how long each of these communicates while it computes nothing, ns, -1 where a trace tells
    what was computed meanwhile, or nothing does. ``after`` (ranks,) is how long each goes on after its last collective,
    ns, and ``later`` how much of it is more than its peers do.
    """

    def __init__(self, blame: Blame, island: I64, exposed: I64, after: I64, later: I64) -> None:
        self._blame = blame
        self._exposed = exposed
        # A collective, node k + 1 of the graph, begins with its last arrival, each of which is an edge from the
        # collective of its rank before: it takes its transfer, and each rank leaves as much after that as it did.
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
        # Ranks of several islands have no common time: the longest counts, and every case shortens its own.
        last = order[np.append(~again, True)[: len(order)]]
        after, later = (np.append(each, np.zeros(len(blame.ranks) - len(each), np.int64)) for each in (after, later))
        self._after, self._later, self._last_of = after, later, blame.rank[last]
        final = np.full(len(blame.ranks), -1)
        final[blame.rank[last]] = blame.steps[blame.row[last]]
        self._final = np.flatnonzero(blame.steps[blame.row] == final[blame.rank])  # arrivals of each rank's last step
        self._ends = blame.row[last] + 1, left[last] + after[blame.rank[last]], island[blame.rank[last]]
        self._nothing = self.less(np.zeros(len(blame.row), np.bool_))
        self._recorded = self._lengths(self._nothing)
        ended = begun.copy()
        np.maximum.at(ended, island[blame.rank[last]], blame.end[last] + after[blame.rank[last]])
        self._measured = ended - begun

    def _lengths(self, less: Less) -> I64:
        """How long the job takes with so much ``less`` work, ns; (islands,)."""
        node, left, island = self._ends
        ends = self._begun.copy()
        np.maximum.at(ends, island, self._times(less)[node] + left - less.after[self._last_of])
        return np.asarray(ends - self._begun)

    def _times(self, less: Less) -> I64:
        """When each node of the graph is passed then, ns."""
        return self._graph.times(self._graph.less(np.arange(len(less.before)), less.before))

    def sooner(self, less: Less) -> tuple[I64, I64]:
        """How much sooner each rank comes to a collective and leaves it with so much ``less`` work, ns; (n,) each."""
        blame = self._blame
        shift = self._times(self._nothing) - self._times(less)
        left = shift[blame.row + 1]
        return np.where(blame.at_most, left, shift[self._source] + less.before), left

    def sooner_ended(self, less: Less) -> dict[int, tuple[int, int]]:
        """How long the rank at each place goes on after its last collective, and how much sooner it ends then, ns."""
        node, _, _ = self._ends
        shift = self._times(self._nothing) - self._times(less)
        sooner = (shift[node] + less.after[self._last_of]).tolist()
        places = self._last_of.tolist()
        return {place: (int(self._after[place]), by) for place, by in zip(places, sooner, strict=True)}

    @property
    def length(self) -> int:
        """How long the collectives take together when they are replayed as recorded, ns."""
        return int(self._recorded.max(initial=0))

    @property
    def measured(self) -> int:
        """How long they took, from the first arrival to where the last rank ends, ns."""
        return int(self._measured.max(initial=0))

    def gains(self, cases: Sequence[Bools]) -> list[int]:
        """What each case saves: the arrivals it names (n,) with as much work as that of the median rank, ns."""
        saved = self.saved([self.less(named) for named in cases])
        return [min(gain, self._most(named)) for gain, named in zip(saved, cases, strict=True)]

    def less(self, named: Bools, part: F64 | None = None) -> Less:
        """How much less work there is where the arrivals ``named`` (n,) are as early as those of the median rank.

        Only a ``part`` (n,) of the work may go, 0..1. What a rank does after its last collective belongs to the last
        step of its: it goes with an arrival of that.
        """
        blame = self._blame
        waited = np.where(blame.rank == blame.last[blame.row], blame.cost[blame.row], 0)
        share = np.where(named, 1.0 if part is None else part, 0.0)
        ending = np.zeros(len(self._later))
        np.maximum.at(ending, blame.rank[self._final], share[self._final])
        before = share * np.where(blame.outside, waited, blame.own)
        return Less(before.astype(np.int64), (ending * self._later).astype(np.int64))

    def _most(self, named: Bools) -> int:
        """What the ranks without arrivals in ``named`` communicate at least while they compute nothing, ns.

        A step does not get shorter than what one of them does beside that.
        """
        others = np.ones(len(self._exposed), np.bool_)
        ranks = np.unique(self._blame.rank[named])
        others[ranks[ranks < len(others)]] = False
        exposed = self._exposed[others]
        return int(exposed.min()) if len(exposed) and exposed.min() >= 0 else int(np.iinfo(np.int64).max)

    def saved(self, less: Sequence[Less]) -> list[int]:
        """What each case saves with so much less work, ns."""
        return [max(int((self._recorded - self._lengths(each)).max()), 0) for each in less]


def later_than_peers(after: I64, peers: Sequence[Hashable]) -> I64:
    """How much longer than its ``peers`` each rank goes on ``after`` its last collective, ns; (ranks,)."""
    same: dict[Hashable, list[int]] = defaultdict(list)
    for time, key in zip(after.tolist(), peers, strict=True):
        same[key].append(time)
    more = [time - median_low(same[key]) for time, key in zip(after.tolist(), peers, strict=True)]
    return np.maximum(np.array(more, np.int64), 0)


def rank_sums(blame: Blame, prices: Prices) -> list[RankSum]:
    """What every rank did over all collectives: those with files in their order, then those without."""
    count = len(blame.ranks)

    def added(rank: I64, values: I64) -> list[int]:
        sums_of = np.zeros(count, np.int64)
        np.add.at(sums_of, rank, values)
        return [int(value) for value in sums_of]

    held = np.maximum(blame.late - np.maximum(blame.own, 0), 0)
    certain = blame.last >= 0
    more, inherited = added(blame.rank, blame.own), added(blame.rank, held)
    came = np.bincount(blame.last[certain], minlength=count).tolist()
    made = np.bincount(blame.rank, minlength=count).tolist()
    cost = added(blame.last[certain], blame.cost[certain])
    sums = [RankSum(*row) for row in zip(blame.ranks, more, inherited, came, made, cost, strict=True)]
    unknown = np.bincount(blame.last[certain & (blame.exposed < 0)], minlength=count)
    uncovered = added(blame.last[certain], blame.exposed[certain])
    for row, shown, missing in zip(sums, uncovered, unknown.tolist(), strict=True):
        row.exposed = None if missing or not row.came_last else shown
    outside = np.zeros(count, np.bool_)
    outside[blame.rank[blame.outside]] = True
    above = np.where(outside, cost, more)
    worth = np.flatnonzero((above > 0) & (above >= UNSEEN * prices.length))
    worth = worth[np.argsort(-above[worth], kind="stable")]
    replayed = worth[:_REPLAYED].tolist()
    for place, gain in zip(replayed, prices.gains([blame.rank == place for place in replayed]), strict=True):
        # Of a rank without files only the waits are known; those behind computing made nothing longer.
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
    inside[inside] = of_code[blame.steps[blame.row[inside]]] >= 0  # what is in no step is left out
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


_MANY = 8
"""From this many ranks on, each step says how far its ranks differ by chance; with fewer, the steps of a rank do."""
_CHANCE = 7.0
"""A rank is slow where its excess is this many times the usual difference: 7 medians are 4.7 standard deviations."""


_STAGE = 1.15
"""A stage that computes this many times as long as the fastest one holds up the pipeline."""


class SlowStage(Struct, frozen=True):
    """A stage of the pipeline that computes longer than the others; times in ns over all steps.

    ``even`` is what it would lose if all stages computed equally long.
    """

    stage: int
    fastest: int
    ranks: tuple[int, ...]
    time: float
    less: float
    even: float


def slow_cells(table: ByStep, length: int) -> Bools:
    """In which steps of a job of ``length`` ns each rank is slow by its own work, (ranks, steps)."""
    least = np.full(len(table.steps), max(HARDLY_ANY * length / max(len(table.steps), 1), 1))
    if len(table.own) >= _MANY:  # of many ranks the slowest by chance is far from the median
        fast = [column[column <= 0] for column in table.own.T]
        chance = [-float(np.median(column)) if len(column) else 0.0 for column in fast]
        least = np.maximum(least, _CHANCE * np.array(chance))
    elif table.own.size:
        few = len(table.steps) < FEWEST_EQUALS  # of which none take turns
        middle = np.median(table.own, axis=1) if few else _middles(table.own)
        apart = np.abs(table.own - middle[:, None])
        least = np.maximum(least, _CHANCE * float(np.percentile(apart, 50, method="linear" if few else "lower")))
    return np.asarray((table.own >= least) & (table.own >= HALF * table.own.max(axis=0, initial=0)))


def _middles(own: I64) -> F64:
    """The middle of the closest half of each row, (rows,): what takes turns has no part in it, unlike in a median."""
    rows, steps = own.shape
    half = (steps + 1) // 2
    ordered = np.sort(own, axis=1)
    first = (ordered[:, half - 1 :] - ordered[:, : steps - half + 1]).argmin(axis=1)
    return np.asarray((ordered[np.arange(rows), first] + ordered[np.arange(rows), first + half - 1]) / 2)


def shapes_of(
    table: ByStep, slow: Bools, ranks: Sequence[int], hosts: Sequence[Sequence[int]], stage: SlowStage | None
) -> dict[int, Shape]:
    """How each of ``ranks`` that is ``slow`` (ranks, steps) of ``table`` is so; others are left out.

    ``hosts`` are the ranks of each host. Its ranks are slow with it where they are in nearly all steps, or where
    several are all in the same ones.
    """
    steps = int(table.there.any(axis=0).sum())
    shapes: dict[int, Shape] = {}
    place = {rank: number for number, rank in enumerate(ranks)}
    counts = slow.sum(axis=1)
    some = np.flatnonzero(counts)
    if steps < FEWEST_EQUALS:
        shapes = {ranks[number]: "once" for number in some.tolist()}
    else:
        often = counts >= NEARLY_ALL * steps
        held = int(slow.any(axis=0).sum())
        # Two are a pair only where hardly a step is without one of them.
        turns = held >= (HALF if len(some) >= SOME else NEARLY_ALL) * steps and counts.max() <= HALF * held
        for number in some.tolist():
            shapes[ranks[number]] = "always" if often[number] else "wandering" if turns else "once"
        for host in hosts if len(hosts) > 1 else ():
            of_host = [place[rank] for rank in host]
            together = len(of_host) > 1 and (counts[of_host] > 0).sum() >= max(NEARLY_ALL * len(of_host), 2)
            some_steps = int(slow[of_host].any(axis=0).sum())
            at_once = len(of_host) >= SOME and slow[of_host].sum() >= NEARLY_ALL * len(of_host) * some_steps
            if together and (at_once or some_steps >= NEARLY_ALL * steps):
                shapes |= {ranks[number]: "host" for number in of_host if counts[number]}
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
    """The ``rank`` that works longest of those with the same work, ns over all steps: ``more`` than the median.

    The steps are longer by as much as it works longer than the second, ``gain``, where the others wait for so long.
    """

    rank: int
    more: float
    gain: float


def longest_works(ranks: Sequence[RankProfile], peers: Sequence[Hashable]) -> Iterator[Longest]:
    """Of each group of at least three ranks with the same ``peers`` the one that all others wait for, by their steps.

    It stands out by more than the others differ from each other.
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


_TIMES = ("computing", "free")
"""Fields of a step that are about equal on ranks with the same work."""


_SLOWER = 1.05  # kernels that take 5 % longer are called slower; else there are more of them, or longer ones
_MOST_FINDINGS = 2  # of a slow rank: the first ones of its own report


def reasons(
    ranks: Sequence[RankProfile], peers: Sequence[Hashable], blame: Blame, slow: Sequence[bool]
) -> list[list[Message]]:
    """What tells each of ``ranks`` from those with the same ``peers``; ``slow`` ones are asked for their traces too.

    With traces the segments before the collectives that the rank was late for by its own work are compared: calls,
    their time, launches that came late with their code lines. Without, the times of whole steps are.
    """
    usual = _usual(ranks, peers)
    same: dict[Hashable, list[int]] = defaultdict(list)
    for place, key in enumerate(peers):
        same[key].append(place)
    reasons_of = []
    for place, profile in enumerate(ranks):
        texts = _by_segments(place, ranks, same[peers[place]], blame) if slow[place] else []
        texts = texts or _by_steps(profile, usual.get(peers[place], {}))
        told = profile.findings[:_MOST_FINDINGS] if slow[place] else ()
        each = [message("job.why.finding", id=finding.id, gain=finding.gain) for finding in told]
        texts += [message("job.why.told", found=each)] if each else []
        reasons_of.append(texts)
    return reasons_of


def _usual(ranks: Sequence[RankProfile], peers: Sequence[Hashable]) -> dict[Hashable, dict[str, float]]:
    """Computing and free time of a step, ns, that is usual for ranks with the same work; of two the shorter one."""
    times: dict[Hashable, list[tuple[float, ...]]] = defaultdict(list)
    for profile, key in zip(ranks, peers, strict=True):
        if profile.steps:
            times[key].append(tuple(_mean(profile, name) for name in _TIMES))
    return {
        key: {name: median_low(of_peers) for name, of_peers in zip(_TIMES, zip(*rows, strict=True), strict=True)}
        for key, rows in times.items()
        if len(rows) > 1
    }


def _mean(profile: RankProfile, name: str) -> float:
    return float(sum([getattr(step, name) for step in profile.steps]) / len(profile.steps))


def _by_steps(profile: RankProfile, usual: dict[str, float]) -> list[Message]:
    if not usual or not profile.steps:
        return []
    least = HARDLY_ANY * _mean(profile, "total")
    more = {name: _mean(profile, name) - time for name, time in usual.items()}
    return [message(f"job.why.{name}", more=time) for name, time in more.items() if time > least]


def _by_segments(place: int, ranks: Sequence[RankProfile], same: list[int], blame: Blame) -> list[Message]:
    """The work of the steps in which the rank came late to collectives by its own, against its median peer's."""
    work = ranks[place].work
    others = [other for other in same if other != place and ranks[other].work is not None]
    if work is None or not others:
        return []
    first, own_row = blame.met.table.first, blame.rank == place
    late = np.flatnonzero(own_row & (blame.own > 0) & (blame.call >= 0))
    excess = int(blame.own[late].sum())
    if not excess:
        return []
    # What peers did while they waited for this rank is work of the same step, not of the same segment.
    slow_steps = np.isin(blame.steps[blame.row], blame.steps[blame.row[late]])
    chosen = np.flatnonzero(own_row & (blame.call >= 0) & slow_steps)
    calls, rows = blame.call[chosen] - first[place], blame.row[chosen]

    def above(name: str) -> int:
        mine = getattr(work, name)[calls]
        peers = []
        for other in others:
            call_in = np.full(len(blame), -1)
            theirs = np.flatnonzero((blame.rank == other) & (blame.call >= 0))
            call_in[blame.row[theirs]] = blame.call[theirs] - first[other]
            at = call_in[rows]
            peers.append(np.where(at >= 0, getattr(ranks[other].work, name)[at], mine))
        return int((mine - np.median(np.stack(peers), axis=0)).sum())

    kernels, computing, lost = above("kernels"), above("computing"), above("lost")
    texts = []
    if lost > NOTABLE * excess:
        texts.append(message("job.why.lost", more=lost))
        texts += _slow_lines(ranks[place].lines, [ranks[other].lines for other in others], excess)
    if computing > NOTABLE * excess:
        usual = int(work.computing[calls].sum()) - computing
        usual_kernels = (int(work.kernels[calls].sum()) - kernels) or 1
        slower = (int(work.computing[calls].sum()) / max(int(work.kernels[calls].sum()), 1)) / max(
            usual / usual_kernels, 1e-9
        )
        code = "slower" if slower >= _SLOWER and kernels <= 0 else "more" if kernels > 0 else "computing"
        texts.append(message(f"job.why.{code}", more=computing, kernels=kernels, times=slower))
    return texts


def _slow_lines(mine: Sequence[WaitedLine], others: Sequence[Sequence[WaitedLine]], excess: int) -> list[Message]:
    """The lines of code that make the device wait longer than on the median peer."""
    tables = [{(line.file, line.line): line.lost for line in lines} for lines in others]
    rows = []
    for line in mine:
        more = line.lost - median_low([table.get((line.file, line.line), 0) for table in tables])
        if more > NOTABLE * excess:
            rows.append((more, line))
    rows.sort(key=lambda row: -row[0])
    return [message("job.why.line", file=line.file, line=line.line, more=more) for more, line in rows[:NAMED]]
