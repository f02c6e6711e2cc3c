"""When the ranks of a job pass what its replay knows once something is changed: passes of a pipeline, collectives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from npu_tui.jobs.columns import F64, I64
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankProfile
from npu_tui.jobs.passes import Change
from npu_tui.jobs.slowness import Reduction
from npu_tui.load.build import build_trace
from npu_tui.load.json_reader import WholeColumns
from npu_tui.trace.args import ArgReader
from npu_tui.trace.model import Health, Trace

Moments = Mapping[int, tuple[I64, I64]]
"""For a rank the moments that were recorded, ns since 1970 on the clock of its device, and how much sooner each is
then, ns; (n,) each."""


def moments_of_collectives(job: Job, reduction: Reduction, gain: int) -> Moments:
    """The arrivals at collectives, when the ranks left them, and their ends, with ``reduction``.

    The job ends ``gain`` ns sooner: where it gains less than its collectives do, all are moved by less.
    """
    blamed, table = job.blamed, job.blamed.met.table
    sooner_begun, sooner_left = job.savings.time_saved(reduction)
    ends = job.savings.time_saved_at_end(reduction)
    saved = job.savings.saved([reduction])[0]
    part = min(gain / saved, 1.0) if saved else 0.0
    found: dict[int, tuple[I64, I64]] = {}
    for place, profile in enumerate(job.ranks):
        own = np.flatnonzero((blamed.rank == place) & (blamed.call >= 0))
        call = blamed.call[own]
        left = np.maximum(blamed.end - blamed.come[blamed.row], 0)[own]
        end = table.end[call]
        recorded = np.concatenate((table.start[call], np.maximum(end - left, table.start[call]), end))
        sooner = np.concatenate((sooner_begun[own], sooner_left[own], sooner_left[own]))
        if place in ends:
            after, by = ends[place]
            recorded, sooner = np.append(recorded, end.max() + after), np.append(sooner, by)
        found[profile.rank] = recorded, np.rint(part * sooner).astype(np.int64)
    return found


def moments_of_passes(job: Job, changes: Sequence[Change]) -> Moments:
    """The begins and ends of the passes of every pipeline with ``changes``; between two steps every rank is as much
    sooner as the pipelines have become shorter by then.
    """
    runs = job.pipelines
    sooner, shorter = runs.sooner(*changes), runs.gains(*changes)
    steps: dict[str, list[int]] = defaultdict(list)
    for number, run in enumerate(runs.runs):
        steps[run.step].append(number)
    found: dict[int, list[tuple[I64, F64]]] = defaultdict(list)
    clock = {profile.rank: at for profile, at in zip(job.ranks, job.clocks, strict=True)}
    before = 0.0
    for numbers in steps.values():
        lengths = [runs.runs[number].length for number in numbers]
        gain = max(lengths) - max(length - shorter[number] for length, number in zip(lengths, numbers, strict=True))
        begin = min(int(runs.runs[number].start.min()) for number in numbers)
        end = max(int(runs.runs[number].end.max()) for number in numbers)
        for profile in job.ranks:
            apart = clock[profile.rank].offset
            found[profile.rank].append((np.array([begin, end]) + apart, np.array([before, before + gain])))
        for number in numbers:
            run, (begun, ended) = runs.runs[number], sooner[number]
            for stage, rank in enumerate(run.ranks):
                own = run.plan.stage == stage
                times = np.concatenate((run.start[own], run.end[own])) + int(run.apart[stage])
                found[rank].append((times, before + np.concatenate((begun[own], ended[own]))))
        before += gain
    return {
        rank: (
            np.concatenate([times for times, _ in rows]),
            np.rint(np.concatenate([by for _, by in rows])).astype(int),
        )
        for rank, rows in found.items()
    }


def waiting_rank(job: Job, rank: int) -> int | None:
    """The rank of ``job`` that waits longest of those which wait for ``rank``: a stage of its pipeline, else at
    collectives; None without another rank.
    """
    idle: Counter[int] = Counter()
    for run in job.pipelines.runs:
        if rank in run.ranks:
            idle.update({other: run.idle(stage) for stage, other in enumerate(run.ranks) if other != rank})
    if not idle:
        waits = np.bincount(job.blamed.rank, job.blamed.wait, len(job.blamed.ranks)).tolist()
        idle.update({profile.rank: waits[place] for place, profile in enumerate(job.ranks) if profile.rank != rank})
    return max(idle, key=idle.__getitem__, default=None)


def trace_of_calls(profile: RankProfile) -> Trace:
    """What is known of a rank whose timeline is not there: its passes, and its calls by group."""
    whole, calls = WholeColumns(), profile.calls
    lanes: dict[tuple[int, str], list[tuple[str, int, int]]] = defaultdict(list)
    if (passes := profile.passes) is not None:
        names = np.where(passes.backward, "backward", "forward").tolist()
        lanes[0, "passes"] = list(zip(names, passes.start.tolist(), passes.end.tolist(), strict=True))
    for kind, start, end in zip(calls.kind.tolist(), calls.start.tolist(), calls.end.tolist(), strict=True):
        group, name, _ = calls.kinds[kind]
        lanes[1, f"Group {group}"].append((name, start, end))
    whole.metadata.process_name.update(enumerate(("Ascend Hardware", "Communication")))
    for number, ((process, lane), rows) in enumerate(lanes.items()):
        whole.metadata.thread_name[process, number] = lane
        names = np.array([whole.names[name] for name, _, _ in rows], np.int32)
        times = np.array([row[1:] for row in rows], np.int64).reshape(-1, 2)
        thread = np.full(len(rows), whole.threads[process, number], np.int32)
        order = np.arange(len(rows))
        whole.slices(order, thread, times[:, 0].copy(), times[:, 1].copy(), names, whole.categories[""])
    trace = build_trace(whole, str(profile.path), (), profile.rank, Health())
    trace.args = ArgReader()  # calls of a table have none
    return trace
