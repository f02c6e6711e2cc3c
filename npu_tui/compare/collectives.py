"""Collectives of a trace with how long each waited for whom, and those of two profiles matched.

Collectives are matched by type, communicator and place in the step, never by name: that holds a hash of the
communicator, which differs from run to run. That a task waits is told by its name; for whom stands in its args, which
are read of some steps only, as reading them takes longer than all the rest of a comparison.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.collectives import (
    Arrivals,
    Collective,
    Collectives,
    Groups,
    Timings,
    TrafficColumns,
    Waits,
    with_ranks_of_job,
)
from npu_tui.analysis.communication import owned_tasks
from npu_tui.analysis.operators import collective_type, collective_types
from npu_tui.analysis.overlap import Intervals
from npu_tui.compare.steps import StepWindow
from npu_tui.load.errors import InputError
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.model import Trace
from npu_tui.trace.transfers import NOTIFY_WAIT, groups_of, plane_task, rank_numbers

_NUMBERED = re.compile(r"Group \d+ Communication")


class CollectiveSide(Struct, frozen=True):
    """One collective of the step, mean over the steps that have it, ns; None is what the profile does not tell.

    It lasts ``elapsed``: ``wait`` until its longest wait for a peer ended, then ``transfer``; of these ``exposed_wait``
    and ``exposed_transfer`` were not hidden by computing. ``peer`` is the rank it waited for longest, in most steps;
    ``items`` are its slices.
    """

    elapsed: float
    wait: float | None
    transfer: float | None
    exposed_wait: float
    exposed_transfer: float
    peer: int | None
    items: tuple[int, ...]


class CollectiveChange(Struct, frozen=True):
    """The ``ordinal``-th collective of ``type`` in ``group`` on both sides, None where a side has none."""

    type: str
    group: str
    ordinal: int
    base: CollectiveSide | None
    new: CollectiveSide | None

    @property
    def delta(self) -> float:
        """New minus base elapsed time, ns per step."""
        return (self.new.elapsed if self.new else 0.0) - (self.base.elapsed if self.base else 0.0)


class Exchanged(Struct, frozen=True):
    """The collectives of one side in the steps ``windows``, and when communication was ``exposed``."""

    trace: Trace
    collectives: Sequence[Collective]
    windows: list[StepWindow]
    exposed: Intervals


def collective_changes(base: Exchanged, new: Exchanged) -> list[CollectiveChange]:
    """The collectives of the compared steps in the order of the base, then those that only the new side has."""
    sides = [_by_place(side) for side in (base, new)]
    names = [list(dict.fromkeys(group for _, group, _ in side)) for side in sides]
    if set(names[0]) != set(names[1]) or any(_NUMBERED.fullmatch(name) for side in names for name in side):
        # Communicators are numbered as they come; their order of first use is the program's.
        of = dict(zip(names[1], names[0], strict=False))
        sides[1] = {
            (kind, of.get(group, group), at): collectives for (kind, group, at), collectives in sides[1].items()
        }
    keys = list(dict.fromkeys([*sides[0], *sides[1]]))
    return [CollectiveChange(*key, _mean(base, sides[0].get(key)), _mean(new, sides[1].get(key))) for key in keys]


def _by_place(side: Exchanged) -> dict[tuple[str, str, int], list[Collective]]:
    by_place: dict[tuple[str, str, int], list[Collective]] = defaultdict(list)
    trace = side.trace
    starts = trace.slices.start[np.array([collective.item for collective in side.collectives], np.int64)]
    for window in side.windows:
        ordinals: dict[tuple[str, str], int] = defaultdict(int)
        low, high = np.searchsorted(starts, (window.start, window.end)).tolist()
        for collective in side.collectives[low:high]:
            kind = collective_type(trace.name_of(collective.item)).removeprefix("hcom_").rstrip("_")
            group = trace.lanes[int(trace.slices.lane[collective.item])].name
            by_place[kind, group, ordinals[kind, group]].append(collective)
            ordinals[kind, group] += 1
    return by_place


def _mean(side: Exchanged, collectives: list[Collective] | None) -> CollectiveSide | None:
    if not collectives:
        return None
    waits = [collective.waited for collective in collectives if collective.waited is not None]
    peers = [collective.peer for collective in collectives if collective.peer is not None]
    elapsed = sum(collective.elapsed for collective in collectives) / len(collectives)
    wait = sum(waits) / len(waits) if len(waits) == len(collectives) else None
    start = side.trace.slices.start[np.array([collective.item for collective in collectives], np.int64)].astype(
        np.float64
    )
    turn = start + np.array([collective.waited or 0 for collective in collectives])
    end = start + np.array([collective.elapsed for collective in collectives])
    exposed = [float(covered_before(*side.exposed, time).sum()) for time in (start, turn, end)]
    return CollectiveSide(
        elapsed,
        wait,
        None if wait is None else elapsed - wait,
        float(exposed[1] - exposed[0]) / len(collectives),
        float(exposed[2] - exposed[1]) / len(collectives),
        max(peers, key=peers.count) if peers else None,
        tuple(collective.item for collective in collectives),
    )


_ASKED_STEPS = 16
"""Steps, evenly over the run, in which the peer of a wait is looked up."""


def exchanges(trace: Trace, groups: Groups, windows: Sequence[StepWindow]) -> Collectives:
    """The collectives by start: elapsed time, the longest wait on any plane and when it ended, in ns.

    ``groups`` gives the ranks of the job; the peer is known in some of the steps ``windows``, else None.
    """
    slices = trace.slices
    is_wait = np.array([plane_task(name) == NOTIFY_WAIT for name in trace.names] + [False])
    called = [np.arange(group.first, group.last) for group, _ in groups_of(trace)]
    items = np.concatenate([np.zeros(0, np.int64), *called])
    items = items[np.argsort(slices.start[items], kind="stable")]
    owner, _, tasks = owned_tasks(trace, items)
    waiting = is_wait[slices.name[tasks]]
    owner, tasks = owner[waiting], tasks[waiting]
    order = np.lexsort((slices.end[tasks] - slices.start[tasks], owner))
    waits = np.full(len(items), -1, np.int64)
    waits[owner[order]] = tasks[order]  # of several the last one stays
    source, target = _peers(trace, items, waits, windows)
    collectives = _waiting(trace, items, waits, source, target)
    return with_ranks_of_job(trace, collectives, groups)


def _waiting(trace: Trace, items: I64, waits: I64, source: I64, target: I64) -> Collectives:
    """The collectives ``items`` with the longest wait of each, -1 for none, and the ranks at both of its ends."""
    slices, count = trace.slices, len(items)
    known, nothing = waits >= 0, np.zeros(count, np.int64)
    longest = np.maximum(waits, 0)
    until = np.minimum(slices.end[longest], slices.end[items]) - slices.start[items]
    met = np.flatnonzero(known & (target >= 0))
    owner = np.repeat(met, 2)
    rank = np.stack((np.maximum(source[met], 0), target[met]), axis=1).ravel()
    after = np.stack((nothing[met], until[met]), axis=1).ravel()
    return Collectives(
        items,
        slices.end[items] - slices.start[items],
        *collective_types(trace, items),
        Timings(np.zeros(count, np.bool_), nothing, nothing, nothing, nothing),
        TrafficColumns(nothing[:0], nothing[:0], nothing[:0], nothing[:0], ()),
        Waits(known, slices.end[longest] - slices.start[longest], target, until, nothing),
        Arrivals(count, owner, rank, after),
        nothing,
        ("",),
        nothing - 1,
        nothing - 1,
    )


def _peers(trace: Trace, items: I64, waits: I64, windows: Sequence[StepWindow]) -> tuple[I64, I64]:
    """Rank of this side and of the peer of each wait, -1 where it was not looked up or is not told; (n,) each."""
    source, target = np.full(len(items), -1, np.int64), np.full(len(items), -1, np.int64)
    chosen = np.zeros(len(items), np.bool_)
    start = trace.slices.start[items]
    # Args are decoded from the file, so only waits of some steps are asked for their peer.
    for k in np.unique(np.linspace(0, len(windows) - 1, _ASKED_STEPS).astype(np.int64)).tolist():
        chosen |= (start >= windows[k].start) & (start <= windows[k].end)
    asked = np.flatnonzero(chosen & (waits >= 0))
    try:
        columns = trace.args.columns(trace.slices.event[waits[asked]], ("src rank", "dst rank"))
    except InputError:
        return source, target
    source[asked], target[asked] = map(rank_numbers, columns)
    return source, target
