"""The comparison of two memory snapshots: its JSON document, kind ``compare_memory``, and the document for readers."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import ClassVar, Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.snapshot import placed
from npu_tui.compare.snapshots import Kind, Pair, pairs
from npu_tui.output.document import Block, Cell, Document, Items, Paragraph, Table
from npu_tui.output.envelope import Root, Sides
from npu_tui.output.memory_report import DeviceRow, MemorySource, memory_report
from npu_tui.strings import say
from npu_tui.trace.snapshot import DeviceMemory, MemorySnapshot
from npu_tui.trace.text import count_text, memory_text, printable


class HeldRow(Struct, frozen=True, kw_only=True):
    """What one owner holds at one moment on both sides.

    ``kind`` is ``line``, ``no_stack``, or ``before``: older than the history. Places are null where a side never
    allocated there.
    """

    kind: Kind
    function: str | None
    base_where: str | None
    base_line: int | None
    new_where: str | None
    new_line: int | None
    base_bytes: int
    new_bytes: int
    delta_bytes: int
    base_blocks: int
    new_blocks: int


class DevicePairRow(Struct, frozen=True, kw_only=True):
    """One device on both sides: the figures of each, and who holds what, the largest difference first."""

    base: DeviceRow
    new: DeviceRow
    at_peak: list[HeldRow]
    at_end: list[HeldRow]


class ComparedMemory(Root, frozen=True, kw_only=True):
    """What two memory snapshots hold differently. Devices that only one side has are not compared.

    Of dumps of MemScope a device stands with its allocator, such as ``0 PTA``.
    """

    FIRST: ClassVar = ("devices",)

    schema_version: Literal[2] = 2
    kind: Literal["compare_memory"] = "compare_memory"
    base: MemorySource
    new: MemorySource
    verdict: list[str]
    devices: list[DevicePairRow]
    base_only_devices: list[int | str]
    new_only_devices: list[int | str]

    @property
    def source(self) -> Sides[MemorySource]:
        """What was compared."""
        return Sides(self.base, self.new)


def compared_memory(base: MemorySnapshot, new: MemorySnapshot) -> ComparedMemory:
    """``new`` against ``base``. The only device of each is compared whatever their numbers, others by number."""
    reports = [memory_report(side) for side in (base, new)]
    sides = [
        {_place_of(row): (device, row) for device, row in zip(side.devices, report.devices, strict=True)}
        for side, report in zip((base, new), reports, strict=True)
    ]
    if len(sides[0]) == len(sides[1]) == 1:
        numbers = [(next(iter(sides[0])), next(iter(sides[1])))]
    else:
        numbers = [(number, number) for number in sides[0] if number in sides[1]]
    devices = []
    for before, after in numbers:
        (device, row), (new_device, new_row) = sides[0][before], sides[1][after]
        found = pairs((base, device), (new, new_device))
        at_peak, at_end = (_rows(found, (device, new_device), at_end) for at_end in (False, True))
        devices.append(DevicePairRow(base=row, new=new_row, at_peak=at_peak, at_end=at_end))
    return ComparedMemory(
        base=reports[0].source,
        new=reports[1].source,
        verdict=[line for pair in devices for line in _verdict(pair)] or [say("compare.memory.no_device")],
        devices=devices,
        base_only_devices=sorted(set(sides[0]) - {before for before, _ in numbers}, key=str),
        new_only_devices=sorted(set(sides[1]) - {after for _, after in numbers}, key=str),
    )


def _place_of(row: DeviceRow) -> int | str:
    return row.label if row.device is None or row.allocator is not None else row.device


def _rows(found: list[Pair], devices: tuple[DeviceMemory, DeviceMemory], at_end: bool) -> list[HeldRow]:
    """Who holds anything at the peak or at the end, the largest difference first."""
    alive = [device.lives.alive(len(device.events) if at_end else device.peak[0]) for device in devices]
    rows = []
    for pair in found:
        held = [np.intersect1d(blocks, there) for blocks, there in zip(pair.blocks, alive, strict=True)]
        base, new = (int(device.lives.size[blocks].sum()) for device, blocks in zip(devices, held, strict=True))
        known = pair.codes[1] or pair.codes[0]
        places = [
            (None, None) if code is None else (printable(code.file), code.line) for code in map(placed, pair.codes)
        ]
        if any(map(len, held)):
            rows.append(
                HeldRow(
                    kind=pair.kind, function=None if known is None else printable(known.function),
                    base_where=places[0][0], base_line=places[0][1], new_where=places[1][0], new_line=places[1][1],
                    base_bytes=base, new_bytes=new, delta_bytes=new - base,
                    base_blocks=len(held[0]), new_blocks=len(held[1]),
                )
            )  # fmt: skip
    return sorted(rows, key=_order)


def _order(row: HeldRow) -> tuple[int, int, str, int]:
    return -abs(row.delta_bytes), -row.new_bytes, row.new_where or row.base_where or "", row.new_line or 0


def _verdict(pair: DevicePairRow) -> list[str]:
    """What the peak became, and the line that holds most more then, else at the end."""
    base, new = pair.base.peak_requested_bytes, pair.new.peak_requested_bytes
    word = "same" if base == new else "more" if new > base else "less"
    told = [say(f"compare.memory.peak_{word}", device=pair.new.label, base=base, new=new, delta=abs(new - base))]
    for rows, key in ((pair.at_peak, "compare.memory.lead"), (pair.at_end, "compare.memory.lead_end")):
        lead = max(rows, key=lambda row: row.delta_bytes, default=None)
        # Without any stack there is nobody to name.
        if lead is not None and lead.delta_bytes > 0 and (lead.kind == "line" or len(rows) > 1):
            told.append(say(key, place=_place(lead), delta=lead.delta_bytes, base=lead.base_bytes, new=lead.new_bytes))
            return told
    return told


def _place(row: HeldRow) -> str:
    if row.kind != "line":
        return say(f"compare.memory.{row.kind}")
    if row.new_where is None and row.base_where is None:
        return row.function or ""
    file, line = (row.new_where, row.new_line) if row.new_where is not None else (row.base_where, row.base_line)
    return say("snapshot.line", file=(file or "").rpartition("/")[2], line=line, function=row.function)


def compared_memory_document(found: ComparedMemory) -> Document:
    """What ``found`` says."""
    about = say("compare.memory.about", base=found.base.path, new=found.new.path)
    blocks: list[Block] = [Paragraph((about,), "faint"), Paragraph(tuple(found.verdict), "verdict")]
    for pair in found.devices:
        blocks.append(_figures(pair))
        tables = (_held(f"{moment}_{pair.new.label}", say(f"compare.memory.{moment}", device=pair.new.label), rows)
                  for moment, rows in (("at_peak", pair.at_peak), ("at_end", pair.at_end)))  # fmt: skip
        blocks += [table for table in tables if table.rows]
    for side, path, devices in (
        ("base", found.base.path, found.base_only_devices), ("new", found.new.path, found.new_only_devices),
    ):  # fmt: skip
        if devices:
            blocks.append(Items((say(f"compare.memory.{side}_only", path=path, devices=devices),)))
    return Document(f"npu-tui: {found.base.path}, {found.new.path}", blocks)


def _size(value: int | None) -> Cell:
    return Cell(say("report.unknown") if value is None else memory_text(value), value)


def _delta(value: int | None) -> Cell:
    if value is None:
        return Cell("", None)
    return Cell(f"{'+' if value > 0 else ''}{memory_text(value)}", value)


def _figures(pair: DevicePairRow) -> Table:
    base, new = pair.base.figures(), pair.new.figures()
    rows = []
    for name, (before, _) in base.items():
        after = new[name][0]
        delta = None if before is None or after is None else after - before
        rows.append([Cell(say(f"snapshot.figure.{name}")), _size(before), _size(after), _delta(delta)])
    heads = "snapshot.figure", "compare.memory.base", "compare.memory.new", "compare.memory.delta"
    return Table(
        f"memory_{pair.new.label}", say("snapshot.device", device=pair.new.label),
        tuple(map(say, heads)), (False, True, True, True), rows, sortable=False,
    )  # fmt: skip


def _held(id_: str, title: str, rows: list[HeldRow]) -> Table:
    files = {where for row in rows for where in (row.base_where, row.new_where) if where is not None}
    names = Counter(PurePath(file).name for file in files)

    def place(file: str, line: int | None) -> str:
        name = PurePath(file).name
        return f"{name if names[name] == 1 else file}:{line}"

    def cells(row: HeldRow) -> list[Cell]:
        places = [
            Cell("" if where is None else place(where, line), name=where is not None)
            for where, line in ((row.base_where, row.base_line), (row.new_where, row.new_line))
        ]
        if row.kind != "line":
            places = [Cell(say(f"compare.memory.{row.kind}")), Cell("")]
        return [
            _delta(row.delta_bytes), _size(row.base_bytes), _size(row.new_bytes),
            Cell(count_text(row.base_blocks), row.base_blocks), Cell(count_text(row.new_blocks), row.new_blocks),
            Cell(row.function or "", name=True), *places,
        ]  # fmt: skip

    heads = ("delta", "base", "new", "base_blocks", "new_blocks")
    columns = (*(say(f"compare.memory.{head}") for head in heads), say("snapshot.function"),
               say("compare.memory.base_place"), say("compare.memory.new_place"))  # fmt: skip
    return Table(id_, title, columns, (True,) * 5 + (False,) * 3, rows, cells=cells)
