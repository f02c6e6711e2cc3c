"""The pipelines of a job: which rank ran which micro batch when, what the bubble is made of, what would shorten it.

A bubble is what the stages wait on average between the first pass and the last one. Its parts are differences of
replays, so that they add up: every pass as long as the mean one of its kind (filling and draining, no stage's fault);
as long as the mean one of its stage (imbalance); as recorded (variation between micro batches); with the transfers that
were waited for; and the rest, which is gaps before passes and sends that wait for their receiver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median

import numpy as np
from msgspec import Struct

from npu_tui.analysis.graph import Plan, plan_of, planned
from npu_tui.analysis.limits import MORE_THAN_ONE
from npu_tui.jobs.blame import common_times
from npu_tui.jobs.clock import RankClock
from npu_tui.jobs.columns import run_begins
from npu_tui.jobs.meetings import RankMeetings
from npu_tui.jobs.model import Layout, RankProfile, is_message, is_receive
from npu_tui.jobs.passes import Change, PipelineCases, PipelineRun, evened
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.message import Message, message

PARTS = ("compute", "fill", "imbalance", "variation", "transfer", "rest")
"""What the time from the first pass to the last one is made of; all but the first are the bubble."""


class Pipelines:
    """The ``runs`` of all pipelines of a job by step; ``left_out`` says what is no pipeline, and why."""

    def __init__(self, runs: Sequence[PipelineRun], left_out: Sequence[Message] = ()) -> None:
        self.runs = list(runs)
        self.left_out = list(left_out)
        self._cases: dict[int, tuple[Plan, list[int]]] = {}
        for number, run in enumerate(runs):
            self._cases.setdefault(id(run.plan), (run.plan, []))[1].append(number)
        self.parts = self._parts()

    def _each(self, lengths: Callable[[PipelineCases], F64]) -> F64:
        """What ``lengths`` of a case gives for every run, (runs,)."""
        found = np.zeros(len(self.runs))
        for plan, places in self._cases.values():
            runs = tuple(self.runs[place] for place in places)
            time, moved = (np.stack([getattr(run, name) for run in runs]).astype(float) for name in ("time", "moved"))
            found[places] = lengths(PipelineCases(runs, plan, time, moved, np.zeros(len(runs))))
        return found

    def _parts(self) -> I64:
        """The ``PARTS`` of every run, ns, (runs, parts): a row adds up to the length of its run."""
        length = np.array([run.length for run in self.runs], np.int64)
        replays = [
            self._each(lambda case: case.time.sum(axis=1) / case.plan.stages),
            self._each(lambda case: case.plan.length(evened(case.plan, case.plan.means(case.time)))),
            self._each(lambda case: case.plan.length(case.plan.means(case.time))),
            self._each(lambda case: case.plan.length(case.time)),
            self.replayed(),
        ]
        rounded = np.stack([*(np.rint(one).astype(np.int64) for one in replays), length], axis=1)
        return np.diff(rounded, axis=1, prepend=0)

    def replayed(self) -> F64:
        """How long each run takes by its order, times and transfers alone, (runs,)."""
        return self._each(lambda case: case.length)

    def gains(self, *changes: Change) -> F64:
        """What each run gains with ``changes`` one after another, ns, (runs,)."""

        def lengths(case: PipelineCases) -> F64:
            for change in changes:
                case = change(case)
            return case.length

        return self.replayed() - self._each(lengths)

    def sooner(self, *changes: Change) -> list[tuple[F64, F64]]:
        """How much sooner each pass of each run begins and ends with ``changes``, which keep the order, ns."""
        found: list[tuple[F64, F64]] = [(np.zeros(0),) * 2] * len(self.runs)

        def times(case: PipelineCases) -> tuple[F64, F64]:
            ends = case.plan.ends(case.time, case.moved)
            return ends - case.time, ends

        def lengths(case: PipelineCases) -> F64:
            before = times(case)
            for change in changes:
                case = change(case)
            begun, ended = (old - new for old, new in zip(before, times(case), strict=True))
            for run, *rows in zip(case.runs, begun, ended, strict=True):
                found[places[id(run)]] = rows[0], rows[1]
            return case.length

        places = {id(run): number for number, run in enumerate(self.runs)}
        self._each(lengths)
        return found

    def total(self, gains: Sequence[float] | F64 = ()) -> int:
        """How long the steps take together with ``gains`` off each run, ns: the slowest pipeline of a step counts."""
        of_step: dict[tuple[str, int], float] = {}
        seen: dict[tuple[tuple[int, ...], str], int] = defaultdict(int)
        for place, run in enumerate(self.runs):
            turn = seen[run.ranks, run.step]
            seen[run.ranks, run.step] += 1
            left = run.length - (float(gains[place]) if len(gains) else 0.0)
            of_step[run.step, turn] = max(of_step.get((run.step, turn), 0.0), left)
        return round(sum(of_step.values()))

    @property
    def count(self) -> int:
        """Steps, those of several pipelines once."""
        most: dict[tuple[tuple[int, ...], str], int] = defaultdict(int)
        for run in self.runs:
            most[run.ranks, run.step] += 1
        return sum(max(n for (_, of), n in most.items() if of == step) for step in {run.step for run in self.runs})

    @property
    def longest(self) -> list[PipelineRun]:
        """The longest step of any pipeline; empty without one."""
        return [max(self.runs, key=lambda run: run.length)] if self.runs else []

    def transfers(self) -> dict[tuple[int, int], F64]:
        """How long after their pass was done, or was asked for, messages between two ranks came, ns; those known."""
        times: dict[tuple[int, int], list[I64]] = defaultdict(list)
        for run in self.runs:
            ranks = np.array(run.ranks)
            moved = np.flatnonzero(run.transfer > 0)
            pairs = np.stack((ranks[run.plan.stage[run.plan.needs[moved]]], ranks[run.plan.stage[moved]]), axis=1)
            for source, target in np.unique(pairs, axis=0).tolist():
                own = moved[(pairs == (source, target)).all(axis=1)]
                times[source, target].append(run.transfer[own] + run.tail[run.plan.needs[own]])
        return {pair: np.concatenate(of_pair).astype(np.float64) for pair, of_pair in times.items()}

    def late_pairs(self) -> list[tuple[list[tuple[int, int]], float]]:
        """The pairs of ranks, sender and receiver, between which messages take far longer than between other stages.

        Those between two stages are together, each with the time that is usual between others, ns.
        """
        times = {pair: float(np.median(of_pair)) for pair, of_pair in self.transfers().items()}
        stage_of = {rank: stage for run in self.runs for stage, rank in enumerate(run.ranks)}
        between: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
        for pair in sorted(times):
            between[tuple(sorted(stage_of[rank] for rank in pair))].append(pair)
        found = []
        for pairs in between.values():
            usual = median(
                [time for pair, time in times.items() if pair not in pairs] or [times[pair] for pair in pairs]
            )
            found.append(([pair for pair in pairs if times[pair] >= MORE_THAN_ONE * usual], usual))
        return [(late, usual) for late, usual in found if late]

    def orders(self, micro: int) -> bool:
        """Whether the order of passes is known for ``micro`` micro batches."""
        plans = [planned(plan.schedule, plan.stages, micro, plan.chunks) for plan, _ in self._cases.values()]
        return bool(plans) and None not in plans


def ranks_of_pairs(pairs: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The ranks of ``pairs``, each once."""
    return tuple(dict.fromkeys(rank for pair in pairs for rank in pair))


