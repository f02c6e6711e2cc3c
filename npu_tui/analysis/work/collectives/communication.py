"""Collectives: how long they waited and moved data, and for which peer.

The rules are those of msprof's communication.json: waiting and moving are read off one plane, the first that talks to
another rank, the amount of data off all planes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.device import is_group_lane
from npu_tui.analysis.window import EVERYTHING, Window
from npu_tui.trace.model import Lane, Trace

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ON_CHIP = "ON_CHIP"

NO_RANK = 4_294_967_295
"""What msprof writes for a rank that a task has none of."""

_MOST = 1 << 44
"""No task moves as many bytes, so that the sum over those of a collective stays in 64 bits."""

_WAIT = "Notify_Wait"
_TRANSIT = ("Memcpy", "Reduce_Inline")
_REMOTE_MEMORY = "RDMA"
_ARGS = ("src rank", "dst rank", "size(Byte)", "link type")


@dataclass(frozen=True, slots=True)
class PlaneArgs:
    """Args of the plane tasks ``item`` (slices in ascending order); (n,) each.

    ``source_rank`` and ``target_rank`` are ranks of the group, -1 where the task names none; ``size`` is in bytes, -1
    where unknown; ``link_type`` is text such as ``HCCS`` or ``ON_CHIP``.
    """

    item: I64
    source_rank: I64
    target_rank: I64
    size: I64
    link_type: list[str]


@dataclass(frozen=True, slots=True)
class Timing:
    """What the master plane did during a collective, ns; ``synchronization`` is the wait before the first transfer."""

    wait: int
    transit: int
    synchronization: int
    idle: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """What all tasks over one type of link moved: ``size`` in bytes, the sum of their durations in ns."""

    link_type: str
    size: int
    transfer: int


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective; None is what its plane tasks do not tell.

    ``traffic`` is what went to other chips. ``longest_wait`` is the longest Notify_Wait on any plane (ns), for
    ``peer``; it ended ``waited`` ns after the start. ``arrivals`` are (rank, ns after the start at which it was
    there), this rank at 0; ranks are those of the group, or of the job where its groups are known. ``algorithm`` is the
    ``alg_type`` that was used, ``size`` what the collective works on, in bytes.
    """

    item: int
    elapsed: int
    timing: Timing | None
    traffic: list[Traffic] | None
    longest_wait: int | None
    peer: int | None
    arrivals: list[tuple[int, int]] | None
    waited: int | None = None
    algorithm: str = ""
    size: int | None = None

    @property
    def neighbours_only(self) -> bool:
        """Whether its ranks only talk to those beside them, so that who is late farther away cannot be seen."""
        return self.algorithm.upper().split("-")[-1] == "RING" and "MESH" not in self.algorithm.upper()


def plane_tasks(trace: Trace) -> I64:
    """All slices on the plane lanes of communication layers, ascending."""
    lanes = [lane for group, planes in groups_of(trace) for lane in planes]
    found = [np.arange(lane.first, lane.last, dtype=np.int64) for lane in lanes]
    return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)


def plane_args(trace: Trace) -> PlaneArgs:
    """The args of all plane tasks, read from the file. Raises ``InputError`` if that is gone or has changed."""
    tasks = plane_tasks(trace)
    source, target, size, link_type = trace.args.many(trace.slices.event[tasks], _ARGS)
    return PlaneArgs(
        tasks,
        rank_numbers(source),
        rank_numbers(target),
        _whole_numbers(size),
        [value if isinstance(value, str) else "" for value in link_type],
    )


def rank_numbers(values: list[Any]) -> I64:
    """``values`` of an arg such as ``dst rank`` as numbers, -1 where one is no rank; (n,)."""
    ranks = _whole_numbers(values)
    return np.where(ranks == NO_RANK, -1, ranks)


def _whole_numbers(values: list[Any]) -> I64:
    """``values``, -1 where one is none or too large to be true."""
    return np.array([value if type(value) is int and -1 <= value < _MOST else -1 for value in values], np.int64)


def groups_of(trace: Trace) -> list[tuple[Lane, list[Lane]]]:
    """The group lanes of every communication layer with their planes, which follow them by thread id."""
    found: list[tuple[Lane, list[Lane]]] = []
    for layer in trace.layers:
        if layer.kind != "communication":
            continue
        group: Lane | None = None
        for lane in sorted((trace.lanes[index] for index in layer.lanes), key=lambda lane: lane.tid):
            if is_group_lane(lane.name):
                group = lane
                found.append((lane, []))
            elif group is not None:
                found[-1][1].append(lane)
    return found


