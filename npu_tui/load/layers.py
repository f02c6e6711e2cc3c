"""Layers and lanes from the metadata of a trace, and links bound to slices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.load.json_columns import link_keys, pair_ends
from npu_tui.load.json_events import Metadata, named
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.times import INVALID
from npu_tui.trace.binding import LaneIndex
from npu_tui.trace.message import message
from npu_tui.trace.model import HOST_TO_DEVICE, Health, LayerKind, Links, Slices
from npu_tui.trace.text import whole_number

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
_DEVICE_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_HOST_CATEGORIES = frozenset({"cpu_op", "python_function", "user_annotation"})
_UNORDERED = 1 << 40


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
    link ends is CANN, whose slices and name torch_npu leaves out at Level0. Threads follow their own sort index (the
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
        else:
            kind = _kind_by_category(categories_of.get(pid, set()))
            if kind == "other" and not tids and pid in counter_pids:
                kind = "counter"
        tids.sort(key=lambda tid: (metadata.thread_order.get((pid, tid), tid), tid))
        plans.append(ProcessPlan(pid, name or named(pid) or f"Process {pid}", kind, _device(metadata, pid, kind), tids))
    plans.sort(key=lambda plan: (metadata.process_order.get(plan.pid, _UNORDERED), plan.name, plan.pid))
    return plans


def _kind_by_category(categories: set[str]) -> LayerKind:
    """The kind of a process of another writer: Kineto tells device and host apart by the categories of their slices."""
    if categories & _DEVICE_CATEGORIES:
        return "hardware"
    return "python" if categories & _HOST_CATEGORIES else "other"


def _device(metadata: Metadata, pid: int, kind: LayerKind) -> int | None:
    """The device of a process: from a label such as ``NPU 3``, else from msprof's packed pid, else unknown.

    Packed pids are ``os_pid << 10 | sort_index << 5 | device``.
    """
    label = metadata.process_label.get(pid, "")
    if kind in ("python", "cann") or label == "CPU":
        return None
    digits = label.removeprefix("NPU").strip()
    if digits.isdecimal():
        return whole_number(digits)
    order = metadata.process_order.get(pid)
    return pid & 31 if order is not None and (pid >> 5) & 31 == order and pid >> 10 else None


def thread_label(metadata: Metadata, pid: int, tid: int) -> str:
    """The name of a thread, or a name made of its number."""
    return metadata.thread_name.get((pid, tid)) or named(tid) or f"Thread {tid}"


I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class PairedEnds(Struct, frozen=True):
    """Timed link ends, and which belong together, by the time of the target.

    ``where`` is their place among all ends, ``time`` absolute ns, ``category`` and ``key`` one number each; (ends,).
    ``source`` and ``target`` are indices of these; (links,). What is left over is counted.
    """

    where: I64
    time: I64
    category: I32
    key: I32
    source: I64
    target: I64
    untimed: int
    lone_sources: int
    lone_targets: int


def paired_ends(whole: WholeColumns) -> PairedEnds:
    """The link ends of ``whole`` by (category, id); threads and events of the ends stay there."""
    time = whole.column("l_time", np.int64)
    where = np.flatnonzero(time != INVALID)
    category = whole.column("l_category", np.int32)[where]
    key = link_keys(category, whole.column("l_id", np.int64)[where], whole.column("l_high", np.int64)[where])
    pairs = pair_ends(key, whole.column("l_phase", np.int8)[where])
    untimed = len(time) - len(where)
    time = time[where]
    order = np.argsort(time[pairs.target], kind="stable")
    source, target = pairs.source[order], pairs.target[order]
    return PairedEnds(where, time, category, key, source, target, untimed, pairs.lone_sources, pairs.lone_targets)


def bound_links(
    whole: WholeColumns,
    ends: PairedEnds,
    lane_of: I32,
    python: set[int],
    bounds: I64,
    slices: Slices,
    start_ns: int,
    health: Health,
) -> Links:
    """The pairs of ``ends`` bound to slices, by target time.

    ``lane_of`` gives the lane of each thread code, ``bounds`` the first slice of each lane and the count of all,
    ``python`` the processes of the Python layers, ``start_ns`` the start of the trace. What is left over is counted in
    ``health``.
    """
    health.skip(message("skip.link_time"), ends.untimed)
    health.skip(message("skip.lone_source"), ends.lone_sources)
    health.skip(message("skip.lone_target"), ends.lone_targets)
    category, key, source, target = ends.category, ends.key, ends.source, ends.target
    time = ends.time - start_ns
    thread = whole.column("l_thread", np.int32)[ends.where]
    event = whole.column("l_event", np.int64)[ends.where]
    lane = lane_of[thread] if len(thread) else np.zeros(0, np.int32)
    index = LaneIndex(bounds[:-1], bounds[1:], slices.start, slices.end)
    target_slice = _bind(index, lane[target], time[target], np.full(len(target), -1, np.int64), slices)
    wanted = np.full(len(target), -1, np.int64)
    wanted[target_slice >= 0] = slices.connection[target_slice[target_slice >= 0]]
    source_slice = _bind(index, lane[source], time[source], wanted, slices)
    source_lane = lane[source].copy()
    to_device = whole.link_categories.get(HOST_TO_DEVICE, -1)
    astray = np.flatnonzero((source_slice < 0) & (category[source] == to_device))
    if len(astray):
        fallback = _python_lane_of_thread(whole, lane_of, python)[thread[source[astray]]]
        source_slice[astray] = index.innermost(fallback, time[source[astray]])
        source_lane[astray] = np.where(source_slice[astray] >= 0, fallback, source_lane[astray])
    return Links(
        category=category[source],
        key=key[source],
        source_time=time[source],
        target_time=time[target],
        source_slice=source_slice.astype(np.int32),
        target_slice=target_slice.astype(np.int32),
        source_lane=source_lane,
        target_lane=lane[target],
        source_event=event[source],
        target_event=event[target],
    )


def _bind(index: LaneIndex, lane: I32, time: I64, connection: I64, slices: Slices) -> I64:
    found = index.exact(lane, time, connection, slices.connection)
    missing = np.flatnonzero(found < 0)
    found[missing] = index.innermost(lane[missing], time[missing])
    return found


def _python_lane_of_thread(whole: WholeColumns, lane_of: I32, python: set[int]) -> I32:
    """For every thread code the first lane of the same tid on a Python layer, -1 without one."""
    lanes = [(int(lane_of[code]), tid) for (pid, tid), code in whole.threads.items() if pid in python]
    lanes.sort(key=lambda found: -found[0])
    by_tid = {tid: lane for lane, tid in lanes if lane >= 0}
    return np.array([by_tid.get(tid, -1) for _, tid in whole.threads], np.int32)
