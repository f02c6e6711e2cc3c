"""Reinforcement learning jobs whose truth is known, for tests and simulations; ``fixtures/roles.py`` writes them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "fixtures"))
from roles import SECOND, Work

More = Callable[[int, int], float]
"""Seconds that rank r generates more in step s."""

AFTER = (("actor_compute_log_prob", 8.0), ("ref_compute_log_prob", 8.0), ("actor_update", 25.0))
"""What follows the generation on the same cards, and for how many seconds."""


def colocated(
    more: More, world: int = 8, steps: int = 2, seed: int = 1, spread: float = 1.5, after: tuple = AFTER
) -> list[Work]:
    """All roles take turns on the same cards, each after all ranks have ended the one before."""
    draw, time, work = random.Random(seed), 0, []
    for step in range(1, steps + 1):
        ends = []
        for rank in range(world):
            ends.append(time + round((60 + draw.gauss(0, spread) + more(step, rank)) * SECOND))
            work.append(Work(step, "rollout_generate", rank, time, ends[-1], rank, 0, rank))
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
