"""The ranks of a job on its clock: a collective as a waterfall, traces below each other, what a change makes of both.

All times are moved onto the common clock of the job; ``error`` keeps how far each clock may be off. With a change they
are those of the replay: passes of a pipeline, collectives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import LITTLE
from npu_tui.jobs.blame import Arrival, BlamedCollective
from npu_tui.jobs.clock import RankClock
from npu_tui.jobs.columns import SAME_CALL
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankProfile
from npu_tui.jobs.passes import Change
from npu_tui.jobs.slowness import Reduction
from npu_tui.load.build import build_trace
from npu_tui.load.json_reader import WholeColumns
from npu_tui.profile.profile import Profile
from npu_tui.trace.args import ArgReader
from npu_tui.trace.arrays import F64, I64
from npu_tui.trace.model import Health, Trace
from npu_tui.trace.nature import CALLS


class Bar(Struct, frozen=True):
    """One rank of the collective, ns after the ``start`` of all: it worked from ``begin`` to ``come``, of that ``own``
    more than its peers, waited until the last one came, and left at ``end``.

    ``begin`` is None where its work before is not recorded. ``error`` is the ± of its clock. A rank that is
    ``outside`` has no files here; ``at_most``: it came then or before.
    """

    rank: int
    begin: int | None
    come: int
    end: int
    own: int
    wait: int
    error: int
    outside: bool
    at_most: bool


class CollectiveWaterfall(Struct, frozen=True):
    """The bars of a collective, the last to come first; ``come`` is when that was. Times are ns from ``start`` on.

    ``start`` is on the common clock, ns since 1970.
    """

    start: int
    length: int
    come: int
    bars: tuple[Bar, ...]


# The work before the collective is shown for this many times the time between the first and the last arrival.
_BEFORE = 1.6


def waterfall(blamed: BlamedCollective, clocks: Sequence[RankClock]) -> CollectiveWaterfall:
    """The bars of ``blamed`` by the ``clocks`` of the job."""
    error = {clock.rank: clock.error for clock in clocks if clock.is_tied}
    sure = [arrival for arrival in blamed.arrivals if not arrival.at_most] or list(blamed.arrivals)
    last, first = max(arrival.start for arrival in sure), min(arrival.start for arrival in sure)
    end = max(arrival.end for arrival in blamed.arrivals)
    begun = [arrival.start - arrival.gap for arrival in sure if arrival.gap is not None]
    apart = max(last - first, end - last, 1)
    start = max(
        min(begun, default=first - apart // 4), last - round(_BEFORE * apart), min(begun, default=first) - apart
    )
    start = min(start, first)
    order = sorted(blamed.arrivals, key=lambda arrival: (arrival.at_most, -arrival.start, arrival.rank))
    bars = tuple(_bar(arrival, start, error.get(arrival.rank, 0.0)) for arrival in order)
    return CollectiveWaterfall(start, max(end - start, 1), last - start, bars)


def _bar(arrival: Arrival, start: int, error: float) -> Bar:
    begin = None if arrival.gap is None else max(arrival.start - arrival.gap - start, 0)
    return Bar(
        arrival.rank,
        begin,
        arrival.start - start,
        arrival.end - start,
        max(arrival.own or 0, 0),
        arrival.wait,
        round(error),
        arrival.outside,
        arrival.at_most,
    )


_HOST = ("python", "cann")


class LateRank(Struct, frozen=True):
    """The collective that a rank waited in: the ``rank`` that came last, how long after the second, ns."""

    rank: int
    cost: int
    blamed: BlamedCollective


class Timelines:
    """The ``profiles`` of some ``ranks`` of ``job``, in the same order."""

    def __init__(self, job: Job, ranks: Sequence[int], profiles: Sequence[Profile]) -> None:
        self.job = job
        self.ranks = list(ranks)
        self._profiles = profiles
        self._clock_of = {clock.rank: clock for clock in job.clocks}

    @property
    def apart(self) -> list[int]:
        """The ranks whose clocks nothing ties to that of the first one here."""
        return [rank for rank in self.ranks if self._reference(rank) != self._reference(self.ranks[0])]

    def _reference(self, rank: int) -> int:
        """The rank that the clock of ``rank`` is known against; itself where nothing ties it to any other."""
        clock = self._clock_of.get(rank)
        return rank if clock is None else clock.reference

    def offsets(self) -> list[int]:
        """The shift of each trace to the common clock, ns; ranks without a common clock follow one another.

        A trace is moved as a whole, so that its links stay as the profiler wrote them. Host lanes of ranks of one host
        share a clock and are thereby ``Job.devices_apart`` apart at most.
        """
        offsets = [0] * len(self.ranks)
        behind = 0
        for reference in dict.fromkeys(map(self._reference, self.ranks)):
            together = [number for number, rank in enumerate(self.ranks) if self._reference(rank) == reference]
            starts = [self._start(number) for number in together]
            length = 0
            for number, start in zip(together, starts, strict=True):
                offsets[number] = behind + start - min(starts)
                length = max(length, start - min(starts) + self._profiles[number].trace.end)
            behind += length + round(LITTLE * length)
        return [offset - offsets[0] for offset in offsets]

    def _start(self, number: int) -> int:
        """When trace ``number`` begins on the clock of its reference, ns since 1970."""
        clock, start = self._clock_of.get(self.ranks[number]), self._profiles[number].trace.start_ns
        return start if clock is None else clock.to_common(start)

    def collective(self, trace: int, item: int) -> BlamedCollective | None:
        """The collective of the job that slice ``item`` of trace number ``trace`` is, or lies in; None for no such."""
        profile, rank = self._profiles[trace], self.ranks[trace]
        slices, begun = profile.trace.slices, profile.trace.start_ns
        start = begun + int(slices.start[item])
        collectives = {collective.item for collective in profile.collectives}
        name = profile.trace.name_of(item)
        for blamed in self.job.blamed:
            call = blamed.meeting.calls.get(rank)
            if call is None:
                continue
            if item in collectives and call.name == name and abs(call.start - start) <= SAME_CALL:
                return blamed
            in_lane = profile.trace.layers[profile.trace.lanes[slices.lane[item]].layer].kind == "communication"
            if item not in collectives and in_lane and call.start - SAME_CALL <= start <= call.end:
                return blamed
        return None

    def late(self, trace: int, item: int) -> LateRank | None:
        """The rank that came last to the collective that slice ``item`` is or lies in; None if uncertain."""
        blamed = self.collective(trace, item)
        if blamed is None or blamed.last is None:
            return None
        return LateRank(blamed.last, blamed.cost, blamed)

    def item_of(self, trace: int, blamed: BlamedCollective) -> int | None:
        """The slice of a collective in trace number ``trace``."""
        profile = self._profiles[trace]
        call = blamed.meeting.calls.get(self.ranks[trace])
        if call is None:
            return None
        slices, begun = profile.trace.slices, profile.trace.start_ns
        for collective in profile.collectives:
            if abs(begun + int(slices.start[collective.item]) - call.start) <= SAME_CALL:
                return collective.item
        return None


def running_at(profile: Profile, time: int) -> int | None:
    """The slice that says best what a rank did at ``time`` ns of its trace.

    A kernel that runs then, else the innermost call of the host, else the next kernel; None without any.
    """
    trace, slices = profile.trace, profile.trace.slices
    running = (slices.start <= time) & (slices.end > time)
    kernels = np.flatnonzero(running & profile.compute)
    if len(kernels):
        return int(kernels[np.argmax(slices.start[kernels])])
    kinds = np.array([trace.layers[lane.layer].kind for lane in trace.lanes])
    derived = np.array([lane.derived for lane in trace.lanes], np.bool_)
    for kind in _HOST:
        lanes = (kinds == kind) & ~derived
        calls = np.flatnonzero(running & lanes[slices.lane])
        if len(calls):
            return int(calls[np.argmax(slices.start[calls])])
    later = np.flatnonzero(profile.compute & (slices.start >= time))
    return int(later[np.argmin(slices.start[later])]) if len(later) else None


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
    trace.nature = CALLS
    return trace
