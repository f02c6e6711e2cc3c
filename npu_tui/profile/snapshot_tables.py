"""The tables of a memory snapshot: blocks, events of the allocator, segments, and the stacks that allocated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.snapshot import nameless, owner_of, placed
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import MISSING, Array, Data, Span, TableSheet, coded, columns, numbers, table
from npu_tui.trace.arrays import summed
from npu_tui.trace.snapshot import NEVER, Action, DeviceMemory, State

_WHOSE = "device allocator process"
_OWN = {
    **columns("whole", "", "id", "address stack allocated_at freed_at pool process"),
    **columns("whole", "bytes", "memory", "size taken requested active reserved unused peak_bytes end_bytes"),
    **columns("whole", "", "count", "blocks peak_blocks end_blocks"),
    **columns("label", "", "word", "action state type"),
    **columns("label", "", "name", "allocator frames"),
    **columns("flag", "", "word", "expandable"),
}


def _device_sheet(
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
            name: coded(known[name], np.where(values >= 0, values, -1))
            if name in known
            else _column_with_nulls(name, values)
            for name, values in joined.items()
        },
    )


def _column_with_nulls(name: str, values: Array) -> Data:
    """A column with null for unknown and never, such as the device of memory of the host."""
    if values.dtype == np.bool_ or name in _ANY:
        return numbers(values)
    return numbers(np.where((values < 0) | (values == NEVER), MISSING, values), MISSING)


_ANY = ("address",)  # columns in which every number is one


def _stacks(device: DeviceMemory) -> Array:
    """The stack that allocated each block, -1 where none is known."""
    return np.where(nameless(device), -1, device.lives.stack)


def blocks(profile: Profile) -> TableSheet:
    """Every block that was ever allocated, and what the segments hold unused at the end."""

    def of(device: DeviceMemory) -> dict[str, Array]:
        lives, now = device.lives, device.blocks
        unused = np.flatnonzero(now.state == State.inactive)
        nothing = np.full(len(unused), -1)
        state = np.where(lives.end == NEVER, 0, np.where(lives.gone == NEVER, 1, len(State)))
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

    return _device_sheet(profile, {"state": (*State.__members__, "freed")}, of)


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

    sheet, snapshot = _device_sheet(profile, {"action": [*Action.__members__]}, of), profile.trace.snapshot
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

    return _device_sheet(profile, {"type": ("large", "small")}, of)


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
            "end_": np.flatnonzero(lives.end == NEVER),
        }
        for moment, members in alive.items():
            held[f"{moment}blocks"] = np.bincount(where[members], minlength=len(stack))
            held[f"{moment}bytes" if moment else "size"] = summed(where[members], lives.size[members], len(stack))
        return held

    return _device_sheet(profile, {"file": files, "function": functions, "frames": texts}, of)


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
