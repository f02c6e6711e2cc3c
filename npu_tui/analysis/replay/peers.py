"""Who comes when to the collectives of a run, and how long each takes once all are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npu_tui.analysis.replay.device import COLLECTIVE, DeviceTasks
from npu_tui.analysis.replay.pipeline import pipeline_fills
from npu_tui.analysis.work.collectives.communication import Collective
from npu_tui.analysis.work.operators import collective_type
from npu_tui.trace.model import Trace

UNKNOWN = -1
"""The rank of a peer that is not known."""
TOGETHER_NS = 300_000
"""Ranks that come within this time of each other come together: they run the same code and move as one."""
_NOTABLE = 0.05
"""An arrival within this share of a collective is part of it: this rank itself had to get ready."""
_HARDLY = 0.1
_LONGER = 3.0
_FILLS = 0.9
"""A first receive of which this share is the filling of the pipeline is not late."""
_SIBLINGS = 3
_LEAST_NS = 1_000_000
_AS_LATE = 0.5
_STEADY = 0.3
"""A lateness that varies by less than this share of how the work before varies does not depend on it."""
_SLOWEST = 2.0
"""Bytes per ns that any link between ranks of a job moves: what takes longer than that waited."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """One collective: ``task`` of the device's tasks, ``item`` its slice, ``previous`` the meeting before in its group.

    ``late`` are the late ranks of the run as (rank of the group, ns after this rank), UNKNOWN where only the length
    tells that it waited. ``others`` is when the last of all other peers had come, ns after this rank: they run the same
    code and move with this rank. ``transfer`` is the time from the last arrival to the end, ns, ``peers`` are all ranks
    that are seen. Where the last one is as late however long this rank takes, it does the same work: the meeting is
    ``following`` this rank.
    """

    task: int
    item: int
    previous: int
    late: tuple[tuple[int, int], ...]
    others: int
    transfer: int
    peers: frozenset[int] = frozenset()
    following: bool = False

    def wait(self, in_time: frozenset[int] = frozenset()) -> int:
        """How long this rank waits for late ranks, without those ``in_time``, ns; 0 where it does not."""
        last = max((after for rank, after in self.late if rank not in in_time), default=0)
        return last if last > self.others else 0


def meetings(
    trace: Trace, collectives: Sequence[Collective], tasks: DeviceTasks, steps: int = 0
) -> tuple[Meeting, ...]:
    """The meetings of the device's ``tasks`` by start; ``steps`` is how many steps the run has."""
    known = {each.item: each for each in collectives}
    guessed = unknown_waits(trace, collectives, {each.item: each.size for each in collectives if each.size is not None})
    chosen = np.flatnonzero(tasks.kind == COLLECTIVE).tolist()
    fills = pipeline_fills(trace, collectives, steps)
    arrivals: list[list[tuple[int, int]]] = []
    for task in chosen:
        item, elapsed = int(tasks.item[task]), int(tasks.end[task] - tasks.start[task])
        each = known.get(item)
        seen = each.arrivals if each is not None else None
        own = late_arrivals(seen, elapsed, fills.get(item, 0)) if seen is not None else []
        arrivals.append([(UNKNOWN, guessed[item])] if item in guessed else own)
    late = late_ranks(arrivals)
    follow = _following(trace, chosen, tasks, known, late)
    previous: dict[int, int] = {}
    found: list[Meeting] = []
    for task, own in zip(chosen, arrivals, strict=True):
        elapsed = int(tasks.end[task] - tasks.start[task])
        lane = int(trace.slices.lane[tasks.item[task]])
        item = int(tasks.item[task])
        others = max((after for rank, after in own if rank not in late), default=0)
        last = max((after for _, after in own), default=0)
        behind = tuple((rank, after) for rank, after in own if rank in late)
        others = max(others, fills.get(item, 0) if behind else 0)
        seen = known[item].arrivals if item in known else None
        peers = frozenset(rank for rank, _ in seen or [])
        follows = bool(behind) and max(behind, key=lambda row: row[1])[0] in follow
        found.append(Meeting(task, item, previous.get(lane, -1), behind, others, elapsed - last, peers, follows))
        previous[lane] = len(found) - 1
    return tuple(found)


