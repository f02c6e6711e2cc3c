"""One clock for all ranks: offsets, drift, and ranks that nothing ties together."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from made_jobs import EPOCH, simulated
from msgspec.structs import replace

from npu_tui.jobs.clock import RankClock
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import Notify, RankProfile, RecordedCall, Seen
from npu_tui.jobs.opening import open_job

HOUR = 3_600 * 1_000_000_000


def clocks(ranks: list[RankProfile]) -> list[RankClock]:
    return Job(Path("job"), ranks).clocks


def even(draw: random.Random, spread: int = 400_000):
    """Work of 2 ms that differs from call to call."""
    return lambda rank, step, call: 2_000_000 + draw.randrange(spread)


@pytest.mark.parametrize("seed", range(5))
def test_offsets_of_hours_come_out_within_two_microseconds(seed: int):
    draw = random.Random(seed)
    offsets = [0, *(draw.randrange(-3 * HOUR, 3 * HOUR) for _ in range(7))]
    job = simulated(8, even(draw), offset=offsets.__getitem__, seed=seed)
    for clock, offset in zip(job.clocks, offsets, strict=True):
        assert abs(clock.offset - offset) < 2_000
        assert clock.low is not None
        assert clock.high is not None
        assert clock.low <= offset <= clock.high


def test_drift_comes_out_within_one_part_in_a_million_over_a_minute():
    drifts = [0.0, 20e-6, -35e-6, 5e-6]
    job = simulated(4, even(random.Random(3)), steps=30, drift=drifts.__getitem__, pause=2_000_000_000)
    for clock, drift in zip(job.clocks, drifts, strict=True):
        assert abs(clock.drift - drift) < 1e-6
    ends = [
        [clock.to_common(call.end) for call in profile.calls]
        for clock, profile in zip(job.clocks, job.ranks, strict=True)
    ]
    apart = [max(together) - min(together) for together in zip(*ends, strict=True)]
    assert sorted(apart)[len(apart) // 2] < 50_000


@pytest.mark.parametrize(("drift", "told"), [(-35e-6, True), (12e-6, True), (8e-6, False)])
def test_a_clock_that_drifts_is_told_from_ten_parts_in_a_million_on(drift: float, told: bool) -> None:
    drifts = [0.0, drift, 0.0, 0.0]
    job = simulated(4, even(random.Random(3)), steps=30, drift=drifts.__getitem__, pause=2_000_000_000)
    found = [each for each in job_findings(job) if each.title.code == "job.drift.title"]
    assert [each.ranks for each in found] == ([(1,)] if told else [])


def bent(time: int) -> int:
    """What a clock has gained that runs 20 ppm too fast for half a minute, then 15 ppm too slow."""
    turn = 30_000_000_000
    return round(20e-6 * min(time, turn) - 15e-6 * max(time - turn, 0))


def test_what_is_left_of_a_clock_that_changes_its_drift_is_within_its_error():
    """Who is last is told where it is certain all the same, and never wrongly."""

    def work(rank: int, step: int, call: int) -> int:
        return 2_000_000 + (500_000 if rank == 1 else 0)

    job = simulated(4, work, steps=40, pause=1_500_000_000)
    ranks = [
        profile
        if profile.rank != 2
        else replace(
            profile,
            calls=tuple(
                replace(call, start=call.start + bent(call.start - EPOCH), end=call.end + bent(call.end - EPOCH))
                for call in profile.calls
            ),
        )
        for profile in job.ranks
    ]
    found = Job(Path("job"), ranks)
    left = [
        abs(found.clocks[2].to_common(call.end) - own.end)
        for call, own in zip(ranks[2].calls, job.ranks[2].calls, strict=True)
    ]
    assert sorted(left)[int(0.9 * len(left))] < found.clocks[2].error < 2 * max(left)
    assert {each.last for each in found.blamed} == {1, None}
    assert {each.last for each in job.blamed} == {1}


def test_notifies_both_ways_bound_a_clock_on_both_sides():
    job = simulated(2, even(random.Random(1)), offset=lambda rank: rank * 61_370)
    first, other = job.ranks
    call = first.calls[0]
    way = [
        (first, other, 100, 61_370 + 900),  # the record of one rank, and how long after it the wait of the other ended
        (other, first, 100, -61_370 + 1_100),
    ]
    notifies: dict[int, list[Notify]] = {0: [], 1: []}
    for source, target, at, after in way:
        start = source.calls[0].start + at
        notifies[source.rank].append(Notify(False, target.rank, call.name, 92, start, start + 20))
        notifies[target.rank].append(Notify(True, source.rank, call.name, 92, start, start + after))
    ranks = [replace(profile, notifies=tuple(notifies[profile.rank])) for profile in job.ranks]
    clock = clocks(ranks)[1]
    assert clock.method == "notify"
    assert clock.low == 61_370 - 1_100
    assert clock.high == 61_370 + 900
    swapped = [replace(profile, rank=1 - profile.rank, notifies=tuple(
        replace(each, peer=1 - each.peer) for each in profile.notifies)) for profile in reversed(ranks)]  # fmt: skip
    mirrored = clocks(swapped)[1]
    assert mirrored.offset == -clock.offset


def test_a_rank_that_nothing_ties_stands_alone():
    job = simulated(3, even(random.Random(1)))
    alone = replace(job.ranks[2], calls=tuple(replace(call, group="other") for call in job.ranks[2].calls))
    ranks = [*job.ranks[:2], alone]
    found = clocks(ranks)
    assert [clock.method for clock in found] == ["reference", "collective_ends", "none"]


def test_ranks_tied_through_a_third_one_share_its_clock():
    job = simulated(3, even(random.Random(1)), offset=lambda rank: rank * HOUR)
    first, middle, last = job.ranks
    pair = tuple(replace(call, group="b", start=call.start, end=call.end) for call in middle.calls)
    ranks = [
        first,
        replace(middle, calls=(*middle.calls, *pair)),
        replace(last, calls=tuple(replace(call, group="b") for call in last.calls)),
    ]
    found = clocks(ranks)
    assert [clock.is_tied for clock in found] == [True, True, True]
    assert abs(found[2].offset - 2 * HOUR) < 2_000


def test_arrivals_of_a_third_rank_that_two_waited_for_are_a_clock():
    """Two ranks whose ends lie far apart saw rank 9 come, in every collective, at one moment."""
    job = simulated(2, even(random.Random(1)), offset=lambda rank: rank * 61_370)
    ranks = []
    for profile in job.ranks:
        calls = [replace(call, end=call.end + 90_000 * profile.rank) for call in profile.calls]
        seen = [
            Seen(call.name, 9, first.start + 2_900_000 + profile.rank * 61_370 + draw - call.start, False)
            for call, first, draw in zip(
                calls, job.ranks[0].calls, [random.Random(f"{profile.rank} {n}").randrange(400) for n in range(99)],
                strict=False,
            )
        ]  # fmt: skip
        ranks.append(replace(profile, calls=tuple(calls), seen=tuple(seen)))
    clock = clocks(ranks)[1]
    assert clock.method == "third_rank"
    assert abs(clock.offset - 61_370) <= clock.error
    assert clock.error < 3_000


def test_the_fixture_of_two_ranks_has_its_true_clock_within_the_error():
    folder = Path(__file__).resolve().parents[2] / "fixtures" / "two_ranks"
    clock = open_job(folder).clocks[1]
    assert abs(clock.offset - 61_370) <= clock.error
    assert clock.low is not None
    assert clock.high is not None
    assert clock.low <= 61_370 <= clock.high


def test_the_fixture_of_two_ranks_has_its_true_last_ranks_and_lateness():
    """Lateness within the error of the clock is not told."""
    folder = Path(__file__).resolve().parents[2] / "fixtures" / "two_ranks"
    truth = {each["name"]: each for each in json.loads((folder / "truth.json").read_text())["collectives"]}
    job = open_job(folder)
    assert len(job.blamed) == len(truth)
    told = 0
    for each in job.blamed:
        own = truth[next(iter(each.meeting.calls.values())).name]
        if own["late_by_ns"] > 2 * job.clocks[1].error:
            told += 1
            assert each.last == own["last_rank"]
            assert abs(each.cost - own["late_by_ns"]) <= job.clocks[1].error
        else:
            assert each.last is None
    assert told == 3


@pytest.mark.parametrize("offset", [1_000_000, 3 * HOUR])
@pytest.mark.parametrize("drift", [0.0, 20e-6])
@pytest.mark.parametrize("shifted", [2, 5])
def test_the_same_rank_is_blamed_whatever_the_clock_of_a_rank_says(shifted: int, offset: int, drift: float):
    """Rank 2 is slow; its clock is another one, or that of rank 5."""

    def work(rank: int, step: int, call: int) -> int:
        return 2_000_000 + (600_000 if rank == 2 else 0)

    plain = simulated(8, work, pause=200_000_000)
    job = simulated(
        8,
        work,
        pause=200_000_000,
        offset=lambda rank: offset if rank == shifted else 0,
        drift=lambda rank: drift if rank == shifted else 0.0,
    )
    found, usual = job_findings(job)[0], job_findings(plain)[0]
    assert (found.id, found.ranks) == (usual.id, usual.ranks) == ("RANK.SLOW", (2,))
    assert found.gain_ns == pytest.approx(usual.gain_ns, rel=0.01)
    assert {each.last for each in job.blamed} == {2}


def test_a_stage_that_only_messages_tie_keeps_what_its_own_collectives_tell():
    """Ranks 0 and 2 bound each other closely, 1 and 3 by messages of 7 ms; each stage leaves its allReduce together."""
    offsets, calls = (0, 3_000_000, -8_000_000, 90_000_000), [[], [], [], []]
    for number in range(6):
        begun = EPOCH + number * 50_000_000
        for one, other, length in ((0, 2, 50), (1, 3, 7_000_000)):
            for kind, source, target, at in (("send", one, other, 0), ("send", other, one, 20_000_000)):
                for rank, act in ((source, kind), (target, "receive")):
                    name, start = f"hcom_{act}__{one}{other}_{number}_1", begun + at + offsets[rank]
                    calls[rank].append(RecordedCall(f"{one}{other}", act, name, "0", None, start, start + length))
        for rank in range(4):
            end = begun + 40_000_000 + offsets[rank]
            name = f"hcom_allReduce__{rank // 2}_{number}_1"
            calls[rank].append(
                RecordedCall(f"{rank // 2}", "allReduce", name, "0", number, end - 100_000 * (rank + 1), end)
            )
    found = clocks([RankProfile(rank, Path(f"r{rank}"), "trace", calls=tuple(own)) for rank, own in enumerate(calls)])
    assert [clock.offset for clock in found] == pytest.approx(offsets, abs=1_000)
    assert max(clock.error for clock in found) < 2_000
