"""How one kernel came to run: Python op, enqueue, queue, dequeue, launch, wait, run.

The stages are those of MindStudio Insight's Kernel E2E table, split at the launch point of the HostToDevice link.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.launches import operation_of
from npu_tui.trace.kineto import bound_launch_links
from npu_tui.trace.model import TASK_QUEUE, Trace

StageName = Literal["op", "enqueue", "queue", "dequeue", "launch", "wait", "run"]

_HOPS = 4  # links followed at most from a host slice to its launch, such as enqueue to dequeue to launching call


class Stage(Struct, frozen=True):
    """One stage from ``start`` to ``end`` (ns; a wait can be negative) in slice ``item``, -1 between slices."""

    name: StageName
    item: int
    start: int
    end: int


class Chain(Struct, frozen=True):
    """The stages of the device slice ``kernel`` in the order of time, and its HostToDevice link."""

    kernel: int
    link: int
    stages: tuple[Stage, ...]

    @property
    def start(self) -> int:
        """Start of the first stage, ns."""
        return min(stage.start for stage in self.stages)

    def holds(self, item: int) -> bool:
        """Whether slice ``item`` is one of the stages."""
        return any(stage.item == item for stage in self.stages)

    def beside(self, item: int, direction: int) -> int | None:
        """The slice of the next (1) or previous (-1) stage of ``item``; None at the end or for another ``item``."""
        items = [stage.item for stage in self.stages if stage.item >= 0]
        at = items.index(item) + direction if item in items else -1
        return items[at] if 0 <= at < len(items) else None

    @property
    def end(self) -> int:
        """The latest end of a stage, ns: that of the kernel, unless the device's clock is behind the host's."""
        return max(stage.end for stage in self.stages)


def chain_of(trace: Trace, item: int) -> Chain | None:
    """The chain of a kernel; ``item`` is the kernel or a host slice that leads to it. None without a launch link."""
    link = _launch_link(trace, item)
    if link is None:
        return None
    slices, links = trace.slices, trace.links
    kernel, launch, point = int(links.target_slice[link]), int(links.source_slice[link]), int(links.source_time[link])
    dequeue = _dequeue_around(trace, launch, point)
    enqueue = _source_of(trace, dequeue, TASK_QUEUE) if dequeue >= 0 else -1
    op = int(operation_of(trace, np.array([kernel]))[0])
    stages: list[Stage] = []
    begin: int | None = None
    if op >= 0 and op != launch:
        begin = int(slices.start[op])
        following = enqueue if enqueue >= 0 else dequeue if dequeue >= 0 else launch
        until = int(slices.start[following]) if following >= 0 else point
        # Where the next slice began before the operation, the two do not belong together.
        if until >= begin:
            stages.append(Stage("op", op, begin, until))
    if enqueue >= 0:
        stages.append(Stage("enqueue", enqueue, int(slices.start[enqueue]), int(slices.end[enqueue])))
        stages.append(Stage("queue", -1, int(slices.end[enqueue]), int(slices.start[dequeue])))
    # Without CANN slices the link starts in the Dequeue slice itself, or in no slice.
    launched = int(slices.start[launch]) if launch >= 0 and launch != dequeue else point
    if dequeue >= 0:
        stages.append(Stage("dequeue", dequeue, int(slices.start[dequeue]), launched))
    if launch >= 0 and launch != dequeue:
        stages.append(Stage("launch", launch, launched, point))
    stages.append(Stage("wait", -1, point, int(slices.start[kernel])))
    stages.append(Stage("run", kernel, int(slices.start[kernel]), int(slices.end[kernel])))
    return Chain(kernel, link, tuple(stages))


def _launch_link(trace: Trace, item: int) -> int | None:
    """The HostToDevice link of ``item``: the one that ends in it, else the first one reached from it by links."""
    links, slices = trace.links, trace.slices
    launches = bound_launch_links(trace)
    arriving = launches[links.target_slice[launches] == item]
    if len(arriving):
        return int(arriving[0])
    tid_of = np.array([lane.tid for lane in trace.lanes] + [-1], np.int64)
    # CANN and Python show one thread as two lanes of the same tid: a launch inside counts on either.
    for _ in range(_HOPS):
        start, end, tid = int(slices.start[item]), int(slices.end[item]), int(tid_of[slices.lane[item]])
        same = tid_of[links.source_lane[launches]] == tid
        inside = launches[same & (links.source_time[launches] >= start) & (links.source_time[launches] < end)]
        if len(inside):
            return int(inside[np.argmin(links.source_time[inside])])
        on_lane = (links.source_lane == slices.lane[item]) & (links.target_slice >= 0)
        out = np.flatnonzero(on_lane & (links.source_time >= start) & (links.source_time < end))
        if not len(out):
            return None
        item = int(links.target_slice[out[np.argmin(links.source_time[out])]])
        arriving = launches[links.target_slice[launches] == item]
        if len(arriving):
            return int(arriving[0])
    return None


def _dequeue_around(trace: Trace, launch: int, point: int) -> int:
    """The ``Dequeue`` slice on the launching thread's Python lane around ``point``, -1 without a task queue."""
    slices = trace.slices
    if launch < 0 or "dequeue" not in trace.categories:
        return -1
    category = trace.categories.index("dequeue")
    tid = trace.lanes[int(slices.lane[launch])].tid
    for layer in trace.layers:
        if layer.kind != "python":
            continue
        for lane in (trace.lanes[index] for index in layer.lanes):
            if lane.tid != tid:
                continue
            slices_of_lane = slice(lane.first, lane.last)
            around = (
                (slices.start[slices_of_lane] <= point)
                & (slices.end[slices_of_lane] >= point)
                & (slices.category[slices_of_lane] == category)
            )
            dequeues = np.flatnonzero(around)
            if len(dequeues):
                return lane.first + int(dequeues[-1])
    return -1


def _source_of(trace: Trace, item: int, category: str) -> int:
    """The slice at the source of the ``category`` link into ``item``, -1 without one."""
    arriving = trace.links_of(category)
    arriving = arriving[trace.links.target_slice[arriving] == item]
    return int(trace.links.source_slice[arriving[0]]) if len(arriving) else -1
