"""Events that a file holds twice: an exporter appended again, or files of one process were put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import fields

from npu_tui.load.layers import ProcessPlan
from npu_tui.trace.arrays import I32, I64, Bools
from npu_tui.trace.model import Links

_LEAST_SHARE = 0.1
"""A stream runs one task at a time: where a tenth of its tasks lies on equal ones, the file holds them twice."""


def first_of_equals(lane: I32, start: I64, end: I64, streams: Bools, names: Callable[[], I32]) -> Bools | None:
    """The slices without those that equal another one in lane, name, start and end; (n,). None where a file has none.

    The slices are sorted by lane, start and end; ``names`` gives the name of each. ``streams`` says which lanes hold
    the tasks of a device: they tell whether events are doubled, as calls of the host may begin and end together.
    """
    if not streams.any():
        return None
    telling = (end > start) & streams[lane]
    same = np.append(False, (lane[1:] == lane[:-1]) & (start[1:] == start[:-1]) & (end[1:] == end[:-1]))
    least = _LEAST_SHARE * np.count_nonzero(telling)
    if not least or np.count_nonzero(same & telling) < least:
        return None
    name, group = names(), np.cumsum(~same)
    order = np.lexsort((name, group))
    again = np.zeros(len(lane), np.bool_)
    again[order[1:]] = (group[order][1:] == group[order][:-1]) & (name[order][1:] == name[order][:-1])
    return None if np.count_nonzero(again & telling) < least else ~again


def twin_processes(
    plans: list[ProcessPlan], threads: Sequence[tuple[int, int]], thread: I32, start: I64, end: I64
) -> dict[int, int]:
    """The processes that another one equals in name, device, threads and times, by pid, and the pid of that one.

    ``threads`` are the (pid, tid) that ``thread`` indexes, (n,); ``start`` and ``end`` are those of the slices. A file
    that was put together from two exports of one run may have both under pids of their own.
    """
    alike: dict[tuple[object, ...], list[int]] = {}
    for plan in plans:
        if plan.threads:
            alike.setdefault((plan.name, plan.kind, plan.device, *sorted(plan.threads)), []).append(plan.pid)
    asked = {pid for pids in alike.values() if len(pids) > 1 for pid in pids}
    if not asked:
        return {}
    of_pid = np.array([pid for pid, _ in threads], object)
    sums = {}
    for pid in asked:
        inside = (of_pid == pid)[thread]
        sums[pid] = int(inside.sum()), int(start[inside].sum()), int(end[inside].sum())
    twins: dict[int, int] = {}
    for pids in alike.values():
        first = {sums[pid]: pid for pid in reversed(pids)} if len(pids) > 1 else {}
        twins |= {pid: first[sums[pid]] for pid in pids if first and first[sums[pid]] != pid}
    return twins


def distinct_links(links: Links) -> Links:
    """``links`` without those that equal another one in everything but their place in the file."""
    columns = ("key", "source_time", "target_time", "source_slice", "target_slice", "source_lane", "target_lane")
    rows = np.stack([getattr(links, name).astype(np.int64) for name in columns], axis=1)
    first = np.sort(np.unique(rows, axis=0, return_index=True)[1])
    return Links(**{field.name: getattr(links, field.name)[first] for field in fields(Links)})
