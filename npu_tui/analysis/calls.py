"""Calls of the host: the CANN runtime by name, blocking calls, the tree of Python calls, framework operations.

How one kernel came to run: the stages are those of MindStudio Insight's Kernel E2E table, split at the launch point of
the HostToDevice link.
"""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.device import HOST, Window, named_on
from npu_tui.analysis.launches import Around, operation_of, operation_pairs
from npu_tui.trace.arrays import I64, distinct, most_first
from npu_tui.trace.classes import names_step
from npu_tui.trace.intervals import clipped
from npu_tui.trace.kineto import runtime_calls
from npu_tui.trace.model import FORWARD_BACKWARD, TASK_QUEUE, Lane, Trace
from npu_tui.trace.once import of_trace
from npu_tui.trace.recorder import bound_launch_links

READING_OPERATIONS = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"})
"""Operations of the framework that wait for one number of the device, and do nothing else, such as ``loss.item()``."""

BLOCKING_OPERATIONS = READING_OPERATIONS | {"aten::nonzero", "Event::synchronize"}
"""Operations of the framework that wait for the device."""

SIZED_OPERATIONS = frozenset({
    "aten::nonzero", "aten::argwhere", "aten::masked_select", "aten::_unique2", "aten::unique_dim",
    "aten::unique_consecutive", "aten::repeat_interleave", "aten::bincount", "torchvision::nms",
})  # fmt: skip
"""Operations whose result is as large as the data say: the host waits to read its size."""

BLOCKING_COPIES = frozenset({"aten::copy_", "aten::_to_copy"})
"""Operations that end with their copy where it blocks; calls of CANN that wait are not recorded at level 0."""

_LEVELS = {"AscendCL": "acl", "Model": "model", "Node": "node", "Hccl": "hccl", "Communication": "communication"}

# Of the runtimes of CUDA, ROCm and MUSA, of the drivers of two, and of Level Zero and SYCL.
_BLOCKING = re.compile(
    r"(?:cuda|hip|musa)(?:(?:Device|Stream|Event)Synchronize|Memcpy(?:WithStream)?)"
    r"|[cm]u(?:Ctx|Stream|Event)Synchronize|cuMemcpy(?:HtoD|DtoH)?(?:_v2)?"
    r"|ze(?:Event|Fence|CommandQueue|CommandList)(?:Host)?Synchronize|ur(?:EventWait|QueueFinish)"
)
_ALLOCATING = re.compile(
    r"aclrt(?:Malloc|Free)(?!Host)\w*|aclMallocMem\w*"
    r"|(?:cuda|hip|musa)(?:Malloc|Free)|cuMem(?:Alloc|Free|Create|Release|Map|Unmap)(?:_v2)?"
)


def is_blocking_call(name: str) -> bool:
    """Whether a call, such as ``aclrtSynchronizeStream`` or ``cudaMemcpy``, blocks the host for the device."""
    if _BLOCKING.fullmatch(name) is not None:
        return True
    call = name.rpartition("@")[2]
    # aclrtMemcpyAsync does not wait: only the exact name counts.
    return call.startswith("aclrtSynchronize") or call == "aclrtMemcpy"


# What CUPTI and Kineto record of their own work; what else is ``overhead`` is the runtime's, such as lazy loading.
_OF_PROFILER = frozenset(("Activity Buffer Request", "Buffer Flush", "Instrumentation", "Resource"))


@of_trace
def profiler_work(trace: Trace) -> I64:
    """The slices in which the profiler stops the host for work of its own, ascending."""
    if "overhead" not in trace.categories:
        return np.zeros(0, np.int64)
    items = named_on(trace, HOST, _OF_PROFILER.__contains__)
    mine: I64 = items[trace.slices.category[items] == trace.categories.index("overhead")]
    return mine


def is_memory_call(name: str) -> bool:
    """Whether a call takes memory from the device or gives it back."""
    return _ALLOCATING.fullmatch(name.rpartition("@")[2]) is not None


ALLOCATING_OPERATIONS = frozenset(
    {"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty", "aten::empty.memory_format"}
)
"""Operations of the framework that do nothing but take memory: one that takes long waits for the allocator."""


