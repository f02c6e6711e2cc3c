"""The comparison of two memory snapshots: its JSON document, kind ``compare_memory``, and the document for readers."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.compare.snapshots import HELD, pairs
from npu_tui.output.document import (
    Block,
    Cell,
    Document,
    Items,
    Paragraph,
    Table,
    comparison_document,
    made_table,
    rendered,
)
from npu_tui.output.envelope import ComparedSides, Root
from npu_tui.output.memory_report import DeviceRow, MemorySource, memory_report
from npu_tui.profile.table import Record, rows_of
from npu_tui.strings import say
from npu_tui.trace.snapshot import MemorySnapshot
from npu_tui.trace.text import memory_change_text, memory_text


@rows_of(at_peak=HELD, at_end=HELD)
class DevicePairRow(Struct, frozen=True, kw_only=True):
    """One device on both sides: the figures of each, and who holds what, the largest difference first."""

    base: DeviceRow
    new: DeviceRow
    at_peak: list[Record]
    at_end: list[Record]


class ComparedMemory(Root, frozen=True, kw_only=True):
    """What two memory snapshots hold differently. Devices that only one side has are not compared.

    In dumps of MemScope a device stands with its allocator, such as ``0 PTA``.
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
    def source(self) -> ComparedSides[MemorySource]:
        """What was compared."""
        return ComparedSides(self.base, self.new)


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
        at_peak, at_end = (HELD.records(found, devices=(device, new_device), at_end=at_end) for at_end in (False, True))
        devices.append(DevicePairRow(base=row, new=new_row, at_peak=at_peak, at_end=at_end))
    return ComparedMemory(
        base=reports[0].source,
        new=reports[1].source,
        verdict=[line for pair in devices for line in _verdict_lines(pair)] or [say("compare.memory.no_device")],
        devices=devices,
        base_only_devices=sorted(set(sides[0]) - {before for before, _ in numbers}, key=str),
        new_only_devices=sorted(set(sides[1]) - {after for _, after in numbers}, key=str),
    )


def _place_of(row: DeviceRow) -> int | str:
    return row.label if row.device is None or row.allocator is not None else row.device


def _verdict_lines(pair: DevicePairRow) -> list[str]:
    """What the peak became, and the line that holds most more then, else at the end."""
    base, new = pair.base.peak_requested_bytes, pair.new.peak_requested_bytes
    word = "same" if base == new else "more" if new > base else "less"
    told = [say(f"compare.memory.peak_{word}", device=pair.new.label, base=base, new=new, delta=abs(new - base))]
    for rows, key in ((pair.at_peak, "compare.memory.lead"), (pair.at_end, "compare.memory.lead_end")):
        lead = max(rows, key=lambda row: row.delta_bytes, default=None)
        # Without any stack there is no owner to name.
        if lead is not None and lead.delta_bytes > 0 and (lead.kind == "line" or len(rows) > 1):
            told.append(
                say(key, place=_place_text(lead), delta=lead.delta_bytes, base=lead.base_bytes, new=lead.new_bytes)
            )
            return told
    return told


def _place_text(row: Record) -> str:
    if row.kind != "line":
        return say(f"compare.memory.{row.kind}")
    if row.new_where is None and row.base_where is None:
        return row.function or ""
    file, line = (row.new_where, row.new_line) if row.new_where is not None else (row.base_where, row.base_line)
    return say("snapshot.line", file=(file or "").rpartition("/")[2], line=line, function=row.function)


def compared_memory_document(found: ComparedMemory) -> Document:
    """What ``found`` says."""
    about = say("compare.memory.about", base=found.base.path, new=found.new.path)
    blocks: list[Block] = [Paragraph(tuple(found.verdict), "verdict")]
    for pair in found.devices:
        blocks += [_figures_table(pair), _holders(pair, "at_peak", pair.at_peak), _holders(pair, "at_end", pair.at_end)]
    for side, path, devices in (
        ("base", found.base.path, found.base_only_devices), ("new", found.new.path, found.new_only_devices),
    ):  # fmt: skip
        if devices:
            blocks.append(Items((say(f"compare.memory.{side}_only", path=path, devices=devices),)))
    return comparison_document(f"npu-tui: {found.base.path}, {found.new.path}", (about,), blocks)


def _size_cell(value: int | None) -> Cell:
    return Cell(say("report.unknown") if value is None else memory_text(value), value)


def _delta(value: int | None) -> Cell:
    return Cell("" if value is None else memory_change_text(value), value)


def _figures_table(pair: DevicePairRow) -> Table:
    base, new = pair.base.figures(), pair.new.figures()
    rows = []
    for name, (before, _) in base.items():
        after = new[name][0]
        delta = None if before is None or after is None else after - before
        rows.append([Cell(say(f"snapshot.figure.{name}")), _size_cell(before), _size_cell(after), _delta(delta)])
    title = say("snapshot.device", device=pair.new.label)
    return replace(made_table(f"memory_{pair.new.label}", "figure base# new# difference#", rows, title), sortable=False)


def _holders(pair: DevicePairRow, moment: str, rows: list[Record]) -> Table:
    """Who holds what; a file is called by its name alone where no other has that."""
    files = {where for row in rows for where in (row.base_where, row.new_where) if where is not None}
    names = Counter(PurePath(file).name for file in files)

    def place(file: str | None, line: int | None) -> Cell:
        if file is None:
            return Cell("")
        name = PurePath(file).name
        return Cell(f"{name if names[name] == 1 else file}:{line}", name=True)

    def base_place(row: Record) -> Cell:
        return place(row.base_where, row.base_line) if row.kind == "line" else Cell(say(f"compare.memory.{row.kind}"))

    title = say(f"compare.memory.{moment}", device=pair.new.label)
    return rendered(
        HELD, rows, f"{moment}_{pair.new.label}", False, title,
        function=lambda row: Cell(row.function or "", name=True), base_place=base_place,
        new_place=lambda row: place(row.new_where, row.new_line),
    )  # fmt: skip
