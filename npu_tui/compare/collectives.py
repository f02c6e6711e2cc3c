"""Collectives of two profiles matched, with how long each waited for whom.

They are matched by type, communicator and place in the step, never by name: that holds a hash of the communicator,
which differs from run to run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.collectives import Collective
from npu_tui.analysis.operators import collective_type
from npu_tui.analysis.overlap import Intervals
from npu_tui.compare.steps import StepWindow
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.model import Trace

_NUMBERED = re.compile(r"Group \d+ Communication")


class CollectiveSide(Struct, frozen=True):
    """One collective of the step, mean over the steps that have it, ns; None is what the profile does not tell.

    It lasts ``elapsed``: ``wait`` until all ranks had come, then ``transfer``; of these ``exposed_wait`` and
    ``exposed_transfer`` were not hidden by computing. ``peer`` is the rank it waited for longest, in most steps;
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
