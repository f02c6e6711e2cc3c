"""A memory snapshot: as the memory of the profile beside it, and its tables of blocks, events, segments and stacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.kernels import Coded
from npu_tui.analysis.memory import BEFORE, NEVER, Allocations, Amount, MemoryUse, memory_curve
from npu_tui.analysis.snapshot import HeldMemory, nameless, owner_of, placed
from npu_tui.load.errors import InputError
from npu_tui.load.find import RANK_IN_NAME, Source
from npu_tui.load.formats.memory import is_snapshot
from npu_tui.load.snapshot import load_snapshot
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import MISSING, Array, Data, Span, TableSheet, coded, columns, numbers, table
from npu_tui.trace.arrays import summed
from npu_tui.trace.frames import NO_STACK, function_of
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once
from npu_tui.trace.snapshot import BEFORE as OLDER
from npu_tui.trace.snapshot import NEVER as KEPT
from npu_tui.trace.snapshot import OUTSIDE, UNKNOWN, Action, DeviceMemory, MemorySnapshot, State


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

    The profile is of device ``number``, where that is known. Of several files the likeliest one counts; one whose times
    lie outside of the profile only if none is better.
    """
    if trace.snapshot is not None:
        device = main_device(trace.snapshot, number)
        return None if device is None else SnapshotBeside(trace.snapshot, device, trace)
    fallback = None
    files = [] if source is None else _beside(source, trace)
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
_WRITTEN = re.compile(r"(?<!\d)(1\d{18})(?!\d)")
"""When ``snapshot_1768383987920985470.pkl`` was written, ns since 1970."""


def _beside(source: Source, trace: Trace) -> list[Path]:
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
        """How many of process and rank the name tells are of others, less those of the profile; when it was written."""
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


_WHOSE = "device allocator process"
_OWN = {
    **columns("whole", "", "id", "address stack allocated_at freed_at pool process"),
    **columns("whole", "bytes", "memory", "size taken requested active reserved unused peak_bytes end_bytes"),
    **columns("whole", "", "count", "blocks peak_blocks end_blocks"),
    **columns("label", "", "word", "action state type"),
    **columns("label", "", "name", "allocator frames"),
    **columns("flag", "", "word", "expandable"),
}


def _sheet(
    profile: Profile, texts: Mapping[str, Sequence[str]], of: Callable[[DeviceMemory], dict[str, Array]]
) -> TableSheet:
    """The columns ``of`` each device, one device after the other, and whose rows they are.

    Columns of ``texts`` are numbers of these; in others, but for flags, what stands for unknown or never is null.
    """
    devices = [] if profile.trace.snapshot is None else profile.trace.snapshot.devices
    parts = [of(device) for device in devices]
    rows = [len(next(iter(part.values()))) for part in parts]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}
    whose = np.repeat(np.arange(len(devices)), rows)
    for name in ("device", "process"):
        joined[name] = np.array([getattr(device, name) for device in devices], np.int64)[whose]
    joined["allocator"] = whose
    known = {"allocator": [device.allocator for device in devices], **texts}
    return TableSheet(
        len(whose),
        {
            name: coded(known[name], np.where(values >= 0, values, -1)) if name in known else _known(name, values)
            for name, values in joined.items()
        },
    )


def _known(name: str, values: Array) -> Data:
    """A column with null for unknown and never, such as the device of memory of the host."""
    if values.dtype == np.bool_ or name in _ANY:
        return numbers(values)
    return numbers(np.where((values < 0) | (values == KEPT), MISSING, values), MISSING)


_ANY = ("address",)
"""Columns in which every number is one."""


def _stacks(device: DeviceMemory) -> Array:
    """The stack that allocated each block, -1 where none is known."""
    return np.where(nameless(device), -1, device.lives.stack)


def blocks(profile: Profile) -> TableSheet:
    """Every block that was ever allocated, and what the segments hold unused at the end."""

    def of(device: DeviceMemory) -> dict[str, Array]:
        lives, now = device.lives, device.blocks
        unused = np.flatnonzero(now.state == State.inactive)
        nothing = np.full(len(unused), -1)
        state = np.where(lives.end == KEPT, 0, np.where(lives.gone == KEPT, 1, len(State)))
        return {
            "state": np.append(state, np.full(len(unused), State.inactive)),
            "address": np.append(lives.address, now.address[unused]),
            "size": np.append(lives.size, nothing),
            "taken": np.append(lives.taken, now.size[unused]),
            "stream": np.append(lives.stream, device.segments.stream[now.segment[unused]]),
            "stack": np.append(_stacks(device), nothing),
            "allocated_at": np.append(lives.start, nothing),
            "freed_at": np.append(lives.end, nothing),
        }

    return _sheet(profile, {"state": (*State.__members__, "freed")}, of)


BLOCKS = table("blocks", blocks, sql=f"{_WHOSE} state address size taken stream stack allocated_at freed_at",
               own=_OWN)  # fmt: skip


