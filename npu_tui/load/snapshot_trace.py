"""A memory snapshot as a ``Trace``: blocks as slices, by age and in the lanes of their segments.

Where the writer gives no times, as torch_npu does, one event of the allocator stands for 1 us.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_tui.load.build import build_trace
from npu_tui.load.errors import Watcher
from npu_tui.load.format import ReadingPace, Source
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.snapshot import load_snapshot
from npu_tui.trace.args import RowArgs
from npu_tui.trace.arrays import I64
from npu_tui.trace.frames import NO_STACK, function_of
from npu_tui.trace.message import message
from npu_tui.trace.model import EventFile, Health, Trace
from npu_tui.trace.snapshot import AGES, BEFORE, MEMORY, NEVER, SEGMENTS_PID, DeviceMemory, MemorySnapshot
from npu_tui.trace.text import memory_text

_BEFORE, _KEPT, _AT_PEAK, _OTHER = range(1, 5)
"""The lanes of a device by the age of blocks; the last is none."""
_GONE, _NOWHERE = "segments given back", "blocks"


def read_snapshot_trace(source: Source, watcher: Watcher, pace: ReadingPace) -> Trace:
    """The trace of the snapshot ``source``; raises as ``load_snapshot``."""
    snapshot = load_snapshot(source.path, watcher)
    whole = WholeColumns()
    for number, device in enumerate(snapshot.devices):
        _add(whole, snapshot, device, number)
    untimed = [device.events.time is None for device in snapshot.devices]
    health = Health(skipped=dict(snapshot.odd), warnings=[message("odd.memory_axis")] if any(untimed) else [])
    trace = build_trace(whole, snapshot.path, (EventFile(snapshot.path, snapshot.size),), None, health)
    trace.args = SnapshotArgs(snapshot.devices)
    trace.nature, trace.snapshot, trace.is_untimed = MEMORY, snapshot, bool(untimed) and all(untimed)
    return trace


def _add(whole: WholeColumns, snapshot: MemorySnapshot, device: DeviceMemory, pid: int) -> None:
    """Take one device in, its blocks by age in one layer and by address in another.

    By age are those that are older than the history, that were never released, or that were there at the peak.
    """
    lives, time, first = device.lives, device.moments, snapshot.first_of(device)
    names = [function_of(stack) or NO_STACK for stack in [*snapshot.stacks, ""]]
    kinds, where = np.unique(lives.size * len(names) + lives.stack + 1, return_inverse=True)
    codes = [
        whole.names[f"{memory_text(kind // len(names))} {names[kind % len(names) - 1]}"] for kind in kinds.tolist()
    ]
    name = np.array([*codes, -1], np.int32)[where]
    stacks = np.array([whole.stacks[stack] for stack in snapshot.stacks] + [-1], np.int32)[lives.stack]
    start = time[np.maximum(lives.start, 0)]
    end = np.maximum(time[np.minimum(lives.gone, len(device.events))], start + 1)

    def put(process: int, lanes: list[str], chosen: I64, lane: I64) -> None:
        """A slice of each of the blocks ``chosen``, in the ``lane`` of each."""
        threads = [whole.threads[process, number] for number in range(len(lanes))]
        whole.metadata.thread_name.update({(process, number): label for number, label in enumerate(lanes)})
        whole.slices(
            first + chosen, np.array(threads, np.int32)[lane], start[chosen], end[chosen], name[chosen],
            whole.categories["block"], stack=stacks[chosen],
        )  # fmt: skip

    for process, label in ((pid, "Device {}"), (SEGMENTS_PID + pid, "Device {} segments")):
        whole.metadata.process_name[process] = label.format(device.label)
        whole.metadata.process_order[process] = process
    at_peak = (lives.start <= device.peak[0]) & (lives.end > device.peak[0])
    age = np.select([lives.start == BEFORE, lives.end == NEVER, at_peak], [_BEFORE, _KEPT, _AT_PEAK], _OTHER)
    chosen = np.flatnonzero(age < _OTHER)
    put(pid, [*AGES], chosen, age[chosen])
    steps = device.step_starts
    history = [f"step {number}" for number in range(1, len(steps) + 1)]
    history = ["before the first step" if history else f"{len(device.events):,} events", *history]
    spans = [
        (AGES[0], history, time[np.append(0, steps)], time[np.append(steps, len(device.events))]),
        ("annotations", [note.name for note in device.annotations],
         np.array([note.start for note in device.annotations], np.int64),
         np.array([note.end for note in device.annotations], np.int64)),
    ]  # fmt: skip
    for number, (lane, labels, begins, ends) in zip((0, len(AGES)), spans, strict=True):
        if not labels:
            continue
        whole.metadata.thread_name[pid, number] = lane
        nobody = np.full(len(labels), sum(len(other.lives) for other in snapshot.devices))
        thread = np.full(len(labels), whole.threads[pid, number], np.int32)
        words = np.array([whole.names[label] for label in labels], np.int32)
        whole.slices(nobody, thread, begins, np.maximum(ends, begins + 1), words, whole.categories[lane])
    put(SEGMENTS_PID + pid, *_by_address(device))


def _by_address(device: DeviceMemory) -> tuple[list[str], I64, I64]:
    """The segments by address, what is in none of them last; all blocks, and the segment of each."""
    segments, order = device.segments, np.argsort(device.segments.address, kind="stable")
    lane = np.append(np.argsort(order), len(order))
    lanes = []
    for row in order.tolist():
        pool = "small" if segments.small[row] else "large"
        grows = ", expandable" if segments.expandable[row] else ""
        lanes.append(f"0x{int(segments.address[row]):x} {memory_text(int(segments.size[row]))} {pool}{grows}")
    lanes.append(_GONE if device.has_segments else _NOWHERE)
    return lanes, np.arange(len(device.lives)), lane[segments.holding(device.lives.address)]


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