@of_trace
def blocking_calls(trace: Trace) -> I64:
    """The calls of the runtime that block the host; those of a GPU lie between the operations of the framework."""
    return named_on(trace, HOST, is_blocking_call)


class ApiSum(Struct, frozen=True):
    """The calls of one level and name: times in ns, population ``variance`` in us^2, the slices ``items`` by start."""

    level: str
    name: str
    count: int
    total: int
    shortest: int
    longest: int
    variance: float
    items: npt.NDArray[np.int64]


def apis(trace: Trace, window: Window) -> list[ApiSum]:
    """The calls of CANN, or of the runtime of a GPU, that start in ``window``, by level and name, most time first."""
    slices = trace.slices
    lanes = [lane for lane in trace.file_lanes if trace.layers[lane.layer].kind == "cann"]
    items = np.concatenate([np.arange(lane.first, lane.last) for lane in lanes]) if lanes else runtime_calls(trace)
    items = items[window.holds(slices.start[items])]
    if not len(items):
        return []
    names, code = distinct(slices.name[items])
    # Group by name: the calls of each name become one run, and ``reduceat`` sums the runs.
    # Codes of 8 or 16 bits are sorted by radix: a trace has millions of calls of some hundred names.
    items = items[np.argsort(code.astype(np.min_scalar_type(len(names))), kind="stable")]
    count = np.bincount(code)
    first = np.cumsum(count) - count
    length = slices.end[items] - slices.start[items]
    total = np.add.reduceat(length, first)
    deviation = (length - np.repeat(total / count, count)) / 1000  # us
    variance = np.add.reduceat(deviation * deviation, first) / count
    shortest, longest = np.minimum.reduceat(length, first), np.maximum.reduceat(length, first)
    rows = []
    for k, name in enumerate(names.tolist()):
        prefix, _, call = trace.names[name].rpartition("@")
        category = "" if lanes else trace.categories[slices.category[items[first[k]]]]
        rows.append(
            ApiSum(
                category or _LEVELS.get(prefix, prefix.lower()),
                call,
                int(count[k]),
                int(total[k]),
                int(shortest[k]),
                int(longest[k]),
                float(variance[k]),
                items[first[k] : first[k] + count[k]],
            )
        )
    return sorted(rows, key=lambda row: (-row.total, row.level, row.name))


class EqualCalls(Struct, frozen=True):
    """All slices ``name`` with the same path of ``depth`` callers; times in ns within the window.

    ``own`` is ``total`` without the time of the calls inside.
    """

    name: str
    depth: int
    count: int
    total: int
    own: int
    items: I64


def own_times(trace: Trace, chosen: npt.NDArray[np.bool_], window: Window) -> tuple[I64, I64, I64, I64]:
    """The ``chosen`` slices, their time and self time (ns) within ``window``, and their parents; (n,) each.

    Self time leaves out the chosen slices inside. A parent is a position among the slices, -1 without one.
    """
    around = Around(trace, chosen)
    items, parent = around.items, around.parents()
    low, high = clipped(trace.slices.start[items], trace.slices.end[items], window.start, window.end)
    total = high - low
    self_time = total.copy()
    inner = np.flatnonzero(parent >= 0)
    np.subtract.at(self_time, parent[inner], total[inner])
    # Children that cross each other are both subtracted in full, which may leave less than nothing.
    return items, total, np.maximum(self_time, 0), parent


def tree_paths(trace: Trace, items: I64, parent: I64) -> tuple[I64, list[int], list[int]]:
    """The path of each of ``items`` (n,), which ``parent`` (position, -1: none) nests: a number for its callers' names.

    Each path comes with the one above it (-1: none), which has a lower number, and its last name.
    """
    level = np.zeros(len(items), np.int64)
    up = parent
    while (inner := np.flatnonzero(up >= 0)).size:  # one pass per level of nesting
        level[inner] += 1
        up = np.where(up >= 0, parent[up], -1)
    # A path is a caller's path and a name. Level by level, each distinct pair becomes a number: its index in
    # ``above`` (the caller's path) and ``names``.
    path = np.full(len(items), -1, np.int64)
    above: list[int] = []
    names: list[int] = []
    for depth in range(int(level.max(initial=-1)) + 1):
        at = np.flatnonzero(level == depth)
        caller = np.where(parent[at] >= 0, path[parent[at]], -1)
        pairs, code = np.unique(np.stack((caller, trace.slices.name[items[at]]), 1), axis=0, return_inverse=True)
        path[at] = len(names) + code.reshape(-1)
        above += pairs[:, 0].tolist()
        names += pairs[:, 1].tolist()
    return path, above, names


