"""What a job says first where no rank, stage or link is found at fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankProfile, StepTime
from npu_tui.output.job_report import verdict
from npu_tui.strings import words

MS = 1_000_000


def job(exposed: tuple[int, int], level: int, kind: str = "trace_view_json") -> Job:
    """Two ranks of three steps of 100 ms, with so many ms of exposed communication."""
    return Job(
        Path("job"),
        [
            RankProfile(
                rank,
                Path(f"rank{rank}"),
                kind,
                level=level,
                steps=tuple(StepTime(str(step), 30 * MS, ms * MS, (70 - ms) * MS, 100 * MS) for step in range(3)),
            )
            for rank, ms in enumerate(exposed)
        ],
        [],
    )


@pytest.mark.parametrize(("level", "why"), [(0, "record Level1"), (1, "use --traces")])
def test_exposed_communication_without_a_cause_leads_and_says_what_would_tell(level, why):
    said = words(verdict(job((25, 40), level), []))
    assert said.startswith(
        "cause not known: rank 1 spends 40.00 ms of 100.0 ms a step (40.0%) in exposed communication"
    )
    assert said.endswith(why)


def test_a_job_that_hides_its_communication_has_nothing_to_explain():
    assert "cause not known" not in words(verdict(job((5, 20), 1), []))
