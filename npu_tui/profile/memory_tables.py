"""The tables of memory by the files beside a trace, or by a snapshot: records, allocations, who holds them, peaks."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.code_lines import line_of
from npu_tui.analysis.memory import BEFORE, NEVER, Holder, MemoryCurve, MemoryUse, holders
from npu_tui.profile.columns import UNKNOWN, absolute, where
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    MISSING,
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
from npu_tui.trace.arrays import I64
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
    "memory",
    memory,
    sql="rank component amount start start_ns value",
    own=columns("whole", "bytes", "memory", "value"),
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