# --- Reading a job


class Staged(Struct, frozen=True):
    """The part of a job that its pipelines are read from; ``stage`` gives the stage of a rank, None if unknown."""

    ranks: Sequence[RankProfile]
    met: RankMeetings
    clocks: Sequence[RankClock]
    stage: Callable[[int], int | None]
    layout: Layout | None
    steps: Sequence[str]


def pipelines_of(job: Staged) -> Pipelines:
    """The pipelines of ``job``: ranks that send each other what their passes made."""
    if all(profile.passes is None for profile in job.ranks):
        return Pipelines([], _unseen_passes(job))
    wires = _Wires(job)
    runs: list[PipelineRun] = []
    reasons = _unseen_passes(job)  # why a pipeline is not among them
    for chain in _stage_chains(job, wires):
        named = [job.ranks[place].rank for place in chain]
        if job.layout is not None and 1 < job.layout.pipeline != len(chain):
            reasons.append(message("job.pipeline.lacks", ranks=named, stages=job.layout.pipeline))
            continue
        if job.layout is None and (lost := _outside_ranks(job, chain)):
            reasons.append(message("job.pipeline.lost", ranks=named, lost=sorted(lost)[:8]))
            continue
        rows, reason = _pipeline_runs(job, chain, wires)
        runs += rows
        if reason is not None:
            reasons.append(reason)
    order = {step: number for number, step in enumerate(job.steps)}
    runs.sort(key=lambda run: (order.get(run.step, -1), int(run.start.min()), run.ranks))
    return Pipelines(runs, reasons)


def _unseen_passes(job: Staged) -> list[Message]:
    """The note that ranks exchange messages but no kernels show the passes between them."""
    bare = [
        profile.rank
        for profile in job.ranks
        if profile.passes is None
        and profile.recorder.has_times
        and any(is_message(kind) for _, kind, _ in profile.calls.kinds)
    ]
    traced = any(profile.has_trace for profile in job.ranks if profile.rank in bare)
    hint = message("job.pipeline.no_kernels.traces") if traced else ""
    return [message("job.pipeline.no_kernels", count=len(bare), ranks=bare[:8], traces=hint)] if bare else []


