"""The tables of the pipelines of a job: what each step is made of, its stages, and every pass.

Times are in us as in the other tables of a job. ``make`` of a table takes the job.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from npu_tui.analysis.graph import KINDS, Schedule
from npu_tui.jobs.passes import stage_as_others
from npu_tui.jobs.pipeline import PARTS
from npu_tui.profile.table import Column, TableSheet, columns, from_tuples, table, us

if TYPE_CHECKING:  # as in the other tables of a job
    from npu_tui.jobs.job import Job

_PARTS = " ".join(PARTS)
_OWN: dict[str, Column] = {
    **columns(
        "real", "µs", "time", f"{_PARTS} length bubble forward backward idle gain start duration waited transfer"
    ),
    **columns("whole", "", "count", "stages micro_batches chunks"),
    **columns("whole", "", "id", "stage chunk micro_batch start_ns"),
    **columns("label", "", "word", "in_step pipeline"),
    **columns("label", "", "word", "schedule", "pipeline.schedule"),
    **columns("label", "", "word", "kind", "pipeline.pass"),
    **columns("rows", "", "word", "ranks"),
}
_table = partial(table, own=_OWN, subject="part")


def pipelines(job: Job) -> TableSheet:
    """Every step of every pipeline: ``PARTS`` add up to its length, all but the first to the mean bubble of a stage."""
    rows = []
    for run, parts in zip(job.pipelines.runs, job.pipelines.parts.tolist(), strict=True):
        plan = run.plan
        head = run.step, name_of(run.ranks), list(run.ranks), plan.schedule, plan.stages, plan.micro, plan.chunks
        rows.append((*head, us(run.length), *map(us, parts), us(sum(parts[1:]))))
    return from_tuples(
        rows, f"in_step pipeline ranks schedule stages micro_batches chunks length {_PARTS} bubble", _OWN
    )


def name_of(ranks: tuple[int, ...]) -> str:
    """What a pipeline is called: its ranks by stage, 0-2-4-6."""
    return "-".join(map(str, ranks))


PIPELINES = _table(
    "pipelines",
    pipelines,
    sql=f"in_step pipeline schedule stages micro_batches chunks length {_PARTS} bubble",
    json=f"step=in_step ranks schedule stages micro_batches chunks length {_PARTS} bubble",
    page=f"step=in_step pipeline schedule micro=micro_batches length bubble {' '.join(PARTS[1:])}",
    panel=f"step=in_step pipeline schedule micro=micro_batches length bubble {' '.join(PARTS[1:])}",
    section="pipelines",
    row="PipelineRow",
    about="A step of a pipeline; its parts from ``compute_us`` to ``rest_us`` add up to ``length_us``.",
    types={"ranks": list[int], "schedule": Schedule},
)


def stages(job: Job) -> TableSheet:
    """Every stage over all steps: its mean passes, how long it ran none in a step, and what it would gain as others."""
    runs, rows = job.pipelines, []
    total, count = runs.total(), max(runs.count, 1)
    for stage in range(max((run.plan.stages for run in runs.runs), default=0)):
        of_stage = [run for run in runs.runs if stage < run.plan.stages]
        times: list[list[int]] = [[], []]
        for run in of_stage:
            for back in (False, True):
                times[back] += run.time[(run.plan.stage == stage) & (run.plan.kind == back)].tolist()
        micro = sum(run.plan.micro for run in of_stage)
        rows.append(
            (
                stage, sorted({run.ranks[stage] for run in of_stage}), *(us(sum(each) / micro) for each in times),
                us(sum(run.idle(stage) for run in of_stage) / len(of_stage)),
                us(max(total - runs.total(runs.gains(stage_as_others(stage))), 0) / count),
            )
        )  # fmt: skip
    return from_tuples(rows, "stage ranks forward backward idle gain", _OWN)


STAGES = _table(
    "stages",
    stages,
    sql="stage forward backward idle gain",
    json="stage ranks forward backward idle gain",
    page="stage ranks forward back=backward idle saves=gain",
    panel="stage ranks forward back=backward idle saves=gain",
    section="stages",
    row="StageRow",
    about="A stage of the pipelines: means of a micro batch; ``idle_us`` and ``gain_us`` of a step.",
    types={"ranks": list[int]},
)


def passes(job: Job, longest: bool = False) -> TableSheet:
    """Every pass of all runs, or of the ``longest`` ones, by stage and in its order.

    ``waited`` is how long the stage ran none before it.
    """
    rows = []
    for run in job.pipelines.longest if longest else job.pipelines.runs:
        plan, begun = run.plan, int(run.start.min())
        free = np.where(plan.before >= 0, run.end[plan.before], begun)
        for at, stage in enumerate(plan.stage.tolist()):
            waited = int(max(run.start[at] - free[at], 0))
            rows.append(
                (
                    run.step, name_of(run.ranks), stage, run.ranks[stage], int(plan.chunk[at]), int(plan.number[at]),
                    KINDS[plan.kind[at]], us(int(run.start[at]) - begun), us(int(run.time[at])), us(waited),
                    us(min(int(run.transfer[at]), waited)), int(run.start[at] + run.apart[stage]),
                )
            )  # fmt: skip
    return from_tuples(rows, f"in_step {_OF_PASSES}", _OWN)


_OF_PASSES = "pipeline stage rank chunk micro_batch kind start duration waited transfer start_ns"
PASSES = _table(
    "passes",
    passes,
    sql=f"in_step {_OF_PASSES}",
    json=f"step=in_step {_OF_PASSES}",
    section="passes",
    options={"longest": True},
    row="PassRow",
    about="A pass of a micro batch; ``start_us`` counts from the first one of its step, ``start_ns`` is by its device.",
    types={"kind": Literal["forward", "backward"]},
)
