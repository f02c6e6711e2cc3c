"""What holds up several ranks of a job at once: its pipelines (few micro batches, stages, messages), or all alike.

What all ranks have in common is told by the profile of each whose trace was read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from statistics import median

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import EVEN, HALF, LITTLE, MAINLY, MORE_THAN_ONE, NOTABLE, PLACES, SOME
from npu_tui.jobs.finding import LEAST_SHARE, Held, priced
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankCalls, RankFinding, is_message
from npu_tui.jobs.passes import (
    PipelineCases,
    PipelineRun,
    layers_even,
    layers_of_even,
    pairs_in_time,
    smaller_batches,
    stage_as_others,
)
from npu_tui.jobs.pipeline import PARTS, ranks_of_pairs
from npu_tui.jobs.rings import root_of, rooted
from npu_tui.rules.model import Evidence, Finding
from npu_tui.rules.rule import LISTED, SEVERITY_MEDIUM, lines_of, severity_of
from npu_tui.strings import words
from npu_tui.trace.arrays import F64, I64
from npu_tui.trace.intervals import covered_within, union
from npu_tui.trace.message import Message, message

# Micro batches for each stage that keep filling and draining below a third of the time (GPipe, section 2.3).
_BATCHES = 2


def pipeline_findings(job: Job) -> list[Finding]:
    """Everything about pipelines; without their passes what stages compute."""
    if job.pipelines.runs:
        meeting = meeting_findings(job)  # its passes are longer by these waits, not by their layers
        return [*_few_batches(job), *meeting, *(() if meeting else _slow_passes(job)), *_slow_messages(job)]
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

    With more kernels than the others it has more of the work, to be spread evenly; else its kernels take longer. What
    whole layers do not spread, such as an encoder in front of them, has to go elsewhere.
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
    layers, plan, time = runs.runs[0].layers, runs.runs[0].plan, runs.runs[0].time.astype(np.float64)
    layer = float((np.bincount(plan.stage, time, plan.stages) / layers).min()) / plan.micro
    by_layers = even >= LEAST_SHARE * length or (work - others) / micro < layer
    form = "_slower" * slower or "_more" * (not by_layers)
    gain = gains[stage] if form else even
    if gain < LEAST_SHARE * length:
        return
    spread = layers_of_even(plan, time, layers)
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


ALARM = SEVERITY_MEDIUM.default
"""Share of the job's time from which a cause is reported that only a sum or other ranks show."""
OF_OTHERS = ("COMM.STRAGGLER", "COMM.LINK")
"""What a rank says of others: the job sees those itself."""


def step_time(job: Job) -> Held:
    """What times of ``job`` refer to."""
    return Held.of_steps(job.length, job.steps)


def gains_of(job: Job, cases: Sequence[Sequence[int]]) -> list[int]:
    """What the job would save with all ranks of each of several sets as fast as their peers, ns."""
    place = {rank: number for number, rank in enumerate(job.blamed.ranks)}
    return job.savings.gains(
        [np.isin(job.blamed.rank, [place[rank] for rank in ranks if rank in place]) for ranks in cases]
    )


def placed(found: RankFinding) -> Message:
    """The title of what a rank found, with its line where it does not name it."""
    if found.line is None or words(line := lines_of(found.line[0], [found.line[1]])) in words(found.title):
        return found.title
    return message("job.alike.at", what=found.title, line=line)


