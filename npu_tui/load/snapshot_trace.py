"""A memory snapshot as a ``Trace``: blocks as slices in the lanes of their segments, what is held as counters.

Where the writer gives no times, as torch_npu does, one event of the allocator stands for 1 us.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.load.build import build_trace
from npu_tui.load.errors import UNWATCHED, Watcher
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.snapshot import load_snapshot
from npu_tui.trace.args import RowArgs
from npu_tui.trace.message import message
from npu_tui.trace.model import EventFile, Health, Trace
from npu_tui.trace.snapshot import NEVER, UNKNOWN, DeviceMemory, MemorySnapshot
from npu_tui.trace.text import memory_text

I64 = npt.NDArray[np.int64]

_GONE, _NOWHERE = "segments given back", "blocks"


def snapshot_trace(path: Path, watcher: Watcher = UNWATCHED) -> Trace:
    """The trace of the snapshot at ``path``; raises as ``load_snapshot``."""
    snapshot = load_snapshot(path, watcher)
    whole, first = WholeColumns(), 0
    for number, device in enumerate(snapshot.devices):
        _add(whole, snapshot, device, first, number if device.allocator else device.device)
        first += len(device.lives)
    untimed = any(device.events.time is None for device in snapshot.devices)
    health = Health(skipped=dict(snapshot.odd), warnings=[message("odd.memory_axis")] if untimed else [])
    trace = build_trace(whole, snapshot.path, (EventFile(snapshot.path, snapshot.size),), None, health)
    trace.args = SnapshotArgs(snapshot.devices)
    trace.snapshot = snapshot
    return trace


def _add(whole: WholeColumns, snapshot: MemorySnapshot, device: DeviceMemory, first: int, pid: int) -> None:
    """Take one device in, its blocks from ordinal ``first`` on; a slice of all of its history begins at event 0."""
    lives, time = device.lives, device.moments
    whole.metadata.process_name[pid] = f"Device {device.label}"
    whole.metadata.process_order[pid] = pid
    segments = device.segments
    order = np.argsort(segments.address, kind="stable")
    begins, sizes = segments.address[order], segments.size[order]
    place = np.searchsorted(begins, lives.address, "right") - 1
    inside = (place >= 0) & (lives.address < (begins + sizes)[np.maximum(place, 0)]) if len(begins) else place >= 0
    lane = np.where(inside, place, len(begins))
    threads = []
    for number in range(len(begins) + 1):
        threads.append(whole.threads[pid, number])
        name = _GONE if device.has_segments else _NOWHERE
        if number < len(begins):
            pool = "small" if segments.small[order[number]] else "large"
            grows = ", expandable" if segments.expandable[order[number]] else ""
            name = f"0x{int(begins[number]):x} {memory_text(int(sizes[number]))} {pool}{grows}"
        whole.metadata.thread_name[pid, number] = name
    start = time[np.maximum(lives.start, 0)]
    end = time[np.minimum(np.where(lives.gone == NEVER, len(device.events), lives.gone), len(device.events))]
    stacks = np.array([whole.stacks[stack] for stack in snapshot.stacks] + [-1], np.int32)
    names = [_name(stack) for stack in [*snapshot.stacks, ""]]
    keys, where = np.unique(np.stack((lives.size, lives.stack)), axis=1, return_inverse=True)
    codes = [whole.names[f"{memory_text(size)} {names[stack]}"] for size, stack in keys.T.tolist()]
    count = len(lives)
    columns: dict[str, Any] = {
        "time": start, "duration": np.maximum(end - start, 1), "thread": np.array(threads, np.int32)[lane],
        "name": np.array(codes, np.int32)[where.ravel()] if count else np.zeros(0, np.int32),
        "category": np.full(count, whole.categories["block"], np.int32), "task_type": np.full(count, -1, np.int32),
        "stream": np.full(count, -1), "connection": np.full(count, -1), "correlation": np.full(count, -1),
        "stack": stacks[lives.stack], "event": np.arange(first, first + count),
    }  # fmt: skip
    history = {
        "time": time[0], "duration": max(int(time[-1] - time[0]), 1), "thread": whole.threads[pid, -1],
        "name": whole.names[f"{len(device.events):,} events"], "category": whole.categories["history"],
        "event": sum(len(other.lives) for other in snapshot.devices) + pid,
    }  # fmt: skip
    whole.metadata.thread_name[pid, -1] = "history"
    for name, values in columns.items():
        whole.put(f"x_{name}", np.append(values, history.get(name, -1)).astype(values.dtype))
    whole.count += count + 1
    whole.phases["X"] += count + 1
    for amount in ("requested", "active", "reserved"):
        value = getattr(device, amount)
        if amount == "reserved" and device.reserved_at_end == UNKNOWN:
            continue
        changed = np.flatnonzero(np.append(True, value[1:] != value[:-1])[: len(value)])
        whole.put("c_time", time[changed])
        whole.put("c_value", value[changed].astype(np.float64))
        series = whole.series[pid, f"{amount} bytes", amount, ""]
        whole.put("c_series", np.full(len(changed), series, np.int32))
        whole.count += len(changed)
        whole.phases["C"] += len(changed)


def _name(stack: str) -> str:
    """What allocated, in a word: the function of the innermost frame."""
    frame = stack.partition("\n")[0]
    return frame.rpartition(": ")[2].rstrip(";") or "no stack"


class SnapshotArgs(RowArgs, frozen=True, eq=False):
    """What is known of each block, by the ordinal of its slice."""

    devices: list[DeviceMemory]

    def one(self, ordinal: int) -> dict[str, Any]:
        """Address, sizes, stream and events of a block; what is not known is left out."""
        position = ordinal
        for device in self.devices:
            if position < len(device.lives):
                break
            position -= len(device.lives)
        else:
            return {}
        lives = device.lives
        known = {
            "address": f"0x{int(lives.address[position]):x}",
            "requested bytes": int(lives.size[position]),
            "block bytes": int(lives.taken[position]),
            "stream": int(lives.stream[position]),
            "allocated at event": int(lives.start[position]),
            "freed at event": int(lives.end[position]),
        }
        return {name: value for name, value in known.items() if value not in (-1, NEVER)}
