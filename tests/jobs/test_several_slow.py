"""Several slow ranks at once, in a job of few steps, and a job in which ranks differ by chance only."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_jobs import EPOCH, simulated

from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import Layout, RankProfile, RecordedCall, StepTime
from npu_tui.jobs.tables import RANKS
from npu_tui.strings import words

MS = 1_000_000


@pytest.mark.parametrize("steps", [3, 8])
def test_two_ranks_that_hide_each_other_are_priced_in_their_turn(steps):
    slow = {2: 30 * MS, 5: 26 * MS}
    job = simulated(8, lambda rank, step, call: 2 * MS + (slow.get(rank, 0) if not call else 0), steps=steps)
    lead = job_findings(job)[0]
    assert (lead.id, lead.ranks) == ("RANK.SLOW", (2, 5))
    alone, both = (turn.args for turn in lead.detail.args["turns"])
    assert (alone["rank"], both["rank"]) == (2, 5)
    of_steps = (steps - 1) / steps  # nothing is known before the first call
    assert alone["gain"] == pytest.approx(4 * MS * of_steps, rel=0.01)
    assert both["gain"] == lead.gain_ns / steps == pytest.approx(30 * MS * of_steps, rel=0.01)
    assert lead.title.args["gain"] == both["gain"]
    assert "rank 2 alone saves" in words(lead.detail)
    assert "with rank 5 as well" in words(lead.detail)


def test_one_slow_rank_is_not_several():
    job = simulated(8, lambda rank, step, call: 2 * MS + (9 * MS if rank == 4 else 0), steps=3)
    assert [(each.id, each.ranks) for each in job_findings(job)] == [("RANK.SLOW", (4,))]


def test_ranks_that_differ_by_chance_are_not_slow():
    job = simulated(4, lambda rank, step, call: 2 * MS + (rank * 7 + step * 5 + call * 3) % 11 * 8_000, steps=3)
    assert [each for each in job_findings(job) if each.severity != "info"] == []


def test_a_rank_as_late_as_one_that_waits_for_a_lost_rank_is_told_by_the_steps():
    calls: list[list[RecordedCall]] = [[] for _ in range(6)]
    for step in range(6):
        begun = EPOCH + step * 40 * MS
        for rank, own in enumerate(calls):
            since, until = begun + (30 if rank == 4 else 12 + rank % 2) * MS, begun + 31 * MS
            if rank == 5:  # the other rank of its group has no files
                own.append(
                    RecordedCall(
                        "9", "allReduce", f"hcom_allReduce__009_{step}_1", str(step), step, since, since + 17 * MS
                    )
                )
                since += 17 * MS
            own.append(RecordedCall("1", "allReduce", f"hcom_allReduce__001_{step}_1", str(step), step, since, until))
    work = [38 * MS if rank == 4 else 20 * MS for rank in range(6)]
    ranks = [
        RankProfile(
            rank, Path(f"rank{rank}"), "companions", boot=EPOCH, counter=0, layout=Layout(1, 1, 7, 7), calls=tuple(own),
            steps=tuple(StepTime(str(step), work[rank], 40 * MS - work[rank], 0, 40 * MS) for step in range(6)),
        )
        for rank, own in enumerate(calls)
    ]  # fmt: skip
    job = Job(Path("job"), ranks)
    first = job_findings(job)[0]
    assert (first.id, first.ranks, first.gain_ns) == ("RANK.SLOW", (4,), 6 * 18 * MS)
    row = next(row for row in RANKS.records(job) if row.rank == 4)
    assert (row.own_excess_us, row.gain_us) == (6 * 18_000, 6 * 18_000)


def test_ranks_of_a_host_that_are_slow_in_the_same_steps_are_slow_with_it():
    def work(rank: int, step: int, call: int) -> int:
        return 2 * MS + 40 * MS * (rank >= 8 and step in (2, 5) and not call)

    found = job_findings(simulated(12, work))
    assert [(each.id, each.ranks) for each in found] == [("RANK.HOST", (8, 9, 10, 11))]
    assert found[0].gain_ns == pytest.approx(80 * MS, rel=1e-4)
    assert words(found[0].title).startswith(
        "host1 is slow: with its ranks at their peers' speed a step would be up to 10.00 ms"
    )
    assert words(found[0].title).endswith("shorter; its ranks fall behind together, in 2 of 8 steps")
    assert "in the same steps (2 and 5), by 40.00 ms to 40.00 ms in each." in words(found[0].detail)


@pytest.mark.parametrize(
    ("slow", "id"), [((8, 9, 10, 11), "RANK.HOST"), ((8, 9, 10), "RANK.SLOW"), ((7, 8, 9, 10), "RANK.SLOW")]
)
def test_few_steps_show_a_host_only_where_all_its_ranks_fall_behind_at_once(slow, id):
    def work(rank: int, step: int, call: int) -> int:
        return 2 * MS + 9 * MS * (rank in slow and step == 1 and not call)

    found = job_findings(simulated(12, work, steps=3))[0]
    assert (found.id, set(found.ranks)) == (id, set(slow))
    assert ("fall behind together, in 1 of 3 steps" in words(found.title)) == (id == "RANK.HOST")


@pytest.mark.parametrize(("slow", "shows"), [(range(8, 16), True), ((*range(8, 15), 7), False)])
def test_every_rank_of_a_host_longer_than_any_other_shows_it_in_two_steps(slow, shows):
    """Most others are faster than the median rank by so much that none stands out by itself."""

    def work(rank: int, step: int, call: int) -> int:
        return 2 * MS - MS // 2 * (call == 1 and rank < 7) + 3 * MS * (call == 2 and rank in slow)

    found = [each.ranks for each in job_findings(simulated(16, work, steps=2)) if each.id == "RANK.HOST"]
    assert found == [tuple(slow)] * shows
