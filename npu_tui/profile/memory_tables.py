"""The tables of memory: records and allocations by the files beside a trace; blocks, events, stacks by a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine, line_of
from npu_tui.analysis.memory import BEFORE, NEVER, Holder, MemoryCurve, MemoryUse, holders
from npu_tui.analysis.snapshot import nameless, owner_of, placed
from npu_tui.profile.columns import UNKNOWN, absolute, where
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    MISSING,
    Array,
    Data,
    Numbers,
    Place,
    RankedSlices,
    Span,
    TableSheet,
    attribute_rows,
    attributes,
    coded,
    columns,
    numbers,
    table,
)
from npu_tui.trace.arrays import I64, summed
from npu_tui.trace.snapshot import NEVER as KEPT
from npu_tui.trace.snapshot import Action, DeviceMemory, State
from npu_tui.trace.text import printable


def memory(profile: Profile) -> TableSheet:
    """Every record of memory, of allocators, the process and the modules of CANN."""
    curves: list[MemoryCurve] = [*profile.memory.curves, *profile.memory.modules]
    lengths = [len(curve.time) for curve in curves]
    which = np.repeat(np.arange(len(curves), dtype=np.int64), lengths)
    time = np.concatenate([curve.time for curve in curves]) if curves else np.zeros(0, np.int64)
    value = np.concatenate([curve.value for curve in curves]) if curves else np.zeros(0, np.int64)
    return TableSheet(
        len(time),
        {
            "component": coded([curve.component for curve in curves], which),
            "amount": coded([curve.amount for curve in curves], which),
            "start": numbers(time),
            "start_ns": absolute(profile, time),
            "value": numbers(value),
        },
    )


MEMORY = table(
    "memory", memory, sql="rank component amount start start_ns value", own=columns("whole", "bytes", "memory", "value")
)


def allocations(profile: Profile) -> TableSheet:
    """Every allocation of operator_memory.csv."""
    allocated, rows = profile.memory.allocations, len(profile.memory.allocations)
    start = np.where(allocated.start == BEFORE, MISSING, allocated.start)
    end = np.where(allocated.end == NEVER, MISSING, allocated.end)
    origin = profile.tables.start_ns
    item = profile.tables.allocating_slices if rows else np.zeros(0, np.int64)
    item = item if len(item) == rows else np.full(rows, UNKNOWN)  # there is no timeline
    return TableSheet(
        rows,
        {
            "slice": numbers(item, UNKNOWN),
            "name": coded(allocated.name.values, allocated.name.code),
            "size": numbers(allocated.size),
            "start": numbers(start, MISSING),
            "end": numbers(end, MISSING),
            "duration": where(allocated.end - allocated.start, (start != MISSING) & (end != MISSING)),
            "start_ns": where(allocated.start + origin, start != MISSING),
        },
    )


ALLOCATIONS = table("allocations", allocations, sql="rank slice name size start end duration start_ns")


def memory_holders(profile: Profile, chosen: I64, time: int | None, memory: MemoryUse | None = None) -> TableSheet:
    """Which operations and lines of code hold the allocations ``chosen``, most bytes first.

    They are those of ``memory``, else of the profile.

    A row leads to the operations that allocated, the largest allocation first. With ``time`` (ns) they are those of
    that time, and a row without a name is what is allocated beyond them.
    """
    memory = memory or profile.memory
    allocations = memory.allocations
    if allocations.maker is None or allocations.line is None:
        makers = profile.tables.allocating_slices if len(allocations) else np.zeros(0, np.int64)
        lines = {item: line_of(profile.trace, item) for item in set(makers[chosen].tolist()) - {UNKNOWN}}
        places = [lines.get(item) for item in makers[chosen].tolist()]
    else:
        makers = allocations.maker
        places = [allocations.lines[code] for code in allocations.line[chosen].tolist()]
    line_at = dict(zip(chosen.tolist(), places, strict=True))
    rows = holders(allocations, chosen, list(places))
    curve = memory.curve("allocated")
    held = sum(holder.size for holder in rows)
    total = max(held, (curve.at(time) or 0) if curve is not None and time is not None else 0)
    if total > held:
        rows.append(Holder("", total - held, np.zeros(0, np.int64)))
        rows.sort(key=lambda holder: -holder.size)
    first = np.array([holder.members[0] if len(holder.members) else UNKNOWN for holder in rows], np.int64)

    def taken(values: I64, missing: int = MISSING) -> Numbers:
        of_first = np.append(values, MISSING)[first]
        return where(of_first, (first >= 0) & (of_first != missing))

    def place(row: int) -> Place:
        members = rows[row].members
        items = makers[members]
        if len(items) and (items >= 0).all():
            return RankedSlices(len(items), lambda: items)
        spans = zip(allocations.start[members].tolist(), allocations.end[members].tolist(), items.tolist(), strict=True)
        return [
            _life_span(profile, item) if item >= 0 else Span(start, end if end < NEVER else start + 1)
            for start, end, item in spans
            if item >= 0 or start > BEFORE
        ]

    return TableSheet(
        len(rows),
        {
            **attributes(
                rows,
                "held=size",
                share=lambda holder: holder.size / total if total else 0.0,
                calls=lambda holder: len(holder.members) or None,
                name=lambda holder: holder.name if len(holder.members) else None,
            ),
            "at": taken(allocations.start, BEFORE),
            "released": taken(allocations.end, NEVER),
            "largest": taken(allocations.size),
        },
        place,
        code=lambda row: line_at[int(first[row])] if first[row] >= 0 else None,
    )


def _life_span(profile: Profile, item: int) -> Span:
    slices = profile.trace.slices
    return Span(int(slices.start[item]), int(slices.end[item]), int(slices.lane[item]), item, marked=False)


HOLDERS = table(
    "memory_holders",
    memory_holders,
    panel="size=held share count=calls operation=name line=place allocated=at released largest",
)


def memory_peaks(profile: Profile) -> TableSheet:
    """The most of every curve of memory that holds any: of allocators, the process and the modules of CANN."""
    recorded = profile.memory
    return _peaks([curve for curve in (*recorded.curves, *recorded.modules) if curve.peak[1]])


def module_peaks(profile: Profile) -> TableSheet:
    """The peaks of the modules of CANN alone, the largest first."""
    modules = profile.memory.modules
    return _peaks(sorted((module for module in modules if module.peak[1]), key=lambda module: -module.peak[1]))


def _peaks(curves: list[MemoryCurve]) -> TableSheet:
    sheet = attribute_rows(
        curves,
        "component amount",
        peak=lambda curve: curve.peak[1],
        at=lambda curve: curve.peak[0],
        at_end=lambda curve: int(curve.value[-1]),
    )
    return replace(
        sheet,
        place=lambda row: [Span(curves[row].peak[0], curves[row].peak[0] + 1, words=printable(curves[row].component))],
    )


MEMORY_PEAKS = table(
    "memory_peaks",
    memory_peaks,
    json="component amount peak at",
    page="component amount peak at",
    row="MemoryPeakRow",
    about="The most of one curve of memory and when it was reached; ``amount`` is allocated, reserved or active.",
)
MODULE_PEAKS = table("module_peaks", module_peaks, panel="peak component peak_at=at at_end")


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
    """The columns ``of`` each device, one device after the other, and the device of each row.

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
    return numbers(np.where((values < 0) | (values == KEPT), MISSING, values), MISSING)


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
            "end_": np.flatnonzero(lives.end == KEPT),
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
    """The lines whose blocks outlive a step: what each added after the first step, the largest growth first."""
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
