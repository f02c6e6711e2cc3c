"""Who a device waits for: calls of the host, its pauses, late launches."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.calls import BLOCKING_COPIES, BLOCKING_OPERATIONS, is_blocking_call
from npu_tui.analysis.device import HOST
from npu_tui.analysis.drains import Drains, between_kernels
from npu_tui.analysis.launches import dequeue_of, enqueue_of, enqueue_slices, operation_of
from npu_tui.analysis.limits import EVEN, HALF, NAMED, SHORT_NS, SOME, Threshold
from npu_tui.analysis.replay import ANY_THREAD, NO_CHANGE, Change, HostCut, TaskCut
from npu_tui.analysis.replay_device import KERNEL
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import NOTHING, Span, common, inside, length_of, together, without
from npu_tui.rules.rule import SEVERITY_MEDIUM
from npu_tui.trace.arrays import I64, BySlice, distinct
from npu_tui.trace.intervals import covered_within, touches, union

LINKS_FEWEST = Threshold("links_fewest", 20)
SYNC_SHARE = Threshold("sync_share", 0.01)
SYNC_BLOCKING = Threshold("sync_blocking", 0.5)

COMPILE = "aclopCompileAndExecute"


def compile_calls(facts: Facts) -> I64:
    """The calls that compile an operator before they launch it."""
    return facts.named(("cann",), lambda name: name.endswith(COMPILE))


@once_per_device
def sync_calls(facts: Facts) -> I64:
    """The calls of the runtime that block the host until the device is done."""
    return facts.named(HOST, is_blocking_call)


@once_per_device
def late_behind_collectives(facts: Facts) -> Span:
    """The time in which a stream waited for a kernel's launch while only a collective ran on the device.

    The collective hides the wait from the idle time of the device, but the host is as late as in idle time.
    """
    tasks = facts.tasks
    if tasks is None:
        return NOTHING
    launched = np.flatnonzero((tasks.kind == KERNEL) & (tasks.previous >= 0) & (tasks.launched >= 0))
    ready = tasks.end[tasks.previous[launched]]
    made = np.minimum(tasks.launched[launched] + facts.floor, tasks.start[launched])
    late = made > ready
    return common((ready[late], made[late]), facts.exposed)


def blocking_is_set(facts: Facts) -> bool:
    """Whether the environment of the job says that every launch waits for the device."""
    return (facts.inputs.setup.environment or {}).get("ASCEND_LAUNCH_BLOCKING", "").strip() == "1"


@once_per_device
def launch_blocking(facts: Facts) -> float:
    """The share of launches that block until their kernel ends, as ASCEND_LAUNCH_BLOCKING=1 makes all of them.

    A wait for the stream follows each of them at once. 1 if the environment says so; 0 for launches of graphs, as one
    wait after each of them is a read-back.
    """
    if blocking_is_set(facts):
        return 1.0
    launches = facts.launches
    if launches is None or len(launches.link) < facts.limits[LINKS_FEWEST]:
        return 0.0
    # Not each kernel of a graph has a link: often only the first one.
    if len(facts.kernels) > SOME * len(launches.link):
        return 0.0
    waits = len(waits_after_launches(facts, sync_calls(facts))) / len(launches.link)
    return max(waits, held_launches(facts)[0])


@once_per_device
def held_launches(facts: Facts) -> tuple[float, Change]:
    """The share of launching operations that end just after their kernel, and the change that removes these waits.

    0 where it does not come from waiting: an operation that waits ends a steady time after its kernel, of any length.
    """
    launches, slices = facts.launches, facts.trace.slices
    hosts = facts.inputs.hosts()
    at = BySlice(hosts.item, np.arange(len(hosts.item))).of(operation_of(facts.trace, facts.target))
    if launches is None or len(known := np.flatnonzero(at >= 0)) < facts.limits[LINKS_FEWEST]:
        return 0.0, NO_CHANGE
    called = facts.names_where(lambda name: "::" in name)[slices.name[hosts.item]]
    while (within := (at >= 0) & ~called[at] & (hosts.parent[at] >= 0)).any():  # aten::mm waits, not the aclnnMm in it
        at = np.where(within, hosts.parent[at], at)
    operation = hosts.item[at]
    known = known[np.lexsort((facts.trace.links.source_time[launches.link[known]], operation[known]))]
    known = known[np.append(np.diff(operation[known]) > 0, True)]  # the last launch of each
    returned, link = slices.end[operation[known]], launches.link[known]
    # With a task queue the operation waits from when it has put the launch there.
    enqueue = enqueue_of(facts.trace, dequeue_of(facts.trace, link))
    made = np.where(enqueue >= 0, slices.end[enqueue], facts.trace.links.source_time[link])
    after = returned + facts.floor * facts.recorder.clock_part - slices.end[facts.target[known]]
    steady, lasting = (float(np.subtract(*np.percentile(times, (90, 10)))) for times in (after, returned - made))
    held = (after >= 0) & (returned > made)
    if steady >= HALF * lasting:
        return 0.0, NO_CHANGE
    # Another thread, such as that of a backward pass, waits for the one that is held.
    return float(held.mean()), Change(host=(HostCut(ANY_THREAD, union(made[held], returned[held])),))


def queue_is_off(facts: Facts) -> bool:
    """Whether torch operations launched kernels and none went through the task queue."""
    if not (facts.has("python") and facts.has("links")) or len(enqueue_slices(facts.trace)):
        return False
    torch = facts.names_where(lambda name: name.startswith("aten::"))
    return bool(torch[facts.trace.slices.name[facts.inputs.hosts().item]].any()) and len(facts.target) > 0


def waits_after_launches(facts: Facts, calls: I64) -> I64:
    """The ``calls`` that wait for a stream and follow a launch with no other wait between."""
    if facts.launches is None:
        return calls[:0]
    named = facts.names_where(lambda name: "SynchronizeStream" in name)
    streams = calls[named[facts.trace.slices.name[calls]]]
    launched = facts.trace.links.source_time[facts.launches.link]
    item = np.concatenate((np.full(len(launched), -1, np.int64), streams))
    item = item[np.argsort(np.concatenate((launched, facts.trace.slices.start[streams])), kind="stable")]
    follows = np.flatnonzero((item[1:] >= 0) & (item[:-1] < 0)) + 1
    waits: I64 = item[follows]
    return waits


@once_per_device
def sync_operations(facts: Facts) -> I64:
    """The operations of the framework that wait for the device, without those inside another.

    Where calls of the runtime are recorded, ``aten::item`` of a tensor on the host has none that waits inside.
    """
    operations = facts.outermost(facts.named(("python", "other"), BLOCKING_OPERATIONS.__contains__))
    calls = sync_calls(facts)
    if not facts.has("runtime") or not len(calls):
        return operations
    slices = facts.trace.slices
    tid = np.array([lane.tid for lane in facts.trace.lanes] + [-1])
    waits = np.zeros(len(operations), np.bool_)
    for thread in np.unique(tid[slices.lane[operations]]).tolist():
        mine, begun = (
            tid[slices.lane[operations]] == thread,
            np.sort(slices.start[calls[tid[slices.lane[calls]] == thread]]),
        )
        inner = operations[mine]
        waits[mine] = np.searchsorted(begun, slices.end[inner]) > np.searchsorted(begun, slices.start[inner])
    return operations[waits]


class BlamedCall(Struct, frozen=True):
    """A call of CANN that ran while the device starved, for ``time`` ns of it, in ``count`` calls."""

    name: str
    time: int
    count: int


@once_per_device
def runtime_calls(facts: Facts) -> I64:
    """The calls of the CANN runtime that are inside no other."""
    return facts.outermost(facts.named(("cann",), lambda name: name.startswith("AscendCL@")))


@once_per_device
def launching_calls(facts: Facts) -> I64:
    """``runtime_calls``; where no call of the runtime is recorded (Level0) those of torch_npu that launch."""
    calls = runtime_calls(facts)
    return calls if len(calls) else facts.outermost(facts.named(("python", "other"), lambda name: name[:5] == "aclnn"))


def blamed_calls(facts: Facts, span: Span) -> list[BlamedCall]:
    """The outermost calls of CANN that ran the longest within ``span`` of the device, at least 2 % of it."""
    calls = runtime_calls(facts)
    if not len(calls) or not len(span[0]):
        return []
    start, end = facts.trace.slices.start[calls] + facts.floor, facts.trace.slices.end[calls] + facts.floor
    shared = covered_within(*span, start, end)
    name = facts.trace.slices.name[calls]
    names, code = distinct(name)
    sums, counts = np.bincount(code, shared, len(names)), np.bincount(code, shared > 0, len(names))
    rows = [
        BlamedCall(facts.trace.names[names[k]].rpartition("@")[2], round(sums[k]), int(counts[k]))
        for k in np.argsort(-sums, kind="stable")[:NAMED].tolist()
    ]
    return [row for row in rows if row.time >= EVEN * length_of(span)]


@once_per_device
def dry(facts: Facts) -> Drains:
    """The drains between kernels of unknown launch: those, too, were in flight."""
    pairs = facts.part.pairs
    if pairs is None or not (pairs.graph < 0).any():
        return facts.drains
    return between_kernels(facts.trace, facts.drains, pairs.unlinked[pairs.graph < 0])


@once_per_device
def waited_copies(facts: Facts) -> I64:
    """The copies that a call of the host waits for, by end: the call began before the copy ended, and ends with it."""
    device, slices = facts.part.slices, facts.trace.slices
    items = np.zeros(0, np.int64) if device is None else np.flatnonzero(device.copy & facts.window.holds(slices.start))
    items = items[np.argsort(slices.end[items], kind="stable")]
    called = facts.named(("python", "cann"), BLOCKING_COPIES.__contains__)
    called = called[facts.length(called) > 2 * SHORT_NS]  # a short one may end with its copy by chance
    start, end = facts.on_device(facts.span_of(np.concatenate((sync_calls(facts), called))))
    done = slices.end[items]
    last = np.searchsorted(done, end, "right") - 1
    ended = np.append(done, 0)[last]
    waited: I64 = items[np.unique(last[(last >= 0) & (start < ended) & (end - ended <= SHORT_NS)])]
    return waited


def without_all(facts: Facts, span: Span) -> Change:
    """The change that removes work and waits of the host, and copies, from ``span`` of the device's time."""
    waits, slices = sync_calls(facts), facts.trace.slices
    low, high = span[0] - facts.floor, span[1] - facts.floor
    touched = touches(low, high, slices.start[waits].astype(np.float64), slices.end[waits].astype(np.float64))
    change = facts.without_work(span) | Change(waits=frozenset(waits[touched].tolist()))
    if facts.part.slices is None:
        return change
    copies = np.flatnonzero(facts.part.slices.copy)
    return change | Change(tasks=(TaskCut(copies[inside(span, slices.start[copies])]),))