def call_tree(trace: Trace, lane: Lane, window: Window) -> list[EqualCalls]:
    """The calls of ``lane`` that touch ``window``: a caller before its callees, siblings by time, most first."""
    slices = trace.slices
    chosen = np.zeros(len(slices), np.bool_)
    slices_of_lane = slice(lane.first, lane.last)
    chosen[slices_of_lane] = (slices.start[slices_of_lane] < window.end) & (slices.end[slices_of_lane] > window.start)
    items, total, self_times, parent = own_times(trace, chosen, window)
    if not len(items):
        return []
    path, above, names = tree_paths(trace, items, parent)
    sums, self_sums, counts = (
        np.bincount(path, weights=weights, minlength=len(names)) for weights in (total, self_times, np.ones(len(items)))
    )
    order = np.argsort(path, kind="stable")
    members = np.split(items[order], np.cumsum(counts.astype(np.int64))[:-1])
    below: dict[int, list[int]] = {}
    for k in most_first(sums, [trace.names[name] for name in names]):
        below.setdefault(above[k], []).append(k)
    calls: list[EqualCalls] = []
    # A stack instead of recursion: a hostile profile nests calls deeper than Python allows.
    stack = [(k, 0) for k in reversed(below.get(-1, []))]
    while stack:
        k, depth = stack.pop()
        calls.append(
            EqualCalls(trace.names[names[k]], depth, int(counts[k]), int(sums[k]), int(self_sums[k]), members[k])
        )
        stack += [(callee, depth + 1) for callee in reversed(below.get(k, []))]
    return calls


class HostOperators(Struct, frozen=True):
    """The ``cpu_op`` slices ``item`` without steps: times in ns, (n,) each.

    ``host_self`` leaves out the operations inside. ``device_self`` sums the device slices that the operation launched
    (its ``async_npu`` links), ``device_total`` includes those of the operations inside. ``backward`` is the
    ``device_total`` of the operations of the backward pass that its ``fwdbwd`` links and those of the operations inside
    lead to. ``parent`` is the position in ``item`` of the innermost operation around it, -1 without one.
    """

    item: I64
    host_total: I64
    host_self: I64
    device_self: I64
    device_total: I64
    backward: I64
    parent: I64


def outermost_operation(trace: Trace, hosts: HostOperators, item: int) -> int:
    """The outermost framework operation around the slice ``item``; ``item`` itself if it is not in ``hosts``."""
    at = int(np.searchsorted(hosts.item, item))
    if item < 0 or at >= len(hosts.item) or hosts.item[at] != item:
        return item
    while (above := int(hosts.parent[at])) >= 0 and "::" in trace.name_of(int(hosts.item[above])):
        at = above
    return int(hosts.item[at])


def host_operators(trace: Trace) -> HostOperators:
    """All operations of the framework, in slice order."""
    slices = trace.slices
    item = np.zeros(0, np.int64)
    if "cpu_op" in trace.categories:
        other = np.array([not names_step(name) for name in trace.names] + [True])
        item = np.flatnonzero(slices.category == trace.categories.index("cpu_op"))
        chosen = other[slices.name[item]]
        item = item if chosen.all() else item[chosen]
    around = Around(trace, item)
    item, parent = around.items, around.parents()
    total = slices.end[item]
    total -= slices.start[item]
    host_self = total.copy()
    inner = np.flatnonzero(parent >= 0)
    np.subtract.at(host_self, parent[inner], total[inner])
    device_self = _launched_time(trace, item)
    device_total = _with_inner(device_self, parent)
    backward = _with_inner(_backward_time(trace, item, device_total), parent)
    return HostOperators(item, total, host_self, device_self, device_total, backward, parent)


