"""Pairs of jobs whose difference is known: ``python tests/jobs/job_pairs.py [--ranks 8 64 1000] [--seeds 20]``.

Prints, for every difference, how often it is what is named first and alone, with the right ranks and no others, how far
its price is from the truth, whether that lies within its error, and what the verdicts on the step are. The work of a
rank varies by 0.5% from one piece to the next, by 0.1% from run to run, and ranks differ by 0.5% for good; idle time, a
tenth of it, varies by a fortieth.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from simulations import EPOCH, F64, HOST, HOUR, TRANSFER, WORK, run

from npu_tui.jobs.against import JobComparison
from npu_tui.jobs.change_tables import job_changes
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import Layout, RankCalls, RankProfile, StepTime

I64 = np.ndarray


@dataclass(frozen=True)
class Difference:
    """What the new job has that the base has not.

    ``rank``, ``stage`` and ``every`` are how many times longer one rank, the later stage and all ranks work,
    ``transfer`` how many times longer transfers take; ``clock``: the clock of a rank is hours off, ``permuted``: ranks
    of other numbers do the same work. ``finding`` is what must be named, None for nothing.
    """

    finding: str | None = None
    rank: float = 1.0
    stage: float = 1.0
    every: float = 1.0
    transfer: float = 1.0
    clock: bool = False
    permuted: bool = False


DIFFERENCES = {
    "nothing": Difference(),
    "one rank 3% slower": Difference("DIFF.RANK", rank=1.03),
    "one rank 10% slower": Difference("DIFF.RANK", rank=1.10),
    "one rank 5% faster": Difference("DIFF.RANK", rank=0.95),
    "one stage 10% slower": Difference("DIFF.STAGE", stage=1.10),
    "all 5% slower": Difference("DIFF.WORK", every=1.05),
    "network twice as slow": Difference("DIFF.NETWORK", transfer=2.0),
    "clock of a rank off": Difference(clock=True),
    "ranks permuted": Difference(permuted=True),
    "permuted, one 10% slower": Difference("DIFF.RANK", rank=1.10, permuted=True),
}


@dataclass
class Pair:
    """Two jobs, what differs, the ranks of the new one it is about, and its price, ns a step."""

    base: Job
    new: Job
    difference: Difference
    ranks: tuple[int, ...]
    price: float


def pair(name: str, world: int, seed: int, steps: int = 9, calls: int = 12, groups: bool = True) -> Pair:
    """The pair ``name`` of ``world`` ranks in two stages; without ``groups`` no file tells how they are divided."""
    difference = DIFFERENCES[name]
    draw = np.random.default_rng([seed, world, [*DIFFERENCES].index(name)])
    for_good = draw.normal(1.0, 0.005, world) * np.where(np.arange(world) < world // 2, 1.0, 1.3)
    order = draw.permutation(world) if difference.permuted else np.arange(world)
    slow = int(draw.integers(world))
    factor = np.full(world, difference.every)
    factor[slow] *= difference.rank
    factor[world // 2 :] *= difference.stage
    base = _job(draw, for_good, np.arange(world), steps, calls, TRANSFER, False, groups)
    new = _job(draw, for_good * factor, order, steps, calls, TRANSFER * difference.transfer, difference.clock, groups)
    moved = {
        "DIFF.RANK": [slow], "DIFF.STAGE": [*range(world // 2, world)], "DIFF.WORK": [*range(world)],
    }.get(difference.finding or "", [])  # fmt: skip
    work = WORK * calls * for_good
    price = float(np.mean((work * (factor - 1))[moved])) if moved else TRANSFER * (difference.transfer - 1) * calls
    return Pair(base, new, difference, tuple(sorted(int(order[rank]) for rank in moved)), price)


def _job(
    draw: np.random.Generator, factor: F64, order: I64, steps: int, calls: int, transfer: float, off: bool, groups: bool
) -> Job:
    """A job whose place k, which works ``factor[k]`` times as long as usual, has the rank ``order[k]``."""
    world = len(factor)
    noise = draw.normal(1.0, 0.005, (steps, calls, world)) * draw.normal(1.0, 0.001, world)
    idle = draw.normal(0.1, 0.0025, (steps, 1, world))
    work = WORK * factor * noise * (0.9 + idle)
    start, end, group = run(work, True, 0.0, draw, draw.uniform(0, 400, world), transfer)
    half = world // 2
    ranks = []
    for place in range(world):
        rank, stage = int(order[place]), place // half
        offset = 3 * HOUR if off and place == 1 else 0
        names, kinds = [], []
        for step in range(steps):
            for call in range(calls):
                own, kind = int(group[call, place]), "batchSendRecv" if call % 3 != 2 else "allReduce"
                names.append(f"hcom_{kind}__{own % 1000:03}_{step * calls + call}_1")
                kinds.append((str(own), kind, str(step)))
        total = np.diff(np.concatenate(([0.0], end[:, -1, place])))
        exposed = (end - start)[:, :, place].sum(axis=1)
        free = total - exposed - (WORK * factor * noise * 0.9)[:, :, place].sum(axis=1)
        ranks.append(
            RankProfile(
                rank, Path(f"rank{rank}"), "companions", boot=EPOCH + rank // HOST * 10**10, counter=0,
                layout=Layout(1, 2, half, world) if groups else None,
                groups={
                    "pp": (int(order[place % half]), int(order[place % half + half])),
                    "dp": tuple(order[stage * half : stage * half + half].tolist()),
                } if groups else {},
                calls=RankCalls.sorted(names, kinds, [*range(steps * calls)],
                                   (EPOCH + start[:, :, place].ravel()).astype(np.int64) + offset,
                                   (EPOCH + end[:, :, place].ravel()).astype(np.int64) + offset),
                steps=tuple(
                    StepTime(str(k), int(total[k] - exposed[k] - free[k]), int(exposed[k]), int(free[k]), int(total[k]))
                    for k in range(steps)
                ),
            )
        )  # fmt: skip
    return Job(Path("job"), sorted(ranks, key=lambda profile: profile.rank))


@dataclass
class Told:
    """What is said of a pair: whether the difference comes first, and alone; how far its price is off; the verdict."""

    first: bool
    alone: bool
    off: float | None
    verdict: str
    within: bool | None = None


def told(pair: Pair) -> Told:
    """What is said of ``pair``."""
    compared = JobComparison(pair.base, pair.new)
    changes = [change for change in job_changes(compared) if change.id != "DIFF.RANKS"]
    finding = pair.difference.finding
    if finding is None:
        return Told(not changes, not changes, None, compared.step.verdict)
    first = bool(changes) and changes[0].id == finding and set(changes[0].ranks) == set(pair.ranks)
    off = abs((changes[0].delta_ns or 0.0) - pair.price) / abs(pair.price) if first else None
    error = changes[0].error_ns if first else None
    within = None if error is None else abs((changes[0].delta_ns or 0.0) - pair.price) <= error
    return Told(first, len(changes) == 1, off, compared.step.verdict, within)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 1000])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--no-groups", action="store_true")
    options = parser.parse_args()
    print("| difference | ranks | seeds | named first | nothing else | price off, median / worst | in ± | step |")
    print("|---|---|---|---|---|---|---|---|")
    for name in DIFFERENCES:
        for world in options.ranks:
            rows = [told(pair(name, world, seed, options.steps, groups=not options.no_groups))
                    for seed in range(options.seeds)]  # fmt: skip
            off = [row.off for row in rows if row.off is not None]
            price = f"{np.median(off):.1%} / {max(off):.1%}" if off else "–"
            verdicts = ", ".join(
                f"{verdict} {count}" for verdict, count in Counter(row.verdict for row in rows).items()
            )
            first, alone = (sum(getattr(row, part) for row in rows) / len(rows) for part in ("first", "alone"))
            known = [row.within for row in rows if row.within is not None]
            within = f"{sum(known) / len(known):.0%}" if known else "–"
            print(
                f"| {name} | {world:,} | {len(rows)} | {first:.0%} | {alone:.0%} | {price} | {within} | {verdicts} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
