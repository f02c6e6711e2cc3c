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

from npu_tui.job.meetings import Meeting
from npu_tui.job.model import RankProfile

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

Method = Literal["reference", "notify", "collective_ends", "none"]

_NARROW = 5_000
"""ns: an interval of this width is a clock by itself."""

_TOGETHER = 200_000
"""ns: ends that are further apart are no common end."""

_ROUNDED = 500.0
"""ns to which communication.json rounds its times."""

_ROUNDS = 50
_WINDOW = 10_000_000_000
"""ns over which a clock is taken as constant."""

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
    ends, at = _common_ends(met, index)
    drift = _drift(ends)
    bounds = _bounds(ranks, met, index, drift, at)
    low, high = _intervals(len(ranks), bounds)
    offset, error, tied = _by_ends(ends - drift * np.nanmin(ends, axis=1, keepdims=True, initial=np.inf), low, high)
    notified = set(np.concatenate((bounds.source[bounds.notify], bounds.target[bounds.notify])).tolist())
    edges = np.bincount(np.concatenate((bounds.source, bounds.target)), minlength=len(ranks))
    found = [Clock(ranks[0].rank, "reference", low=0.0, high=0.0, at=at, edges=int(edges[0]))]
    for number, profile in enumerate(ranks[1:], 1):
        least, most = float(low[number]), float(high[number])
        bounded = bool(np.isfinite(least) and np.isfinite(most) and least <= most)
        if not bounded and not tied[number]:
            found.append(Clock(profile.rank, "none", error=float("inf"), at=at))
            continue
        narrow = bounded and most - least <= _NARROW
        by_ends = tied[number] and not narrow
        point = float(offset[number]) if by_ends else (least + most) / 2
        found.append(
            Clock(
                profile.rank,
                "notify" if number in notified and not by_ends else "collective_ends",
                float(np.clip(point, least, most)) if bounded else point,
                least if bounded else None,
                most if bounded else None,
                float(error[number]) if by_ends else (most - least) / 2,
                float(drift[number]),
                at,
                int(edges[number]),
            )
        )
    return found


def _common_ends(met: Sequence[Meeting], index: dict[int, int]) -> tuple[F64, int]:
    """Ends of barrier collectives, ns after the first of them all: a row each, NaN for ranks that took no part.

    Returns (meetings, ranks), and that first end in ns since 1970.
    """
    rows = [each for each in met if each.is_barrier]
    first = min((call.end for each in rows for call in each.calls.values()), default=0)
    ends = np.full((len(rows), len(index)), np.nan)
    for row, each in enumerate(rows):
        for rank, call in each.calls.items():
            ends[row, index[rank]] = call.end - first
    return ends, first


def _drift(ends: F64) -> F64:
    """How fast each clock runs against the first one's, as a share, (ranks,); 0 within a window or with few ends."""
    drift = np.zeros(ends.shape[1])
    for rank in range(1, len(drift)):
        both = ~np.isnan(ends[:, 0]) & ~np.isnan(ends[:, rank])
        at, apart = ends[both, 0], ends[both, rank] - ends[both, 0]
        window = (at - at.min(initial=0)) // _WINDOW
        parts = np.unique(window)
        if len(parts) < 2:
            continue
        middle = np.array([[np.median(at[window == part]), np.median(apart[window == part])] for part in parts])
        drift[rank] = float(np.median(np.diff(middle[:, 1]) / np.diff(middle[:, 0])))
    return drift


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


def _by_ends(ends: F64, low: F64, high: F64) -> tuple[F64, F64, npt.NDArray[np.bool_]]:
    """Clocks under which the common ends agree best, their ±, and which ranks they tie.

    The ± is twice the median of what is left.
    Alternating medians: the end of a collective given the clocks, the clock of a rank given the ends.
    """
    bounded = np.isfinite(low) & np.isfinite(high)
    middle = np.full(len(low), np.nan)
    middle[bounded] = (low[bounded] + high[bounded]) / 2
    offset, tied = _linked(ends, middle)
    error = np.full(len(low), np.inf)
    ends = np.where(tied, ends, np.nan)
    ends = ends[(~np.isnan(ends)).sum(axis=1) > 1]
    for _ in range(2):  # the second time without ends that are not common under the first clocks
        offset = _settled(ends, offset)
        left = ends - offset
        together = np.nanmax(left, axis=1, initial=-np.inf) - np.nanmin(left, axis=1, initial=np.inf) <= _TOGETHER
        if not together.any():
            break
        ends = ends[together]
    left = ends - offset
    if len(left):
        left = np.abs(left - np.nanmedian(left, axis=1, keepdims=True))
        seen = (~np.isnan(left)).any(axis=0)
        error[seen] = np.maximum(2 * np.nanmedian(left[:, seen], axis=0), _ROUNDED)
    return offset, error, tied


def _linked(ends: F64, middle: F64) -> tuple[F64, npt.NDArray[np.bool_]]:
    """A first clock for every rank that common ends lead to from the first one, and which those are.

    Each is set against the rank it shares the most ends with among those that are set; bounds come first.
    """
    there = ~np.isnan(ends)
    shared = there.T.astype(np.float64) @ there
    offset = np.where(np.isfinite(middle), middle, 0.0)
    tied = np.zeros(len(middle), np.bool_)
    most, through, new = shared[0].copy(), np.zeros(len(middle), np.int64), 0
    while True:
        tied[new] = True
        nearer = shared[new] > most
        most[nearer], through[nearer] = shared[new][nearer], new
        open_ends = np.where(tied, 0.0, most)
        new = int(np.argmax(open_ends))
        if not open_ends[new]:
            return offset, tied
        if not np.isfinite(middle[new]):
            known = int(through[new])
            both = there[:, known] & there[:, new]
            offset[new] = offset[known] + float(np.median(ends[both, new] - ends[both, known]))


def _settled(ends: F64, offset: F64) -> F64:
    seen = (~np.isnan(ends)).any(axis=0)
    for _ in range(_ROUNDS if len(ends) else 0):
        common = np.nanmedian(ends - offset, axis=1, keepdims=True)
        following: F64 = offset.copy()
        following[seen] = np.nanmedian((ends - common)[:, seen], axis=0)
        following -= following[0]
        if np.allclose(following, offset, atol=0.5):
            return following
        offset = following
    return offset
