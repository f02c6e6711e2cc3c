"""Simulated histories of runs, and how often their changes are found, where and how large.

    python tests/histories.py --seeds 200

Every shape of noise has a standard deviation of ``--noise`` of the step between runs (1 % by default): normal, with
heavy tails, skewed, one run in 20 an outlier by 8 of them, alike from run to run (autocorrelation 0.3 and 0.5), and by
day and night (eight runs a day).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.changes import Course, course

F64 = npt.NDArray[np.float64]
Level = Sequence[tuple[int, float]]
"""How many runs have which share of the first level."""

STEP = 137_000.0


def normal(rng: np.random.Generator, count: int) -> F64:
    """Independent and normal."""
    return rng.standard_normal(count)


def heavy(rng: np.random.Generator, count: int) -> F64:
    """Student's t of three degrees of freedom, of the same variance."""
    return rng.standard_t(3, count) / np.sqrt(3)


def skewed(rng: np.random.Generator, count: int) -> F64:
    """Log-normal: no run is much faster, some are much slower."""
    drawn = rng.lognormal(0, 0.6, count)
    return (drawn - np.exp(0.18)) / np.sqrt((np.exp(0.36) - 1) * np.exp(0.36))


def outliers(rng: np.random.Generator, count: int) -> F64:
    """One run in 20 was disturbed."""
    return rng.standard_normal(count) + 8 * (rng.random(count) < 0.05)


def alike(rng: np.random.Generator, count: int, share: float = 0.3) -> F64:
    """Each run is a little like the one before."""
    noise = rng.standard_normal(count)
    for run in range(1, count):
        noise[run] = share * noise[run - 1] + np.sqrt(1 - share**2) * noise[run]
    return noise


def daily(rng: np.random.Generator, count: int) -> F64:
    """Half of the noise is the hour of the day."""
    hours = np.sin(2 * np.pi * (np.arange(count) / 8 + rng.random()))
    return hours + np.sqrt(0.5) * rng.standard_normal(count)


NOISES: dict[str, Callable[[np.random.Generator, int], F64]] = {
    "normal": normal, "heavy": heavy, "skewed": skewed, "outliers": outliers, "alike": alike,
    "more alike": lambda rng, count: alike(rng, count, 0.5), "daily": daily,
}  # fmt: skip


def history(levels: Level, noise: str, spread: float, seed: int, drift: float = 0.0) -> F64:
    """The steps in µs of one simulated history; ``drift`` is the growth over all of it."""
    rng = np.random.default_rng([seed, len(levels), sum(count for count, _ in levels)])
    level = np.concatenate([np.full(count, share) for count, share in levels])
    level = level + drift * np.linspace(0, 1, len(level))
    return STEP * level * (1 + spread * NOISES[noise](rng, len(level)))


def places(levels: Level) -> list[int]:
    """The runs with which the levels begin, but the first."""
    return np.cumsum([count for count, _ in levels])[:-1].tolist()


def right(found: Course, levels: Level, near: int = 2) -> bool:
    """Whether ``found`` has exactly the changes of ``levels``, each within ``near`` runs."""
    true = places(levels)
    return len(found.changes) == len(true) and all(
        abs(change.place - place) <= near for change, place in zip(found.changes, true, strict=True)
    )


def within_five(levels: Level, values: F64) -> bool:
    """Whether the last change was found by its fifth run at the latest."""
    begin = places(levels)[-1]
    return any(
        any(abs(change.place - begin) <= 2 for change in course(values[: begin + runs]).changes) for runs in (4, 5)
    )


def main() -> None:
    """Print a row for each kind of history and noise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--noise", type=float, default=0.01)
    options = parser.parse_args()
    seeds, spread = range(options.seeds), options.noise
    print(f"{options.seeds} seeds, {spread:.1%} between runs")
    print("no change: histories with one or more, of 100")
    for count in (8, 12, 20, 40, 100):
        row = [
            sum(bool(course(history([(count, 1.0)], noise, spread, seed)).changes) for seed in seeds)
            for noise in NOISES
        ]
        print(
            f"  {count:3} runs  "
            + "  ".join(f"{noise} {100 * n / len(seeds):.1f}" for noise, n in zip(NOISES, row, strict=True))
        )
    print(
        "found, and within 5 runs | exactly these changes within 2 runs | place in its interval | size in its interval"
    )
    for size in (0.01, 0.03, 0.1, -0.03):
        shapes: dict[str, Level] = {
            "10 | 10": [(10, 1), (10, 1 + size)],
            "15 | 5": [(15, 1), (5, 1 + size)],
            "5 | 5": [(5, 1), (5, 1 + size)],
            "10 | 5 | 10 back": [(10, 1), (5, 1 + size), (10, 1)],
            "10 | 10 | 10 on": [(10, 1), (10, 1 + size), (10, 1 + 2 * size)],
        }
        for name, levels in shapes.items():
            for noise in NOISES:
                early = exact = there = sized = found = 0
                for seed in seeds:
                    values = history(levels, noise, spread, seed)
                    early += within_five(levels, values)
                    told = course(values)
                    exact += right(told, levels)
                    true = places(levels)
                    shares = [b - a for (_, a), (_, b) in pairwise(levels)]
                    for change in told.changes:
                        near = [k for k, place in enumerate(true) if abs(place - change.place) <= 3]
                        if near:
                            found += 1
                            there += change.first <= true[near[0]] <= change.last
                            sized += change.low <= STEP * shares[near[0]] <= change.high
                every = len(seeds)
                print(
                    f"  {size:+.0%} {name:17} {noise:9} {100 * early / every:5.1f} | {100 * exact / every:5.1f} | "
                    f"{100 * there / max(found, 1):5.1f} | {100 * sized / max(found, 1):5.1f}"
                )
    print("drift over 20 and 40 runs: said to be a drift | to be changes")
    for drift in (0.03, 0.06, 0.1):
        for count in (20, 40):
            told_of = [course(history([(count, 1.0)], "normal", spread, seed, drift)) for seed in seeds]
            drifts, steps = sum(c.drift is not None for c in told_of), sum(bool(c.changes) for c in told_of)
            print(f"  {drift:+.0%} {count} runs  {100 * drifts / len(seeds):.1f} | {100 * steps / len(seeds):.1f}")


if __name__ == "__main__":
    main()
