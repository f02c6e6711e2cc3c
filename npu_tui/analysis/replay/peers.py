"""Who comes when to the collectives of a run, and how long each takes once all are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.replay.arrivals import UNKNOWN, late_arrivals, late_ranks
from npu_tui.analysis.replay.device import COLLECTIVE, DeviceTasks
from npu_tui.analysis.replay.pipeline import fill_of, pipeline_fills
from npu_tui.analysis.work.collectives.arrivals import Arrivals
from npu_tui.analysis.work.collectives.collective import Collectives
from npu_tui.trace.before import one_before
from npu_tui.trace.distinct import in_groups
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_LONGER = 3.0
_SIBLINGS = 3
_LEAST_NS = 1_000_000
_AS_LATE = 0.5
_STEADY = 0.3
"""A lateness that varies by less than this share of how the work before varies does not depend on it."""
_SLOWEST = 2.0
"""Bytes per ns that any link between ranks of a job moves: what takes longer than that waited."""


class Meeting(Struct, frozen=True, gc=False):
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


def meetings(trace: Trace, collectives: Collectives, tasks: DeviceTasks, steps: int = 0) -> tuple[Meeting, ...]:
    """The meetings of the device's ``tasks`` by start; ``steps`` is how many steps the run has."""
    guessed = unknown_waits(trace, collectives)
    fills = pipeline_fills(trace, collectives, steps)
    chosen = np.flatnonzero(tasks.kind == COLLECTIVE)
    seen, elapsed = _seen(collectives, tasks.item[chosen]), tasks.end[chosen] - tasks.start[chosen]
    fill = fill_of(fills, tasks.item[chosen])
    items = tasks.item[chosen].tolist()
    arrivals = _with_guessed(late_arrivals(seen, elapsed, fill), items, guessed)
    late = late_ranks(arrivals)
    previous = one_before(trace.slices.lane[tasks.item[chosen]])
    before = tasks.start[chosen] - tasks.end[chosen[np.maximum(previous, 0)]]
    follow = _following(seen.taken(previous[seen.owner] >= 0), before, late)
    is_late = arrivals.of(late)
    behind: dict[int, list[tuple[int, int]]] = {}
    own = arrivals.taken(is_late)
    for owner, rank, after in zip(own.owner.tolist(), own.rank.tolist(), own.after.tolist(), strict=True):
        behind.setdefault(owner, []).append((rank, after))
    others = arrivals.taken(~is_late).latest()
    columns = chosen, previous, others, fill, elapsed - arrivals.latest()
    return tuple(
        Meeting(
            task,
            item,
            before_it,
            tuple(waited),
            max(other, filling) if waited else other,
            transfer,
            peers,
            bool(waited) and max(waited, key=lambda one: one[1])[0] in follow,
        )
        for item, peers, waited, task, before_it, other, filling, transfer in zip(
            items,
            _peers(seen),
            (behind.get(k, ()) for k in range(len(items))),
            *(each.tolist() for each in columns),
            strict=True,
        )
    )


def _seen(collectives: Collectives, items: I64) -> Arrivals:
    """Who came when to each of the slices ``items``."""
    order = np.argsort(items)
    at = np.searchsorted(items, collectives.item, sorter=order)
    row = np.append(order, -1)[at]
    row[np.append(items, -1)[row] != collectives.item] = -1
    arrivals = collectives.arrivals
    owner = row[arrivals.owner]
    own = np.argsort(owner, kind="stable")
    own = own[owner[own] >= 0]
    return Arrivals(len(items), owner[own], arrivals.rank[own], arrivals.after[own])


def _peers(seen: Arrivals) -> list[frozenset[int]]:
    """The ranks that come to each collective; those of a group are the same again and again."""
    known: dict[bytes, frozenset[int]] = {}
    bounds = np.searchsorted(seen.owner, np.arange(seen.count + 1)).tolist()
    rows = [seen.rank[low:high] for low, high in pairwise(bounds)]
    keys = [row.tobytes() for row in rows]
    for key, row in zip(keys, rows, strict=True):
        if key not in known:
            known[key] = frozenset(row.tolist())
    return [known[key] for key in keys]


def _with_guessed(arrivals: Arrivals, items: Sequence[int], guessed: Mapping[int, int]) -> Arrivals:
    """``arrivals``, for the slices that are ``guessed`` to have waited one of an unknown rank instead."""
    own = np.array([k for k, item in enumerate(items) if item in guessed], np.int64)
    if not len(own):
        return arrivals
    kept = arrivals.taken(~np.isin(arrivals.owner, own))
    owner = np.concatenate((kept.owner, own))
    rank = np.concatenate((kept.rank, np.full(len(own), UNKNOWN)))
    after = np.concatenate((kept.after, np.array([guessed[items[k]] for k in own.tolist()], np.int64)))
    return Arrivals(arrivals.count, owner, rank, after).taken(np.argsort(owner, kind="stable"))


def _following(arrivals: Arrivals, before: I64, late: frozenset[int]) -> set[int]:
    """Those of the ``late`` ranks that come as late to every collective, whatever this rank had to do ``before`` it."""
    found = set()
    for rank in late - {UNKNOWN}:
        own = arrivals.taken(arrivals.rank == rank)
        lateness = own.after
        if len(lateness) < _SIBLINGS or lateness.min() < _AS_LATE * float(np.median(lateness)):
            continue
        if float(np.std(lateness)) < _STEADY * float(np.std(before[own.owner])):
            found.add(rank)
    return found


def unknown_waits(trace: Trace, collectives: Collectives) -> dict[int, int]:
    """How long collectives of unknown arrivals waited, ns by slice: what they took beyond their siblings.

    Siblings are the others of the same type and lane; where their sizes are known a collective is held against the best
    rate of them, else against their median length, and against a slow link, as all of them may have waited. Only what
    takes three times as long, and a millisecond, counts.
    """
    found: dict[int, int] = {}
    chosen = np.flatnonzero(~collectives.has_arrivals)
    item = collectives.item[chosen]
    kind = trace.slices.lane[item].astype(np.int64) * max(len(collectives.types), 1) + collectives.type[chosen]
    lengths, sizes = collectives.elapsed[chosen], np.maximum(collectives.size[chosen], 0)
    for own in in_groups(kind):
        elapsed, size = lengths[own].astype(np.float64), sizes[own].astype(np.float64)
        if len(own) < _SIBLINGS:
            expected = elapsed.copy()
        elif (size > 0).all():
            expected = np.maximum(size * float(np.min(elapsed / size)), float(elapsed.min()))
        else:
            expected = np.full(len(own), float(np.median(elapsed)))
        expected = np.where(size > 0, np.minimum(expected, size / _SLOWEST), expected)
        beyond = elapsed - expected
        waited = (lengths[own] >= _LONGER * expected) & (beyond >= _LEAST_NS)
        rows = zip(item[own[waited]].tolist(), beyond[waited].tolist(), strict=True)
        found |= {each: round(more) for each, more in rows}
    return found
