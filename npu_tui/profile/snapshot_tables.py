"""The tables of a memory snapshot: blocks, events of the allocator, segments, and the stacks that allocated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_tui.analysis.snapshot import nameless, owner_of, placed
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import MISSING, Array, Column, Data, Sheet, coded, labels, numbers, table
from npu_tui.trace.snapshot import ACTIONS, BEFORE, HOST, INACTIVE, NEVER, STATES, UNKNOWN, DeviceMemory

_FREED = len(STATES)
_WHOSE = "device allocator process"
_OWN = {
    column.id: column
    for column in (
        *(Column(name, "whole", "", "id") for name in ("address", "stack", "allocated_at", "freed_at", "pool")),
        *(Column(name, "label", "", "word") for name in ("action", "state", "type")),
        *(Column(name, "whole", "bytes", "memory")
          for name in ("size", "taken", "requested", "active", "reserved", "unused", "peak_bytes", "end_bytes")),
        *(Column(name, "whole", "", "count") for name in ("blocks", "peak_blocks", "end_blocks")),
        Column("allocator", "label", "", "name"),
        Column("process", "whole", "", "id"),
        Column("expandable", "flag", "", "word"),
        Column("frames", "label", "", "name"),
    )
}  # fmt: skip


def _devices(profile: Profile) -> list[DeviceMemory]:
    return [] if profile.trace.snapshot is None else profile.trace.snapshot.devices


def _joined(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _numbered(devices: Sequence[DeviceMemory], counts: Sequence[int]) -> dict[str, Data]:
    """The columns that tell whose rows they are, ``counts`` of each of ``devices``."""
    whose = np.repeat(np.arange(len(devices)), counts)
    named = np.array([number if device.allocator else -1 for number, device in enumerate(devices)], np.int64)
    return {
        "device": _known(np.array([device.device for device in devices], np.int64)[whose], HOST),
        "allocator": coded([device.allocator for device in devices], named[whose]),
        "process": _known(np.array([device.process for device in devices], np.int64)[whose], -1),
    }


def _known(values: Array, *unknown: int) -> Data:
    """``values`` with null for those that stand for ``unknown``."""
    return numbers(np.where(np.isin(values, unknown), MISSING, values), MISSING)


def _stacks(device: DeviceMemory) -> Array:
    """The stack that allocated each block, -1 where none is known."""
    return np.where(nameless(device), -1, device.lives.stack)


def blocks(profile: Profile) -> Sheet:
    """Every block that was ever allocated, and what the segments hold unused at the end."""
    devices = _devices(profile)
    columns: dict[str, list[Array]] = {name: [] for name in ("state", *_BLOCK)}
    for device in devices:
        lives, now = device.lives, device.blocks
        unused = np.flatnonzero(now.state == INACTIVE)
        nothing = np.full(len(unused), MISSING)
        state = np.where(lives.end == NEVER, 0, np.where(lives.gone == NEVER, 1, _FREED))
        columns["state"].append(np.append(state, np.full(len(unused), INACTIVE)))
        rows: dict[str, tuple[Array, Array]] = {
            "address": (lives.address, now.address[unused]),
            "size": (lives.size, nothing),
            "taken": (lives.taken, now.size[unused]),
            "stream": (lives.stream, device.segments.stream[now.segment[unused]]),
            "stack": (_stacks(device), nothing),
            "allocated_at": (lives.start, nothing),
            "freed_at": (lives.end, nothing),
        }
        for name, parts in rows.items():
            columns[name].append(_joined(parts))
    return Sheet(
        len(_joined(columns["state"])),
        {
            **_numbered(devices, [len(part) for part in columns["state"]]),
            "state": coded([*STATES, "freed"], _joined(columns["state"])),
            **{name: _known(_joined(columns[name]), *unknown) for name, unknown in _BLOCK.items()},
        },
    )


_BLOCK = {
    "address": (), "size": (), "taken": (-1,), "stream": (-1,), "stack": (-1,), "allocated_at": (BEFORE,),
    "freed_at": (NEVER,),
}  # fmt: skip
"""Columns of ``blocks``, and what stands for unknown or never in them."""

BLOCKS = table("blocks", blocks, sql=f"{_WHOSE} state address size taken stream stack allocated_at freed_at",
               own=_OWN.values())  # fmt: skip


def events(profile: Profile) -> Sheet:
    """What the allocator did, in order, and what was held after it."""
    devices = _devices(profile)
    histories = [device.events for device in devices]
    times = [np.full(len(history), MISSING) if history.time is None else history.time for history in histories]
    return Sheet(
        sum(map(len, histories)),
        {
            **_numbered(devices, [len(history) for history in histories]),
            "event": numbers(_joined([np.arange(len(history)) for history in histories])),
            "action": coded(ACTIONS, _joined([history.action for history in histories])),
            "address": numbers(_joined([history.address for history in histories])),
            "size": numbers(_joined([history.size for history in histories])),
            "stream": _known(_joined([history.stream for history in histories]), -1),
            "stack": _known(_joined([history.stack for history in histories]), -1),
            "start_ns": numbers(_joined(times), MISSING),
            "requested": numbers(_joined([device.requested for device in devices])),
            "active": numbers(_joined([device.active for device in devices])),
            "reserved": _known(_joined([device.reserved for device in devices]), UNKNOWN),
        },
    )


EVENTS = table("events", events,
               sql=f"{_WHOSE} event action address size stream stack start_ns requested active reserved",
               own=_OWN.values())  # fmt: skip


def segments(profile: Profile) -> Sheet:
    """What the allocator has taken from the device, at the end."""
    devices = _devices(profile)
    held = [device.segments for device in devices]
    unused = []
    for device in devices:
        free = device.blocks.state == INACTIVE
        sizes = np.zeros(len(device.segments), np.int64)
        np.add.at(sizes, device.blocks.segment[free], device.blocks.size[free])
        unused.append(sizes)
    return Sheet(
        sum(map(len, held)),
        {
            "device": _numbered(devices, list(map(len, held)))["device"],
            "address": numbers(_joined([part.address for part in held])),
            "size": numbers(_joined([part.size for part in held])),
            "unused": numbers(_joined(unused)),
            "type": coded(("large", "small"), _joined([part.small for part in held])),
            "stream": numbers(_joined([part.stream for part in held])),
            "pool": numbers(_joined([part.pool for part in held])),
            "expandable": numbers(np.concatenate([np.zeros(0, np.bool_), *(part.expandable for part in held)])),
        },
    )


SEGMENTS = table("segments", segments, sql="device address size unused type stream pool expandable", own=_OWN.values())


def stacks(profile: Profile) -> Sheet:
    """Every stack that allocated on a device, and what it held at the peak and at the end; blocks without one too."""
    devices, snapshot = _devices(profile), profile.trace.snapshot
    texts = [] if snapshot is None else snapshot.stacks
    columns: dict[str, list[Array]] = {name: [] for name in ("stack", *_HELD)}
    for device in devices:
        lives = device.lives
        stack, where = np.unique(_stacks(device), return_inverse=True)
        columns["stack"].append(stack)
        everything = np.arange(len(lives))
        alive = everything, lives.alive(device.peak[0]), np.flatnonzero(lives.end == NEVER)
        for members, (of_blocks, of_bytes) in zip(alive, (_HELD[:2], _HELD[2:4], _HELD[4:]), strict=True):
            sizes = np.zeros(len(stack), np.int64)
            np.add.at(sizes, where[members], lives.size[members])
            columns[of_blocks].append(np.bincount(where[members], minlength=len(stack)))
            columns[of_bytes].append(sizes)
    stack = _joined(columns["stack"])
    lines = {number: owner_of(texts[number]) if number >= 0 else None for number in np.unique(stack).tolist()}
    code = [lines[number] for number in stack.tolist()]
    return Sheet(
        len(stack),
        {
            **_numbered(devices, [len(part) for part in columns["stack"]]),
            "stack": _known(stack, -1),
            "file": labels([None if line is None else line.file or None for line in code]),
            "line": numbers(
                np.array([line.line if line and line.file else MISSING for line in code], np.int64), MISSING
            ),
            "function": labels([None if line is None else line.function for line in code]),
            **{name: numbers(_joined(columns[name])) for name in _HELD},
            "frames": coded(texts, stack),
        },
    )


_HELD = "blocks", "size", "peak_blocks", "peak_bytes", "end_blocks", "end_bytes"

STACKS = table("stacks", stacks,
               sql=f"{_WHOSE} stack file line function blocks size peak_blocks peak_bytes end_blocks end_bytes frames",
               own=_OWN.values())  # fmt: skip


def growth_of_lines(profile: Profile) -> Sheet:
    """The lines whose blocks outlive a step: what each added after the first step, what grew most first."""
    grown = None if profile.beside is None else profile.beside.growth
    held = [] if grown is None else grown.held
    more = [np.diff(size)[1:] for _, size in held]
    return Sheet(
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
               own=(Column("added", "whole", "bytes", "memory"), Column("grew", "whole", "", "count")))  # fmt: skip
