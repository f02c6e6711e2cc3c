"""One clock for all ranks, from what they recorded of each other.

What happened on one rank after something on another bounds how far their clocks are apart: a wait ends after the
record it waits for has started, and nobody leaves a barrier before everybody has come. Shortest paths over these bounds
give every rank an interval that is certain; where it is wide, the common ends of collectives give the point in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from npu_tui.job.ends import agreement, common_ends, drifts, straightened
from npu_tui.job.meetings import Meeting
from npu_tui.job.model import RankProfile

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

Method = Literal["reference", "notify", "collective_ends", "none"]

_NARROW = 5_000
"""ns: an interval of this width is a clock by itself."""

_PAIRWISE = 64
"""Ranks up to which every pair of a collective is a bound; beyond it the first and the last are."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How far the device clock of ``rank`` is ahead of the reference rank's, ns: ``offset`` at ``at``, and its drift.

    ``low`` and ``high`` are certain bounds (None where nothing bounds it), ``error`` is the ± of ``offset``: half the
    interval, or the spread of the common ends. ``edges`` counts the bounds it rests on. ``method`` ``none``: nothing
    ties it to the reference.
    """

    rank: int
    method: Method
    offset: float = 0.0
    low: float | None = None
    high: float | None = None
    error: float = 0.0
    drift: float = 0.0
    at: int = 0
    edges: int = 0

    @property
    def is_tied(self) -> bool:
        """Whether times of this rank can stand beside those of the reference."""
        return self.method != "none"

    def to_common(self, time: int) -> int:
        """``time`` of this rank's device on the clock of the reference."""
        return time - round(self.offset + self.drift * (time - self.at))


@dataclass(frozen=True, slots=True)
class _Bounds:
    """clock[target] − clock[source] ≤ most; indices into the ranks, (n,) each. ``exact`` marks those of notifies."""

    source: I64
    target: I64
    most: I64
    notify: npt.NDArray[np.bool_]


def clocks(ranks: Sequence[RankProfile], met: Sequence[Meeting]) -> list[Clock]:
    """The clock of every rank, in their order; the first one is the reference."""
    if not ranks:
        return []
    index = {profile.rank: number for number, profile in enumerate(ranks)}
    ends, at = common_ends(met, index)
    drift = drifts(ends, len(ranks))
    bounds = _bounds(ranks, met, index, drift, at)
    low, high = _intervals(len(ranks), bounds)
    bounded = np.isfinite(low) & np.isfinite(high) & (low <= high)
    middle = np.full(len(ranks), np.nan)
    middle[bounded] = (low[bounded] + high[bounded]) / 2
    agreed = agreement(straightened(ends, drift), middle)
    notified = set(np.concatenate((bounds.source[bounds.notify], bounds.target[bounds.notify])).tolist())
    edges = np.bincount(np.concatenate((bounds.source, bounds.target)), minlength=len(ranks))
    found = [Clock(ranks[0].rank, "reference", low=0.0, high=0.0, at=at, edges=int(edges[0]))]
    for number, profile in enumerate(ranks[1:], 1):
        least, most = float(low[number]), float(high[number])
        if not bounded[number] and not agreed.tied[number]:
            found.append(Clock(profile.rank, "none", error=float("inf"), at=at))
            continue
        narrow = bounded[number] and most - least <= _NARROW
        by_ends = bool(agreed.tied[number] and not narrow)
        point = float(agreed.offset[number] if by_ends else middle[number])
        found.append(
            Clock(
                profile.rank,
                "notify" if number in notified and not by_ends else "collective_ends",
                float(np.clip(point, least, most)) if bounded[number] else point,
                least if bounded[number] else None,
                most if bounded[number] else None,
                float(agreed.error[number]) if by_ends else (most - least) / 2,
                float(drift[number]),
                at,
                int(edges[number]),
            )
        )
    return found


def _bounds(
    ranks: Sequence[RankProfile], met: Sequence[Meeting], index: dict[int, int], drift: F64, at: int
) -> _Bounds:
    """Every bound that notifies and barriers set, once the drift is taken out."""
    rows: list[tuple[int, int, int, bool]] = []
    rates: list[float] = drift.tolist()

    def straight(time: int, number: int) -> int:
        return time - round(rates[number] * (time - at)) if rates[number] else time

    records: dict[tuple[int, int, str, int], list[int]] = defaultdict(list)
    waits: dict[tuple[int, int, str, int], list[int]] = defaultdict(list)
    for profile in ranks:
        for each in profile.notifies:
            if each.waits:
                waits[each.peer, profile.rank, each.name, each.key].append(each.end)
            else:
                records[profile.rank, each.peer, each.name, each.key].append(each.start)
    for key, begun in records.items():
        ended = waits.get(key)
        source, target = index.get(key[0]), index.get(key[1])
        if ended is None or source is None or target is None or len(ended) != len(begun):
            continue
        for start, end in zip(sorted(begun), sorted(ended), strict=True):
            rows.append((source, target, straight(end, target) - straight(start, source), True))
    for meeting in met:
        if not meeting.is_barrier:
            continue
        own = [
            (index[rank], straight(call.start, index[rank]), straight(call.end, index[rank]))
            for rank, call in meeting.calls.items()
        ]
        sources = own if len(own) <= _PAIRWISE else own[:1]
        for source, start, end in sources:
            for target, other_start, other_end in own:
                if target != source:
                    rows.append((source, target, other_end - start, False))
                    rows.append((target, source, end - other_start, False))
    if not rows:
        nothing = np.zeros(0, np.int64)
        return _Bounds(nothing, nothing, nothing, np.zeros(0, np.bool_))
    table = np.array([row[:3] for row in rows], np.int64)
    return _Bounds(table[:, 0], table[:, 1], table[:, 2], np.array([row[3] for row in rows], np.bool_))


def _intervals(count: int, bounds: _Bounds) -> tuple[F64, F64]:
    """The lowest and the highest clock of each rank against the first one's that all ``bounds`` allow, (ranks,) each.

    Where bounds contradict each other (a clock that is not constant) both are NaN.
    """
    high = _shortest(count, bounds.source, bounds.target, bounds.most)
    low = -_shortest(count, bounds.target, bounds.source, bounds.most)
    return low, high


def _shortest(count: int, source: I64, target: I64, most: I64) -> F64:
    """Shortest paths from rank 0 over the bounds (Bellman–Ford), inf where there is none, NaN on a negative cycle."""
    distance = np.full(count, np.inf)
    distance[0] = 0.0
    for _ in range(count + 1):
        reached = distance.copy()
        np.minimum.at(reached, target, distance[source] + most)
        if (reached == distance).all():
            return distance
        distance = reached
    return np.where(np.isfinite(distance), np.nan, distance)
