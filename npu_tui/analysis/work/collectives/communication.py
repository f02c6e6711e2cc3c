"""Collectives: how long they waited and moved data, and for which peer.

The rules are those of msprof's communication.json: waiting and moving are read off one plane, the first that talks to
another rank, the amount of data off all planes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.window import EVERYTHING, Window
from npu_tui.trace.communication import groups_of
from npu_tui.trace.communication_args import PlaneArgs
from npu_tui.trace.model import Lane, Trace

T = TypeVar("T")

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ON_CHIP = "ON_CHIP"

_WAIT = "Notify_Wait"
_TRANSIT = ("Memcpy", "Reduce_Inline")
_REMOTE_MEMORY = "RDMA"


class Timing(Struct, frozen=True):
    """What the master plane did during a collective, ns; ``synchronization`` is the wait before the first transfer."""

    wait: int
    transit: int
    synchronization: int
    idle: int


class Traffic(Struct, frozen=True):
    """What all tasks over one type of link moved: ``size`` in bytes, the sum of their durations in ns."""

    link_type: str
    size: int
    transfer: int


class Collective(Struct, frozen=True):
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


def collectives(trace: Trace, args: PlaneArgs, window: Window = EVERYTHING) -> list[Collective]:
    """The collectives that start in ``window``, by start; ``args`` covers ``plane_tasks(trace)``."""
    found: list[Collective] = []
    for group, planes in groups_of(trace):
        begin = trace.slices.start[group.first : group.last]
        items = group.first + np.flatnonzero(window.holds(begin))
        found += _of_group(trace, args, items, planes)
    return sorted(found, key=lambda row: int(trace.slices.start[row.item]))


class _Tasks(Struct, frozen=True):
    """The plane tasks ``item`` of collectives ``owner`` (0…), by collective, plane and start, with their args; (n,)."""

    owner: I64
    plane: I64
    item: I64
    length: I64
    source: I64
    target: I64
    size: I64
    link: I64
    wait: Bools
    transit: Bools
    remote: Bools

    def taken(self, chosen: Bools | I64) -> _Tasks:
        """Some of them."""
        return _Tasks(*(getattr(self, name)[chosen] for name in self.__struct_fields__))


def _of_group(trace: Trace, args: PlaneArgs, items: I64, planes: list[Lane]) -> list[Collective]:
    """The collectives ``items`` of one group, whose tasks stand on ``planes``."""
    slices, count = trace.slices, len(items)
    begin, end = slices.start[items], slices.end[items]
    tasks = _tasks(trace, args, begin, end, planes)
    timing = _timings(tasks, end - begin)
    traffic = _traffic(tasks, args.links, count)
    waits = tasks.taken(tasks.wait)
    arrivals = _arrivals(trace, waits, begin)
    # The longest wait of each; of equals the one for the highest rank, then the last.
    order = np.lexsort((waits.target, waits.length, waits.owner))
    last = order[np.flatnonzero(np.diff(waits.owner[order], append=-1))]
    longest: list[tuple[int, int, int] | None] = [None] * count
    waited = np.minimum(slices.end[waits.item[last]], end[waits.owner[last]]) - begin[waits.owner[last]]
    rows = (waits.owner[last], waits.length[last], waits.target[last], waited)
    for owner, length, peer, until in zip(*(row.tolist() for row in rows), strict=True):
        longest[owner] = length, peer, until
    found = []
    for number, (item, elapsed) in enumerate(zip(items.tolist(), (end - begin).tolist(), strict=True)):
        wait, peer, until = longest[number] or (None, None, None)
        found.append(
            Collective(
                item,
                elapsed,
                timing[number],
                traffic[number],
                wait,
                None if peer is None or peer < 0 else peer,
                arrivals[number],
                until,
            )
        )
    return found


def _tasks(trace: Trace, args: PlaneArgs, begin: I64, end: I64, planes: list[Lane]) -> _Tasks:
    slices = trace.slices
    owners, numbers, items = [], [], []
    for number, plane in enumerate(planes):
        time = slices.start[plane.first : plane.last]
        low, high = np.searchsorted(time, begin), np.searchsorted(time, end)
        count = np.maximum(high - low, 0)
        before = np.cumsum(count) - count
        owners.append(np.repeat(np.arange(len(begin)), count))
        items.append(plane.first + np.repeat(low - before, count) + np.arange(int(count.sum())))
        numbers.append(np.full(int(count.sum()), number))
    owner, number_of, item = (np.concatenate([*each, np.zeros(0, np.int64)]) for each in (owners, numbers, items))
    order = np.lexsort((item, number_of, owner))
    owner, number_of, item = owner[order], number_of[order], item[order]
    row, name = np.searchsorted(args.item, item), slices.name[item]
    on_chip = args.over(lambda link: link == ON_CHIP)  # such copies are no transfers
    return _Tasks(
        owner,
        number_of,
        item,
        slices.end[item] - slices.start[item],
        args.source_rank[row].astype(np.int64),
        args.target_rank[row].astype(np.int64),
        args.size[row],
        args.link[row].astype(np.int64),
        _mask(trace, lambda name: name == _WAIT)[name],
        _mask(trace, lambda name: name in _TRANSIT)[name] & ~on_chip[row],
        _mask(trace, lambda name: name.startswith(_REMOTE_MEMORY))[name],
    )


def _timings(tasks: _Tasks, elapsed: I64) -> list[Timing | None]:
    """The timing of each by its first plane that talks to another rank; None without one, or with remote memory."""
    count = len(elapsed)
    talks = (tasks.target >= 0) & (tasks.target != tasks.source)
    nowhere = np.iinfo(np.int64).max
    master = np.full(count, nowhere)
    np.minimum.at(master, tasks.owner[talks], tasks.plane[talks])
    own = tasks.taken(tasks.plane == master[tasks.owner])
    at = np.arange(len(own.owner))
    moved = np.full(count, nowhere)
    np.minimum.at(moved, own.owner[own.transit], at[own.transit])
    early = own.wait & (at < moved[own.owner])
    wait, transit, synchronization = (
        _sums(own.owner[mask], own.length[mask], count) for mask in (own.wait, own.transit, early)
    )
    known = (master < nowhere) & (np.bincount(own.owner[own.remote], minlength=count) == 0)
    rows = (known, wait, transit, synchronization, elapsed - wait - transit)
    return [Timing(*values) if told else None for told, *values in zip(*(row.tolist() for row in rows), strict=True)]


def _traffic(tasks: _Tasks, links: list[str], count: int) -> list[list[Traffic] | None]:
    """What the tasks of each moved off the chip by type of link; None where nothing is known."""
    moving = tasks.taken(tasks.transit & (tasks.size >= 0))
    key = moving.owner * max(len(links), 1) + moving.link
    keys, code = np.unique(key, return_inverse=True)
    size, length = _sums(code, moving.size, len(keys)), _sums(code, moving.length, len(keys))
    owner, link = np.divmod(keys, max(len(links), 1))
    rows = [
        Traffic(links[kind], bytes_, time)
        for kind, bytes_, time in zip(link.tolist(), size.tolist(), length.tolist(), strict=True)
    ]
    return _by_owner(rows, owner, count)


def _arrivals(trace: Trace, waits: _Tasks, begin: I64) -> list[list[tuple[int, int]] | None]:
    """End of the earliest wait for each peer after the start of each; None where no task names a peer."""
    slices = trace.slices
    waits = waits.taken((waits.target >= 0) & (waits.source >= 0))
    first = np.flatnonzero(np.diff(waits.owner, prepend=-1))
    start, end = slices.start[waits.item], slices.end[waits.item]
    order = np.lexsort((end, start, waits.target, waits.owner))
    owner, target = waits.owner[order], waits.target[order]
    new = np.flatnonzero((np.diff(owner, prepend=-1) != 0) | (np.diff(target, prepend=-1) != 0))
    # This rank itself is there at the start.
    ranks = np.concatenate((waits.source[first], target[new]))
    after = np.concatenate((np.zeros(len(first), np.int64), end[order[new]] - begin[owner[new]]))
    owner = np.concatenate((waits.owner[first], owner[new]))
    order = np.lexsort((after, ranks, owner))
    rows = list(zip(ranks[order].tolist(), after[order].tolist(), strict=True))
    return _by_owner(rows, owner[order], len(begin))


def _by_owner(rows: list[T], owner: I64, count: int) -> list[list[T] | None]:
    """The ``rows`` of each of ``count`` owners, who are ascending; None without any."""
    bounds = np.searchsorted(owner, np.arange(count + 1)).tolist()
    return [rows[low:high] or None for low, high in pairwise(bounds)]


def _sums(code: I64, values: I64, count: int) -> I64:
    """The sum of ``values`` for every code below ``count``."""
    found = np.zeros(count, np.int64)
    np.add.at(found, code, values)
    return found


def _mask(trace: Trace, rule: Callable[[str], bool]) -> Bools:
    """Which name codes fulfil ``rule``; (names + 1,), the absent code does not."""
    return np.array([rule(name) for name in trace.names] + [False], np.bool_)
