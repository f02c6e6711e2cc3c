"""Reinforcement learning jobs whose truth is known, for tests and simulations; ``fixtures/roles.py`` writes them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "fixtures"))
from roles import EPOCH_NS, SECOND, Work

from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankProfile, Stint
from npu_tui.jobs.opening import job_of

More = Callable[[int, int], float]
"""Seconds that rank r generates more in step s."""

AFTER = (("actor_compute_log_prob", 8.0), ("ref_compute_log_prob", 8.0), ("actor_update", 25.0))
"""What follows the generation on the same cards, and for how many seconds."""


def colocated(
    more: More,
    world: int = 8,
    steps: int = 2,
    seed: int = 1,
    spread: float = 1.5,
    after: tuple[tuple[str, float], ...] = AFTER,
    replicas: int = 0,
) -> list[Work]:
    """All roles take turns on the same cards, each after all ranks have ended the one before.

    With ``replicas`` the ranks generate in so many replicas, whose ranks end together and count from 0.
    """
    draw, time, work = random.Random(seed), 0, []
    each = world // replicas if replicas else 1
    for step in range(1, steps + 1):
        ends = []
        for rank in range(world):
            if rank % each == 0:
                seconds = 60 + draw.gauss(0, spread) + more(step, rank // each)
            role = f"agent_loop_rollout_replica_{rank // each}" if replicas else "rollout_generate"
            ends.append(time + round(seconds * SECOND) + draw.randrange(1_000_000))
            work.append(Work(step, role, rank % each if replicas else rank, time, ends[-1], rank, 0, rank))
        time = max(ends) + 2 * SECOND
        for role, seconds in after:
            length = round(seconds * SECOND)
            meets = tuple(time + length * part // 4 for part in (1, 2, 3)) if role == "actor_update" else ()
            for rank in range(world):
                early = tuple(draw.randrange(100_000, 2_000_000) for _ in meets)
                end = time + length + draw.randrange(5_000_000)
                work.append(Work(step, role, rank, time, end, rank, 0, rank, meets, early))
            time += length + SECOND // 3
    return work


def asynchronous(
    more: More, generate: float = 60.0, train: float = 61.0, world: int = 8, steps: int = 4, seed: int = 1
) -> list[Work]:
    """Generation on ``world`` cards for the next step while half as many others train on the last one."""
    draw, work = random.Random(seed), []
    free = trained = 0
    for step in range(1, steps + 1):
        ends = []
        for rank in range(world):
            ends.append(free + round((generate + draw.gauss(0, 1.0) + more(step, rank)) * SECOND))
            work.append(Work(step, "rollout_generate", rank, free, ends[-1], rank, 0, rank))
        free = max(ends) + SECOND // 2
        start = max(trained, max(ends)) + SECOND // 5
        trained = start + round((train + draw.gauss(0, 0.3)) * SECOND)
        for rank in range(world // 2):
            end = trained + draw.randrange(5_000_000)
            work.append(Work(step, "actor_update", rank, start, end, world + rank, 1, rank))
    return work


def job_in_memory(work: list[Work], processes: bool = True) -> Job:
    """The job that ``work`` is, as its files would tell it; without ``processes`` nothing tells who shares a card."""
    boots = {row.host: EPOCH_NS - (row.host + 1) * 3_600 * SECOND for row in work}
    profiles = [
        RankProfile(
            row.rank,
            Path(f"{row.step}/{row.role}/{row.rank}"),
            "trace_view_json",
            boot=boots[row.host],
            role=row.role,
            in_step=str(row.step),
            process=f"node{row.host}_{row.process}" if processes else "",
            stints=(Stint(row.role, "1", EPOCH_NS + row.start, EPOCH_NS + row.end),),
        )
        for row in work
    ]
    return job_of(Path("job"), profiles)


def length_of(work: list[Work]) -> int:
    """From the first start to the last end, ns."""
    return max(row.end for row in work) - min(row.start for row in work)
