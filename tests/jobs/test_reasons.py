"""Why a rank is slow: by equal kernels its card, by calls of CANN its host, by other kernels its work."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_jobs import simulated
from msgspec.structs import replace

from npu_tui.analysis.experts import Pace
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankFinding, RankProfile, StepTime
from npu_tui.jobs.rank_files import STILL
from npu_tui.jobs.reasons import OPERATIONS
from npu_tui.rules.model import Finding
from npu_tui.strings import words
from npu_tui.trace.message import message

MS = 1_000_000
STEPS = 8
USUAL = (Pace("MatMulV3", "8,64;64,64", 40, 40 * MS), Pace("Add", "8,64", 20, 8 * MS))
CALLS = (Pace("launch", "node", 400, 400 * 5_000), Pace("aclrtMemcpyAsync", "acl", 8, 8 * 9_000))


def job_of(more: dict[int, int], world: int = 4, **others: dict[int, object]) -> Job:
    """A job whose rank r works ``more[r]`` ns longer in every step; ``others`` are fields of some ranks."""
    job = simulated(world, lambda rank, step, call: 2 * MS + (more.get(rank, 0) if not call else 0), steps=STEPS)
    ranks: list[RankProfile] = []
    for profile in job.ranks:
        mine = {name: of_rank[profile.rank] for name, of_rank in others.items() if profile.rank in of_rank}
        ranks.append(replace(profile, **({"paces": USUAL, "host_paces": CALLS} | mine)))
    return Job(Path("job"), ranks)


def steps_of(computing: int, free: int = 0, total: int = 30 * MS) -> tuple[StepTime, ...]:
    return tuple(StepTime(str(step), computing, total - computing - free, free, total) for step in range(STEPS))


def longer(times: float, paces: tuple[Pace, ...] = USUAL) -> tuple[Pace, ...]:
    return tuple(replace(pace, time=round(pace.time * times)) for pace in paces)


def first(job: Job) -> Finding:
    return job_findings(job)[0]


@pytest.mark.parametrize("world", [2, 4])
def test_a_card_on_which_only_other_kernels_than_products_take_longer_has_slow_memory(world):
    own = (USUAL[0], *longer(4.0, USUAL[1:]))
    title = words(first(job_of({1: 6 * MS}, world, paces={1: own})).title)
    assert "its memory (HBM) is slow: other kernels than matrix products take 4.00 times as long" in title
    assert "matrix products of equal shapes 1.00 times" in title


@pytest.mark.parametrize("world", [2, 4])
def test_kernels_that_get_fewer_cores_than_on_the_peers_are_told_so(world):
    every = {rank: tuple(replace(pace, blocks=20) for pace in USUAL) for rank in range(world)}
    every[1] = tuple(replace(pace, blocks=16) for pace in longer(1.5))
    title = words(first(job_of({1: 6 * MS}, world, paces=every)).title)
    assert "they run on 16 cores (Block Dim) where those of the peers run on 20" in title
    every[1] = tuple(replace(pace, blocks=20) for pace in longer(1.5))
    assert "the card is slow" in words(first(job_of({1: 6 * MS}, world, paces=every)).title)


@pytest.mark.parametrize("world", [2, 4])
def test_equal_kernels_that_take_longer_are_a_slow_card(world):
    found = first(job_of({1: 6 * MS}, world, paces={1: longer(2.0)}))
    assert (found.id, found.ranks) == ("RANK.SLOW", (1,))
    assert "kernels of equal shapes take 2.00 times as long as on its peers: the card is slow" in words(found.title)


def test_a_low_clock_is_named():
    clocks = dict.fromkeys(range(4), 1800.0) | {1: 1100.0}
    found = first(job_of({1: 6 * MS}, paces={1: longer(1.6)}, clock=clocks))
    assert words(found.title).endswith("its AI cores run at 1100 MHz, theirs at 1800 MHz")


@pytest.mark.parametrize(("slow", "id"), [((8, 9, 10, 11), "RANK.HOST"), ((1, 6), "RANK.SLOW")])
def test_low_clocks_of_several_ranks_are_named(slow, id):
    clocks = {rank: 1100.0 if rank in slow else 1800.0 for rank in range(12)}
    more = dict.fromkeys(slow, 6 * MS)
    job = job_of(more, 12, paces=dict.fromkeys(slow, longer(1.6)), clock=clocks)
    found = first(job)
    assert (found.id, set(found.ranks)) == (id, set(slow))
    assert words(found.title).endswith("their AI cores run at 1100 MHz, those of the peers at 1800 MHz")
    one = first(job_of(more, 12, paces={slow[0]: longer(1.6)}, clock={slow[0]: 1100.0}))
    assert "MHz" not in words(one.title)


def test_calls_that_take_longer_are_a_slow_host_where_the_device_is_idle():
    steps = {rank: steps_of(10 * MS, 7 * MS if rank == 1 else 0) for rank in range(4)}
    job = job_of({1: 6 * MS}, host_paces={1: longer(1.8, CALLS)}, steps=steps)
    assert words(first(job).title).endswith(
        "its host is slow: the same calls of CANN take 1.80 times as long as on its peers"
    )
    asked = (*CALLS, Pace("aten::add", OPERATIONS, 400, 400 * 30_000))
    paces = dict.fromkeys(range(4), asked) | {1: (*CALLS, *longer(2.5, asked[2:]))}
    assert "the same operations of PyTorch take 2.50 times as long as on its peers; check the CPU binding" in words(
        first(job_of({1: 6 * MS}, host_paces=paces, steps=steps)).title
    )
    busy = {rank: steps_of(16 * MS if rank == 1 else 10 * MS) for rank in range(4)}
    told = words(first(job_of({1: 6 * MS}, host_paces={1: longer(1.8, CALLS)}, steps=busy)).title)
    assert "host" not in told


def still(time: int) -> tuple[RankFinding, ...]:
    """A rank that blocks in a call, in which no thread of its process runs for ``time`` ns."""
    title = message("job.still", count=1, longest=time)
    blocked = RankFinding("SYNC.HOST", 6 * MS // STEPS, message("finding.sync.title"), "dispatch", None, STEPS, True)
    return (blocked, RankFinding(STILL, time, title, "dispatch"))


@pytest.mark.parametrize("peers", [0, 6 * MS])
def test_a_process_that_does_not_run_is_told_where_its_peers_do(peers: int):
    found = {rank: still(6 * MS if rank == 1 else peers) for rank in range(4)}
    job = simulated(4, lambda rank, step, call: 2 * MS + 6 * MS * ((rank, step, call) == (1, 5, 0)), steps=STEPS)
    ranks = [replace(each, recorded=1, findings=found[each.rank], steps=steps_of(10 * MS)) for each in job.ranks]
    told = words(first(Job(Path("job"), ranks)).title)
    stopped = "no thread of its process does anything for up to 6.000 ms though its NPU is idle"
    assert (stopped in told) == (not peers)
    assert ("; it is slow in 1 of 8 steps (5)" in told) == (not peers)


def test_a_rank_with_other_kernels_has_more_work_and_shares_it():
    more = (*USUAL, Pace("FlashAttentionScore", "4,64", 32, STEPS * 6 * MS))
    steps = {rank: steps_of(16 * MS if rank == 1 else 10 * MS) for rank in range(4)}
    found = first(job_of({1: 6 * MS}, paces={1: more}, steps=steps))
    assert (found.id, found.ranks) == ("RANK.SLOW", (1,))
    # Its 6 ms are then 1.5 ms on each of four ranks; nothing tells of the first call.
    assert found.gain_ns == pytest.approx((STEPS - 1) * 4.5 * MS, rel=0.02)
    assert "rank 1 computes 16.00 ms a step, the mean is 11.50 ms" in words(found.title)
    assert "FlashAttentionScore 6.000 ms a step more" in words(found.detail)


def test_larger_shapes_of_another_rank_in_each_step_are_uneven_work():
    own = {rank: (*USUAL, Pace("MatMulV3", f"{rank},64;64,64", 8, 16 * MS)) for rank in range(4)}

    def work(rank: int, step: int, call: int) -> int:
        return 2 * MS + (8 * MS if rank == step % 4 and not call else 0)

    job = simulated(4, work, steps=STEPS)
    ranks = [
        replace(
            profile,
            paces=own[profile.rank],
            steps=tuple(
                StepTime(str(step), 18 * MS if profile.rank == step % 4 else 10 * MS, 4 * MS, 0, 22 * MS)
                for step in range(STEPS)
            ),
        )
        for profile in job.ranks
    ]
    found = first(Job(Path("job"), ranks))
    assert found.id == "RANK.WANDER"
    assert found.gain_ns == pytest.approx((STEPS - 1) * 6 * MS, rel=0.02)
    assert "uneven" in words(found.title)


@pytest.mark.parametrize("finders", [4, 1])
def test_ranks_that_are_slow_in_turns_name_what_most_of_them_find(finders: int):
    job = simulated(4, lambda rank, step, call: 2 * MS + (8 * MS if rank == step % 4 and not call else 0), steps=STEPS)
    each: dict[str, object] = {"time": 2 * MS, "unit": message("finding.unit.step")}
    title = message("finding.gc.title", each=message("finding.each.step", **each))
    ranks = [
        replace(profile, findings=(RankFinding("PY.GC", (2 + (rank == 2)) * MS, title, "config", None, STEPS, True),))
        if rank < finders
        else profile
        for rank, profile in enumerate(job.ranks)
    ]
    found = first(Job(Path("job"), ranks))
    assert found.id == "RANK.WANDER"
    told = words(found.title).split("; by the profile of rank ")
    assert told[1:] == (["2: Garbage collection takes 2.000 ms per step"] if finders == 4 else [])


def test_the_same_kernels_now_and_then_longer_are_no_work():
    steps = {rank: steps_of(16 * MS if rank == 1 else 10 * MS) for rank in range(4)}
    found = first(job_of({1: 6 * MS}, steps=steps))
    assert words(found.title).startswith("rank 1 is slow")


def test_uneven_work_beside_a_slow_card_clears_no_device():
    more = (*USUAL, Pace("FlashAttentionScore", "4,64", 32, STEPS * 9 * MS))
    steps = {rank: steps_of({1: 19 * MS, 2: 11 * MS}.get(rank, 10 * MS)) for rank in range(4)}
    for times, cleared in ((1.0, True), (1.1, False)):
        found = first(job_of({1: 9 * MS, 2: 1 * MS}, paces={1: more, 2: longer(times)}, steps=steps))
        assert "FlashAttentionScore 9.000 ms a step more" in words(found.detail)
        assert ("no device is slow" in words(found.detail)) == cleared


@pytest.mark.parametrize(("naming", "named"), [((8, 9, 10), True), ((8, 9), False)])
def test_what_most_ranks_of_a_slow_host_name_is_its_reason(naming, named):
    """The batches of one rank come in another way, so that its profile names the start of the step."""
    slow, line = (8, 9, 10, 11), ("train.py", 31)
    words_of = {"time": 6 * MS, "name": "fetch", "where": "fetch at train.py:31", "chip": "NPU", "unit": "step"}
    loads = RankFinding("HOST.WORK", 6 * MS, message("finding.work.title", **words_of), "dispatch", line, STEPS, True)
    starts = replace(loads, id="STEP.START", line=("train.py", 7), title=message("finding.start.title"))
    found = {rank: (loads if rank in naming else starts,) for rank in slow}
    lead = first(job_of(dict.fromkeys(slow, 6 * MS), 12, findings=found, recorded=dict.fromkeys(range(12), 1)))
    assert (lead.id, lead.ranks) == ("RANK.HOST", slow)
    assert ("train.py:31" in words(lead.title)) == named
