"""When the queue of a device runs empty and why, and the ranges in which the host barely keeps up.

A drain is a pause of the device of 100 us or more without any launch in flight. Its cause is the first that applies,
in the order of ``_causes``.

Work of the host that launches nothing is operations and frames of Python in which no thread launches or waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.calls import BLOCKING_COPIES, BLOCKING_OPERATIONS, blocking_calls, is_memory_call
from npu_tui.analysis.device import HOST, DeviceSlices, Window, named_in, named_on, on_ai_cpu
from npu_tui.analysis.host_owners import WORK_NS
from npu_tui.analysis.launches import (
    Dispatch,
    LaunchPairs,
    dequeue_of,
    dequeue_slices,
    dequeued_launches,
    enqueue_of,
    enqueue_slices,
    launch_delays,
    launched_at,
)
from npu_tui.analysis.limits import COPY_NS, HALF, LONG_NS, NEARLY_ALL, SHORT_NS, SOME
from npu_tui.analysis.replay_host import thread_numbers, waits_of
from npu_tui.trace.arrays import F64, I8, I64, Bools, distinct
from npu_tui.trace.intervals import covered_before, covered_within, touches, union
from npu_tui.trace.model import Lane, Trace
from npu_tui.trace.once import of_trace


def backlog(pairs: LaunchPairs) -> tuple[F64, I64, I64]:
    """Launches in flight: ``time`` (ns, ascending), the depth from there on, and the pair that changed it; (2n,) each.

    A pair adds one when it reaches the device (``LaunchPairs.arrival``) and removes it at its ``end``. Among several
    entries at one time the last one has the depth that holds.
    """
    time = np.concatenate((pairs.arrival, pairs.end))
    change = np.repeat([1, -1], len(pairs.end))
    # At one time ends (-1) come before arrivals (+1): a launch that arrives as another ends finds an empty queue.
    order = np.lexsort((change, time))
    return time[order], np.cumsum(change[order]), order % max(len(pairs.end), 1)


def host_lead(trace: Trace, launches: Dispatch) -> F64:
    """The lead of the host: how long before the device was ready each launch reached it, ns; (n,).

    Negative where the device waited, not-a-number where nothing ran before.
    """
    reached = trace.links.target_time[launches.link] - launches.relative
    return np.where(launches.ready >= 0, launches.ready - reached, np.nan)


def waiting(launches: Dispatch) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
    """Start and end (ns) of each wait of the idle device for a launch, and whether that launch is starved."""
    lost = np.rint(launches.lost).astype(np.int64)
    has_lost = lost > 0
    return launches.ready[has_lost], launches.ready[has_lost] + lost[has_lost], launches.starved[has_lost]


Cause = Literal[
    "work", "sync", "communication", "copy", "aicpu", "compile", "memory", "gc", "dataloader", "cann", "python"
]
CAUSES: tuple[Cause, ...] = get_args(Cause)
"""What ``Drains.cause`` numbers."""

_READ_NS = 20_000  # a shorter operation that reads a value found it on the host
_GOOD_PART, _MOST = 0.25, 0.5
"""Shares of a drain that what explains it takes."""
_MOSTLY_SILENT, _BEFORE_SILENCE = 0.8, 3
"""The share of a drain that is silence, and slices after the wait, such as that of a step, which silence may follow."""


class Drains(Struct, frozen=True, eq=False):
    """Pauses of 100 us or more without any launch in flight, by time: ``start`` and ``end`` in ns; (n,) each.

    ``cause`` indexes ``CAUSES``. ``peak_backlog`` is the maximum of launches in flight since the previous drain.
    ``before`` is the busy slice that ended last, ``after`` the one whose launch ended the pause.
    """

    start: F64
    end: F64
    cause: I8
    peak_backlog: I64
    before: I64
    after: I64

    def __len__(self) -> int:
        return len(self.start)

    @property
    def interrupted(self) -> Bools:
        """Whether the queue had been filled before, in contrast to a device that starves all the time."""
        return self.peak_backlog >= SOME

    def taken(self, chosen: Bools | I64) -> Drains:
        """The drains that are ``chosen``."""
        return Drains(*(getattr(self, column)[chosen] for column in self.__struct_fields__))

    def of(self, cause: Cause) -> Drains:
        """The drains of one cause."""
        return self.taken(self.cause == CAUSES.index(cause))

    def rows(self) -> Iterator[tuple[int, int, Cause, int, int]]:
        """Start and end of each drain in whole ns, its cause, ``before`` and ``after``."""
        start, end = (column.astype(np.int64).tolist() for column in (self.start, self.end))
        words = [CAUSES[code] for code in self.cause.tolist()]
        return zip(start, end, words, self.before.tolist(), self.after.tolist(), strict=True)

    def counted(self) -> dict[Cause, int]:
        """How many each cause has, the most frequent first."""
        counts = np.bincount(self.cause, minlength=len(CAUSES)).tolist()
        ordered = sorted(zip(CAUSES, counts, strict=True), key=lambda row: -row[1])
        return {cause: count for cause, count in ordered if count}


NO_DRAINS = Drains(np.zeros(0), np.zeros(0), np.zeros(0, np.int8), *(np.zeros(0, np.int64) for _ in range(3)))


def drains(trace: Trace, device: DeviceSlices, pairs: LaunchPairs) -> Drains:
    """The drains of ``device``."""
    target = trace.links.target_slice[pairs.link].astype(np.int64)
    time, depth, pair = backlog(pairs)
    at = np.flatnonzero((depth[:-1] == 0) & (time[1:] - time[:-1] >= SHORT_NS))
    if not len(at):
        return NO_DRAINS
    peak = np.maximum.reduceat(depth[: at[-1] + 1], np.append(0, at[:-1] + 1))
    before, next_pair = target[pair[at]], pair[at + 1]
    cause = _causes(trace, device, pairs, next_pair, time[at], time[at + 1])
    return Drains(time[at], time[at + 1], cause, peak, before, target[next_pair])


def between_kernels(trace: Trace, found: Drains, kernels: I64) -> Drains:
    """The drains ``found``, cut where ``kernels`` run, by start, whose launch is not known: something was in flight."""
    starts, until = trace.slices.start[kernels], np.maximum.accumulate(trace.slices.end[kernels])
    first, last = np.searchsorted(until, found.start, "right"), np.searchsorted(starts, found.end)
    pieces = last - first + 1
    drain = np.repeat(np.arange(len(found)), pieces)
    nth = np.arange(len(drain)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    at = first[drain] + nth
    begins, ends = nth == 0, at == last[drain]
    cut = Drains(
        np.where(begins, found.start[drain], np.append(0, until)[at]),
        np.where(ends, found.end[drain], np.append(starts, 0)[at]),
        found.cause[drain],
        found.peak_backlog[drain],
        np.where(begins, found.before[drain], np.append(0, kernels)[at]),
        np.where(ends, found.after[drain], np.append(kernels, 0)[at]),
    )
    return cut.taken(cut.end - cut.start >= SHORT_NS)


def _causes(trace: Trace, device: DeviceSlices, pairs: LaunchPairs, next_pair: I64, start: F64, end: F64) -> I8:
    """The cause of each drain from ``start`` to ``end`` that the launch ``next_pair`` ended, by ``CAUSES``.

    Device slices count if they run up to 2 ms before the drain, host calls if they take a good part of the drain (on
    the host's clock), and a wait of the host only if it returned before the launch that ended the drain entered the
    task queue. The thread of the task queue is the cause where it is in its entries for most of the drain.
    """
    slices, link = trace.slices, pairs.link[next_pair]
    floor = pairs.launch[next_pair] - launched_at(trace, link)

    def length(items: I64) -> I64:
        return slices.end[items] - slices.start[items]

    # A floor is launch latency plus clock offset: subtracted, it turns times of the device into times of the host.
    host_start, host_end = start - floor, end - floor
    issued = _issued(trace, link)
    waiting_calls = blocking_calls(trace)
    waiting_operations = named_on(trace, ("python", "other"), BLOCKING_OPERATIONS.__contains__)
    waiting_operations = waiting_operations[length(waiting_operations) > _READ_NS]
    if not len(waiting_calls):  # level 0
        copying = named_on(trace, ("python", "other"), BLOCKING_COPIES.__contains__)
        waiting_operations = np.union1d(waiting_operations, copying[length(copying) > COPY_NS])
    returned = np.sort(np.concatenate((slices.end[waiting_calls], slices.end[waiting_operations])))
    low = np.searchsorted(returned, host_start, "right")
    last = np.searchsorted(returned, np.minimum(issued, host_end), "right")
    waited, since = last > low, np.append(returned, 0)[last - 1]
    # Where the host records nothing for most of the drain once it has waited, the wait is not what takes so long.
    short, least = host_end - host_start < LONG_NS, _MOSTLY_SILENT * (host_end - host_start)
    for _ in range(_BEFORE_SILENCE):
        following = _next_begin(trace, since)
        waited &= short | (np.minimum(following, host_end) - since < least)
        since = following
    # A collective or event wait at the head of a stream blocks what is queued after it.
    heads = np.flatnonzero(device.collective), named_on(trace, ("hardware",), _is_event_wait)
    head = np.union1d(*(items[length(items) >= LONG_NS] for items in heads))
    copy, ai_cpu = np.flatnonzero(device.copy), np.flatnonzero(device.compute)
    copy, ai_cpu = copy[length(copy) >= COPY_NS], ai_cpu[on_ai_cpu(trace, ai_cpu)]
    compiling = named_on(trace, ("cann",), lambda name: name.endswith("aclopCompileAndExecute"))
    memory = named_on(trace, HOST, is_memory_call)
    collecting = named_on(trace, ("python", "other"), lambda name: name == "GC")
    loading = named_on(trace, ("python", "other"), lambda name: "dataloader" in name.lower())

    def takes(chosen: npt.NDArray[np.integer], share: float = _GOOD_PART) -> Bools:
        spans = union(slices.start[chosen], slices.end[chosen])
        taken = covered_before(*spans, host_end) - covered_before(*spans, host_start)
        return taken >= share * (host_end - host_start)

    causes: list[tuple[Cause, Bools]] = [
        # The thread that waited has gone on since, to what launches nothing, or no more, and takes most of the drain.
        ("work", takes(idle_work(trace), _MOST) | takes(launch_delays(trace).items, _MOST)),
        ("gc", takes(collecting, _MOST)),
        ("dataloader", takes(loading, _MOST)),
        ("sync", waited),
        ("communication", _touches(trace, head, start - LONG_NS, end)),
        ("copy", _touches(trace, copy, start - LONG_NS, end)),
        ("aicpu", _touches(trace, ai_cpu, start - LONG_NS, end)),
        ("compile", takes(compiling)),
        ("memory", takes(memory)),
        ("gc", takes(collecting)),
        ("dataloader", takes(loading)),
        ("cann", takes(dequeue_slices(trace), _MOST)),
    ]
    codes = [CAUSES.index(cause) for cause, _ in causes]
    first = np.select([holds for _, holds in causes], codes, CAUSES.index("python"))
    return first.astype(np.int8)


def _next_begin(trace: Trace, time: I64) -> I64:
    """When the host begins anything after each ``time``, ns; (n,)."""
    begin = np.full(len(time), np.iinfo(np.int64).max)
    for lane in trace.lanes:
        starts = trace.slices.start[lane.first : lane.last]
        if len(starts) and trace.layers[lane.layer].kind in HOST:
            at = np.searchsorted(starts, time, "right")
            begin = np.where(at < len(starts), np.minimum(begin, starts[np.minimum(at, len(starts) - 1)]), begin)
    return begin


def _issued(trace: Trace, link: I64) -> I64:
    """When the launch of each ``link`` entered the task queue, or was made where there is no queue, ns; (n,)."""
    enqueue = enqueue_of(trace, dequeue_of(trace, link))
    return np.where(enqueue >= 0, trace.slices.start[enqueue], trace.links.source_time[link])


def _is_event_wait(name: str) -> bool:
    return name.upper().startswith("EVENT_WAIT")


def _touches(trace: Trace, chosen: I64, low: F64, high: F64) -> Bools:
    return touches(trace.slices.start[chosen], trace.slices.end[chosen], low, high)


_GAP_NS = 3_000_000  # near-vertical launches farther apart than this belong to different ranges


class DispatchRange(Struct, frozen=True):
    """From the start of the first near-vertical target to the end of the last one, ns.

    ``links`` counts the launches whose target starts inside, ``lost`` is their lost time, ns; ``idle_ratio`` is the
    idle share of the device, None for a range without length.
    """

    start: int
    end: int
    links: int
    near_vertical: int
    idle_ratio: float | None
    lost: float


def launches_in(trace: Trace, launches: Dispatch, window: Window) -> Dispatch:
    """The launches whose target starts in ``window``; clock floors are still those of the whole trace."""
    inside = window.holds(trace.links.target_time[launches.link])
    return replace(
        launches,
        link=launches.link[inside],
        relative=launches.relative[inside],
        lost=launches.lost[inside],
        ready=launches.ready[inside],
    )


def dispatch_ranges(trace: Trace, device: DeviceSlices, launches: Dispatch) -> list[DispatchRange]:
    """Clusters of three or more near-vertical launches at most 3 ms apart, in order of time."""
    links, slices = trace.links, trace.slices
    time = links.target_time[launches.link]
    near = np.flatnonzero(launches.near_vertical)
    if not len(near):
        return []
    firsts = np.flatnonzero(np.append(True, np.diff(time[near]) > _GAP_NS))
    lasts = np.append(firsts[1:], len(near)) - 1
    # Two launches in a row may be near-vertical by chance; three show a host that is always late.
    members = lasts - firsts + 1
    firsts, lasts, members = firsts[members >= SOME], lasts[members >= SOME], members[members >= SOME]
    start = time[near[firsts]]
    end = slices.end[links.target_slice[launches.link[near[lasts]]]]
    low, high = np.searchsorted(time, start, "left"), np.searchsorted(time, end, "right")
    lost = np.concatenate(([0.0], np.cumsum(launches.lost)))
    busy_start, busy_end = slices.start[device.busy], slices.end[device.busy]
    edges = np.concatenate((start, end)).astype(np.float64)
    before = covered_before(busy_start, busy_end, edges)
    busy = before[len(start) :] - before[: len(start)]
    return [
        DispatchRange(
            int(start[k]),
            int(end[k]),
            int(high[k] - low[k]),
            int(members[k]),
            1.0 - float(busy[k]) / int(end[k] - start[k]) if end[k] > start[k] else None,
            float(lost[high[k]] - lost[low[k]]),
        )
        for k in range(len(start))
    ]


@of_trace
def launch_times(trace: Trace) -> I64:
    """When threads launch: entries into the task queue, and launches without one; ascending, ns."""
    link, dequeue = dequeued_launches(trace)
    return np.sort(
        np.concatenate((trace.slices.start[enqueue_slices(trace)], trace.links.source_time[link[dequeue < 0]]))
    )


@of_trace
def idle_work(trace: Trace) -> I64:
    """Operations and frames of Python of 500 us or more without a launch or a wait inside, none inside another.

    Shorter operations count where they take as long together between two launches, such as those that augment images.
    They are on threads that launch, by start. A step, and a frame in which another thread launches, such as
    ``loss.backward()``, have launches inside. Fetching a batch, garbage collection and calls of CANN, such as those
    that take memory or compile, have findings of their own.
    """
    slices = trace.slices
    link, dequeue = dequeued_launches(trace)
    direct = link[dequeue < 0]
    enqueues, waits = enqueue_slices(trace), waits_of(trace)
    launched = launch_times(trace)
    waited = np.sort(np.concatenate((slices.start[waits], slices.end[waits])))
    _, number = thread_numbers(trace)
    lanes = np.unique(np.concatenate((slices.lane[enqueues], slices.lane[waits], trace.links.source_lane[direct])))
    launching = np.setdiff1d(number[lanes], [-1, *number[np.unique(slices.lane[dequeue_slices(trace)])].tolist()])
    lanes_of_work = [
        lane for lane in trace.lanes if number[lane.index] in launching and trace.layers[lane.layer].kind in HOST
    ]
    calls = [lane for lane in lanes_of_work if trace.layers[lane.layer].kind == "cann"]
    of_python = [lane for lane in lanes_of_work if lane not in calls]
    items = np.concatenate([np.zeros(0, np.int64), *(_long_in(trace, lane) for lane in of_python)])
    names, name = distinct(slices.name[items])
    items = items[~np.array([_has_finding(trace.names[code]) for code in names.tolist()], np.bool_)[name]]
    start, end = slices.start[items], slices.end[items]
    quiet = np.searchsorted(launched, start) == np.searchsorted(launched, end, "right")
    # Work may begin when a wait ends: sorting what aten::item has brought.
    quiet &= np.searchsorted(waited, start, "right") == np.searchsorted(waited, end)
    items = items[quiet]
    elsewhere = np.concatenate((waits, named_in(trace, calls, bool), named_in(trace, of_python, _has_finding)))
    items = items[~_is_mostly(trace, elsewhere, items, HALF)]
    frames = trace.categories.index("python_function") if "python_function" in trace.categories else -1
    is_frame = slices.category[items] == frames
    operations, framed = _outermost(trace, items[~is_frame]), _outermost(trace, items[is_frame])
    told = _is_mostly(trace, operations, framed, NEARLY_ALL)
    framed = framed[~told]
    short = np.zeros(0, np.int64)
    if "cpu_op" in trace.categories:
        short = _short_operations(trace, of_python, np.sort(np.concatenate((launched, waited))), framed)
    short = short[~_is_mostly(trace, elsewhere, short, HALF)]
    work = _outermost(trace, np.unique(np.concatenate((operations, framed, short))))
    result: I64 = work[np.argsort(slices.start[work], kind="stable")]
    return result


def _long_in(trace: Trace, lane: Lane) -> I64:
    """The slices of ``lane`` of 500 us or more, ascending."""
    own = slice(lane.first, lane.last)
    return lane.first + np.flatnonzero(trace.slices.end[own] - trace.slices.start[own] >= WORK_NS)


def _short_operations(trace: Trace, lanes: Sequence[Lane], events: I64, framed: I64) -> I64:
    """Operations on ``lanes`` that take 500 us together between two ``events``, none of which lies in ``framed``.

    Those inside another operation, such as ``aten::t`` of a linear, prepare its launch.
    """
    slices = trace.slices
    items = named_in(trace, lanes, lambda name: "::" in name or name.startswith("Optimizer."))
    items = _outermost(trace, items[slices.category[items] == trace.categories.index("cpu_op")])
    event = np.searchsorted(events, slices.start[items], "right")
    items, event = (each[(event > 0) & (event < len(events))] for each in (items, event))
    quiet = slices.end[items] <= events[event]
    items, event = items[quiet], event[quiet]
    time = slices.end[items] - slices.start[items]
    items = items[np.bincount(event, time, len(events))[event] >= WORK_NS]
    told = union(slices.start[framed], slices.end[framed])
    short: I64 = items[covered_within(*told, slices.start[items], slices.end[items]) == 0]
    return short


def _has_finding(name: str) -> bool:
    """Whether other findings are about slices of this name, or they are the profiler's own."""
    return name == "GC" or "dataloader" in name.lower() or "profiler" in name or is_memory_call(name)


def _is_mostly(trace: Trace, inner: I64, items: I64, share: float) -> npt.NDArray[np.bool_]:
    """Whether the slices ``inner`` cover ``share`` of each of ``items`` or more; (items,)."""
    start, end = trace.slices.start, trace.slices.end
    covered = covered_within(*union(start[inner], end[inner]), start[items], end[items])
    return covered >= share * (end[items] - start[items])


def _outermost(trace: Trace, items: I64) -> I64:
    """Those of ``items`` (ascending: by lane, start and, the longest first, end) that lie in no other one."""
    if not len(items):
        return items
    lane, end = trace.slices.lane[items].astype(np.int64), trace.slices.end[items]
    far = end + lane * (int(end.max()) + 1)
    outer = np.ones(len(items), np.bool_)
    outer[1:] = far[1:] > np.maximum.accumulate(far)[:-1]
    return items[outer]
