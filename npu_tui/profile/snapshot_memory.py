"""A memory snapshot as the memory of a profile: of the trace that was made of it, or of one beside which it lies."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from npu_tui.analysis.kernels import Coded
from npu_tui.analysis.memory import BEFORE, NEVER, Allocations, Amount, MemoryUse, memory_curve
from npu_tui.analysis.snapshot import HeldMemory, nameless, owner_of, placed
from npu_tui.load.errors import InputError
from npu_tui.load.find import RANK_IN_NAME, Source
from npu_tui.load.formats.memory import is_snapshot
from npu_tui.load.snapshot import load_snapshot
from npu_tui.trace.classes import NO_STACK, function_of
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once
from npu_tui.trace.snapshot import BEFORE as OLDER
from npu_tui.trace.snapshot import NEVER as KEPT
from npu_tui.trace.snapshot import OUTSIDE, UNKNOWN, DeviceMemory, MemorySnapshot


def main_device(snapshot: MemorySnapshot, number: int | None = None) -> DeviceMemory | None:
    """Device ``number``, else that with the highest peak; allocators of a framework come first."""
    return max(
        snapshot.devices,
        key=lambda device: (not device.allocator.startswith(OUTSIDE), device.device == number, device.peak[1]),
        default=None,
    )


def memory_of_device(
    snapshot: MemorySnapshot, device: DeviceMemory, origin: int, trace: Trace | None = None
) -> MemoryUse:
    """Curves and blocks of ``device``, in ns after ``origin``; in the ``trace`` of the snapshot they have slices."""
    lives, moments = device.lives, device.moments - origin
    maker = np.full(len(lives), -1, np.int64)
    if trace is not None:
        event = trace.slices.event - snapshot.first_of(device)
        ours = np.flatnonzero((event >= 0) & (event < len(lives)))[::-1]  # of two slices of a block the first counts
        maker[event[ours]] = ours
    amounts: list[tuple[Amount, np.ndarray[tuple[int], np.dtype[np.int64]]]] = [
        ("allocated", device.requested), ("reserved", device.reserved), ("active", device.active),
    ]  # fmt: skip
    known = [(amount, value) for amount, value in amounts if len(value) and value[0] != UNKNOWN]
    frames = [*snapshot.stacks, ""]
    return MemoryUse(
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
            [placed(owner_of(stack)) for stack in frames],
            maker,
        ),
        (),
    )


class SnapshotBeside(HeldMemory, eq=False):
    """A ``device`` of the ``snapshot`` of the profile of ``trace``; ``left`` are other snapshots in its folder."""

    trace: Trace
    left: tuple[str, ...] = ()

    @once
    def placed(self) -> bool:
        """Whether ``memory`` is on the clock of the profile: it was made of the snapshot, or both have times."""
        trace, moments = self.trace, self.device.moments
        within = moments[0] < trace.start_ns + trace.end and moments[-1] > trace.start_ns
        return trace.snapshot is self.snapshot or (self.device.events.time is not None and bool(within))

    @property
    def origin(self) -> int:
        """The time that ``memory`` begins at, ns since 1970."""
        return self.trace.start_ns if self.placed else int(self.device.moments[0])

    @once
    def memory(self) -> MemoryUse:
        """Curves and blocks of ``device``, in ns after ``origin``."""
        own = self.trace if self.trace.snapshot is self.snapshot else None
        return memory_of_device(self.snapshot, self.device, self.origin, own)

    @once
    def others(self) -> list[SnapshotBeside]:
        """The other devices of the snapshot."""
        return [
            SnapshotBeside(self.snapshot, device, self.trace)
            for device in self.snapshot.devices
            if device is not self.device
        ]

    def event_at(self, time: int) -> int:
        """The event at ``time`` of ``memory``, where that has no place in the profile."""
        return int(np.searchsorted(self.device.moments, time + self.origin, "right")) - 1

    @once
    def step_times(self) -> list[int]:
        """When steps begin, by allocations that recur, on the clock of ``memory``, ns."""
        times: list[int] = (self.device.moments[self.device.step_starts] - self.origin).tolist()
        return times


def snapshot_of(trace: Trace, source: Source | None, number: int | None = None) -> SnapshotBeside | None:
    """The memory snapshot that ``trace`` was made of, or the one that lies beside the profile at ``source``.

    The profile is of device ``number``, where that is known. Among several files the likeliest one counts; one whose
    times lie outside of the profile only if none is better.
    """
    if trace.snapshot is not None:
        device = main_device(trace.snapshot, number)
        return None if device is None else SnapshotBeside(trace.snapshot, device, trace)
    fallback = None
    files = [] if source is None else _snapshots_beside(source, trace)
    for file in files:
        with suppress(InputError, OSError):  # another pickle
            snapshot = load_snapshot(file)
            if (device := main_device(snapshot, number)) is not None:
                found = SnapshotBeside(snapshot, device, trace, tuple(other.name for other in files if other != file))
                if found.placed or device.events.time is None:
                    return found
                fallback = fallback or found
    return fallback


_NAMES = "*.pkl", "*.pickle", "memscope_dump_*.csv", "memscope_dump_*.db"
_PROCESS = re.compile(r"_(\d+)_\d{8,}")
"""The process in names such as ``host_4711_20250101000000000_ascend_pt`` and ``oom_snapshot_4711_20250101000000``."""
_WRITTEN = re.compile(r"(?<!\d)(1\d{18})(?!\d)")  # when ``snapshot_1768383987920985470.pkl`` was written, ns since 1970


def _snapshots_beside(source: Source, trace: Trace) -> list[Path]:
    """The snapshots in the folder of a profile, else those beside that folder that name its process, likeliest first.

    That is the one which names the process or the rank, then the first one that was written after the ``trace`` ended:
    its history reaches back to it. Else the newest one.
    """
    folder = source.folder
    if folder is None or not source.format.is_profile:
        return []
    profile = (source.opened if source.is_directory else folder).resolve()
    process = _PROCESS.search(profile.name)

    def unlike(file: Path) -> tuple[int, bool, int, str]:
        """How many of process and rank in the name are others, less those of the profile; when it was written."""
        whose = (_PROCESS, process and int(process[1])), (RANK_IN_NAME, source.rank)
        named = [(int(match[1]), ours) for pattern, ours in whose if ours is not None
                 and (match := pattern.search(file.name))]  # fmt: skip
        match = _WRITTEN.search(file.name)
        after = (int(match[1]) if match else file.stat().st_mtime_ns) - trace.start_ns - trace.end
        return sum(-1 if number == ours else 1 for number, ours in named), after < 0, abs(after), file.name

    found = {file for place in {folder, profile} for name in _NAMES for file in source.survey.glob(place, name)}
    found = found or {
        file
        for name in (_NAMES if process else ())
        for file in source.survey.glob(profile.parent, name)
        if (match := _PROCESS.search(file.name)) and process and match[1] == process[1]
    }
    return sorted((file for file in found if is_snapshot(file, source.survey)), key=unlike)
