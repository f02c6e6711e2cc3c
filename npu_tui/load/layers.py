"""Layers and lanes from the metadata of a trace, and links: their ends paired, then bound to slices.

Links are bound to the slices that enclose their ends. ``pair_ends`` says how ends are paired, also where a key is used
again; the phases ``s``, ``t`` and ``f`` are those of the Trace Event Format.

A file may hold events twice: an exporter appended again, or files of one process were put together. Equal events are
distinguished where possible: a device runs one task of a stream at a time, so two equal ones mean that the file holds
events twice. Equal events of the host alone may be two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import fields

from npu_tui.trace.arrays import I8, I32, I64, Bools
from npu_tui.trace.model import Links

if TYPE_CHECKING:
    import polars as pl

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.load.json_columns import FOLLOWING, SOURCE, STEP, TARGET
from npu_tui.load.json_events import Metadata, name_after_number
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.times import INVALID
from npu_tui.trace.arrays import LaneIndex
from npu_tui.trace.kineto import DEVICE_CATEGORIES
from npu_tui.trace.message import message
from npu_tui.trace.model import HOST_TO_DEVICE, MOST_DEVICES, Health, LayerKind, Slices
from npu_tui.trace.text import decimal_number


def again(same: Bools, values: npt.NDArray[Any]) -> Bools:
    """Which of some sorted events equal one before them; (n,).

    ``same`` says which have the keys of the one before them, (n,); among those ``values`` tell them apart.
    """
    found = np.zeros(len(same), np.bool_)
    rows = np.flatnonzero(same | np.append(same[1:], False))
    if len(rows):
        group = np.cumsum(~same[rows])
        order = np.lexsort((values[rows], group))
        rows, group = rows[order], group[order]
        found[rows[1:]] = (group[1:] == group[:-1]) & (values[rows][1:] == values[rows][:-1])
    return found


def doubled_slices(lane: I32, start: I64, end: I64, streams: Bools, names: Callable[[], I32]) -> tuple[Bools, int]:
    """Which slices equal one before them in lane, name, start and end and count no more, (n,); how many others do.

    The slices are sorted by lane, start and end; ``names`` gives the name of each. ``streams`` says which lanes hold
    the tasks of a device, which runs one of a stream at a time: where it would have run two, the file holds events
    twice, and those of the host that are equal are doubles too. Alone they may be calls that begin and end together.
    """
    same = np.append(False, (lane[1:] == lane[:-1]) & (start[1:] == start[:-1]) & (end[1:] == end[:-1]))[: len(lane)]
    if not same.any():
        return same, 0
    doubled = again(same, names())
    if (doubled & (end > start) & streams[lane]).any():
        return doubled, 0
    return np.zeros(len(lane), np.bool_), int(np.count_nonzero(doubled))


def doubled_ends(key: I32, phase: I8, thread: I32, time: I64) -> Bools:
    """Which ends of links have the key, phase, thread and time of one before them; (n,)."""
    found = np.zeros(len(key), np.bool_)
    for here in (np.flatnonzero(phase == one) for one in range(int(phase.max(initial=-1)) + 1)):
        several = here[np.bincount(key[here])[key[here]] > 1] if len(here) else here
        order = several[np.lexsort((several, time[several], thread[several], key[several]))]
        columns = (column[order] for column in (key, thread, time))
        equal = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
        found[order[1:][equal]] = True
    return found


def first_rows(frame: pl.DataFrame, moments: Sequence[str]) -> Bools | None:
    """The rows of ``frame`` that equal none before them; (n,), None if that are all. ``moments`` are its times."""
    order, same = _side_by_side(frame.select(moments).hash_rows().to_numpy())
    if not same.any():
        return None
    rows = np.sort(order[np.append(same, False) | np.append(False, same)])
    pieces = [frame[rows[at : at + _TOGETHER]].hash_rows() for at in range(0, len(rows), _TOGETHER)]
    order, same = _side_by_side(np.concatenate(pieces))
    doubled, first = rows[order[1:][same]], rows[order[:-1][same]]
    equal = np.ones(len(doubled), np.bool_)
    for at in range(0, len(doubled), _TOGETHER):
        part = slice(at, at + _TOGETHER)
        for column in frame:
            equal[part] &= column.gather(first[part]).eq_missing(column.gather(doubled[part])).to_numpy()
    kept = np.ones(len(frame), np.bool_)
    kept[doubled[equal]] = False
    return None if kept.all() else kept


_TOGETHER = 1 << 16  # rows that are copied to be compared at a time: a file may hold all of its rows twice


def _side_by_side(hashes: npt.NDArray[Any]) -> tuple[I64, Bools]:
    """Rows in an order in which equal ones follow each other, (n,), and which are like the one before, (n - 1,).

    They are like it by their ``hashes``: compared as structs the rows take ten times as much memory.
    """
    order = np.argsort(hashes, kind="stable")
    return order, hashes[order[1:]] == hashes[order[:-1]]


def distinct_links(links: Links) -> Links:
    """``links`` without those that equal another one in everything but their place in the file."""
    columns = ("key", "source_time", "target_time", "source_slice", "target_slice", "source_lane", "target_lane")
    rows = np.stack([getattr(links, name).astype(np.int64) for name in columns], axis=1)
    first = np.sort(np.unique(rows, axis=0, return_index=True)[1])
    return Links(**{field.name: getattr(links, field.name)[first] for field in fields(Links)})


_KINDS: dict[str, LayerKind] = {
    "Python": "python",
    "CANN": "cann",
    "Ascend Hardware": "hardware",
    "HCCL": "communication",
    "Communication": "communication",
    "COMMUNICATION": "communication",
    "Overlap Analysis": "overlap",
    "MindSpore": "python",
    "CPU OP": "python",
}
# In Kineto, the profiler of other PyTorch builds, the categories of slices distinguish device and host.
_HOST_CATEGORIES = frozenset({"cpu_op", "python_function", "user_annotation"})
_UNORDERED = 1 << 40  # after every process with a sort index


class ProcessPlan(Struct, frozen=True):
    """One process to become a layer; ``threads`` are the tids that carry slices, in order."""

    pid: int
    name: str
    kind: LayerKind
    device: int | None
    threads: list[int]


def plan_layers(
    metadata: Metadata, slice_threads: dict[tuple[int, int], set[str]], counter_pids: set[int], link_pids: set[int]
) -> list[ProcessPlan]:
    """The processes with a slice, a counter or a link end, ordered by sort index, then name, then pid.

    ``slice_threads`` gives the categories of the slices of each (pid, tid). A process without a name that only carries
    link ends is CANN; torch_npu leaves its slices and name out at Level0. Threads follow their own sort index (the
    thread id where there is none).
    """
    threads_of: dict[int, list[int]] = {}
    categories_of: dict[int, set[str]] = {}
    for (pid, tid), categories in slice_threads.items():
        threads_of.setdefault(pid, []).append(tid)
        categories_of.setdefault(pid, set()).update(categories)
    plans = []
    for pid in set(threads_of) | counter_pids | link_pids:
        tids = threads_of.get(pid, [])
        name = metadata.process_name.get(pid, "")
        kind: LayerKind
        if not name and not tids and pid in link_pids:
            name, kind = "CANN", "cann"
        elif name in _KINDS:
            kind = _KINDS[name]
        elif categories_of.get(pid, set()) & DEVICE_CATEGORIES:
            kind = "hardware"
        elif categories_of.get(pid, set()) & _HOST_CATEGORIES:
            kind = "python"
        else:
            kind = "counter" if not tids and pid in counter_pids else "other"
        tids.sort(key=lambda tid: (metadata.thread_order.get((pid, tid), tid), tid))
        device = _device(metadata, pid, kind)
        if device is None and 0 <= pid < MOST_DEVICES and categories_of.get(pid, set()) & DEVICE_CATEGORIES:
            device = pid  # Kineto's process of a device has its number
        plans.append(ProcessPlan(pid, name or name_after_number(pid) or f"Process {pid}", kind, device, tids))
    devices = {plan.device for plan in plans if plan.kind == "hardware"}
    if len(devices) == 1:  # older exports label the hardware alone
        plans = [
            replace(plan, device=next(iter(devices)))
            if plan.kind in ("communication", "overlap") and plan.device is None
            else plan
            for plan in plans
        ]
    plans.sort(key=lambda plan: (metadata.process_order.get(plan.pid, _UNORDERED), plan.name, plan.pid))
    return plans


def _device(metadata: Metadata, pid: int, kind: LayerKind) -> int | None:
    """The device of a process: from a label such as ``NPU 3`` or ``GPU 3``, from msprof's packed pid, else unknown.

    Packed pids are ``os_pid << 10 | sort_index << 5 | device``.
    """
    label = metadata.process_label.get(pid, "")
    if kind in ("python", "cann") or label == "CPU":
        return None
    digits = label.removeprefix("NPU").removeprefix("GPU").strip()
    if digits.isdecimal():
        return decimal_number(digits)
    order = metadata.process_order.get(pid)
    return pid & 31 if order is not None and (pid >> 5) & 31 == order and pid >> 10 else None


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


def thread_label(metadata: Metadata, pid: int, tid: int) -> str:
    """The name of a thread, or a name made of its number."""
    return (
        metadata.thread_name.get((pid, tid))
        or name_after_number(tid)
        or f"{metadata.stream_name.get(pid, 'Thread ')}{tid}"
    )


class LinkPairs(Struct, frozen=True):
    """Indices of link ends that belong together, and how many ends found no partner."""

    source: I64
    target: I64
    lone_sources: int
    lone_targets: int


def link_keys(category: I32, low: I64, high: I64) -> I32:
    """Numbers for the distinct (category, id) of link ends, an id being the numbers ``low`` and ``high``; (n,)."""
    keys = np.zeros(len(low), np.int32)
    if not len(low):
        return keys
    order = np.argsort(low, kind="stable")
    sorted_low = np.take(low, order)
    rank = np.append(0, np.cumsum(sorted_low[1:] != sorted_low[:-1]))
    least, span = int(high.min()), int(high.max()) - int(high.min()) + 1
    combinations = span * (int(category.max()) + 1)
    if len(low) * combinations < 1 << 62:
        # All three fit into one number, which sorts faster than three keys.
        joint = rank * combinations + np.take(category * np.int64(span) + (high - least), order)
        again = np.argsort(joint, kind="stable")
        order, joint = np.take(order, again), np.take(joint, again)
        differs = joint[1:] != joint[:-1]
    else:
        order = order[np.lexsort((order, high[order], category[order], rank))]
        differs = (low[order][1:] != low[order][:-1]) | (high[order][1:] != high[order][:-1])
        differs |= category[order][1:] != category[order][:-1]
    keys[order[1:]] = np.cumsum(differs)
    return keys


def pair_ends(key: I32, phase: npt.NDArray[np.int8]) -> LinkPairs:
    """Sources and targets of link ends given in file order; ``phase`` is 0 source, 1 step, 2 target.

    A key with one source links it to all its targets. Where a key is used again, the file decides: with as many sources
    as targets the k-th goes to the k-th, otherwise a target belongs to the source before it. A step (``t``) ends one
    link and begins the next.
    """
    keys = int(key.max()) + 1 if len(key) else 0
    sources, targets = np.flatnonzero(phase != TARGET), np.flatnonzero(phase != SOURCE)
    source_count, target_count = (np.bincount(key[ends], minlength=keys) for ends in (sources, targets))
    step_count = np.bincount(key[phase == STEP], minlength=keys)
    sources, targets = (ends[np.argsort(key[ends], kind="stable")] for ends in (sources, targets))
    first_source, first_target = (np.append(0, np.cumsum(count)) for count in (source_count, target_count))
    of_target = key[targets]
    rank = np.arange(len(targets)) - first_target[of_target]
    is_alone = source_count[of_target] == 1
    is_even = (source_count[of_target] == target_count[of_target]) & (step_count[of_target] == 0)
    at = np.where(is_alone, 0, np.where(is_even, rank, -1))  # which source of the key
    for i in np.flatnonzero(at < 0):
        low, high = first_source[of_target[i]], first_source[of_target[i] + 1]
        at[i] = max(int(np.searchsorted(sources[low:high], targets[i])) - 1, 0)
    is_linked = source_count[of_target] > 0
    source, target = sources[(first_source[of_target] + at)[is_linked]], targets[is_linked]
    apart = source != target  # a step with nothing before it would be its own source
    lone_targets = len(targets) - int(np.count_nonzero(apart))
    lone_sources = int(np.count_nonzero(target_count[key[sources]] == 0))
    return LinkPairs(source[apart], target[apart], lone_sources, lone_targets)


class PairedEnds(Struct, frozen=True):
    """Timed link ends, and which belong together: ``pairs`` are indices of these ends, by the time of the target.

    ``where`` is their place among all ends, ``time`` absolute ns, ``category`` and ``key`` one number each; (ends,).
    ``untimed`` counts the others, ``twice`` those that equal another end; ``following`` are those of the slice that
    begins next, (ends,).
    """

    where: I64
    time: I64
    category: I32
    key: I32
    pairs: LinkPairs
    untimed: int
    twice: int
    following: npt.NDArray[np.bool_]


def paired_ends(whole: WholeColumns, link: Callable[[], None] | None = None) -> PairedEnds:
    """The link ends of ``whole`` by (category, id); threads and events of the ends stay there.

    ``link`` takes in those that are not there yet.
    """
    if link is not None:
        link()
    time = whole.column("l_time", np.int64)
    where = np.flatnonzero(time != INVALID)
    untimed = len(time) - len(where)
    time, category = time[where], whole.column("l_category", np.int32)[where]
    key = link_keys(category, whole.column("l_id", np.int64)[where], whole.column("l_high", np.int64)[where])
    phase = whole.column("l_phase", np.int8)[where]
    doubled = doubled_ends(key, phase, whole.peek("l_thread", np.int32)[where], time)
    twice = int(np.count_nonzero(doubled))
    if twice:
        where, time, category = where[~doubled], time[~doubled], category[~doubled]
        key, phase = key[~doubled], phase[~doubled]
    following = phase == FOLLOWING
    pairs = pair_ends(key, np.where(following, TARGET, phase).astype(np.int8))
    order = np.argsort(time[pairs.target], kind="stable")
    pairs = replace(pairs, source=pairs.source[order], target=pairs.target[order])
    return PairedEnds(where, time, category, key, pairs, untimed, twice, following)


def bound_links(
    whole: WholeColumns,
    ends: PairedEnds,
    lane_of: I32,
    python: set[int],
    bounds: I64,
    slices: Slices,
    start_ns: int,
    streams: npt.NDArray[np.bool_],
    health: Health,
) -> Links:
    """The pairs of ``ends`` bound to slices, by target time.

    ``lane_of`` gives the lane of each thread code, ``bounds`` the first slice of each lane and the count of all,
    ``python`` the processes of the Python layers, ``start_ns`` the start of the trace, ``streams`` which lanes hold the
    tasks of a device. What is left over is counted in ``health``.
    """
    health.skip(message("skip.link_time"), ends.untimed)
    if ends.twice:
        health.warnings.append(message("odd.doubled_links", count=ends.twice))
    health.skip(message("skip.lone_source"), ends.pairs.lone_sources)
    health.skip(message("skip.lone_target"), ends.pairs.lone_targets)
    category, key, source, target = ends.category, ends.key, ends.pairs.source, ends.pairs.target
    time = ends.time - start_ns
    thread = whole.column("l_thread", np.int32)[ends.where]
    event = whole.column("l_event", np.int64)[ends.where]
    lane = lane_of[thread] if len(thread) else np.zeros(0, np.int32)
    index = LaneIndex(bounds[:-1], bounds[1:], slices.start, slices.end)
    target_slice = _slices_at(index, lane[target], time[target], np.full(len(target), -1, np.int64), slices)
    target_time = time[target]
    near = _near_start(lane[target], target_time, target_slice, bounds, slices, streams)
    following = ends.following[target]
    if following.any():  # where no slice begins later, it belongs to the one that is open
        following &= np.append(slices.start, INVALID)[target_slice] != target_time
        near[following] = _following_slices(lane[target][following], target_time[following], bounds, slices)
    if (moved := near >= 0).any():
        target_slice[moved], target_time[moved] = near[moved], slices.start[near[moved]]
        order = np.argsort(target_time, kind="stable")
        source, target = source[order], target[order]
        target_slice, target_time = target_slice[order], target_time[order]
    # Of several calls of CANN that begin with a launch, the one with the connection of the kernel made it.
    connection = np.full(len(target), -1, np.int64)
    connection[target_slice >= 0] = slices.connection[target_slice[target_slice >= 0]]
    source_slice = _slices_at(index, lane[source], time[source], connection, slices)
    source_lane = lane[source].copy()
    # At Level0 the CANN process of a launch has no slices: the Python function that ran on its thread stands for it.
    to_device = whole.link_categories.get(HOST_TO_DEVICE, -1)
    astray = np.flatnonzero((source_slice < 0) & (category[source] == to_device))
    if len(astray):
        python_lane = _python_lane_of_thread(whole, lane_of, python)[thread[source[astray]]]
        source_slice[astray] = index.innermost(python_lane, time[source[astray]])
        source_lane[astray] = np.where(source_slice[astray] >= 0, python_lane, source_lane[astray])
    return Links(
        category=category[source],
        key=key[source],
        source_time=time[source],
        target_time=target_time,
        source_slice=source_slice.astype(np.int32),
        target_slice=target_slice.astype(np.int32),
        source_lane=source_lane,
        target_lane=lane[target],
        source_event=event[source],
        target_event=event[target],
    )


# How far two times may be apart that were the same before each of them was put on the grid of a float of 0.25 us.
_GRID_NS = 500


def _following_slices(lane: I32, time: I64, bounds: I64, slices: Slices) -> I64:
    """The first slice on each ``lane`` that begins at ``time`` or later, -1 without one; (n,)."""
    found = np.full(len(lane), -1, np.int64)
    for number in np.unique(lane[lane >= 0]).tolist():
        here, first, last = np.flatnonzero(lane == number), int(bounds[number]), int(bounds[number + 1])
        at = first + np.searchsorted(slices.start[first:last], time[here], "left")
        found[here] = np.where(at < last, at, -1)
    return found


def _near_start(lane: I32, time: I64, bound: I64, bounds: I64, slices: Slices, streams: npt.NDArray[np.bool_]) -> I64:
    """The task that begins on a stream nearest to each target ``time`` but not at it, -1 without one; (n,).

    A target just after the start of the slice it is ``bound`` to is that of this slice, one just before the start of
    another slice that of the other one. Writers that hold times as floats (in us since 1970) put targets there.
    """
    near = np.full(len(lane), -1, np.int64)
    here = np.flatnonzero((lane >= 0) & np.append(streams, False)[lane])
    after = np.where(bound[here] >= 0, time[here] - slices.start[bound[here]], -1)
    here, after = here[after != 0], after[after != 0]
    late = (after > 0) & (after <= _GRID_NS)
    near[here[late]] = bound[here[late]]
    here = here[~late]
    for number in np.unique(lane[here]).tolist():
        ends, first, last = here[lane[here] == number], int(bounds[number]), int(bounds[number + 1])
        at = first + np.searchsorted(slices.start[first:last], time[ends], "left")
        soon = at < last
        soon[soon] = slices.start[at[soon]] - time[ends[soon]] <= _GRID_NS
        near[ends[soon]] = at[soon]
    return near


def _slices_at(index: LaneIndex, lane: I32, time: I64, connection: I64, slices: Slices) -> I64:
    """The slice on each ``lane`` that begins at ``time``, else the innermost that is open then, -1 without one."""
    at = index.exact(lane, time, connection, slices.connection)
    missing = np.flatnonzero(at < 0)
    at[missing] = index.innermost(lane[missing], time[missing])
    return at


def _python_lane_of_thread(whole: WholeColumns, lane_of: I32, python: set[int]) -> I32:
    """For every thread code the first lane of the same tid on a Python layer, -1 without one."""
    lanes = [(int(lane_of[code]), tid) for (pid, tid), code in whole.threads.items() if pid in python]
    lanes.sort(reverse=True, key=lambda lane_and_tid: lane_and_tid[0])  # the first lane is written last
    by_tid = {tid: lane for lane, tid in lanes if lane >= 0}
    return np.array([by_tid.get(tid, -1) for _, tid in whole.threads], np.int32)
