"""The tables of the experts of a job: what the slowest rank of each MoE layer costs, and what every rank spends on it.

Times are means of a step in us, of the run where no steps are recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npu_tui.analysis.experts import layer_sums
from npu_tui.jobs.expert_loads import layer_loads
from npu_tui.profile.table import Column, TableSheet, columns, from_tuples, table

if TYPE_CHECKING:  # a job is not needed to name its tables
    from npu_tui.jobs.job import Job

_OWN: dict[str, Column] = {
    **columns("whole", "", "id", "layer slowest"),
    **columns("real", "µs", "time", "mean_work most_work job_waits work backward dispatch combine"),
    **columns("whole", "", "count", "passes"),
    **columns("real", "", "ratio", "uneven"),
    **columns("real", "", "mean_count", "tokens"),
    **columns("flag", "", "word", "fused"),
    **columns("label", "", "word", "role"),
}


def expert_layers(job: Job) -> TableSheet:
    """Every MoE layer in which ranks exchange tokens, by its number."""
    steps = max(len(job.steps), 1) * 1e3
    rows = [
        (
            load.layer, job.role, load.passes, round(load.mean / steps, 3), job.ranks[load.slowest].rank,
            round(load.most / steps, 3), round(load.uneven, 3), round(load.cost / steps, 3),
        )
        for load in layer_loads(job)
    ]  # fmt: skip
    return from_tuples(rows, "layer role passes mean_work slowest most_work uneven job_waits", _OWN)


_COLUMNS = "layer role passes mean_rank=mean_work slowest its_time=most_work times_mean=uneven waits=job_waits"
EXPERT_LAYERS = table(
    "expert_layers",
    expert_layers,
    sql="layer role passes mean_work slowest most_work uneven job_waits",
    json="layer role? passes mean_work slowest most_work uneven job_waits",
    page=_COLUMNS,
    panel=_COLUMNS,
    section="expert_layers",
    row="ExpertLayerRow",
    about="""A MoE layer of a job, counted from 0; times are means of a step, of the run where there are no steps.

    ``mean_work_us`` is the time of the products of experts on the mean rank, ``most_work_us`` on ``slowest``, the rank
    that is waited for longest; ``uneven`` the longest times over the means, ``job_waits_us`` how long the ranks wait
    for the load of the slowest.
    """,
    own=_OWN,
    subject="part",
)


def expert_ranks(job: Job) -> TableSheet:
    """Every rank in every MoE layer of it, by layer, the one with most work first."""
    steps = max(len(job.steps), 1) * 1e3
    rows: list[tuple[Any, ...]] = []
    for profile in job.ranks:
        for row in layer_sums(profile.experts):
            times = (None if time is None else round(time / steps, 3)
                     for time in (row.work, row.backward, row.dispatch, row.combine))  # fmt: skip
            tokens = None if row.tokens is None else round(row.tokens, 1)
            rows.append((row.layer, profile.rank, job.role, len(row.passes), tokens, *times, row.fused))
    rows.sort(key=lambda row: (row[0], -(row[5] or 0), row[1]))
    return from_tuples(rows, "layer rank role passes tokens work backward dispatch combine fused", _OWN)


EXPERT_RANKS = table(
    "expert_ranks",
    expert_ranks,
    sql="layer rank role passes tokens work backward dispatch combine fused",
    json="layer rank role? passes tokens? work backward dispatch? combine? fused",
    page="layer rank role passes tokens work its_backward=backward dispatch combine",
    section="expert_ranks",
    row="ExpertRankRow",
    about="""A rank in a MoE layer; times are means of a step, of the run where there are no steps.

    ``work_us`` are the products of experts, ``backward_us`` the part of it that the backward pass launched.
    ``dispatch_us`` and ``combine_us`` are the exchanges before and after, with the waits for other ranks, null where
    none is recorded; ``tokens`` the mean of rows that a pass computes, null without shapes.
    """,
    own=_OWN,
    subject="part",
)
