"""The tables of what a job has beside its ranks: experts, pipelines, roles, the path across the ranks.

Times are in us: for experts means of a step, or of the run where no steps are recorded; times of the day of roles count
from the first stint. ``make`` of a table takes the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npu_tui.analysis.experts import layer_sums
from npu_tui.analysis.graph import KINDS, Schedule
from npu_tui.analysis.path import PathKind
from npu_tui.jobs.expert_loads import layer_loads
from npu_tui.jobs.passes import stage_as_others
from npu_tui.jobs.pipeline import PARTS
from npu_tui.jobs.roles import last_of
from npu_tui.profile.finding_tables import OWN, PlaceRow, owner_columns
from npu_tui.profile.table import Column, TableSheet, attributes, columns, from_tuples, numbers, table, us
from npu_tui.strings import words

if TYPE_CHECKING:
    from npu_tui.jobs.job import Job
    from npu_tui.jobs.model import RankFinding
    from npu_tui.jobs.path import JobOwner, JobPath

_OF_EXPERTS: dict[str, Column] = {
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
    return from_tuples(rows, "layer role passes mean_work slowest most_work uneven job_waits", _OF_EXPERTS)


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
    own=_OF_EXPERTS,
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
    return from_tuples(rows, "layer rank role passes tokens work backward dispatch combine fused", _OF_EXPERTS)


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
    own=_OF_EXPERTS,
    subject="part",
)


_PARTS = " ".join(PARTS)
_OF_PIPELINES: dict[str, Column] = {
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
_pipeline_table = partial(table, own=_OF_PIPELINES, subject="part")


def pipelines(job: Job) -> TableSheet:
    """Every step of every pipeline: ``PARTS`` add up to its length, all but the first to the mean bubble of a stage."""
    rows = []
    for run, parts in zip(job.pipelines.runs, job.pipelines.parts.tolist(), strict=True):
        plan = run.plan
        head = run.step, name_of(run.ranks), list(run.ranks), plan.schedule, plan.stages, plan.micro, plan.chunks
        rows.append((*head, us(run.length), *map(us, parts), us(sum(parts[1:]))))
    return from_tuples(
        rows, f"in_step pipeline ranks schedule stages micro_batches chunks length {_PARTS} bubble", _OF_PIPELINES
    )


def name_of(ranks: tuple[int, ...]) -> str:
    """What a pipeline is called: its ranks by stage, 0-2-4-6."""
    return "-".join(map(str, ranks))


PIPELINES = _pipeline_table(
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
    return from_tuples(rows, "stage ranks forward backward idle gain", _OF_PIPELINES)


STAGES = _pipeline_table(
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
    return from_tuples(rows, f"in_step {_OF_PASSES}", _OF_PIPELINES)


_OF_PASSES = "pipeline stage rank chunk micro_batch kind start duration waited transfer start_ns"
PASSES = _pipeline_table(
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


_OF_ROLES: dict[str, Column] = {
    **columns("label", "", "name", "role waits_for last_role"),
    **columns("label", "", "word", "in_step known_by"),
    **columns("whole", "", "count", "replicas rank_count step_count"),
    **columns("real", "µs", "time", "works waits waited start end median_end tail"),
}
_role_table, _role_sheet = partial(table, own=_OF_ROLES, subject="job"), partial(from_tuples, own=_OF_ROLES)


def roles(job: Job) -> TableSheet:
    """Every role in the order in which they begin; ``waits`` are those on idle cards, for other ranks in all."""
    rows: list[Sequence[Any]] = []
    known = job.roles
    for row in known.sums if known else ():
        waits = row.waits or {}
        most = max(waits, key=waits.__getitem__, default=None)
        share = row.time / known.length if known else None
        rows.append(
            (
                row.role, row.ranks, len(row.places), row.steps, us(row.time), share,
                None if row.waits is None else us(sum(waits.values())), most, us(waits[most]) if most else None,
                us(row.after),
            )
        )  # fmt: skip
    return _role_sheet(rows, "role rank_count replicas step_count works share waits waits_for waited tail")


ROLES = _role_table(
    "roles",
    roles,
    sql="role rank_count replicas step_count works share waits waits_for waited tail",
    json="role ranks=rank_count replicas steps=step_count works share waits? waits_for? waited? tail",
    page="role ranks=rank_count steps=step_count works share waits_for waited tail",
    panel="role ranks=rank_count replicas steps=step_count works share waits waits_for waited tail",
    section="roles",
    row="RoleRow",
    about="A role, means a step and rank; ``tail_us`` is how long after the median rank its last one ends.",
)


def role_steps(job: Job) -> TableSheet:
    """Every role in every step: when it begins, when the median rank ends, and which one is the last."""
    rows: list[Sequence[Any]] = []
    known = job.roles
    for own in known.by_role_step.values() if known else ():
        lasts = last_of(own)
        last, middle = max(lasts, key=lambda span: span.end), median(span.end for span in lasts)
        first = known.spans[0].start if known else 0
        times = (own[0].start - first, last.end - first, middle - first, last.end - middle)
        rows.append((last.role, last.step, len(lasts), *map(us, times), last.place, last.rank))
    return _role_sheet(rows, "role in_step rank_count start end median_end tail last_role last_rank")


ROLE_STEPS = _role_table(
    "role_steps",
    role_steps,
    sql="role in_step rank_count start end median_end tail last_role last_rank",
    json="role step=in_step ranks=rank_count start end median_end tail last_role last_rank",
    page="role step=in_step start median_end end tail last_role last_rank",
    section="role_steps",
    row="RoleStepRow",
    about="A role in a step; times count from the first stint of the job.",
)


def stints(job: Job) -> TableSheet:
    """Every stint by its start."""
    spans = job.roles.spans if job.roles else []
    first = spans[0].start if spans else 0
    rows = [
        (span.place, span.rank, span.step, us(span.start - first), us(span.end - first), span.known_by)
        for span in spans
    ]
    return _role_sheet(rows, "role rank in_step start end known_by")


STINTS = _role_table(
    "stints",
    stints,
    sql="role rank in_step start end known_by",
    json="role rank step=in_step start end known_by",
    section="stints",
    row="StintRow",
    about="When a rank worked as a role; ``known_by`` a range, the first and last work of its device, or its calls.",
)


_OF_PATH = {
    **OWN,
    **columns("real", "µs", "time", "start end duration on_path gain"),
    **columns("flag", "", "word", "recorded"),
}
_path_table, _path_sheet = partial(table, own=_OF_PATH, subject="job"), partial(from_tuples, own=_OF_PATH)


def _path_of(job: Job, path: JobPath | None) -> JobPath:
    if path is not None:
        return path
    from npu_tui.jobs.path import job_path  # a walk needs the replay

    return job_path(job)


def _finding_of(owner: JobOwner, findings: Sequence[RankFinding]) -> str | None:
    """The first of the ``findings`` of its rank that is about ``owner``, which one could do without."""
    line = None if owner.where is None else (owner.where.file, owner.where.line)
    return next((row.id for row in findings if owner.gain is not None and row.explains(owner.text, line)), None)


def owners(job: Job, path: JobPath | None = None) -> TableSheet:
    """The owners of the ``path`` of ``job``, most time first."""
    told = _path_of(job, path)
    rows, known = told.owners, {profile.rank: profile.findings for profile in job.ranks}
    about = owner_columns([(owner, owner.text, owner.name) for owner in rows])
    figures = attributes(
        rows,
        "rank",
        _OF_PATH,
        on_path=lambda owner: us(owner.on_path),
        ratio=lambda owner: owner.on_path / told.length,
        gain=lambda owner: us(told.gain_of(owner)),
        finding=lambda owner: _finding_of(owner, known.get(owner.rank, ())),
        per=lambda owner: told.unit,
        count=lambda owner: told.count,
    )
    return TableSheet(len(rows), {"number": numbers(np.arange(1, len(rows) + 1)), **about, **figures})


JOB_OWNERS = _path_table(
    "job_owners",
    owners,
    sql="number rank kind doing title name file line function thread stretches on_path ratio gain per count",
    json="number rank? kind doing title name where? thread? count=stretches on_path ratio gain? finding?",
    page="rank what=title kind share=ratio time=on_path gain",
    row="JobOwnerRow",
    about="""Whose some stretches of the path of a job are: what ``rank`` does then (None: no task names it).

    ``title`` says it in a few words. A rank that is not recorded is ``late_rank``, and holds the path for as long as
    others waited for it. By ``gain_us`` one of what the path's ``per`` names is shorter without it: at no collective by
    more than the rank came after the second. ``finding`` is that of the rank alone which is about the owner.
    """,
    types={"kind": PathKind, "where": PlaceRow},
)


def rank_shares(job: Job, path: JobPath | None = None) -> TableSheet:
    """How long each rank holds the ``path`` of ``job``, most time first."""
    told = _path_of(job, path)
    rows = [(share.rank, us(share.on_path), share.on_path / told.length, share.recorded) for share in told.ranks]
    return _path_sheet(rows, "rank on_path ratio recorded")


RANK_SHARES = _path_table(
    "rank_shares",
    rank_shares,
    json="rank? on_path ratio recorded",
    row="RankShareRow",
    about="How long a rank holds the path of a job; ``recorded``: its trace says by what.",
)


def stretches(job: Job, path: JobPath | None = None) -> TableSheet:
    """Every stretch of the ``path`` of ``job``: each begins where the one before ends."""
    rows = [
        (
            us(one.start), us(one.end), us(one.end - one.start), one.rank, one.kind, one.lane or None,
            one.name or words(told.owners[one.owner].text), one.owner + 1, one.owner,
        )
        for told in (_path_of(job, path),)
        for one in told.stretches
    ]  # fmt: skip
    return _path_sheet(rows, "start end duration rank kind lane name owner index")


JOB_PATH = _path_table(
    "job_path",
    stretches,
    sql="start end duration rank kind lane name owner",
    json="start end rank? kind lane? name owner=index",
    row="JobStretchRow",
    about="""A stretch of the path of a job, from where the path begins, on the clock of the first rank.

    It begins where the one before ends. ``owner`` is the index of whose it is in ``owners``, from 0.
    """,
    types={"kind": PathKind},
)
