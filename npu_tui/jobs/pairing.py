"""Which ranks of two jobs do the same work: those at the same place of their jobs, whatever their numbers are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Literal

from msgspec import Struct

from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankProfile

Way = Literal["place", "number", "none"]
"""How ranks are paired: by their place in stages and groups, by number, or, in jobs that are divided otherwise, not."""


class Pairing(Struct, frozen=True):
    """``pairs`` are places in ``Job.ranks`` of the base and of the new job; the others are ranks that one job has."""

    way: Way
    pairs: tuple[tuple[int, int], ...]
    base_only: tuple[int, ...]
    new_only: tuple[int, ...]


def paired(base: Job, new: Job) -> Pairing:
    """The ranks of ``base`` and ``new`` that do the same work."""
    sides = [[profile.rank for profile in job.ranks] for job in (base, new)]
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


def role_of(profile: RankProfile) -> str | None:
    """What the rank does in a job of several roles; None in a job of one."""
    role: str | None = getattr(profile, "role", None)
    return role


def _divided_alike(base: Job, new: Job) -> bool:
    """Whether a place of one job can be that of the other: neither is cut into other stages or groups."""
    if base.layout is not None and new.layout is not None:
        return base.layout == new.layout
    stages = [{(role_of(profile), profile.rank): job.stage(profile.rank) for profile in job.ranks}
              for job in (base, new)]  # fmt: skip
    if Counter(stages[0].values()) == Counter(stages[1].values()):
        return True
    both = [(stages[0][rank], stages[1][rank]) for rank in stages[0].keys() & stages[1].keys()]
    return all(before == after for before, after in both if None not in (before, after))


def _keys(base: Job, new: Job) -> tuple[Way, list[list[Hashable]]]:
    """What the ranks of each job are known by in the other.

    That is the place in the parallel groups where both name it for every rank. Else it is the number, unless that puts
    ranks into another stage: then the stage, and the order of the ranks in it.
    """
    numbers: list[list[Hashable]] = [[(role_of(profile), profile.rank) for profile in job.ranks] for job in (base, new)]
    kinds = set.intersection(
        *(set(job.positions.get(profile.rank, {})) for job in (base, new) for profile in job.ranks)
    )
    exact: list[list[Hashable]] = [
        [(role_of(profile), *(job.positions[profile.rank][kind] for kind in sorted(kinds))) for profile in job.ranks]
        for job in (base, new)
    ]
    if all(len(set(keys)) == len(keys) for keys in exact):
        return "place", exact
    stages = [[(role_of(profile), job.stage(profile.rank)) for profile in job.ranks] for job in (base, new)]
    by_number = [dict(zip(*of_job, strict=True)) for of_job in zip(numbers, stages, strict=True)]
    if all(by_number[0][rank] == by_number[1][rank] for rank in by_number[0].keys() & by_number[1].keys()):
        return "number", numbers
    return "place", [_counted(of_job) for of_job in stages]


def _counted(keys: list[tuple[str | None, int | None]]) -> list[Hashable]:
    """``keys`` in the order of ranks, told apart by how often each came before where several ranks have one."""
    seen: Counter[Hashable] = Counter()
    counted: list[Hashable] = []
    for key in keys:
        counted.append((*key, seen[key]))
        seen[key] += 1
    return counted
