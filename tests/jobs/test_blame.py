"""Who is slow, since when, and what the job would save: against jobs whose truth is known."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from made_jobs import EPOCH, length_of, overlapped, simulated, within
from msgspec.structs import replace

from npu_tui.jobs.blame import before_calls
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import Layout, RankProfile, RecordedCall, StepTime
from npu_tui.jobs.slowness import Reduction
from npu_tui.strings import words
from npu_tui.trace.recorder import KINETO

HOUR = 3_600 * 1_000_000_000


def worked(seed: int, extra):
    """2 ms with noise of 2 %, and what ``extra`` adds."""

    def work(rank: int, step: int, call: int) -> int:
        noise = random.Random(f"{seed} {rank} {step} {call}").randrange(40_000)
        return 2_000_000 + noise + extra(rank, step, call)

    return work


def slow_ranks(job):
    return [finding for finding in job_findings(job) if finding.id == "RANK.SLOW"]


@pytest.mark.parametrize("seed", range(8))
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
    assert first.gain_ns == pytest.approx(truth - length_of(without), rel=0.05)
    assert [each.ranks for each in slow_ranks(job)] == [(slow,)]


@pytest.mark.parametrize("seed", range(8))
def test_an_even_job_has_no_finding(seed: int):
    job = simulated(8, worked(seed, lambda *_: 0), offset=lambda rank: rank * 1_000_000, seed=seed)
    assert job_findings(job) == []


def test_the_replay_gives_the_recorded_times():
    job = simulated(8, worked(1, lambda rank, step, _: 500_000 * (rank == step)), seed=1)
    recorded = max(arrival.end for each in job.blamed for arrival in each.arrivals) - min(
        arrival.start for each in job.blamed for arrival in each.arrivals
    )
    assert job.savings.length == recorded


@pytest.mark.parametrize("seed", range(8))
def test_a_slow_rank_whose_peers_work_on_while_they_wait(seed: int):
    draw = random.Random(seed)
    world, slower = draw.choice([3, 4, 8]), draw.uniform(1.2, 2.5)
    slow = draw.randrange(world)
    plain = worked(seed, lambda rank, step, call: 4_000_000 * (call == 0))

    def work(rank: int, step: int, call: int) -> int:
        return round(plain(rank, step, call) * (slower if rank == slow else 1.0))

    job = overlapped(world, work)
    truth = length_of(job) - length_of(overlapped(world, plain))
    own = next(each for each in job.sums if each.rank == slow)
    # The first start of a job is that of its fastest rank.
    truth += job.savings.length - length_of(job)
    assert own.gain == pytest.approx(truth, rel=0.12)
    assert own.own == pytest.approx(truth, rel=0.12)
    assert [each.ranks for each in slow_ranks(job)] == [(slow,)]
    # Without traces the steps tell how much of the waiting is hidden.
    (found,) = slow_ranks(Job(job.path, [replace(each, busy=None) for each in job.ranks]))
    assert (found.ranks, found.gain_ns) == ((slow,), pytest.approx(truth, rel=0.3))


def test_what_a_rank_does_before_its_first_collective_is_its_work():
    late = worked(1, lambda rank, step, call: 30_000_000 * (rank == 2 and step == call == 0))
    (found,) = slow_ranks(overlapped(4, late))
    assert found.ranks == (2,)
    assert found.gain_ns == pytest.approx(30_000_000, rel=0.02)
    assert found.evidence[0].end - found.evidence[0].start == pytest.approx(30_000_000, rel=0.02)
    # When a rank began later, or where nothing tells when, it is not.
    assert slow_ranks(overlapped(4, worked(1, lambda *_: 0), begun=lambda rank: 30_000_000 * (rank == 2))) == []
    job = overlapped(4, late)
    assert slow_ranks(Job(job.path, [replace(each, begun=None) for each in job.ranks])) == []


def test_work_beyond_a_gap_is_done_before_the_calls_ahead():
    draw = np.random.default_rng(5)
    for _ in range(50):
        more, gap = draw.integers(-100, 300, 12), draw.integers(0, 200, 12)
        expected, carried = more.copy(), 0
        for k in range(11, 0, -1):
            carried += int(more[k])
            expected[k], carried = min(carried, gap[k]), max(carried - int(gap[k]), 0)
        expected[0] += carried
        assert before_calls(more, gap).tolist() == expected.tolist()
    assert not len(before_calls(np.zeros(0, np.int64), np.zeros(0, np.int64)))


@pytest.mark.parametrize("world", [3, 4, 6])
def test_chance_takes_no_turns(world: int):
    """The noise of a job of few ranks is no matter of its data, whatever share of the step it is."""
    for seed in range(8):
        draw = np.random.default_rng([seed, world])
        noise = draw.normal(0, 60_000, (world, 8, 6))
        job = simulated(world, lambda rank, step, call, noise=noise: 2_000_000 + round(noise[rank, step, call]))
        assert "RANK.WANDER" not in {each.id for each in job_findings(job)}, seed


def test_turns_are_a_matter_of_data_and_no_slow_rank():
    job = simulated(8, worked(1, lambda rank, step, _: 1_500_000 * (rank == step)), seed=1)
    found = job_findings(job)
    assert found[0].id == "RANK.WANDER"
    assert slow_ranks(job) == []


def test_what_a_rank_does_longer_after_its_last_collective_counts():
    """At the end of each step rank 2 writes its log: the last time nobody waits for it but the job."""
    log, steps = 5_000_000, 8
    job = simulated(4, worked(1, lambda rank, step, call: log * (rank == 2 and step > 0 and call == 0)), steps, seed=1)
    (seen,) = slow_ranks(job)
    assert seen.gain_ns == pytest.approx((steps - 1) * log, rel=0.05)
    ends = [replace(each, ended=max(call.end for call in each.calls) + 10**6) for each in job.ranks]
    ends[2] = replace(ends[2], ended=ends[2].ended + log)
    (told,) = slow_ranks(Job(job.path, ends))
    assert told.gain_ns == pytest.approx(steps * log, rel=0.05)
    # All that go on for as long are no later than others, and where one end is unknown none counts.
    alike = [replace(each, ended=max(call.end for call in each.calls) + log) for each in job.ranks]
    for ranks in (alike, [*ends[:1], replace(ends[1], ended=None), *ends[2:]]):
        assert slow_ranks(Job(job.path, ranks))[0].gain_ns == pytest.approx((steps - 1) * log, rel=0.05)


def test_what_comes_after_the_last_collective_goes_with_the_last_step_and_with_nothing_else():
    log = 5_000_000
    job = simulated(4, worked(1, lambda rank, step, call: -400_000 * (rank == 2)), 8, seed=1)
    ends = [replace(each, ended=max(call.end for call in each.calls) + 10**6) for each in job.ranks]
    ends[2] = replace(ends[2], ended=ends[2].ended + log)
    job = Job(job.path, ends)
    blame, prices = job.blamed, job.savings
    of_rank = blame.rank == 2
    # It is early everywhere before that, so that none of its arrivals has anything to lose.
    assert prices.reduced_to_median(of_rank).tail.tolist() == [0, 0, log, 0]
    assert prices.saved([prices.reduced_to_median(of_rank)])[0] == pytest.approx(log, rel=0.01)
    first = of_rank & (blame.steps[blame.row] != blame.steps[blame.row[of_rank]].max())
    assert not prices.reduced_to_median(first).tail.any()
    assert prices.reduced_to_median(of_rank, np.full(len(of_rank), 0.5)).tail[2] == log // 2
    # A case about the work before collectives, such as experts, says nothing of what comes after them.
    slight = Reduction(np.where(of_rank, 1, 0), np.zeros(len(blame.ranks), np.int64))
    assert prices.saved([slight])[0] <= int(of_rank.sum())


def test_two_of_four_ranks_take_turns():
    job = simulated(4, worked(1, lambda rank, step, _: 1_500_000 * (rank == 1 + step % 2)), seed=1)
    found = job_findings(job)
    assert [each.id for each in found] == ["RANK.WANDER"]
    assert set(found[0].ranks) == {1, 2}
    # Slow in half of the steps alone, a rank is slow now and then.
    job = simulated(4, worked(1, lambda rank, step, _: 1_500_000 * (rank == 1 and step % 2 == 0)), seed=1)
    assert [each.id for each in job_findings(job)] == ["RANK.SLOW"]


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
    assert [each.left_out for each in odd.unpaired] == [sum(each.counts.values()) for each in odd.unpaired]


def test_as_many_calls_of_which_some_have_no_counterpart_are_counted_and_told():
    """A rank that was recorded a moment later: the number of its last collective is one that no other rank recorded."""
    job = simulated(3, worked(1, lambda *_: 0))
    *others, last = job.ranks[1].calls
    later = replace(job.ranks[1], calls=(*others, replace(last, ordinal=1_000)))
    ranks = [
        replace(profile, kind=KINETO.kind) for profile in (job.ranks[0], later, job.ranks[2])
    ]  # numbers of the job
    apart = type(job)(job.path, ranks)
    [unpaired] = apart.unpaired
    assert len({*unpaired.counts.values()}) == 1
    assert unpaired.left_out == 1
    assert unpaired.paired == unpaired.counts[0]
    [finding] = [each for each in job_findings(apart) if each.id == "GROUP.SIZES"]
    assert words(finding.detail).startswith("They belong to no call of another rank. The ranks made equally many calls")


def piped(work, calls, links) -> Job:
    """Ranks that work ``work(rank)`` ns before each of ``calls`` rounds of messages between every two of ``links``."""
    left, recorded = [0] * 4, [[] for _ in range(4)]
    for number in range(calls):
        for one, other in links:
            starts = {rank: left[rank] + work(rank) for rank in (one, other)}
            for rank, start in starts.items():
                left[rank] = max(starts.values()) + 100_000
                kind = "send" if rank == one else "receive"
                name = f"hcom_{kind}__{one}{other}_{number}_1"
                times = EPOCH + start, EPOCH + left[rank]
                recorded[rank].append(RecordedCall(f"{one}{other}", kind, name, str(number), number, *times))
    return Job(Path("job"), [
        RankProfile(rank, Path(f"r{rank}"), "trace", boot=EPOCH, counter=0, calls=tuple(recorded[rank]),
                    steps=tuple(StepTime(str(k), work(rank), 0, 0, left[rank] // calls) for k in range(calls)))
        for rank in range(4)
    ])  # fmt: skip


def test_ranks_in_a_chain_of_messages_are_stages():
    chain, ring = [(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 2), (2, 3), (3, 0)]
    even = piped(lambda rank: 2_000_000, 8, chain)
    assert [even.stage(rank) for rank in range(4)] == [0, 1, 2, 3]
    assert [each for each in job_findings(even) if each.severity != "info"] == []
    slow = job_findings(piped(lambda rank: 2_000_000 * (1 + (rank == 2)), 8, chain))[0]
    assert (slow.id, slow.ranks) == ("RANK.STAGE", (2,))
    assert [piped(lambda rank: 2_000_000, 8, ring).stage(rank) for rank in range(4)] == [None] * 4
    assert [piped(lambda rank: 2_000_000, 8, chain[:1]).stage(rank) for rank in range(2)] == [None] * 2


def test_ranks_that_are_slow_in_the_same_steps_are_told_together() -> None:
    job = simulated(8, worked(3, lambda rank, step, call: 9_000_000 * (rank < 4 and step in (2, 5) and call == 0)))
    (found,) = slow_ranks(job)
    assert found.title.code == "job.several.title"
    assert sorted(found.ranks) == [0, 1, 2, 3]
    assert found.gain_ns == pytest.approx(18_000_000, rel=0.1)


def test_ranks_that_wait_while_they_compute_have_no_more_work():
    """Half of the ranks load for long before their first call, and the others compute all that is left meanwhile."""
    job = overlapped(8, worked(1, lambda rank, step, call: 40_000_000 * (rank < 4 and step == 3 and call == 0)))
    own = job.by_step.own[:, 3]
    assert own[:4] == pytest.approx([40_000_000] * 4, rel=0.05)
    assert own[4:] == pytest.approx([0] * 4, abs=400_000)
    (found,) = slow_ranks(job)
    assert (sorted(found.ranks), found.gain_ns) == ([0, 1, 2, 3], pytest.approx(40_000_000, rel=0.05))


def test_a_rank_that_waits_for_a_slow_one_in_its_other_group_is_not_slow():
    """Rank 0 of four is late to a sum with rank 1, on which both come late to the gradients of 2 and 3.

    Those begin beside the sums of the next layers: in one rank before one of them, in another behind it.
    """
    calls: list[list[RecordedCall]] = [[] for _ in range(4)]
    worked: list[list[tuple[int, int]]] = [[] for _ in range(4)]
    free, sent = [0] * 4, [0] * 4

    def meet(ranks: tuple[int, int], group: str, times: list[int], took: int, step: int) -> int:
        end = max(times) + took
        for rank, start in zip(ranks, times, strict=True):
            number = sum(call.group == group for call in calls[rank])
            name = f"hcom_allReduce__{group}_{number}_1"
            calls[rank].append(RecordedCall(group, "allReduce", name, str(step), number, EPOCH + start, EPOCH + end))
        return end

    for step in range(5):
        free = [time + 20_000_000 * (rank == 0) for rank, time in enumerate(free)]
        for _layer in range(6):
            for ranks, group in (((0, 1), "101"), ((2, 3), "102")):
                for rank in ranks:
                    worked[rank].append((free[rank], free[rank] + 2_000_000))
                done = meet(ranks, group, [free[rank] + 2_000_000 for rank in ranks], 500_000, step)
                free[ranks[0]] = free[ranks[1]] = done
            for ranks, group in (((0, 2), "201"), ((1, 3), "202")):
                times = [max(free[rank], sent[rank]) for rank in ranks]
                done = meet(ranks, group, times, 900_000, step)
                sent[ranks[0]] = sent[ranks[1]] = done
        free = [max(pair) for pair in zip(free, sent, strict=True)]
    ranks = [
        RankProfile(rank, Path(f"rank{rank}"), "trace", layout=Layout(2, 1, 2, 4), begun=EPOCH,
                    calls=tuple(sorted(own, key=lambda call: call.start)), busy=within(own, worked[rank]))
        for rank, own in enumerate(calls)
    ]  # fmt: skip
    job = Job(Path("job"), ranks)
    own = {row.rank: row.own for row in job.sums}
    assert own[0] == 100_000_000
    assert [found.ranks for found in slow_ranks(job)] == [(0,)]
