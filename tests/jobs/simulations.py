"""Jobs whose truth is known, of any size: ``python tests/jobs/simulations.py [--ranks 8 64 1000] [--seeds 20]``.

Prints, for every situation, how often the cause is named first and alone, how far its price is from a second
simulation without it, and how far the clocks are from the truth: ± 8 hours apart, drifting by up to 20 ppm, with ends
that differ from rank to rank and times rounded as communication.json rounds them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import Layout, RankCalls, RankProfile, StepTime
from npu_tui.rules.model import Finding

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

EPOCH = 1_760_000_000_000_000_000
"""ns since 1970 at which the jobs start."""

HOUR = 3_600 * 10**9
WORK, TRANSFER = 4_000_000.0, 300_000.0
"""ns of work before a collective, and that it takes once all have come."""
HOST = 8


@dataclass
class Truth:
    """What was put into a job: the cause that must be named (None: nothing), its price, the clocks."""

    cause: tuple[str, tuple[int, ...]] | None
    price: float | None
    offset: I64
    drift: F64
    length: float
    times: F64 = field(default_factory=lambda: np.zeros(0))


Extra = Callable[[np.random.Generator, int, int, int], tuple[F64, tuple[str, tuple[int, ...]] | None]]
"""Of (draw, world, steps, calls): what each rank works more, ns (steps, calls, world), and the cause that this is."""


def nothing(draw: np.random.Generator, world: int, steps: int, calls: int) -> tuple[F64, None]:
    """Nobody is slow."""
    return np.zeros((steps, calls, world)), None


def one_rank(draw: np.random.Generator, world: int, steps: int, calls: int) -> tuple[F64, tuple[str, tuple[int, ...]]]:
    """One rank works 10 to 40 % more in every step."""
    more, slow = np.zeros((steps, calls, world)), int(draw.integers(world))
    more[:, :, slow] = WORK * draw.uniform(0.1, 0.4)
    return more, ("RANK.SLOW", (slow,))


def two_ranks(draw: np.random.Generator, world: int, steps: int, calls: int) -> tuple[F64, tuple[str, tuple[int, ...]]]:
    """Two ranks work equally much more: neither alone costs anything."""
    more, slow = np.zeros((steps, calls, world)), sorted(draw.choice(world, 2, replace=False).tolist())
    more[:, :, slow] = WORK * draw.uniform(0.15, 0.4)
    return more, ("RANK.SLOW", tuple(slow))


def one_step(draw: np.random.Generator, world: int, steps: int, calls: int) -> tuple[F64, tuple[str, tuple[int, ...]]]:
    """One rank stands still once; not before the first collective, as nothing tells what came before that."""
    more, slow = np.zeros((steps, calls, world)), int(draw.integers(world))
    more[int(draw.integers(steps)), int(draw.integers(1, calls)), slow] = WORK * 12
    return more, ("RANK.SLOW", (slow,))


def one_host(draw: np.random.Generator, world: int, steps: int, calls: int) -> tuple[F64, tuple[str, tuple[int, ...]]]:
    """All ranks of one host work more."""
    more, host = np.zeros((steps, calls, world)), int(draw.integers(max(world // HOST, 1)))
    ranks = tuple(range(host * HOST, min((host + 1) * HOST, world)))
    more[:, :, list(ranks)] = WORK * draw.uniform(0.2, 0.4)
    return more, ("RANK.HOST", ranks)


def wandering(draw: np.random.Generator, world: int, steps: int, calls: int) -> tuple[F64, tuple[str, tuple[int, ...]]]:
    """Another rank gets most data in every step."""
    more = np.zeros((steps, calls, world))
    turns = draw.permutation(world)[:steps]
    turns = np.resize(turns, steps)
    more[np.arange(steps), :, turns] = WORK * draw.uniform(0.3, 0.6)
    return more, ("RANK.WANDER", tuple(sorted(set(turns.tolist()))))


def slow_stage(
    draw: np.random.Generator, world: int, steps: int, calls: int
) -> tuple[F64, tuple[str, tuple[int, ...]]]:
    """The later one of two pipeline stages works more."""
    more = np.zeros((steps, calls, world))
    more[:, :, world // 2 :] = WORK * draw.uniform(0.4, 0.8)
    return more, ("RANK.STAGE", tuple(range(world // 2, world)))


SITUATIONS: dict[str, Extra] = {
    "nobody is slow": nothing,
    "one slow rank": one_rank,
    "two slow ranks": two_ranks,
    "one slow moment": one_step,
    "one slow host": one_host,
    "a slow stage": slow_stage,
    "turns": wandering,
}


def simulate(
    situation: str, world: int, seed: int, steps: int = 8, calls: int = 6, pause: float = 0.0
) -> tuple[Job, Truth]:
    """A job of ``world`` ranks in ``situation``, with its truth.

    Most collectives are allReduces of a host, the last one of a step is one of all; with two stages of a pipeline,
    pairs of ranks of both exchange, and the stages reduce. ``pause`` ns lie between steps.
    """
    draw = np.random.default_rng([seed, world, list(SITUATIONS).index(situation)])
    more, cause = SITUATIONS[situation](draw, world, steps, calls)
    staged = cause is not None and cause[0] == "RANK.STAGE"
    work = WORK * draw.normal(1.0, 0.01, (steps, calls, world)).clip(0.95, 1.05)
    offset = np.concatenate(([0], draw.integers(-8 * HOUR, 8 * HOUR, world - 1)))
    drift = np.concatenate(([0.0], draw.uniform(-2e-5, 2e-5, world - 1)))
    bias = draw.uniform(0, 400, world)
    start, end, group = run(work + more, staged, pause, draw, bias)
    even = more.mean(axis=2, keepdims=True) if situation == "turns" else 0  # uneven data is divided, and not gone
    plain = run(work + even, staged, pause, np.random.default_rng(seed), bias)
    length = float(end.max() - start.min())
    price = None if cause is None or staged else length - float(plain[1].max() - plain[0].min())
    clock = EPOCH + np.rint(start + drift * start).astype(np.int64) + offset
    ended = EPOCH + np.rint(end + drift * end).astype(np.int64) + offset
    clock, ended = clock // 250 * 250, clock // 250 * 250 + (ended - clock) // 10 * 10
    layout = Layout(1, 2 if staged else 1, world // 2 if staged else world, world)
    ranks = []
    for rank in range(world):
        names, kinds = [], []
        for step in range(steps):
            for call in range(calls):
                number = step * calls + call
                own = int(group[call, rank])
                kind = "batchSendRecv" if staged and call % 3 != 2 else "allReduce"
                names.append(f"hcom_{kind}__{own % 1000:03}_{number}_1")
                kinds.append((str(own), kind, str(step)))
        computing = (work + more)[:, :, rank].sum(axis=1)
        total = np.diff(np.concatenate(([0.0], end[:, -1, rank])))
        times = tuple(
            StepTime(str(step), int(computing[step]), int(total[step] - computing[step]), 0, int(total[step]))
            for step in range(steps)
        )
        ranks.append(
            RankProfile(
                rank, Path(f"rank{rank}"), "companions", boot=EPOCH + rank // HOST * 10**10, counter=0, layout=layout,
                calls=RankCalls.sorted(names, kinds, list(range(steps * calls)), clock[:, :, rank].ravel(),
                                   ended[:, :, rank].ravel()),
                steps=times,
            )
        )  # fmt: skip
    return Job(Path("job"), ranks), Truth(cause, price, offset, drift, length, np.linspace(0, length, 5))


def run(
    work: F64, staged: bool, pause: float, draw: np.random.Generator, bias: F64, transfer: float = TRANSFER
) -> tuple[F64, F64, I64]:
    """When every rank came to and left every collective, ns (steps, calls, world), and its group (calls, world)."""
    steps, calls, world = work.shape
    rank, half = np.arange(world), world // 2
    host, everybody = 1_000 + rank // HOST, np.full(world, 99)
    if staged:
        pair, stage = 2_000 + rank % half, 3_000 + rank // half
        group = np.stack([pair if call % 3 != 2 else stage for call in range(calls)])
    else:
        group = np.stack([host] * (calls - 1) + [everybody])
    group[-1] = everybody if not staged else group[-1]
    start, end, left = np.zeros(work.shape), np.zeros(work.shape), np.zeros(world)
    codes = [np.unique(each, return_inverse=True)[1] for each in group]
    for step in range(steps):
        for call in range(calls):
            start[step, call] = come = left + work[step, call]
            last = np.zeros(codes[call].max() + 1)
            np.maximum.at(last, codes[call], come)
            end[step, call] = left = last[codes[call]] + transfer + bias + np.abs(draw.normal(0, 400, world))
        left = left + pause
    return start, end, group


@dataclass
class Row:
    """How a situation came out: shares of the seeds, and errors."""

    named: float
    alone: float
    price: list[float]
    clock: list[float]
    within: float
    certain: float


def measured(situation: str, world: int, seeds: range, **options: float) -> Row:
    """``situation`` over ``seeds``."""
    named, alone, price, clock, within, certain, bounded, clocks = 0, 0, [], [], 0, 0, 0, 0
    for seed in seeds:
        job, truth = simulate(situation, world, seed, **options)  # type: ignore[arg-type]
        found = [each for each in job_findings(job) if each.severity != "info"]
        named += is_first(found, truth)
        alone += len(found) <= (truth.cause is not None)
        if truth.price and found and found[0].gain_ns is not None:
            price.append(abs(found[0].gain_ns - truth.price) / truth.price)
        for rank, each in enumerate(job.clocks[1:], 1):
            clocks += 1
            errors = [abs(error) for error in clock_errors(job, truth, rank)]
            clock.append(max(errors) / 1e3)
            within += max(errors) <= each.error
            if each.low is not None and each.high is not None:
                bounded += 1
                true = clock_at(truth, rank, each.at)
                certain += each.low - 1_000 <= true <= each.high + 1_000  # times are rounded to 0.25 us
    count = len(seeds)
    return Row(named / count, alone / count, price, clock, within / max(clocks, 1), certain / max(bounded, 1))


def is_first(found: list[Finding], truth: Truth) -> bool:
    """Whether the cause is what is said first; of nothing, nothing is said."""
    if truth.cause is None:
        return not found
    kind, ranks = truth.cause
    if not found or found[0].id != kind:
        return False
    return set(found[0].ranks) <= set(ranks) if kind == "RANK.WANDER" else set(found[0].ranks) == set(ranks)


def clock_errors(job: Job, truth: Truth, rank: int) -> list[float]:
    """How far the clock of ``rank`` is off at some moments of the job, ns."""
    errors = []
    for time in truth.times.tolist():
        shown = EPOCH + round(time + truth.drift[rank] * time) + int(truth.offset[rank])
        errors.append(job.clocks[rank].to_common(shown) - (EPOCH + round(time)))
    return errors


def clock_at(truth: Truth, rank: int, at: int) -> float:
    """The clock of ``rank`` against the first one's when it shows ``at``, ns."""
    since = at - EPOCH - int(truth.offset[rank])
    return int(truth.offset[rank]) + truth.drift[rank] * since


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 1000])
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    print("| situation | ranks | seeds | cause first | nothing else | price off, median / worst |"
          " clock off, median / p95 | within ± | within certain |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for situation in SITUATIONS:
        for world in options.ranks:
            if situation == "one slow host" and world <= HOST:
                continue
            row = measured(situation, world, range(options.seeds))
            price = f"{np.median(row.price):.1%} / {max(row.price):.1%}" if row.price else "–"
            clock = f"{np.median(row.clock):.2f} / {np.percentile(row.clock, 95):.2f} µs"
            shares = f"{row.named:.0%} | {row.alone:.0%} | {price} | {clock} | {row.within:.1%} | {row.certain:.1%}"
            print(f"| {situation} | {world:,} | {options.seeds} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