def before_first_kernels(facts: Facts) -> Span:
    """From the start of each step to the first compute slice or collective after it, where the device is idle."""
    start = facts.working[0]
    items = np.array([step.item for step in facts.steps], np.int64)
    # A floor of a few µs is the way of a launch, not an offset of the clocks: it would move the start of the step.
    begin = facts.trace.slices.start[items] + facts.clocks_apart
    at = np.searchsorted(start, begin)
    followed = at < len(start)
    return without((begin[followed], start[at[followed]]), together(facts.working, facts.earlier))


def start_share(facts: Facts, starts: Span) -> float:
    """The share of a step that passes before its first kernel, which are ``starts``."""
    return length_of(starts) / facts.count / facts.step_ns if facts.step_ns else 0.0


def at_the_end(facts: Facts) -> Span:
    """From the last kernel to the end of the last step but for copies, which Overlap Analysis does not call Free."""
    start, done = facts.working
    if not facts.whole_steps or not facts.steps or not len(done):
        return NOTHING
    end = int(facts.trace.slices.end[facts.steps[-1].item]) + facts.floor
    begin = int(done[int(np.searchsorted(start, end)) - 1]) if start[0] < end else end
    return without((np.array([begin], np.int64), np.array([end], np.int64)), facts.busy)


PROFILER_GAP_LOW_US = Threshold("profiler_gap_low_us", 80.0)
PROFILER_GAP_HIGH_US = Threshold("profiler_gap_high_us", 115.0)

