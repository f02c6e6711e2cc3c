"""What is wrong with the pipelines of a job: few micro batches, stages that hold up the others, late messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

import numpy as np

from npu_tui.analysis.limits import EVEN, LITTLE, NOTABLE, PLACES
from npu_tui.jobs.finding import LEAST_SHARE, Held, priced
from npu_tui.jobs.job import Job
from npu_tui.jobs.passes import (
    PipelineRun,
    layers_even,
    layers_of_even,
    pairs_in_time,
    smaller_batches,
    stage_as_others,
)
from npu_tui.jobs.pipeline import PARTS, ranks_of_pairs
from npu_tui.rules.model import Evidence, Finding
from npu_tui.rules.rule import LISTED
from npu_tui.trace.message import message

# Micro batches for each stage that keep filling and draining below a third of the time (GPipe, section 2.3).
_BATCHES = 2


def pipeline_findings(job: Job) -> list[Finding]:
    """Everything about pipelines; without their passes what stages compute."""
    if job.pipelines.runs:
        return [*_few_batches(job), *_slow_passes(job), *_slow_messages(job)]
    slow, held = job.slow_stage, Held.of_steps(job.length, job.steps)
    if slow is None:
        return []
    gain = round(slow.even)
    args: dict[str, object] = {
        "stage": slow.stage,
        "ranks": list(slow.ranks[:8]),
        "count": len(slow.ranks),
        "time": round(slow.time),
        "other": slow.fastest,
        "less": round(slow.less),
        "even": gain,
    }
    return [priced("RANK.STAGE", ("job.stage.title", "job.stage.detail"), slow.ranks, gain, held, **args)]


def alone_in_stage(job: Job) -> frozenset[int]:
    """The ranks of pipelines that are the only one of their stage: no other does the same work."""
    runs, of_stage = job.pipelines.runs, defaultdict[int | None, set[int]](set)
    for profile in job.ranks if runs else ():
        of_stage[job.stage(profile.rank)].add(profile.rank)
    for run in runs:
        for stage, rank in enumerate(run.ranks):
            of_stage[stage].add(rank)
    return frozenset(min(ranks) for stage, ranks in of_stage.items() if stage is not None and len(ranks) == 1)


def _few_batches(job: Job) -> Iterator[Finding]:
    """Pipelines that mostly fill and drain: the same work in more micro batches would keep the stages busy."""
    runs = job.pipelines
    total, length = runs.total(), job.length or runs.total()
    few = max(runs.runs, key=lambda run: run.plan.stages / run.plan.micro / run.plan.chunks)
    more = _BATCHES * few.plan.stages
    if few.plan.micro * few.plan.chunks >= more or not runs.orders(more):
        return
    gain = total - runs.total(runs.gains(smaller_batches(more)))
    if gain < LEAST_SHARE * length:
        return
    fill = runs.parts[:, PARTS.index("fill")].mean()
    args = {"stages": few.plan.stages, "micro": few.plan.micro, "more": more, "fill": round(fill), "count": runs.count}
    codes, ranks = ("job.bubble.title", "job.bubble.detail"), tuple(sorted({r for run in runs.runs for r in run.ranks}))
    yield priced("PIPELINE.BUBBLE", codes, ranks, gain, Held.of_steps(length, job.steps), **args)


def _slow_passes(job: Job) -> Iterator[Finding]:
    """The stage whose passes hold up the other stages the most.

    With more kernels than the others it has more of the work, to be spread evenly; else its kernels take longer.
    """
    runs = job.pipelines
    total, length = runs.total(), job.length or runs.total()
    gains: dict[int, int] = {}
    for stage in range(min(run.plan.stages for run in runs.runs)):
        if min(_against_others(run, stage) for run in runs.runs) >= 1 + LITTLE:
            gains[stage] = total - runs.total(runs.gains(stage_as_others(stage)))
    stage = max(gains, key=gains.__getitem__, default=-1)
    if stage < 0:
        return
    ranks = tuple(profile.rank for profile in job.ranks if job.stage(profile.rank) == stage)
    ranks = ranks or tuple(sorted({run.ranks[stage] for run in runs.runs}))
    micro = sum(run.plan.micro for run in runs.runs)
    work = sum(int(run.time[run.plan.stage == stage].sum()) for run in runs.runs)
    others = sum(int(run.time[run.plan.stage != stage].sum()) / (run.plan.stages - 1) for run in runs.runs)
    held = Held.of_steps(length, job.steps)
    even, slower = total - runs.total(runs.gains(layers_even)), _has_as_many_kernels(job, ranks)
    gain = gains[stage] if slower else even
    if gain < LEAST_SHARE * length:
        return
    layers, time = runs.runs[0].layers, runs.runs[0].time.astype(np.float64)
    spread = layers_of_even(runs.runs[0].plan, time, layers)
    known = {"now": layers.tolist()[:LISTED], "then": spread.tolist()[:LISTED]}
    named = message("job.passes.ranks" if len(ranks) > 1 else "job.passes.rank", rank=ranks[0], ranks=list(ranks[:8]))
    args = {
        "stage": stage, "ranks": named, "time": work / micro, "less": others / micro,
        "even": held.each(even), "others": held.each(gains[stage]), "count": runs.count,
        "layers": message("job.passes.layers", **known) if layers.max() > 1 else "",
    }  # fmt: skip
    places = sorted(
        ((int(run.time[at]), run, at) for run in runs.runs for at in np.flatnonzero(run.plan.stage == stage).tolist()),
        key=lambda place: -place[0],
    )
    evidence = tuple(_evidence_on_device(run, at, int(run.start[at])) for _, run, at in places[:PLACES])
    form = "_slower" * slower
    codes = f"job.passes.title{form}", f"job.passes.detail{form}"
    yield priced("RANK.STAGE", codes, ranks, gain, held, evidence, **args)


def _has_as_many_kernels(job: Job, ranks: tuple[int, ...]) -> bool:
    """Whether ``ranks`` run as many kernels as ranks of other stages do."""
    counts: tuple[list[int], list[int]] = [], []
    for profile in job.ranks:
        if profile.work is not None:
            counts[profile.rank in ranks].append(int(profile.work.kernels.sum()))
    others, own = counts
    return bool(own and others) and abs(median(own) / max(median(others), 1) - 1) < EVEN


def _against_others(run: PipelineRun, stage: int) -> float:
    """How much longer the passes of a stage take than those of the others, up to their last kernels."""
    own, time = run.plan.stage == stage, run.time - run.tail
    return float(time[own].sum() * (run.plan.stages - 1) / max(time[~own].sum(), 1))


def _evidence_on_device(run: PipelineRun, at: int, since: int) -> Evidence:
    """From ``since`` to the end of pass ``at``, or to its start where that is later; on the clock of its device."""
    stage = int(run.plan.stage[at])
    until = int(run.end[at]) if since >= run.start[at] else int(run.start[at])
    return Evidence(since + int(run.apart[stage]), until + int(run.apart[stage]), rank=run.ranks[stage])


def _slow_messages(job: Job) -> list[Finding]:
    """Stages between which messages take far longer than between others, and are waited for."""
    runs, findings = job.pipelines, []
    usual_of = {pair: float(np.median(times)) for pair, times in runs.transfers().items()}
    total, length = runs.total(), job.length or runs.total()
    held = Held.of_steps(length, job.steps)
    pairs = list(usual_of)
    gain = total - runs.total(runs.gains(pairs_in_time(pairs, 0)))
    if gain >= NOTABLE * length and not runs.late_pairs():
        codes, longest = ("job.transfer.title_all", "job.transfer.detail_all"), max(usual_of.values())
        return [priced("PIPELINE.TRANSFER", codes, ranks_of_pairs(pairs), gain, held, time=longest)]
    for late, usual in runs.late_pairs():
        gain = total - runs.total(runs.gains(pairs_in_time(late, usual)))
        if gain < LEAST_SHARE * length:
            continue
        ranks = ranks_of_pairs(late)
        args = {
            "pairs": [message("job.transfer.pair", source=source, target=target) for source, target in late[:LISTED]],
            "count": len(late), "time": max(usual_of[pair] for pair in late), "usual": usual,
        }  # fmt: skip
        places = [(int(run.transfer[at]), run, at) for run in runs.runs for pair in late for at in run.between(*pair)]
        places.sort(key=lambda place: -place[0])
        evidence = tuple(_evidence_on_device(run, at, int(run.start[at]) - time) for time, run, at in places[:PLACES])
        codes = "job.transfer.title", "job.transfer.detail"
        findings.append(priced("PIPELINE.TRANSFER", codes, ranks, gain, held, evidence, **args))
    return findings