def events(profile: Profile) -> TableSheet:
    """What the allocator did, in order, and what was held after it."""

    def of(device: DeviceMemory) -> dict[str, Array]:
        history = device.events
        return {
            "event": np.arange(len(history)), "action": history.action, "address": history.address,
            "size": history.size, "stream": history.stream, "stack": history.stack,
            "start_ns": np.full(len(history), -1) if history.time is None else history.time,
            "requested": device.requested, "active": device.active, "reserved": device.reserved,
        }  # fmt: skip

    sheet, snapshot = _sheet(profile, {"action": [*Action.__members__]}, of), profile.trace.snapshot
    if snapshot is None or not sheet.rows:
        return sheet
    stacks = np.concatenate([device.events.stack for device in snapshot.devices])
    moments = np.concatenate([device.moments[:-1] for device in snapshot.devices]) - profile.trace.start_ns
    lines: dict[int, CodeLine | None] = {}

    def code(row: int) -> CodeLine | None:
        stack = int(stacks[row])
        if stack not in lines:
            lines[stack] = placed(owner_of(snapshot.stacks[stack])) if stack >= 0 else None
        return lines[stack]

    def place(row: int) -> list[Span]:
        return [Span(int(moments[row]), int(moments[row]) + 1, marked=False)]

    return replace(sheet, code=code, place=place)


EVENTS = table("events", events,
               sql=f"{_WHOSE} event action address size stream stack start_ns requested active reserved",
               panel="size action event requested reserved line=place", own=_OWN)  # fmt: skip


def segments(profile: Profile) -> TableSheet:
    """What the allocator has taken from the device, at the end."""

    def of(device: DeviceMemory) -> dict[str, Array]:
        held, free = device.segments, device.blocks.state == State.inactive
        unused = summed(device.blocks.segment[free], device.blocks.size[free], len(held))
        return {
            "address": held.address, "size": held.size, "unused": unused, "type": held.small.astype(np.int64),
            "stream": held.stream, "pool": held.pool, "expandable": held.expandable,
        }  # fmt: skip

    return _sheet(profile, {"type": ("large", "small")}, of)


SEGMENTS = table("segments", segments, sql="device address size unused type stream pool expandable", own=_OWN)


def stacks(profile: Profile) -> TableSheet:
    """Every stack that allocated on a device, and what it held at the peak and at the end; blocks without one too."""
    texts = [] if profile.trace.snapshot is None else profile.trace.snapshot.stacks
    code = [owner_of(text) for text in texts]
    functions = [line.function if line else "" for line in code]
    files = [line.file if line else "" for line in code]
    lines = np.array([*(line.line if line and line.file else -1 for line in code), -1], np.int64)
    with_file, with_function = (np.array([*map(bool, known), False]) for known in (files, functions))

    def of(device: DeviceMemory) -> dict[str, Array]:
        lives = device.lives
        stack, where = np.unique(_stacks(device), return_inverse=True)
        held = {
            "stack": stack, "line": lines[stack], "frames": stack, "file": np.where(with_file[stack], stack, -1),
            "function": np.where(with_function[stack], stack, -1),
        }  # fmt: skip
        alive = {
            "": np.arange(len(lives)),
            "peak_": lives.alive(device.peak[0]),
            "end_": np.flatnonzero(lives.end == KEPT),
        }
        for moment, members in alive.items():
            held[f"{moment}blocks"] = np.bincount(where[members], minlength=len(stack))
            held[f"{moment}bytes" if moment else "size"] = summed(where[members], lives.size[members], len(stack))
        return held

    return _sheet(profile, {"file": files, "function": functions, "frames": texts}, of)


STACKS = table("stacks", stacks,
               sql=f"{_WHOSE} stack file line function blocks size peak_blocks peak_bytes end_blocks end_bytes frames",
               own=_OWN)  # fmt: skip


def growth_of_lines(profile: Profile) -> TableSheet:
    """The lines whose blocks outlive a step: what each added after the first step, what grew most first."""
    grown = None if profile.beside is None else profile.beside.growth
    held = [] if grown is None else grown.held
    more = [np.diff(size)[1:] for _, size in held]
    return TableSheet(
        len(held),
        {
            "added": numbers(np.array([step.sum() for step in more], np.int64)),
            "grew": numbers(np.array([np.count_nonzero(step > 0) for step in more], np.int64)),
            "held": numbers(np.array([size[-1] for _, size in held], np.int64)),
            "calls": numbers(np.array([len(owner.members) for owner, _ in held], np.int64)),
        },
        code=lambda row: placed(held[row][0].code),
    )


GROWTH = table("snapshot_growth", growth_of_lines, panel="added grew size=held count=calls line=place",
               own=columns("whole", "bytes", "memory", "added") | columns("whole", "", "count", "grew"))  # fmt: skip
