"""What ranks wait for one that does not record yet is the start of the profilers, not of the job."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_hand import ByHand

from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.opening import open_job


def _ranks(folder: Path, skew: float, works: float = 0.0, count: int = 40, ranks: int = 2, steps: bool = False) -> Job:
    """The last rank records ``skew`` us later; before its first collective it works for ``works`` us more."""
    for rank in range(ranks):
        last = rank == ranks - 1
        trace = ByHand(began=skew - works if last else 0.0)
        for k in range(count):
            begin = 500.0 * k + (0 if last else skew) + (works if last else 0)
            wait = skew if not k and not last else 0.0
            first = begin if k else (0.0 if last else begin - skew)
            if steps and k % 10 == 0:
                trace.step(k // 10, first if not k else begin, 5000 + (0 if k or last else skew))
            work = 300 + (works if last and not k else 0)
            if not k:
                trace.launch("aclnnMm_MatMulV2_MatMulV2", first + 2, first + 4, work)
            else:
                trace.launch("aclnnMm_MatMulV2_MatMulV2", begin + 2, begin + 4, 300)
            trace.group(f"hcom_allReduce__042_{k}_1", begin + 310 - wait, 50 + wait)
        trace.write(folder, rank)
    return open_job(folder)


@pytest.mark.parametrize(("ranks", "steps", "skew"), [(2, False, 4e6), (3, False, 60_000.0), (2, True, 2e6)])
def test_a_recording_that_begins_later_is_no_late_rank(tmp_path: Path, ranks: int, steps: bool, skew: float) -> None:
    job = _ranks(tmp_path, skew, ranks=ranks, steps=steps)
    assert job.skewed.sum() == 1
    assert len(job.blamed) == 39
    exposed = [sum(step.exposed for step in profile.steps) for profile in job.ranks]
    assert max(exposed) - min(exposed) < 1_000_000
    found = job_findings(job)
    assert {each.severity for each in found if each.id != "COMM.EXPOSED"} == {"info"}
    (skewed,) = (each for each in found if each.title.code == "job.skew.title")
    assert skewed.ranks == (ranks - 1,)


def test_a_rank_that_works_longer_is_late(tmp_path: Path) -> None:
    """It records all the while, so its lateness is its own."""
    job = _ranks(tmp_path, 50_000.0, works=50_000.0)
    assert not job.skewed.any()
    assert int(job.blamed.cost.max()) == pytest.approx(50_000_000, rel=0.01)
    assert job.ranks[int(job.blamed.last[0])].rank == 1
