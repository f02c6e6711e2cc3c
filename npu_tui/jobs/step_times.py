"""What the steps of every rank were spent on, as samples: (ranks, steps), ns, and which steps are left out.

Also what of a job is missing, as a share of what its figures rest on.

Ranks of two jobs do the same work if they have the same place in their jobs, whatever their numbers are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.evidence import Loss
from npu_tui.analysis.limits import ALMOST_ALL
from npu_tui.analysis.statistics import SEVERAL, longest_usual
from npu_tui.jobs.job import Job, members
from npu_tui.jobs.model import step_order
from npu_tui.load.companions import STEP_FILE
from npu_tui.load.documents import COMMUNICATION
from npu_tui.trace.arrays import F64, Bools
from npu_tui.trace.message import message

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
    work, transfer = (
        computing + free,
        np.minimum(np.concatenate([_transfer_times(part, at) for part in job.parts]), exposed),
    )
    rows = computing, free, work, exposed, exposed - transfer, transfer, bubbles, work + exposed
    return RankStepTimes(steps, dict(zip(TIMES, rows, strict=True)))


def _transfer_times(job: Job, at: dict[str, int]) -> F64:
    """How long the collectives of each rank lasted after the last rank had come, (ranks, steps) ns.

    It is the shortest call of each collective, so no clock is needed. NaN where ranks are missing or it is unknown
    which there are, as one without files may have been the last, and where other calls take much of the time.
    """
    met = job.meetings
    told = job.layout is not None or any(profile.groups for profile in job.ranks)
    some = met.length.sum() >= ALMOST_ALL * (met.table.end - met.table.start).sum()
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


_UNREAD = ("job.broken", "job.empty", "job.no_summary", "job.cluster.cut_off", "job.cluster.unreadable")
_UNPARSED = ("input.raw", "input.raw_below", "input.raw_below_more")


def job_losses(job: Job) -> list[Loss]:
    """What is not there of the job: ranks that cannot be read or have no collective, and what the others have lost."""
    losses = []
    unread = [reason for reason in job.broken if reason.code in _UNREAD or reason.code in _UNPARSED]
    every = len(job.ranks) + len(unread)
    losses += [Loss("slices", 1 / every, reason) for reason in unread]
    for part, profile in members(job):
        for problem in profile.problems:
            share = problem.args.get("share") if problem.code == "job.lost" else 1.0
            if problem.code == "job.lost" or (
                problem.code in ("job.unreadable", "job.cut_off")
                and problem.args.get("file") in (COMMUNICATION, STEP_FILE)
            ):
                losses.append(Loss("slices", share if isinstance(share, float) else 1.0, problem))
        if len(part.meetings) and not profile.calls:
            losses.append(Loss("slices", 1 / every, message("evidence.no_calls", rank=profile.rank)))
    return losses


Stage = tuple[str | None, int | None]
"""A role, and a stage of its pipeline."""

Way = Literal["place", "number", "none"]
"""How ranks are paired: by their place in stages and groups, by number, or, in jobs that are divided otherwise, not."""


class Pairing(Struct, frozen=True):
    """``pairs`` are places in ``members`` of the base and of the new job; the others are ranks that one job has."""

    way: Way
    pairs: tuple[tuple[int, int], ...]
    base_only: tuple[int, ...]
    new_only: tuple[int, ...]


def paired(base: Job, new: Job) -> Pairing:
    """The ranks of ``base`` and ``new`` that do the same work."""
    sides = [[profile.rank for _, profile in members(job)] for job in (base, new)]
    if not _divided_alike(base, new):
        return Pairing("none", (), (*sides[0],), (*sides[1],))
    way, keys = _keys(base, new)
    at = [{key: place for place, key in enumerate(of_job)} for of_job in keys]
    pairs = tuple((place, at[1][key]) for key, place in at[0].items() if key in at[1])
    only = [
        tuple(rank for rank, key in zip(ranks, of_job, strict=True) if key not in other)
        for ranks, of_job, other in zip(sides, keys, (at[1], at[0]), strict=True)
    ]
    return Pairing(way, pairs, *only)


def stages_of(job: Job) -> list[Stage]:
    """The role and the stage of every rank, each None if unknown."""
    return [(profile.role or None, part.stage(profile.rank)) for part, profile in members(job)]


def _divided_alike(base: Job, new: Job) -> bool:
    """Whether a place of one job can be that of the other: neither is cut into other stages or groups."""
    layouts = [{part.role: part.layout for part in job.parts} for job in (base, new)]
    both = [(layouts[0][role], layouts[1][role]) for role in layouts[0].keys() & layouts[1].keys()]
    if any(None not in pair and pair[0] != pair[1] for pair in both):
        return False
    stages = [stages_of(job) for job in (base, new)]
    if Counter(stages[0]) == Counter(stages[1]):
        return True
    known = [dict(zip(_numbers(job), of_job, strict=True)) for job, of_job in zip((base, new), stages, strict=True)]
    return all(
        known[0][rank] == known[1][rank]
        for rank in known[0].keys() & known[1].keys()
        if None not in (known[0][rank][1], known[1][rank][1])
    )


def _numbers(job: Job) -> list[Hashable]:
    return [(profile.role, profile.rank) for _, profile in members(job)]


def _keys(base: Job, new: Job) -> tuple[Way, list[list[Hashable]]]:
    """What the ranks of each job are known by in the other.

    That is the place in the parallel groups where both name it for every rank. Else it is the number, unless that puts
    ranks into another stage: then the stage, and the order of the ranks in it.
    """
    kinds = set.intersection(
        *(set(part.positions[profile.rank]) for job in (base, new) for part, profile in members(job))
    )
    exact: list[list[Hashable]] = [
        [
            (profile.role, *(part.positions[profile.rank][kind] for kind in sorted(kinds)))
            for part, profile in members(job)
        ]
        for job in (base, new)
    ]
    if all(len(set(keys)) == len(keys) for keys in exact):
        return "place", exact
    numbers, stages = [_numbers(job) for job in (base, new)], [stages_of(job) for job in (base, new)]
    by_number = [dict(zip(*of_job, strict=True)) for of_job in zip(numbers, stages, strict=True)]
    same = ((by_number[0][rank], by_number[1][rank]) for rank in by_number[0].keys() & by_number[1].keys())
    if all(before == after or None in (before[1], after[1]) for before, after in same):
        return "number", numbers
    return "place", [_numbered_keys(of_job) for of_job in stages]


def _numbered_keys(keys: list[Stage]) -> list[Hashable]:
    """``keys`` in the order of ranks, numbered by how often each came before where several ranks have one."""
    seen: Counter[Stage] = Counter()
    counted: list[Hashable] = []
    for key in keys:
        counted.append((*key, seen[key]))
        seen[key] += 1
    return counted