def _with_inner(time: I64, parent: I64) -> I64:
    """``time`` of each operation and of all operations inside it; (n,)."""
    total: I64 = time.copy()
    some = np.flatnonzero(time)
    time, up = time[some], parent[some]
    while (inner := np.flatnonzero(up >= 0)).size:  # one pass per level of nesting
        time, up = time[inner], up[inner]
        np.add.at(total, up, time)
        up = parent[up]
    return total


def _backward_time(trace: Trace, item: I64, device_total: I64) -> I64:
    """The ``device_total`` of the operations that the ``fwdbwd`` links of the ascending ``item`` lead to; (n,)."""
    time = np.zeros(len(item), np.int64)
    passes = trace.bound_links_of(FORWARD_BACKWARD)
    if not len(item) or not len(passes):
        return time
    ends = [getattr(trace.links, end)[passes].astype(np.int64) for end in ("source_slice", "target_slice")]
    at = [np.minimum(np.searchsorted(item, end), len(item) - 1) for end in ends]
    known = (item[at[0]] == ends[0]) & (item[at[1]] == ends[1])
    np.add.at(time, at[0][known], device_total[at[1][known]])
    return time


def _launched_time(trace: Trace, item: I64) -> I64:
    """The device time that each of the ascending ``item`` launched, ns; (n,)."""
    source, target = operation_pairs(trace)
    time = np.zeros(len(item), np.int64)
    if not len(item):
        return time
    at = np.minimum(np.searchsorted(item, source), len(item) - 1)
    launching = item[at] == source
    np.add.at(time, at[launching], (trace.slices.end[target] - trace.slices.start[target])[launching])
    return time


class ForwardBackward(Struct, frozen=True):
    """The slice ``forward`` of the host and the ``backward`` operations that its ``fwdbwd`` links lead to, by start."""

    forward: int
    backward: tuple[int, ...]


def passes_of(trace: Trace, item: int) -> ForwardBackward | None:
    """The two passes of slice ``item`` of the host, which lies in either of them; None without a ``fwdbwd`` link.

    A slice counts as what is inside: ``aten::conv2d`` has the link of the ``aten::convolution`` it calls. An operation
    without a link inside belongs to the innermost one around it that has one.
    """
    slices, passes = trace.slices, trace.bound_links_of(FORWARD_BACKWARD)
    source, target = (getattr(trace.links, end)[passes].astype(np.int64) for end in ("source_slice", "target_slice"))
    if len(inside := _inside(trace, source, item)):
        return ForwardBackward(item, _by_start(trace, target[inside]))
    if len(inside := _inside(trace, target, item)):
        return ForwardBackward(int(source[inside[0]]), _by_start(trace, target[inside]))
    where = slices.lane[[item]], slices.start[[item]], slices.end[[item]]
    for ends in (source, target):
        outer = int(Around(trace, np.unique(ends)).find(*where)[0]) if len(ends) else -1
        if outer >= 0:
            return passes_of(trace, outer)
    return None


def _inside(trace: Trace, items: I64, item: int) -> I64:
    """The positions in ``items`` of the slices that lie in slice ``item`` of their lane, itself included."""
    slices = trace.slices
    start, end = int(slices.start[item]), int(slices.end[item])
    same = slices.lane[items] == slices.lane[item]
    inside: I64 = np.flatnonzero(same & (slices.start[items] >= start) & (slices.end[items] <= end))
    return inside


def _by_start(trace: Trace, items: I64) -> tuple[int, ...]:
    items = np.unique(items)
    return tuple(items[np.argsort(trace.slices.start[items], kind="stable")].tolist())


def launched_in(trace: Trace, item: int) -> I64 | None:
    """The device slices that slice ``item`` of the host or an operation inside it launched; None if no link says so."""
    operation, launched = operation_pairs(trace)
    return np.unique(launched[_inside(trace, operation, item)]) if len(operation) else None


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
