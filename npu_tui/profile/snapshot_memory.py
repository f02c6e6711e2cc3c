"""A memory snapshot as the memory of a profile: of the trace that was made of it, or of one beside which it lies."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.kernels import Coded
from npu_tui.analysis.memory import BEFORE, NEVER, Allocations, Amount, Memory, memory_curve
from npu_tui.analysis.snapshot import nameless, owner_of
from npu_tui.trace.frames import NO_STACK, function_of
from npu_tui.trace.model import Trace
from npu_tui.trace.snapshot import BEFORE as OLDER
from npu_tui.trace.snapshot import NEVER as KEPT
from npu_tui.trace.snapshot import OUTSIDE, UNKNOWN, DeviceMemory, MemorySnapshot


def main_device(snapshot: MemorySnapshot) -> DeviceMemory | None:
    """The device with the highest peak; allocators of a framework come first."""
    return max(
        snapshot.devices,
        key=lambda device: (not device.allocator.startswith(OUTSIDE), device.peak[1]),
        default=None,
    )


def memory_of_device(snapshot: MemorySnapshot, device: DeviceMemory, origin: int, trace: Trace | None = None) -> Memory:
    """Curves and blocks of ``device``, in ns after ``origin``; in the ``trace`` of the snapshot they have slices."""
    lives, moments = device.lives, device.moments - origin
    maker = np.full(len(lives), -1, np.int64)
    if trace is not None:
        first = 0
        for other in snapshot.devices:
            if other is device:
                break
            first += len(other.lives)
        event = trace.slices.event - first
        ours = np.flatnonzero((event >= 0) & (event < len(lives)))[::-1]  # of two slices of a block the first counts
        maker[event[ours]] = ours
    amounts: list[tuple[Amount, np.ndarray[tuple[int], np.dtype[np.int64]]]] = [
        ("allocated", device.requested), ("reserved", device.reserved), ("active", device.active),
    ]  # fmt: skip
    known = [(amount, value) for amount, value in amounts if len(value) and value[0] != UNKNOWN]
    frames = [*snapshot.stacks, ""]
    return Memory(
        tuple(memory_curve(device.label, amount, moments[:-1], value) for amount, value in known),
        Allocations(
            Coded(
                [function_of(stack) or NO_STACK for stack in frames],
                np.where(nameless(device), -1, lives.stack % len(frames)),
            ),
            lives.size,
            np.where(lives.start == OLDER, BEFORE, moments[np.maximum(lives.start, 0)]),
            np.where(lives.end == KEPT, NEVER, moments[np.clip(lives.end, 0, len(device.events))]),
            (lives.stack % len(frames)).astype(np.int64),
            [owner_of(stack) for stack in frames],
            maker,
        ),
        (),
    )


def memory_of_snapshot(trace: Trace) -> Memory | None:
    """The memory of the main device of the snapshot that ``trace`` was made of; None of another trace."""
    snapshot = trace.snapshot
    device = None if snapshot is None else main_device(snapshot)
    return None if snapshot is None or device is None else memory_of_device(snapshot, device, trace.start_ns, trace)
