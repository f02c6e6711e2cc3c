"""Stages of a pipeline that meet in a collective with each micro batch: its passes wait for those of another stage."""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import MORE_THAN_ONE
from npu_tui.jobs.finding import Held, priced
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankCalls, is_message
from npu_tui.jobs.passes import PipelineCases, PipelineRun
from npu_tui.rules.model import Finding
from npu_tui.rules.rule import SEVERITY_MEDIUM
from npu_tui.trace.arrays import F64, I64
from npu_tui.trace.intervals import covered_within, union


def meeting_findings(job: Job) -> list[Finding]:
    """Collectives of several stages within the passes of a step: once at its end, no pass would wait in them.

    The replay knows the order of passes only. What the step takes beyond it counts as far as the stage that meets most
    is in these collectives between its passes.
    """
    runs = job.pipelines
    calls = _calls_between_stages(job)
    if not calls or not job.length:
        return []
    within = {id(run): _within_passes(run, calls) for run in runs.runs}

    def alone(case: PipelineCases) -> PipelineCases:
        return replace(case, time=np.maximum(case.time - np.stack([within[id(run)] for run in case.runs]), 0.0))

    gains, beyond = runs.gains(alone), np.array([run.length for run in runs.runs]) - runs.replayed()
    outside = np.array([_outside_passes(run, calls, within[id(run)]) for run in runs.runs])
    gain = runs.total() - runs.total(gains + np.where(gains > 0, np.clip(beyond, 0, outside), 0.0))
    if gains.sum() < SEVERITY_MEDIUM.default * job.length:
        return []
    kinds = Counter(own.kinds[kind][1] for own, rows in calls.values() for kind in own.kind[rows].tolist())
    ranks = tuple(sorted(calls))
    each = max(len(rows) for _, rows in calls.values()) // max(len(job.steps), 1)
    held = Held.of_steps(job.length, job.steps)
    waited = max(int(within[id(run)].sum()) for run in runs.runs)
    codes = "job.meeting.title", "job.meeting.detail"
    args = {"type": kinds.most_common(1)[0][0], "ranks": list(ranks[:8]), "count": each, "time": waited}
    return [priced("PIPELINE.TRANSFER", codes, ranks, gain, held, **args)]


def _calls_between_stages(job: Job) -> dict[int, tuple[RankCalls, I64]]:
    """The calls of each rank, and which are collectives of ranks in several stages, made more than once a step."""
    stage = {rank: place for run in job.pipelines.runs for place, rank in enumerate(run.ranks)}
    groups = {group.name for group in job.groups if len({stage.get(rank, -1) for rank in group.ranks} - {-1}) > 1}
    found: dict[int, tuple[RankCalls, I64]] = {}
    for profile in job.ranks if groups else ():
        own = profile.calls
        meets = np.array([group in groups and not is_message(kind) for group, kind, _ in own.kinds] + [False])[own.kind]
        rows = np.flatnonzero(meets)
        if profile.rank in stage and len(rows) >= MORE_THAN_ONE * max(len(job.steps), 1):
            found[profile.rank] = own, rows
    return found


def _within_passes(run: PipelineRun, calls: dict[int, tuple[RankCalls, I64]]) -> F64:
    """How long each pass of ``run`` is in such a collective, ns; (passes,)."""
    within = np.zeros(len(run.start))
    for place, rank in enumerate(run.ranks):
        if rank in calls:
            own, rows = calls[rank]
            passes = np.flatnonzero(run.plan.stage == place)
            start, end = (times[passes] + run.apart[place] for times in (run.start, run.end))
            within[passes] = covered_within(*union(own.start[rows], own.end[rows]), start, end)
    return within


def _outside_passes(run: PipelineRun, calls: dict[int, tuple[RankCalls, I64]], within: F64) -> float:
    """How long the stage of ``run`` that meets most is in such collectives between its passes, ns."""
    longest = 0.0
    for place, rank in enumerate(run.ranks):
        if rank in calls:
            own, rows = calls[rank]
            of_stage = run.plan.stage == place
            since, until = int(run.start[of_stage].min()), int(run.end[of_stage].max())
            met = covered_within(
                *union(own.start[rows], own.end[rows]), *(np.array([t + int(run.apart[place])]) for t in (since, until))
            )
            longest = max(longest, float(met.sum()) - float(within[of_stage].sum()))
    return longest
