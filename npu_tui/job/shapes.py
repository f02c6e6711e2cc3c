"""How ranks are slow: always, with their stage or host, in turns, or now and then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.job.model import RankProfile
from npu_tui.job.sums import ByStep

Bools = npt.NDArray[np.bool_]

Shape = Literal["always", "stage", "host", "wandering", "once"]

_ALWAYS = 0.8
"""Share of the steps in which a rank, or of a host's ranks some, must be slow to be so always."""

_ENOUGH_STEPS = 4
_WORTH = 0.01
"""Share of a step that work above the peers' must take to count."""

_MANY = 8
_CHANCE = 7.0
"""Ranks from which the chance of each step counts, and how many medians of what ranks work less than the usual it
reaches; of fewer ranks it is as many medians of how far each is from its own middle."""

_AMONG = 0.5
"""Share of the slowest rank's excess in a step from which another one is slow in it too."""

_STAGE = 1.15
"""A stage that computes this many times as long as the fastest one holds up the pipeline."""

_TURNS = 3
_MOST_OF_ALL = 0.5
"""Ranks that must be slow in different steps to take turns, and what one of them may have of the excess of all."""


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
    least = np.full(len(table.steps), max(_WORTH * length / max(len(table.steps), 1), 1))
    if len(table.own) >= _MANY:  # of many ranks the slowest by chance is far from the median
        fast = [column[column <= 0] for column in table.own.T]
        chance = [-float(np.median(column)) if len(column) else 0.0 for column in fast]
        least = np.maximum(least, _CHANCE * np.array(chance))
    elif table.own.size:
        least = np.maximum(
            least, _CHANCE * float(np.median(np.abs(table.own - np.median(table.own, 1, keepdims=True))))
        )
    return np.asarray((table.own >= least) & (table.own >= _AMONG * table.own.max(axis=0, initial=0)))


def shapes_of(
    table: ByStep, slow: Bools, ranks: Sequence[int], hosts: Sequence[Sequence[int]], stage: SlowStage | None
) -> dict[int, Shape]:
    """How each of ``ranks`` that is ``slow`` (ranks, steps) of ``table`` is so; others are left out.

    ``hosts`` are the ranks of each host.
    """
    steps = int(table.there.any(axis=0).sum())
    found: dict[int, Shape] = {}
    place = {rank: number for number, rank in enumerate(ranks)}
    counts = slow.sum(axis=1)
    some = np.flatnonzero(counts)
    if steps < _ENOUGH_STEPS:
        found = {ranks[number]: "once" for number in some.tolist()}
    else:
        often = counts >= _ALWAYS * steps
        turns = len(some) >= _TURNS and not often.any() and slow.any(axis=0).sum() >= steps / 2
        above = np.where(slow, table.own, 0).sum(axis=1)
        turns &= bool(above.max(initial=0) <= _MOST_OF_ALL * above.sum())
        for number in some.tolist():
            found[ranks[number]] = "always" if often[number] else "wandering" if turns else "once"
        for host in hosts if len(hosts) > 1 else ():
            own = [place[rank] for rank in host]
            together = len(own) > 1 and (counts[own] > 0).sum() >= max(_ALWAYS * len(own), 2)
            if together and slow[own].any(axis=0).sum() >= _ALWAYS * steps:
                found |= {ranks[number]: "host" for number in own if counts[number]}
    if stage is not None:
        found |= {rank: found.get(rank, "stage") for rank in stage.ranks}
    return found


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
    middle = {stage: float(np.median(own)) for stage, own in times.items()}
    slow, fast = max(middle, key=middle.__getitem__), min(middle, key=middle.__getitem__)
    apart = middle[slow] - middle[fast]
    within = max(float(np.subtract(*np.percentile(own, (75, 25)))) for own in times.values())
    if middle[fast] <= 0 or middle[slow] < _STAGE * middle[fast] or within > apart / 2:
        return None
    slowest = tuple(sorted(rank for _, rank in computing[slow]))
    even = middle[slow] - sum(middle.values()) / len(middle)
    count = max(steps, 1)
    return SlowStage(slow, fast, slowest, middle[slow] * count, middle[fast] * count, even * count)
