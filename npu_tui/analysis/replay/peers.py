"""Who comes when to the collectives of a run, and how long each takes once all are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npu_tui.analysis.replay.device import COLLECTIVE, DeviceTasks
from npu_tui.analysis.work.communication import Collective
from npu_tui.analysis.work.operators import collective_type
from npu_tui.trace.model import Trace

UNKNOWN = -1
"""The rank of a peer that is not known."""
TOGETHER_NS = 300_000
"""Ranks that come within this time of each other come together: they run the same code and move as one."""
_LONGER = 3.0
_SIBLINGS = 3
_LEAST_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Meeting:
    """One collective: ``task`` of the device's tasks, ``item`` its slice, ``previous`` the meeting before in its group.

    ``peers`` are (rank of the group, ns after this rank), UNKNOWN where only the length tells that it waited; those
    that came together with this rank are left out. ``transfer`` is the time from the last arrival to the end, ns.
    """

    task: int
    item: int
    previous: int
    peers: tuple[tuple[int, int], ...]
    transfer: int

    def wait(self, in_time: frozenset[int] = frozenset()) -> int:
        """How long this rank waits where the ranks ``in_time`` no longer come last, ns."""
        return max((after for rank, after in self.peers if rank not in in_time), default=0)


def meetings(
    trace: Trace, collectives: Sequence[Collective], tasks: DeviceTasks, sizes: Mapping[int, int] | None = None
) -> tuple[Meeting, ...]:
    """The meetings of the device's ``tasks`` by start; ``sizes`` are bytes by slice where they are known."""
    known = {each.item: each for each in collectives}
    guessed = unknown_waits(trace, [each for each in collectives if each.arrivals is None], sizes or {})
    previous: dict[int, int] = {}
    found: list[Meeting] = []
    for task in np.flatnonzero(tasks.kind == COLLECTIVE).tolist():
        item = int(tasks.item[task])
        elapsed = int(tasks.end[task] - tasks.start[task])
        each = known.get(item)
        if each is not None and each.arrivals is not None:
            peers = [(rank, min(after, elapsed)) for rank, after in each.arrivals if after > TOGETHER_NS]
        else:
            peers = [(UNKNOWN, guessed[item])] if item in guessed else []
        lane = int(trace.slices.lane[item])
        last = max((after for _, after in peers), default=0)
        found.append(Meeting(task, item, previous.get(lane, -1), tuple(peers), elapsed - last))
        previous[lane] = len(found) - 1
    return tuple(found)


def unknown_waits(trace: Trace, collectives: Sequence[Collective], sizes: Mapping[int, int]) -> dict[int, int]:
    """How long collectives of unknown arrivals waited, ns by slice: what they took beyond their siblings.

    Siblings are the others of the same type and lane; with ``sizes`` a collective is held against the best rate of
    them, else against their median length. Only what takes three times as long, and a millisecond, counts.
    """
    rows: dict[tuple[int, str], list[Collective]] = {}
    for each in collectives:
        key = int(trace.slices.lane[each.item]), collective_type(trace.name_of(each.item))
        rows.setdefault(key, []).append(each)
    found: dict[int, int] = {}
    for own in rows.values():
        if len(own) < _SIBLINGS:
            continue
        elapsed = np.array([each.elapsed for each in own], np.float64)
        size = np.array([sizes.get(each.item, 0) for each in own], np.float64)
        if (size > 0).all():
            expected = np.maximum(size * float(np.min(elapsed / size)), float(elapsed.min()))
        else:
            expected = np.full(len(own), float(np.median(elapsed)))
        beyond = elapsed - expected
        for each, more, usual in zip(own, beyond.tolist(), expected.tolist(), strict=True):
            if each.elapsed >= _LONGER * usual and more >= _LEAST_NS:
                found[each.item] = round(more)
    return found
