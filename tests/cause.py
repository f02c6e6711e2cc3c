"""A simulated job with one cause or several, what it is without, and short words for its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from situations import Situation

Job = tuple[Situation, ...]
"""The ranks of a job; findings are those of the first."""
FETCH_NS = 180_000
"""What fetching a batch usually takes."""


@dataclass(frozen=True)
class Cause:
    """A job and what it is without its cause; ``leads`` are the findings that may name it.

    Without ``leads`` nothing is wrong with the job. A cause that ``gains_nothing`` is found, but leads nothing;
    ``others`` are findings about what else is wrong and stays so. Of several causes ``also`` names the findings of the
    others, each by those that may name it: the gains of all are added.
    """

    job: Job
    remedy: Callable[[Job], Job]
    leads: tuple[str, ...]
    gains_nothing: bool = False
    others: tuple[str, ...] = ()
    also: tuple[tuple[str, ...], ...] = ()


def first(change: Callable[[Situation], Situation]) -> Callable[[Job], Job]:
    """``change`` of the first rank."""
    return lambda job: (change(job[0]), *job[1:])


def untroubled(**values: object) -> Callable[[Job], Job]:
    """The first rank with other values of its trouble."""
    return first(lambda rank: troubled(rank, **values))


def changed(**values: object) -> Callable[[Job], Job]:
    """The first rank with other values."""
    return first(lambda rank: replace(rank, **values))


def troubled(job: Situation, **values: object) -> Situation:
    """``job`` with other values of its trouble."""
    return replace(job, trouble=replace(job.trouble, **values))


def same(job: Job) -> Job:
    """A job that nothing is wrong with."""
    return job


def ranks_of(job: Situation, **fetching: int) -> Job:
    """Four ranks of ``job`` that meet in its collectives; ``r2=9_000_000`` is how long rank 2 fetches a batch."""
    return tuple(
        replace(job, rank=rank, world_size=4, dataloader_ns=fetching.get(f"r{rank}", job.dataloader_ns))
        for rank in range(4)
    )


def in_time(*ranks: int) -> Callable[[Job], Job]:
    """The job in which ``ranks`` fetch their batches as fast as usual."""
    return lambda job: tuple(replace(each, dataloader_ns=FETCH_NS) if each.rank in ranks else each for each in job)
