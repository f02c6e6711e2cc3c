"""Jobs made up in memory: what every rank would have recorded, with the truth beside it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from npu_tui.jobs.job import Job
from npu_tui.jobs.model import Busy, Layout, LinkUse, RankProfile, RecordedCall, StepTime
from npu_tui.trace.intervals import covered_within

EPOCH = 1_760_000_000_000_000_000
"""ns since 1970 at which the jobs start."""


def simulated(
    world: int,
    work: Callable[[int, int, int], int],
    steps: int = 8,
    calls: int = 6,
    offset: Callable[[int], int] = lambda rank: 0,
    drift: Callable[[int], float] = lambda rank: 0.0,
    pause: int = 0,
    seed: int = 1,
    layout: Layout | None = None,
) -> Job:
    """A data parallel job: before each of ``calls`` allReduces of a step rank r works ``work(r, step, call)`` ns.

    Everybody leaves a collective within a microsecond of each other, 300 us after the last has come. The device clock
    of rank r is ``offset(r)`` ns ahead and gains ``drift(r)`` ns per ns; ``pause`` ns lie between steps.
    """
    draw = random.Random(seed)
    left = [0] * world
    recorded: list[list[RecordedCall]] = [[] for _ in range(world)]

    def on_clock(rank: int, time: int) -> int:
        return EPOCH + time + offset(rank) + round(drift(rank) * time)

    for step in range(steps):
        for number in range(calls):
            starts = [left[rank] + work(rank, step, number) for rank in range(world)]
            done = max(starts) + 300_000
            for rank in range(world):
                end = done + draw.randrange(1_000)
                name = f"hcom_allReduce__123_{step * calls + number}_1"
                begun, ended = on_clock(rank, starts[rank]), on_clock(rank, end)
                recorded[rank].append(
                    RecordedCall("123", "allReduce", name, str(step), step * calls + number, begun, ended)
                )
                left[rank] = end
        left = [time + pause for time in left]
    total = max(left) // steps
    return Job(
        Path("job"),
        [
            RankProfile(
                rank,
                Path(f"rank{rank}"),
                "companions",
                boot=EPOCH + rank // 8 * 1_000_000_000,
                counter=0,
                layout=layout,
                calls=tuple(recorded[rank]),
                steps=tuple(StepTime(str(step), total // 10, total // 10 * 9, 0, total) for step in range(steps)),
            )
            for rank in range(world)
        ],
    )


def length_of(job: Job) -> int:
    """From the first start to the last end of a job whose clocks agree, ns."""
    calls = [call for profile in job.ranks for call in profile.calls]
    return max(call.end for call in calls) - min(call.start for call in calls)


def linked(
    world: int, speed: Callable[[int, int], float], size_mb: float = 8.0, kind: str = "allReduce"
) -> list[LinkUse]:
    """A link between every two ranks."""
    return [
        LinkUse(source, target, "HCCS", kind, size_mb, speed(source, target))
        for source in range(world)
        for target in range(world)
        if source != target
    ]


def within(calls: Sequence[RecordedCall], worked: Sequence[tuple[int, int]]) -> Busy:
    """What was ``worked``, ns since ``EPOCH``, in ``calls`` of which at most one covers each part of it."""
    parts = [(max(low, call.start - EPOCH), min(high, call.end - EPOCH)) for call in calls for low, high in worked]
    start, end = np.array(sorted(part for part in parts if part[0] < part[1]), np.int64).reshape(-1, 2).T + EPOCH
    return Busy(start, end)


def overlapped(
    world: int,
    work: Callable[[int, int, int], int],
    steps: int = 6,
    calls: int = 4,
    begun: Callable[[int], int] = lambda rank: 0,
) -> Job:
    """A data parallel job whose ranks go on working while gradients are reduced, as far as the step goes.

    A reduction follows the work before it and the reduction before, and takes 300 us; the first work of a step,
    ``work(r, step, 0)`` ns, follows all reductions of the step before. Rank r begins ``begun(r)`` ns after the first;
    what it does before is no part of a step.
    """
    free = [begun(rank) for rank in range(world)]
    recorded: list[list[RecordedCall]] = [[] for _ in range(world)]
    worked: list[list[tuple[int, int]]] = [[] for _ in range(world)]
    for step in range(steps):
        done = list(free)
        reduced = list(free)
        for number in range(calls):
            for rank in range(world):
                worked[rank].append((done[rank], done[rank] + work(rank, step, number)))
                done[rank] = worked[rank][-1][1]
            starts = [max(done[rank], reduced[rank]) for rank in range(world)]
            for rank, start in enumerate(starts):
                reduced[rank] = max(starts) + 300_000 + rank
                name = f"hcom_allReduce__123_{step * calls + number}_1"
                times = EPOCH + start, EPOCH + reduced[rank]
                recorded[rank].append(RecordedCall("123", "allReduce", name, str(step), step * calls + number, *times))
        free = [max(own) for own in zip(done, reduced, strict=True)]
    total = max(free) // steps
    ranks = []
    for rank in range(world):
        busy = within(recorded[rank], worked[rank])
        start, end = busy.start, busy.end
        low, high = np.array([(call.start, call.end) for call in recorded[rank]], np.int64).T
        bare = (high - low - covered_within(start, end, low, high)).reshape(steps, calls).sum(axis=1).tolist()
        ranks.append(
            RankProfile(
                rank,
                Path(f"rank{rank}"),
                "trace",
                boot=EPOCH,
                counter=0,
                calls=tuple(recorded[rank]),
                steps=tuple(StepTime(str(step), total - bare[step], bare[step], 0, total) for step in range(steps)),
                busy=busy,
                begun=EPOCH + begun(rank),
            )
        )
    return Job(Path("job"), ranks)
