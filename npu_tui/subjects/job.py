"""A job of several ranks, or what was kept of one: summaries, the output of a cluster analysis, loads of experts."""

from __future__ import annotations

from npu_tui.jobs.change_tables import JOB_DIFFERENCES
from npu_tui.jobs.finding import JOB_FINDINGS
from npu_tui.subjects.declaration import Subject, Without

SUBJECT = Subject(
    id="job",
    of_several=True,
    findings=lambda: JOB_FINDINGS,
    differences=lambda: JOB_DIFFERENCES,
    without={
        "compare": Without(("step", "map", "eager"), "against.options"),
        "check": Without(("baseline", "write_baseline", "range", "step"), "gate.job.alone"),
    },
    refusals={"timeline": "mcp.is_job"},
)
