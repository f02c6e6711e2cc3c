"""Stages of a pipeline that meet in a collective with every micro batch: told with what a step is without that."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from pipeline_jobs import Spec, healthy, job_of, write

from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankCalls, RecordedCall
from npu_tui.strings import words

LONGER = 0.8
"""The part that the passes of the last stage take longer: they meet the first one then."""


@pytest.mark.parametrize("between", [True, False])
def test_stages_that_meet_with_every_micro_batch_are_told_by_that(between: bool, tmp_path: Path) -> None:
    """Passes that wait in a collective are no sign of more layers; one within a stage is none between stages."""
    spec = Spec(slow=(3, LONGER))
    job, step = job_of(spec, tmp_path)
    ranks = {profile.rank: profile for profile in job.ranks}
    for run in job.pipelines.runs:
        own = run.plan.stage == 3
        for at, (start, end) in enumerate(zip(run.start[own].tolist(), run.end[own].tolist(), strict=True)):
            waited = round((end - start) * LONGER / (1 + LONGER))
            # The other one comes last, and the transfer takes no time.
            for rank, took in ((3, waited), (0, 1_000)) if between else ((3, waited),):
                until = end + int(run.apart[rank])
                name = f"hcom_allReduce__9_{run.step}{at:03d}_1"
                call = RecordedCall("embd", "allReduce", name, run.step, at, until - took, until)
                ranks[rank] = replace(ranks[rank], calls=RankCalls.of([*ranks[rank].calls, call]))
    told = job_findings(Job(job.path, [*ranks.values()]))[0]
    if between:
        assert told.id == "PIPELINE.TRANSFER"
        assert words(told.title).startswith("pipeline stages meet in allReduce with every micro batch")
        assert (told.gain_ns or 0) / spec.steps == pytest.approx(step - write(healthy(spec), None), rel=0.1)
    else:
        assert told.id == "RANK.STAGE"