_PAUSE_FROM_US = 5.0  # a shorter gap does not count: the crowd of fixed pauses must stand apart from those that are


class FixedPauses(Struct, frozen=True):
    """``count`` pauses of ``all`` after kernels are of nearly one length, ``median`` ns; ``span`` is when they are."""

    count: int
    all: int
    median: float
    span: Span


@once_per_device
def fixed_pauses(facts: Facts) -> FixedPauses | None:
    """The pauses of the window; None if they do not cluster or take too little time."""
    limits = facts.limits
    if facts.launches is None or facts.part.slices is None:
        return None
    gap, before, after = _gaps(facts)
    low, high = limits[PROFILER_GAP_LOW_US] * 1000, limits[PROFILER_GAP_HIGH_US] * 1000
    crowd = (gap >= low) & (gap <= high)
    between = (gap >= _PAUSE_FROM_US * 1000) & (gap < low)
    count = int(crowd.sum())
    # A cluster, not the tail of something else: most of the tasks, and hardly any between zero and it.
    if count < limits[LINKS_FEWEST] or count < HALF * len(gap) or between.sum() > 0.05 * count:
        return None
    span = facts.cut(union(facts.trace.slices.end[before[crowd]], facts.trace.slices.start[after[crowd]]))
    if facts.share(length_of(span)) < limits[SEVERITY_MEDIUM]:
        return None
    return FixedPauses(count, len(gap), float(np.median(gap[crowd])), span)


def _gaps(facts: Facts) -> tuple[I64, I64, I64]:
    """Pauses (ns) before kernels that were launched while the one ahead on their stream ran, and both kernels."""
    slices, launches = facts.trace.slices, facts.launches
    device = facts.part.slices
    assert launches is not None
    assert device is not None
    busy = np.flatnonzero(device.compute | device.copy)  # by lane and start, as all slices
    same = slices.lane[busy[1:]] == slices.lane[busy[:-1]]
    target = facts.target
    before = BySlice(busy[1:][same], busy[:-1][same]).of(target)
    arrival = facts.trace.links.target_time[launches.link] - launches.relative
    known = (before >= 0) & device.compute[np.maximum(before, 0)]
    known &= arrival <= slices.end[np.maximum(before, 0)]
    target, before = target[known], before[known]
    return np.maximum(slices.start[target] - slices.end[before], 0), before, target
