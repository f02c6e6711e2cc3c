"""The ranks of a job on its clock: one collective as a waterfall, and the traces below each other.

All times are moved onto the common clock of the job; ``error`` keeps how far each clock may be off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import LITTLE
from npu_tui.jobs.blame import Arrival, BlamedCollective
from npu_tui.jobs.clock import RankClock
from npu_tui.jobs.columns import SAME_CALL
from npu_tui.jobs.job import Job

if TYPE_CHECKING:  # the waterfall of a job is drawn without a trace
    from npu_tui.profile.profile import Profile


class Bar(Struct, frozen=True):
    """One rank of the collective, ns after ``Waterfall.start``: it worked from ``begin`` to ``come``, of that ``own``
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


class Waterfall(Struct, frozen=True):
    """The bars of a collective, the last to come first; ``come`` is when that was. Times are ns from ``start`` on.

    ``start`` is on the common clock, ns since 1970.
    """

    start: int
    length: int
    come: int
    bars: tuple[Bar, ...]


# The work before the collective is shown for this many times the time between the first and the last arrival.
_BEFORE = 1.6


def waterfall(blamed: BlamedCollective, clocks: Sequence[RankClock]) -> Waterfall:
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
    return Waterfall(start, max(end - start, 1), last - start, bars)


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