def lost_by_all(job: Job, first: Finding | None) -> list[Finding]:
    """What holds up all ranks alike, by the profile of each rank with a trace: what gains most in all comes first.

    Beside the ``first`` finding of the job only what each rank loses more by counts, or all of them twice as much, or
    more by turns; and what it does itself: its communication may be waiting for what the job has found.
    """
    found = None if first is None else first.gain_ns or 0
    beyond = 1.0 if first is not None and first.id == "RANK.WANDER" else HALF
    examined = [profile for profile in job.ranks if profile.recorded is not None]
    own = [
        {
            row.about: row
            for row in reversed(profile.findings)
            if row.is_cause and row.id not in OF_OTHERS and (found is None or row.cls != "communication")
        }
        for profile in examined
    ]
    shared = set(own[0]).intersection(*own[1:]) if len(own) > 1 and job.length else set()
    every_rank = len(own)
    if not shared and found is None and (of_stages := _of_most_stages(job, own)) is not None:
        shared, having = {of_stages}, [of_stages in each for each in own]
        examined = [each for each, has in zip(examined, having, strict=True) if has]
        own = [each for each, has in zip(own, having, strict=True) if has]
    if not shared:
        return []
    # Without a cause the job is as long as the rank that gains least; the others are without it as well. A rank that
    # waited for those that have more of it waits less, but the job gains no more than one rank does in each step.
    alone = {about: [round(_alone_sum(each[about])) for each in own] for about in shared}
    # Stages wait for what others of them work, which stays.
    waits = [0] * len(own) if len(own) < every_rank else _waits_for_slower(job, [each.rank for each in examined])
    every = {
        about: round(min(_longest_of_each([each[about] for each in own]), *map(sum, zip(times, waits, strict=True))))
        for about, times in alone.items()
    }
    told: list[Finding] = []
    held = step_time(job)
    # A cause that is half of all exposed communication says more than that sum.
    weight = {about: every[about] * (HALF if own[0][about].id == "COMM.EXPOSED" else 1) for about in shared}
    for about in sorted(shared, key=lambda about: (-weight[about], repr(about))):
        gain = every[about]
        place = min(range(len(own)), key=lambda place: abs(alone[about][place] - gain))
        row = own[place][about]
        least, most = min(alone[about]) // row.count, max(alone[about]) // row.count
        if gain < ALARM * job.length or (found is not None and least * row.count <= found >= beyond * gain):
            continue
        count, of = len(examined), len(job.ranks) + len(job.missing)
        what = placed(row)
        if seen := _seen_in(job, [each[about] for each in own]):
            words_of = {"count": len(seen), "all": len(job.steps), "named": seen[:LISTED]}
            what = message(f"job.alike.steps{'_first' * (len(seen) > LISTED)}", what=what, **words_of)
        if (more := gain > (1 + LITTLE) * alone[about][place]) or most > (1 + NOTABLE) * least:  # not those of all
            words_of = {"rank": examined[place].rank, "gain": held.each(gain), **held.words}
            what = message(f"job.alike.{'gains' if more else 'of'}", what=what, **words_of)
        code = "most" if count < every_rank else "all" if count == of else "some"
        title = message(f"job.alike.{code}", count=count, of=of, what=what)
        args = {"least": least, "most": most, "share": gain / job.length, "gain": held.each(gain), **held.words}
        args |= {"rank": examined[place].rank}
        code = "again" if told else "detail" if found is None else "detail_more"
        detail = message("list.sentences", parts=[message(f"job.alike.{code}", **args), *row.advice])
        if row.title.code == "finding.needless.sent.title" and (root := root_of(job)):
            title, detail = rooted(root, what, gain / job.length, held)
        ranks = tuple(profile.rank for profile in examined)
        told.append(Finding(row.id, row.cls, severity_of(None, gain / job.length), title, detail, gain_ns=gain,
                            unit="run", ranks=ranks))  # fmt: skip
    return told


def _of_most_stages(job: Job, own: Sequence[dict[Hashable, RankFinding]]) -> Hashable | None:
    """The cause that most stages of a pipeline have, whose first and last one do other work; None without one.

    Of several it is the one by which each loses most.
    """
    if max((len(run.ranks) for run in job.pipelines.runs), default=0) < SOME:
        return None
    having = Counter(about for each in own for about in each)
    often = [about for about, count in having.items() if count >= MAINLY * len(own)]
    least = {about: min(_alone_sum(each[about]) for each in own if about in each) for about in often}
    return max(least, key=lambda about: (least[about], repr(about)), default=None)


def _seen_in(job: Job, rows: Sequence[RankFinding]) -> list[str]:
    """The steps in which a rank of ``rows`` loses by them, where some are left out; empty where not all say it."""
    if {len(row.by_step) for row in rows} != {len(job.steps)}:
        return []
    times = np.array([row.by_step for row in rows], np.int64)
    lost = (times > NOTABLE * times.max()).any(axis=0)
    return [] if lost.all() else [step for step, there in zip(job.steps, lost.tolist(), strict=True) if there]


def _alone(row: RankFinding) -> list[float]:
    """What the rank gains in each step, ns, as recorded or with the others in time; in sum where no step is known."""
    most, whole = max(row.gain, row.freed) * row.count, sum(row.by_step)
    return [most * time / whole for time in row.by_step] if whole else [float(most)]


def _alone_sum(row: RankFinding) -> float:
    return sum(_alone(row))


def _longest_of_each(rows: Sequence[RankFinding]) -> float:
    """The sum of what the rank of ``rows`` that gains most gains in each step, where all know their steps, ns."""
    steps = [*map(_alone, rows)]
    return sum(map(max, zip(*steps, strict=True))) if len({*map(len, steps)}) == 1 else max(map(sum, steps))


def _waits_for_slower(job: Job, ranks: Sequence[int]) -> list[int]:
    """How long each of ``ranks`` waits for ranks that are slower than it, ns."""
    slower = {row.rank: row.own for row in job.sums}
    most = gains_of(job, [[*slower]])[0] if slower else 0
    return [max(most - max(slower.get(rank, 0), 0), 0) for rank in ranks]


# --- stages that meet in a collective with each micro batch: passes wait for those of another stage


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