def _following(
    trace: Trace, chosen: Sequence[int], tasks: DeviceTasks, known: Mapping[int, Collective], late: frozenset[int]
) -> set[int]:
    """Those of the ``late`` ranks that come as late to every collective, whatever this rank had to do before it."""
    rows: dict[int, tuple[list[int], list[int]]] = {rank: ([], []) for rank in late if rank != UNKNOWN}
    left: dict[int, int] = {}
    for task in chosen:
        item = int(tasks.item[task])
        lane = int(trace.slices.lane[item])
        if lane in left and item in known:
            for rank, after in known[item].arrivals or []:
                if rank in rows:
                    rows[rank][0].append(after)
                    rows[rank][1].append(int(tasks.start[task]) - left[lane])
        left[lane] = int(tasks.end[task])
    found = set()
    for rank, (lateness, before) in rows.items():
        if len(lateness) < _SIBLINGS or min(lateness) < _AS_LATE * float(np.median(lateness)):
            continue
        if float(np.std(lateness)) < _STEADY * float(np.std(before)):
            found.add(rank)
    return found


def late_arrivals(arrivals: Sequence[tuple[int, int]], elapsed: int, fill: int = 0) -> list[tuple[int, int]]:
    """Those of ``arrivals`` that a collective of ``elapsed`` ns waited for, beyond the ``fill`` of a pipeline."""
    return [(rank, min(after, elapsed)) for rank, after in arrivals if after > max(_NOTABLE * elapsed, fill / _FILLS)]


def late_ranks(arrivals: Sequence[Sequence[tuple[int, int]]]) -> frozenset[int]:
    """The fewest ranks without which hardly anything is left of the waiting, and all who are as late as they are.

    ``arrivals`` are those of every collective as (rank, ns after this rank).
    """
    late: set[int] = set()
    waited = sum(max((after for _, after in own), default=0) for own in arrivals)
    left = waited
    while left > _HARDLY * waited:
        behind: dict[int, int] = {}
        left = 0
        for own in arrivals:
            after, rank = max(((after, rank) for rank, after in own if rank not in late), default=(0, UNKNOWN))
            left += after
            if after > TOGETHER_NS:
                behind[rank] = behind.get(rank, 0) + after
        if not behind or left <= _HARDLY * waited:
            break
        late.add(max(behind, key=lambda rank: (behind[rank], -rank)))
    if late:
        longest = max(after for own in arrivals for rank, after in own if rank in late)
        for own in arrivals:
            # Of many that take turns each one's share is small.
            rank, after = max(own, key=lambda row: row[1], default=(UNKNOWN, 0))
            if after > TOGETHER_NS and after >= _AS_LATE * longest:
                late.add(rank)
    return frozenset(late)


def unknown_waits(trace: Trace, collectives: Sequence[Collective], sizes: Mapping[int, int]) -> dict[int, int]:
    """How long collectives of unknown arrivals waited, ns by slice: what they took beyond their siblings.

    Siblings are the others of the same type and lane; with ``sizes`` a collective is held against the best rate of
    them, else against their median length, and against a slow link, as all of them may have waited. Only what takes
    three times as long, and a millisecond, counts.
    """
    rows: dict[tuple[int, str], list[Collective]] = {}
    for each in collectives:
        if each.arrivals is not None:
            continue
        key = int(trace.slices.lane[each.item]), collective_type(trace.name_of(each.item))
        rows.setdefault(key, []).append(each)
    found: dict[int, int] = {}
    for own in rows.values():
        elapsed = np.array([each.elapsed for each in own], np.float64)
        size = np.array([sizes.get(each.item, 0) for each in own], np.float64)
        if len(own) < _SIBLINGS:
            expected = elapsed.copy()
        elif (size > 0).all():
            expected = np.maximum(size * float(np.min(elapsed / size)), float(elapsed.min()))
        else:
            expected = np.full(len(own), float(np.median(elapsed)))
        expected = np.where(size > 0, np.minimum(expected, size / _SLOWEST), expected)
        beyond = elapsed - expected
        for each, more, usual in zip(own, beyond.tolist(), expected.tolist(), strict=True):
            if each.elapsed >= _LONGER * usual and more >= _LEAST_NS:
                found[each.item] = round(more)
    return found
