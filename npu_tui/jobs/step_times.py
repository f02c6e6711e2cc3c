"""What the steps of every rank were spent on, as samples: (ranks, steps), ns, and which steps are left out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from npu_tui.analysis.statistics import SEVERAL, longest_usual
from npu_tui.jobs.columns import F64, Bools
from npu_tui.jobs.job import Job, members
from npu_tui.jobs.model import step_order

_MET = 0.9
"""Share of the time of a job's calls that several ranks must have recorded to tell waiting from transfers."""


TIMES = ("computing", "free", "work", "exposed", "wait", "transfer", "bubble", "total")
"""The times of a step. ``work``, computing and idle time, is what a rank does by itself; ``exposed`` is communication
that computing does not hide: the ``wait`` for others and the ``transfer`` after the last had come. ``bubble`` is what
of it waits for another stage; the ``total`` is work and exposed."""


class RankStepTimes(Struct, frozen=True, eq=False):
    """Each of ``TIMES`` of every rank in each of ``steps``, (ranks, steps) ns; NaN is unknown."""

    steps: list[str]
    times: dict[str, F64]

    def __getitem__(self, name: str) -> F64:
        return self.times[name]

    def of(self, kept: Bools) -> RankStepTimes:
        """Only the steps that are ``kept``."""
        steps = [step for step, is_kept in zip(self.steps, kept.tolist(), strict=True) if is_kept]
        return RankStepTimes(steps, {name: times[:, kept] for name, times in self.times.items()})


def step_times(job: Job) -> RankStepTimes:
    """The times of all ranks of ``job``."""
    ranks = [profile for _, profile in members(job)]
    steps = sorted({step.step for profile in ranks for step in profile.steps}, key=step_order)
    at = {step: column for column, step in enumerate(steps)}
    told = np.full((4, len(ranks), len(steps)), np.nan)
    for row, profile in enumerate(ranks):
        for step in profile.steps:
            bubble = np.nan if step.bubble is None else step.bubble
            told[:, row, at[step.step]] = step.computing, step.free, step.exposed, bubble
    computing, free, exposed, bubbles = told
    work, transfer = computing + free, np.minimum(np.concatenate([_transfers(part, at) for part in job.parts]), exposed)
    rows = computing, free, work, exposed, exposed - transfer, transfer, bubbles, work + exposed
    return RankStepTimes(steps, dict(zip(TIMES, rows, strict=True)))


def _transfers(job: Job, at: dict[str, int]) -> F64:
    """How long the collectives of each rank lasted after the last rank had come, (ranks, steps) ns.

    It is the shortest call of each collective, so no clock is needed. NaN where ranks are missing or nothing tells
    which there are, as one without files may have been the last, and where other calls take much of the time.
    """
    met = job.meetings
    told = job.layout is not None or any(profile.groups for profile in job.ranks)
    some = met.length.sum() >= _MET * (met.table.end - met.table.start).sum()
    if not told or job.missing or not len(met) or not at or not some:
        return np.full((len(job.ranks), len(at)), np.nan)
    column = np.array([at.get(step, 0 if len(at) == 1 else -1) for _, _, step in met.table.kinds], np.int64)
    column = column[met.kind][met.row]
    inside = column >= 0
    transfer = np.zeros((len(job.ranks), len(at)))
    np.add.at(transfer, (met.rank[inside], column[inside]), met.transfer[met.row[inside]])
    return transfer


def level(times: F64) -> F64:
    """The mean over ranks in each step, (steps,); a rank that misses a step counts there as it does in the others."""
    usual = mean(times)
    known = ~np.isnan(usual)
    if not known.any():
        return np.zeros(0)
    apart = times[known] - usual[known, None]
    there = ~np.isnan(apart)
    some = there.any(axis=0)
    more = np.where(there, apart, 0).sum(axis=0)[some] / there.sum(axis=0)[some]
    return np.asarray(usual[known].mean() + more - more.mean())  # their mean is that of the ranks


def spans(job: Job, steps: list[str]) -> F64:
    """From the first work of any role to the last in each of ``steps``, ns, as roles work one after the other."""
    found: dict[str, list[tuple[int, int]]] = {step: [] for step in steps}
    for profile in job.ranks:
        for stint in profile.stints:
            if stint.step in found:
                found[stint.step].append((stint.start, stint.end))
    both = (list(zip(*times, strict=True)) for times in found.values() if times)
    return np.array([max(ends) - min(starts) for starts, ends in both], np.float64)


def mean(times: F64) -> F64:
    """The mean over the steps of each rank, (ranks,); NaN for one without any."""
    there = ~np.isnan(times)
    count = there.sum(axis=1)
    return np.where(count > 0, np.where(there, times, 0).sum(axis=1) / np.maximum(count, 1), np.nan)


def compared(both: Iterable[RankStepTimes]) -> list[tuple[RankStepTimes, list[str]]]:
    """The steps of each job that are compared, and those that are not: the first one, and far longer ones than usual.

    Long steps that one job has several more of are kept: they are what differs.
    """
    sides = list(both)
    later, long = [], []
    for side in sides:
        kept = np.arange(len(side.steps)) > 0 if len(side.steps) > 1 else np.ones(len(side.steps), np.bool_)
        walls = np.nanmean(side["total"], axis=0) if side["total"].size else np.zeros(len(side.steps))
        later.append(kept)
        long.append(kept & (walls > longest_usual(walls[kept])) if kept.any() else kept)
    if abs(int(long[1].sum()) - int(long[0].sum())) >= SEVERAL:
        long = [np.zeros(len(kept), np.bool_) for kept in later]
    return [
        (
            side.of(kept & ~far),
            [step for step, stays in zip(side.steps, (kept & ~far).tolist(), strict=True) if not stays],
        )
        for side, kept, far in zip(sides, later, long, strict=True)
    ]


def transfers_by_place(
    job: Job, steps: list[str], number: dict[int, int]
) -> dict[tuple[frozenset[int], str, int], float]:
    """The mean transfer of each collective over ``steps``, ns, by its ranks, its type and its place in the step.

    ``number`` is what a rank is called.
    """
    met = job.meetings
    found: dict[tuple[frozenset[int], str, int], list[int]] = {}
    if not len(met):
        return {}
    shortest, names = met.transfer.tolist(), [number.get(rank, -1) for rank in met.table.ranks]
    rank = met.rank.tolist()
    for row, (low, high) in enumerate(zip(met.first[:-1].tolist(), met.first[1:].tolist(), strict=True)):
        _, kind, step = met.table.kinds[met.kind[row]]
        if step in steps or len(steps) == 1:
            key = frozenset(names[place] for place in rank[low:high]), kind, int(met.ordinal[row])
            found.setdefault(key, []).append(shortest[row])
    return {key: sum(times) / len(times) for key, times in found.items()}