class _Wires:
    """The messages between ranks of ``job``, by (sender, receiver) places: starts, starts there, ends there; (n,)."""

    def __init__(self, job: Staged) -> None:
        met, table = job.met, job.met.table
        types = [kind for _, kind, _ in table.kinds]
        wire = np.array([is_message(kind) for kind in types] + [False])[met.kind] & (np.diff(met.first) == 2)
        first = met.first[:-1][wire]
        rows = np.concatenate(
            (np.stack((met.call[first], met.call[first + 1]), 1), np.stack((met.call[first + 1], met.call[first]), 1))
        )
        # Of a send and a receive one direction remains.
        sends = ~np.array([is_receive(kind) for kind in types] + [False])[table.kind[rows[:, 0]]]
        rows = rows[sends]
        rank = table.rank[rows]
        start, end = (
            common_times(times[rows.ravel()], rank.ravel(), job.clocks).reshape(-1, 2)
            for times in (table.start, table.end)
        )
        self.between: dict[tuple[int, int], tuple[I64, I64, I64]] = {}
        order = np.lexsort((start[:, 0], rank[:, 1], rank[:, 0]))
        bounds = np.append(run_begins(rank[order, 0], rank[order, 1]), len(order)).tolist()
        for low, high in pairwise(bounds):
            own = order[low:high]
            self.between[int(rank[own[0], 0]), int(rank[own[0], 1])] = start[own, 0], start[own, 1], end[own, 1]


def _stage_chains(job: Staged, wires: _Wires) -> Iterator[tuple[int, ...]]:
    """The places of the ranks of each pipeline by stage; without numbers of stages by when their first pass began."""
    passes = {place: profile.passes for place, profile in enumerate(job.ranks) if profile.passes is not None}
    head = {place: place for place in passes}

    def root(place: int) -> int:
        while head[place] != place:
            place = head[place]
        return place

    for source, target in wires.between:
        if source in head and target in head:
            head[root(source)] = root(target)
    joined: dict[int, list[int]] = defaultdict(list)
    for place in head:
        joined[root(place)].append(place)
    for members in joined.values():
        stages = [job.stage(job.ranks[place].rank) for place in members]
        begun = [int(_common(job, p, passes[p].start[:1])[0]) for p in members]
        known = None not in stages and len(set(stages)) == len(stages)
        order = sorted(range(len(members)), key=lambda at: (stages[at] if known else 0, begun[at]))
        if len(members) > 1:
            yield tuple(members[at] for at in order)


def _outside_ranks(job: Staged, chain: Sequence[int]) -> set[int]:
    """Ranks that those of ``chain`` exchange messages with, and that are not part of it."""
    members = [job.ranks[place] for place in chain]
    return set[int]().union(*map(messaged, members)).difference(profile.rank for profile in members)


def messaged(profile: RankProfile) -> set[int]:
    """The ranks that ``profile`` exchanged messages with, as far as its trace shows them."""
    calls, seen = profile.calls, profile.seen
    wires = np.array([is_message(kind) for _, kind, _ in calls.kinds] + [False])[calls.kind]
    names = {calls.name[at] for at in np.flatnonzero(wires).tolist()}
    return {peer for at, peer in enumerate(seen.peer.tolist()) if seen.name[at] in names}


class _Recorded(Struct, frozen=True, eq=False):
    """The passes of one stage: a letter for each, times on the clock of the job, which is ``apart`` of the device's."""

    letters: str
    start: I64
    end: I64
    tail: I64
    apart: I64
    layers: I64


def _common(job: Staged, place: int, time: I64) -> I64:
    """``time`` of one rank on the clock of the job."""
    return common_times(time, np.zeros(len(time), np.int64), [job.clocks[place]])


def _recorded(job: Staged, place: int, last: bool) -> _Recorded:
    """The passes of a rank; what a backward pass computes again of the forward one is part of it."""
    passes = job.ranks[place].passes
    assert passes is not None
    start, end, back = passes.start, passes.end, passes.backward
    tail, layers = end - passes.done, passes.layers
    forward = int((~back).sum())
    if not last and forward == 2 * (len(back) - forward):
        again = ~back & np.append(back[1:], False) & (end == np.append(start[1:], -1))
        kept = ~again
        start = np.where(np.append(False, again[:-1]), np.append(0, start[:-1]), start)[kept]
        end, back, tail, layers = end[kept], back[kept], tail[kept], layers[kept]
    common = _common(job, place, start)
    return _Recorded(
        "".join(np.where(back, "B", "F").tolist()), common, _common(job, place, end), tail, start - common, layers
    )