def collectives(trace: Trace, args: PlaneArgs, window: Window = EVERYTHING) -> list[Collective]:
    """The collectives that start in ``window``, by start; ``args`` covers ``plane_tasks(trace)``."""
    found: list[Collective] = []
    tasks = _Tasks(trace, args)
    for group, planes in groups_of(trace):
        begin, end = trace.slices.start[group.first : group.last], trace.slices.end[group.first : group.last]
        times = [trace.slices.start[plane.first : plane.last] for plane in planes]
        bounds = [(np.searchsorted(time, begin), np.searchsorted(time, end)) for time in times]
        for number in np.flatnonzero(window.holds(begin)).tolist():
            own = [
                np.arange(plane.first + int(low[number]), plane.first + int(high[number]))
                for plane, (low, high) in zip(planes, bounds, strict=True)
            ]
            found.append(tasks.collective(group.first + number, [each for each in own if len(each)]))
    return sorted(found, key=lambda row: int(trace.slices.start[row.item]))


class _Tasks:
    """The columns of plane tasks by slice."""

    def __init__(self, trace: Trace, args: PlaneArgs) -> None:
        self._slices = trace.slices
        self._args = args
        self._wait = _mask(trace, lambda name: name == _WAIT)
        self._transit = _mask(trace, lambda name: name in _TRANSIT)
        self._remote = _mask(trace, lambda name: name.startswith(_REMOTE_MEMORY))
        codes = {link: code for code, link in enumerate(dict.fromkeys(args.link_type))}
        self._links = list(codes)
        self._link = np.array([codes[link] for link in args.link_type], np.int64)
        self._off_chip = self._link != codes.get(ON_CHIP, -1)

    def collective(self, item: int, planes: list[I64]) -> Collective:
        """The collective ``item``, whose tasks are ``planes``, one array of slices per plane that has any."""
        start, end = int(self._slices.start[item]), int(self._slices.end[item])
        if not planes:
            return Collective(item, end - start, None, None, None, None, None)
        tasks = np.concatenate(planes)
        row = self._rows(tasks)
        length = self._slices.end[tasks] - self._slices.start[tasks]
        moving = self._transit[self._slices.name[tasks]] & self._off_chip[row] & (self._args.size[row] >= 0)
        waits = np.flatnonzero(self._wait[self._slices.name[tasks]])
        longest, peer, waited = None, None, None
        if len(waits):
            at = waits[np.lexsort((self._args.target_rank[row[waits]], length[waits]))[-1]]
            longest, peer = int(length[at]), int(self._args.target_rank[row[at]])
            waited = min(int(self._slices.end[tasks[at]]), end) - start
        return Collective(
            item,
            end - start,
            self._timing(planes, end - start),
            self._traffic(row[moving], length[moving]),
            longest,
            None if peer is None or peer < 0 else peer,
            self._arrivals(tasks[waits], start),
            waited,
        )

    def _traffic(self, row: I64, length: I64) -> list[Traffic] | None:
        """The tasks at ``row`` of the args by type of link; None without any."""
        link = self._link[row]
        return [
            Traffic(self._links[code], int(self._args.size[row[link == code]].sum()), int(length[link == code].sum()))
            for code in np.unique(link).tolist()
        ] or None

    def _rows(self, tasks: I64) -> I64:
        return np.searchsorted(self._args.item, tasks)

    def _timing(self, planes: list[I64], elapsed: int) -> Timing | None:
        """The timing of the first plane that talks to another rank; None without one, or with remote memory access."""
        for tasks in planes:
            row = self._rows(tasks)
            source, target = self._args.source_rank[row], self._args.target_rank[row]
            if not ((target >= 0) & (target != source)).any():
                continue
            name = self._slices.name[tasks]
            if self._remote[name].any():
                return None
            length = self._slices.end[tasks] - self._slices.start[tasks]
            wait, transit = self._wait[name], self._transit[name]
            moved = np.flatnonzero(transit)
            early = wait.copy()
            early[moved[0] if len(moved) else len(tasks) :] = False
            waited, moving = int(length[wait].sum()), int(length[transit].sum())
            return Timing(waited, moving, int(length[early].sum()), elapsed - waited - moving)
        return None

    def _arrivals(self, waits: I64, start: int) -> list[tuple[int, int]] | None:
        """End of the earliest wait for each peer after ``start``; None where no task names a peer."""
        row = self._rows(waits)
        target, source = self._args.target_rank[row], self._args.source_rank[row]
        known = (target >= 0) & (source >= 0)
        waits, target, source = waits[known], target[known], source[known]
        if not len(waits):
            return None
        order = np.lexsort((self._slices.end[waits], self._slices.start[waits], target))
        peers, first = np.unique(target[order], return_index=True)
        after = self._slices.end[waits[order[first]]] - start
        return sorted([(int(source[0]), 0), *zip(peers.tolist(), after.tolist(), strict=True)])


def _mask(trace: Trace, rule: Callable[[str], bool]) -> Bools:
    """Which name codes fulfil ``rule``; (names + 1,), the absent code does not."""
    return np.array([rule(name) for name in trace.names] + [False], np.bool_)
