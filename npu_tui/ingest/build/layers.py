"""Processes and threads of the file as layers and lanes in the profiler's order."""

from __future__ import annotations

from msgspec import Struct

from npu_tui.ingest.json.columns.metadata import Metadata
from npu_tui.ingest.json.decoding.events import named
from npu_tui.trace.model import LayerKind
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
