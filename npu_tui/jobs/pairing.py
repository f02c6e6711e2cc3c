"""Which ranks of two jobs do the same work: those at the same place of their jobs, whatever their numbers are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Literal

from msgspec import Struct

from npu_tui.jobs.job import Job, members

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
    """The role and the stage of every rank, each None where nothing tells it."""
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
    return "place", [_counted(of_job) for of_job in stages]


def _counted(keys: list[Stage]) -> list[Hashable]:
    """``keys`` in the order of ranks, told apart by how often each came before where several ranks have one."""
    seen: Counter[Stage] = Counter()
    counted: list[Hashable] = []
    for key in keys:
        counted.append((*key, seen[key]))
        seen[key] += 1
    return counted
