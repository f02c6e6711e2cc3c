"""One clock for all ranks, from what they recorded of each other.

What happened on one rank after something on another bounds how far their clocks are apart: a wait ends after the
record it waits for has started, and nobody leaves a barrier before everybody has come. Shortest paths over these bounds
give every rank an interval that is certain; where it is wide, what ranks saw at one time gives the point in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.job.bounds import Bounds, intervals, islands, message_bounds, notify_bounds
from npu_tui.job.course import Course, course
from npu_tui.job.ends import Agreement, Events, agreement, drifts
from npu_tui.job.meetings import Meetings
from npu_tui.job.model import RankProfile
from npu_tui.job.views import views

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

Method = Literal["reference", "notify", "third_rank", "collective_ends", "none"]

_NARROW = 5_000
"""ns: an interval of this width is a clock by itself."""

_LEAST_VIEWS = 3
"""Arrivals of third ranks below which they make no clock."""


class Clock(Struct, frozen=True):
    """How far the device clock of ``rank`` is ahead of the reference rank's, ns: ``offset`` at ``at``, and its drift.

    ``low`` and ``high`` are certain bounds (None where nothing bounds it), ``error`` is the ± of ``offset``: half the
    interval, or what the common events leave open. ``edges`` counts the bounds and events it rests on. ``method``
    ``none``: nothing ties it to the lowest rank; its offset then is against ``reference``, the lowest rank of those
    that it is tied to. ``bends`` are what it gains beside an even drift: (ns after ``at``, ns) from window to window.
    """

    rank: int
    method: Method
    offset: int = 0
    low: int | None = None
    high: int | None = None
    error: float = 0.0
    drift: float = 0.0
    at: int = 0
    edges: int = 0
    reference: int = 0
    bends: tuple[tuple[int, float], ...] = ()

    @property
    def is_tied(self) -> bool:
        """Whether times of this rank can stand beside those of the lowest one."""
        return self.method != "none"

    def to_common(self, time: int) -> int:
        """``time`` of this rank's device on the clock of the reference."""
        return time - self.offset - round(float(self.gained(np.array([time - self.at], np.float64))[0]))

    def gained(self, since: F64) -> F64:
        """What the clock gains in ``since`` ns after ``at``, (n,)."""
        gained = self.drift * since
        if self.bends:
            time, bend = np.array(self.bends, np.float64).T
            gained = gained + np.interp(since, time, bend)
        return np.asarray(gained)


def clocks(ranks: Sequence[RankProfile], met: Meetings) -> list[Clock]:
    """The clock of every rank, in their order; the first one is the reference."""
    if not ranks:
        return []
    count, index = len(ranks), {profile.rank: number for number, profile in enumerate(ranks)}
    notified = notify_bounds(ranks, index)
    island = islands(count, met, notified)
    references = np.array([np.flatnonzero(island == each)[0] for each in range(int(island.max()) + 1)])[island]
    zero = _zeros(met, count)
    ends = _common_ends(met, zero)
    run = course(ends, drifts(ends, count, references), references)
    bounds = Bounds.of(met, notified, message_bounds(met), zero, run)
    low, high = intervals(bounds, references)
    bounded = np.isfinite(low) & np.isfinite(high) & (low <= high)
    by_ends = agreement(run.straightened(ends), references)
    by_third = agreement(run.straightened(_third_ranks(ranks, met, zero)), references)
    exact = set(notified.source.tolist()) | set(notified.target.tolist())
    edges = bounds.edges + by_ends.sights + by_third.sights
    found = []
    for number, profile in enumerate(ranks):
        reference = int(references[number])
        at, base = int(zero[number]), int(zero[number] - zero[reference])
        told = ranks[reference].rank
        if number == reference:
            first: Method = "reference" if number == 0 else "none"
            found.append(Clock(profile.rank, first, 0, 0, 0, 0.0, at=at, edges=int(edges[number]), reference=told))
            continue
        method, point, error = _point(
            number, float(low[number]), float(high[number]), bool(bounded[number]), by_ends, by_third, number in exact
        )
        found.append(
            Clock(
                profile.rank,
                method if reference == 0 else "none",
                base + round(point),
                base + round(float(low[number])) if bounded[number] else None,
                base + round(float(high[number])) if bounded[number] else None,
                error,
                float(run.drift[number]),
                at,
                int(edges[number]),
                told,
                _bends(run, number),
            )
        )
    return found


def _bends(run: Course, number: int) -> tuple[tuple[int, float], ...]:
    """Where the clock of a rank bends: (ns since its ``at``, ns gained beside the drift)."""
    bend = run.bend[number]
    return tuple(zip(np.rint(run.knots).astype(np.int64).tolist(), bend.tolist(), strict=True)) if bend.any() else ()


def _point(
    number: int, low: float, high: float, bounded: bool, ends: Agreement, third: Agreement, exact: bool
) -> tuple[Method, float, float]:
    """How the clock of a rank is known, its point within the interval, and its ±, ns."""
    if bounded and high - low <= _NARROW:
        return "notify" if exact else "collective_ends", (low + high) / 2, (high - low) / 2
    views = bool(third.tied[number]) and int(third.sights[number]) >= _LEAST_VIEWS
    method: Method = "collective_ends"
    if views and (not ends.tied[number] or third.error[number] < ends.error[number]):
        method, point, error = "third_rank", float(third.offset[number]), float(third.error[number])
    elif ends.tied[number]:
        point, error = float(ends.offset[number]), float(ends.error[number])
    elif bounded:
        return "notify" if exact else "collective_ends", (low + high) / 2, (high - low) / 2
    else:
        return "none", 0.0, float("inf")
    if bounded:
        point = min(max(point, low), high)
        error = min(error, max(high - point, point - low))
    return method, point, error


def _zeros(met: Meetings, count: int) -> I64:
    """A time of every rank that others relate to: the end of its first collective, ns since 1970.

    Clocks that are hours or decades apart keep their nanoseconds when times count from there.
    """
    zero = np.zeros(count, np.int64)
    table = met.table
    place = met.rank[::-1]
    zero[place] = table.end[met.call[::-1]]
    return zero


def _common_ends(met: Meetings, zero: I64) -> Events:
    """The ends of all barriers, each on its own clock from ``zero`` on."""
    kept = met.barrier[met.row]
    rank = met.rank[kept]
    groups: dict[str, int] = {}
    group = np.array([groups.setdefault(name, len(groups)) for name, _, _ in met.table.kinds], np.int64)
    call = met.call[kept]
    time = (met.table.end[call] - zero[rank]).astype(np.float64)
    return Events(met.row[kept], rank, time, group[met.table.kind[call]])


def _third_ranks(ranks: Sequence[RankProfile], met: Meetings, zero: I64) -> Events:
    """When ranks came that several others waited for: one event per collective and rank that came."""
    told = views(met, [profile.seen for profile in ranks])
    entry, peer, after = (column[(told.entry >= 0) & ~told.at_most] for column in (told.entry, told.peer, told.after))
    key = met.row[entry] * (int(peer.max(initial=0)) + 1) + peer
    order = np.argsort(key, kind="stable")
    begins = np.flatnonzero(np.append(True, np.diff(key[order]) != 0)[: len(key)])
    sizes = np.diff(np.append(begins, len(key)))
    order, sizes = order[np.repeat(sizes > 1, sizes)], sizes[sizes > 1]
    entry = entry[order]
    place, call = met.rank[entry], met.call[entry]
    time = met.table.start[call] + after[order] - zero[place]
    number = np.repeat(np.arange(len(sizes)), sizes)
    return Events(number, place, time.astype(np.float64), np.zeros(len(number), np.int64))
