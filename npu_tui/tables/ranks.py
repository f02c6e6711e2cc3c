"""The table about the ranks of a job."""

from __future__ import annotations

from npu_tui.profile.table import Column, Sheet, column_of, table
from npu_tui.report.job.schema import JobReport

_TIMES = [
    "step",
    "computing",
    "communication_not_overlapped",
    "free",
    "own_excess",
    "inherited",
    "job_waits",
    "gain",
    "clock_offset",
]


def ranks(found: JobReport) -> Sheet:
    """The rows of the report about a job."""
    rows = found.rank_table
    values = {
        each.id: [getattr(row, f"{each.id}_us" if each.unit == "µs" else each.id) for row in rows] for each in RANKS.sql
    }
    return Sheet(len(rows), {each.id: column_of(each, values[each.id]) for each in RANKS.sql})


RANKS = table(
    "ranks",
    ranks,
    sql="rank host step computing communication_not_overlapped free own_excess inherited came_last collectives "
    "job_waits gain shape clock_offset",
    own=[Column(each, "real", "µs", "time") for each in _TIMES],
)
