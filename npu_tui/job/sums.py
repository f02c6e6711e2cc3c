"""What every rank did over all collectives, what that cost, and how it is spread over the steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.job.blame import Blame
from npu_tui.job.replay import Levels

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_REPLAYED = 16
"""At most so many ranks are replayed, those with the most work above their peers."""

_WORTH_REPLAYING = 0.001
"""A rank whose work is above its peers' by less than this share of the job gains no more than that."""


class RankSum(Struct):
    """One rank over all collectives, ns. ``gain``: what the job would save if this rank worked as fast as its peers.

    ``inherited`` is the lateness that others caused; ``gain`` is None where many others would save more. ``exposed`` is
    what of ``cost`` some rank that waited did not hide behind computing, None where no trace tells for some of it.
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


class Prices:
    """What the job of ``blame`` would save in cases; ``island`` is that of every rank with files, (ranks,)."""

    def __init__(self, blame: Blame, island: I64) -> None:
        self._blame = blame
        self._levels = Levels.of(blame)
        self._island = np.append(island, np.zeros(len(blame.ranks) - len(island), np.int64))
        self._recorded = self._levels.lengths([np.zeros(len(blame.row), np.int64)], self._island)[0]

    @property
    def length(self) -> int:
        """How long the collectives take together as recorded, ns."""
        return int(self._recorded.max(initial=0))

    def gains(self, cases: Sequence[Bools]) -> list[int]:
        """What each case saves: the arrivals it names (n,) with as much work as that of the median rank, ns."""
        blame = self._blame
        more = np.where(
            blame.outside, np.where(blame.rank == blame.last[blame.row], blame.cost[blame.row], 0), blame.own
        )
        if not cases:
            return []
        lengths = self._levels.lengths([np.where(named, more, 0) for named in cases], self._island)
        return [max(int(each), 0) for each in (self._recorded - lengths).max(axis=1)]


def rank_sums(blame: Blame, prices: Prices) -> list[RankSum]:
    """What every rank did over all collectives: those with files in their order, then those without."""
    count = len(blame.ranks)

    def added(rank: I64, values: I64) -> list[int]:
        found = np.zeros(count, np.int64)
        np.add.at(found, rank, values)
        return [int(each) for each in found]

    held = np.maximum(blame.late - np.maximum(blame.own, 0), 0)
    certain = blame.last >= 0
    own, inherited = added(blame.rank, blame.own), added(blame.rank, held)
    came = np.bincount(blame.last[certain], minlength=count).tolist()
    made = np.bincount(blame.rank, minlength=count).tolist()
    cost = added(blame.last[certain], blame.cost[certain])
    sums = [RankSum(*row) for row in zip(blame.ranks, own, inherited, came, made, cost, strict=True)]
    unknown = np.bincount(blame.last[certain & (blame.exposed < 0)], minlength=count)
    exposed = added(blame.last[certain], blame.exposed[certain])
    for each, shown, missing in zip(sums, exposed, unknown.tolist(), strict=True):
        each.exposed = None if missing or not each.came_last else shown
    outside = np.zeros(count, np.bool_)
    outside[blame.rank[blame.outside]] = True
    above = np.where(outside, cost, own)
    worth = np.flatnonzero((above > 0) & (above >= _WORTH_REPLAYING * prices.length))
    worth = worth[np.argsort(-above[worth], kind="stable")]
    replayed = worth[:_REPLAYED].tolist()
    for place, gain in zip(replayed, prices.gains([blame.rank == place for place in replayed]), strict=True):
        sums[place].gain = gain
    for place in worth[_REPLAYED:].tolist():
        sums[place].gain = None
    return sums


def by_step(blame: Blame, ranks: int, steps: list[str]) -> ByStep:
    """The table of the first ``ranks`` ranks over ``steps``."""
    column = {step: number for number, step in enumerate(steps)}
    inside = ~blame.outside
    of_code = np.array([column.get(step, 0) for step in blame.step_names] or [0], np.int64)
    step = of_code[blame.steps[blame.row[inside]]]
    rank = blame.rank[inside]
    shape = ranks, max(len(steps), 1)
    own, late = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    there = np.zeros(shape, np.bool_)
    np.add.at(own, (rank, step), blame.own[inside])
    np.maximum.at(late, (rank, step), blame.late[inside])
    there[rank, step] = True
    return ByStep(steps or [""], own, late, there)
