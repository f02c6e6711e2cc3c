"""Several slow ranks at once, in a job of few steps, and a job in which ranks differ by chance only."""

from __future__ import annotations

import pytest
from made_jobs import simulated

from npu_tui.jobs.findings import job_findings
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
    assert alone["gain"] == pytest.approx(4 * MS * (steps - 1), rel=0.01)  # nothing is known before the first call
    assert both["gain"] == lead.gain == pytest.approx(30 * MS * (steps - 1), rel=0.01)
    assert "rank 2 alone saves" in words(lead.detail)
    assert "with rank 5 as well" in words(lead.detail)


def test_one_slow_rank_is_not_several():
    job = simulated(8, lambda rank, step, call: 2 * MS + (9 * MS if rank == 4 else 0), steps=3)
    assert [(each.id, each.ranks) for each in job_findings(job)] == [("RANK.SLOW", (4,))]


def test_ranks_that_differ_by_chance_are_not_slow():
    job = simulated(4, lambda rank, step, call: 2 * MS + (rank * 7 + step * 5 + call * 3) % 11 * 8_000, steps=3)
    assert [each for each in job_findings(job) if each.severity != "info"] == []
