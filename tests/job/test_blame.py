"""Who is slow, since when, and what the job would save: against jobs whose truth is known."""

from __future__ import annotations

import random

import pytest
from made_jobs import length_of, simulated
from msgspec.structs import replace

from npu_tui.job.findings import job_findings
from npu_tui.job.model import Layout

HOUR = 3_600 * 1_000_000_000


def worked(seed: int, extra):
    """2 ms with noise of 2 %, and what ``extra`` adds."""

    def work(rank: int, step: int, call: int) -> int:
        noise = random.Random(f"{seed} {rank} {step} {call}").randrange(40_000)
        return 2_000_000 + noise + extra(rank, step, call)

    return work


def slow_ranks(job):
    return [finding for finding in job_findings(job) if finding.id == "RANK.SLOW"]


@pytest.mark.parametrize("seed", range(20))
def test_one_slow_rank_is_named_with_its_price(seed: int):
    draw = random.Random(seed)
    world = draw.choice([3, 4, 8])
    slow, more = draw.randrange(world), draw.randrange(200_000, 2_000_000)
    offsets = [draw.randrange(-HOUR, HOUR) for _ in range(world)]
    job = simulated(
        world, worked(seed, lambda rank, *_: more if rank == slow else 0), offset=offsets.__getitem__, seed=seed
    )
    without = simulated(world, worked(seed, lambda *_: 0), seed=seed)
    truth = length_of(simulated(world, worked(seed, lambda rank, *_: more if rank == slow else 0), seed=seed))
    first = slow_ranks(job)[0]
    assert first.ranks == (slow,)
    assert job.shapes[slow] == "always"
    assert first.gain == pytest.approx(truth - length_of(without), rel=0.05)
    assert [each.ranks for each in slow_ranks(job)] == [(slow,)]


@pytest.mark.parametrize("seed", range(20))
def test_an_even_job_has_no_finding(seed: int):
    job = simulated(8, worked(seed, lambda *_: 0), offset=lambda rank: rank * 1_000_000, seed=seed)
    assert job_findings(job) == []


def test_the_replay_gives_the_recorded_times():
    job = simulated(8, worked(1, lambda rank, step, _: 500_000 * (rank == step)), seed=1)
    recorded = max(arrival.end for each in job.blamed for arrival in each.arrivals) - min(
        arrival.start for each in job.blamed for arrival in each.arrivals
    )
    assert job.prices.length == recorded


def test_turns_are_a_matter_of_data_and_no_slow_rank():
    job = simulated(8, worked(1, lambda rank, step, _: 1_500_000 * (rank == step)), seed=1)
    found = job_findings(job)
    assert found[0].id == "RANK.WANDER"
    assert slow_ranks(job) == []


def test_lateness_that_travels_is_not_blamed_on_who_passes_it_on():
    """Ranks 0 and 1 reduce first, then 1 and 2: what makes 0 late makes 1 late for 2, but 1 worked no longer."""
    job = simulated(3, worked(1, lambda rank, *_: 0), seed=1)
    calls: list[list] = [[], [], []]
    left = [0, 0, 0]
    for step in range(6):
        for group, members in (("a", (0, 1)), ("b", (1, 2))):
            starts = {rank: left[rank] + 1_000_000 + 3_000_000 * (rank == 0) for rank in members}
            end = max(starts.values()) + 100_000
            for rank in members:
                name = f"hcom_allReduce__{ord(group)}_{step}_1"
                call = replace(job.ranks[rank].calls[0], group=group, name=name, step=str(step), ordinal=step)
                calls[rank].append(replace(call, start=starts[rank], end=end))
                left[rank] = end
    ranks = [replace(profile, calls=tuple(own)) for profile, own in zip(job.ranks, calls, strict=True)]
    chained = type(job)(job.path, ranks)
    sums = {own.rank: own for own in chained.sums}
    assert sums[1].cost > 0
    assert sums[0].own > 0
    assert sums[1].own <= 0
    assert slow_ranks(chained)[0].ranks == (0,)


def test_a_slow_stage_is_told_by_what_it_computes():
    layout = Layout(tensor=1, pipeline=2, data=2, world=4)
    job = simulated(4, worked(1, lambda *_: 0), layout=layout)
    ranks = []
    for profile in job.ranks:
        times = 2 if profile.rank > 1 else 1
        steps = tuple(replace(step, computing=step.computing * times) for step in profile.steps)
        ranks.append(replace(profile, steps=steps))
    found = [finding for finding in job_findings(type(job)(job.path, ranks)) if finding.id == "RANK.STAGE"]
    assert [finding.ranks for finding in found] == [(2, 3)]


def test_calls_that_ranks_did_not_make_equally_often_are_told_and_left_out():
    job = simulated(3, worked(1, lambda *_: 0))
    short = replace(job.ranks[1], calls=tuple(replace(call, ordinal=None) for call in job.ranks[1].calls[:-1]))
    odd = type(job)(job.path, [job.ranks[0], short, job.ranks[2]])
    assert [finding.id for finding in job_findings(odd)] == ["GROUP.SIZES"]