def _pipeline_runs(job: Staged, chain: Sequence[int], wires: _Wires) -> tuple[list[PipelineRun], Message | None]:
    """The steps of one pipeline, and why it cannot be divided into them, or into passes of micro batches."""
    stages = [_recorded(job, place, place == chain[-1]) for place in chain]
    ranks = tuple(job.ranks[place].rank for place in chain)
    counts = [{letter: stage.letters.count(letter) for letter in "FB"} for stage in stages]
    even = all(count["F"] == count["B"] == counts[0]["F"] for count in counts)
    if not even or not counts[0]["F"]:
        told = [
            message("job.pipeline.count", rank=rank, forward=c["F"], backward=c["B"])
            for rank, c in zip(ranks, counts, strict=True)
        ]
        return [], message("job.pipeline.uneven", ranks=list(ranks), counts=told[:8])
    wraps = None if len(chain) == 2 else (chain[-1], chain[0]) in wires.between
    error = max((job.clocks[place].error for place in chain if job.clocks[place].is_tied), default=0.0)
    runs: list[PipelineRun] = []
    at = odd = 0
    for size in _micro_batch_counts(stages[0].letters):
        low, at = at, at + 2 * size
        letters = [stage.letters[low:at] for stage in stages]
        start, end, tail = (
            np.concatenate([getattr(stage, name)[low:at] for stage in stages]) for name in ("start", "end", "tail")
        )
        slack = 2 * error + 0.05 * float((end - start).mean())
        plan = next((plan for plan in plan_of(letters, wraps) if _holds(plan, start, end, slack)), None)
        if plan is None:
            odd += 1
            continue
        moved, fetched = _moving_times(plan, start, end, chain, wires)
        apart = np.array([stage.apart[low] for stage in stages], np.int64)
        step = _step_of(job, chain, start + apart[plan.stage], end + apart[plan.stage])
        layers = np.array([int(np.median(stage.layers[low:at])) for stage in stages], np.int64)
        runs.append(PipelineRun(ranks, step, plan, start, end, moved, fetched, tail, apart, layers))
    if not odd:
        return runs, None
    return runs, message("job.pipeline.order", ranks=list(ranks), odd=odd, all=odd + len(runs))


def _micro_batch_counts(letters: str) -> Iterator[int]:
    """How many micro batches each step has: at its end the first stage has as many backward passes as forward ones."""
    open_ = size = 0
    for letter in letters:
        open_ += (letter == "F") - (letter == "B")
        size += letter == "F"
        if not open_ and letter == "B":
            yield size
            size = 0


def _holds(plan: Plan, start: I64, end: I64, slack: float) -> bool:
    """Whether every pass begins after what it needs, by the recorded times."""
    needs = np.flatnonzero(plan.needs >= 0)
    return bool((start[needs] >= end[plan.needs[needs]] - slack).all())


def _moving_times(plan: Plan, start: I64, end: I64, chain: Sequence[int], wires: _Wires) -> tuple[I64, Bools]:
    """How long what each pass needs took to come from when it was made and asked for, ns; 0 without a message.

    And whether the stage asked for it after its pass before.
    """
    moved, fetched = np.zeros(len(start), np.int64), np.zeros(len(start), np.bool_)
    free = np.where(plan.before >= 0, end[plan.before], np.iinfo(np.int64).min)
    source = np.where(plan.needs >= 0, plan.stage[plan.needs], -1)
    for here, there in {(int(s), int(t)) for s, t in zip(source, plan.stage, strict=True) if s >= 0 and s != t}:
        if (chain[here], chain[there]) not in wires.between:
            continue
        sent, posted, came = wires.between[chain[here], chain[there]]
        of_pair = np.flatnonzero((source == here) & (plan.stage == there))
        of_pair = of_pair[np.argsort(end[plan.needs[of_pair]], kind="stable")]
        turn = np.arange(len(of_pair))  # each message is of one pass, in their order
        at = np.maximum.accumulate(np.searchsorted(sent, end[plan.needs[of_pair]] - 1) - turn) + turn
        of_pair, at = of_pair[at < len(sent)], at[at < len(sent)]
        done = end[plan.needs[of_pair]]
        in_time = came[at] <= start[of_pair] + 1
        of_pair, at, done = of_pair[in_time], at[in_time], done[in_time]
        moved[of_pair] = np.maximum(came[at] - np.maximum(done, posted[at]), 0)
        fetched[of_pair] = posted[at] >= free[of_pair]
    return moved, fetched


def _step_of(job: Staged, chain: Sequence[int], start: I64, end: I64) -> str:
    """The step of the messages in a run; times are those of the devices."""
    low, high = int(start.min()), int(end.max())
    for place in chain:
        calls = job.ranks[place].calls
        inside = np.flatnonzero((calls.start >= low) & (calls.start <= high))
        steps: list[str] = [calls.kinds[calls.kind[call]][2] for call in inside.tolist()]
        if steps:
            return max(set(steps), key=steps.count)
    return ""
