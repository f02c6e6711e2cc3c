"""Jobs of several roles whose truth is known: ``python tests/jobs/role_simulations.py [--seeds 20]``.

Prints, for every situation, how often the cause is named first, by its rank or role, and how far its price is from a
second simulation without it; for healthy ones, how often nothing is said.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from made_roles import AFTER, More, asynchronous, colocated, job_in_memory, length_of
from roles import Work

from npu_tui.jobs.findings import job_findings

Made = tuple[list[Work], list[Work], tuple[str, str, tuple[int, ...] | None] | None]
"""A job, the same without its cause, and what must be named first: finding, role, ranks (None: any)."""


def nothing(step: int, rank: int) -> float:
    """Nobody generates longer."""
    return 0.0


def one(rank: int, seconds: float, only: int | None = None) -> More:
    """``rank`` generates so many seconds more, in one step or in all."""
    return lambda step, other: seconds if other == rank and only in (None, step) else 0.0


def long_tail(draw: random.Random, seed: int) -> Made:
    """One of 16 ranks generates 20 to 50 s longer in every step."""
    rank = draw.randrange(16)
    jobs = (colocated(more, 16, 4, seed) for more in (one(rank, draw.uniform(20, 50)), nothing))
    return *jobs, ("ROLE.TAIL", "rollout_generate", (rank,))


def one_step(draw: random.Random, seed: int) -> Made:
    """One rank does so in one of six steps."""
    rank, step = draw.randrange(16), draw.randrange(1, 7)
    jobs = (colocated(more, 16, 6, seed) for more in (one(rank, draw.uniform(30, 50), step), nothing))
    return *jobs, ("ROLE.TAIL", "rollout_generate", (rank,))


def moving(draw: random.Random, seed: int) -> Made:
    """Another rank does so in every step."""
    ranks, seconds = draw.sample(range(16), 5), draw.uniform(20, 50)
    jobs = (colocated(more, 16, 5, seed)
            for more in (lambda step, rank: seconds * (rank == ranks[step - 1]), nothing))  # fmt: skip
    return *jobs, ("ROLE.TAIL", "rollout_generate", tuple(sorted(ranks)))


def replica(draw: random.Random, seed: int) -> Made:
    """One of eight replicas with two ranks each does so in every step."""
    number = draw.randrange(8)
    jobs = (colocated(more, 16, 3, seed, replicas=8) for more in (one(number, draw.uniform(20, 50)), nothing))
    return *jobs, ("ROLE.TAIL", f"agent_loop_rollout_replica_{number}", None)


def async_tail(draw: random.Random, seed: int) -> Made:
    """One rank generates longer than the training on other cards takes."""
    rank = draw.randrange(8)
    jobs = (asynchronous(more, 60, 61, seed=seed) for more in (one(rank, draw.uniform(20, 50)), nothing))
    return *jobs, ("ROLE.TAIL", "rollout_generate", (rank,))


def slow_role(draw: random.Random, seed: int) -> Made:
    """Generation takes 20 to 60 s longer than the training on other cards."""
    slow, even = asynchronous(nothing, 60 + draw.uniform(20, 60), seed=seed), asynchronous(nothing, seed=seed)
    return slow, even, ("ROLE.SLOW", "rollout_generate", None)


def slow_reference(draw: random.Random, seed: int) -> Made:
    """The log probabilities of the reference take two to four times as long as those of the actor."""
    slow = (AFTER[0], ("ref_compute_log_prob", 8.0 * draw.uniform(2, 4)), AFTER[2])
    jobs = (colocated(nothing, 8, 3, seed, after=after) for after in (slow, AFTER))
    return *jobs, ("ROLE.SLOW", "ref_compute_log_prob", None)


def healthy(draw: random.Random, seed: int) -> Made:
    """All roles take turns, and responses differ by up to 5 %."""
    work = colocated(nothing, draw.choice((4, 8, 16)), 4, seed, draw.uniform(0.3, 3))
    return work, work, None


def healthy_replicas(draw: random.Random, seed: int) -> Made:
    """The same, in replicas."""
    work = colocated(nothing, 16, 3, seed, draw.uniform(0.3, 3), replicas=draw.choice((2, 4, 8)))
    return work, work, None


def healthy_async(draw: random.Random, seed: int) -> Made:
    """Generation and training take about as long as each other on different cards."""
    work = asynchronous(nothing, 60 + draw.uniform(-3, 3), 60, seed=seed)
    return work, work, None


def healthy_uneven(draw: random.Random, seed: int) -> Made:
    """Generation takes log-normal times of 20 % spread, as responses differ by factors."""

    def more(step: int, rank: int) -> float:
        return 60 * (math.exp(random.Random(f"{seed} {step} {rank}").gauss(0, 0.2)) - 1)

    work = colocated(more, draw.choice((4, 8, 16, 32)), draw.choice((1, 2, 4)), seed, 0.0)
    return work, work, None


SITUATIONS: dict[str, Callable[[random.Random, int], Made]] = {
    "long tail": long_tail,
    "tail in one step": one_step,
    "moving tail": moving,
    "slow replica": replica,
    "tail, asynchronous": async_tail,
    "slow role, asynchronous": slow_role,
    "slow reference": slow_reference,
    "healthy, colocated": healthy,
    "healthy, replicas": healthy_replicas,
    "healthy, asynchronous": healthy_async,
    "healthy, log-normal": healthy_uneven,
}


def judged(situation: str, seed: int) -> tuple[bool, float | None]:
    """Whether the cause is named first (nothing where there is none), and how far its price is from the truth."""
    work, remedied, cause = SITUATIONS[situation](random.Random(seed), seed)
    findings = [row for row in job_findings(job_in_memory(work)) if row.severity != "info"]
    if cause is None:
        return not findings, None
    if not findings:
        return False, None
    first, truth = findings[0], length_of(work) - length_of(remedied)
    named = (first.id, first.role) == cause[:2] and cause[2] in (None, first.ranks)
    return named, abs((first.gain_ns or 0) - truth) / truth


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    for situation in SITUATIONS:
        answers = [judged(situation, seed) for seed in range(seeds)]
        prices = [price for _, price in answers if price is not None]
        worst = f", price within {max(prices):.1%}" if prices else ""
        print(f"{situation:26} {sum(named for named, _ in answers)}/{seeds} right{worst}")


if __name__ == "__main__":
    main()
