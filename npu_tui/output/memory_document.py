"""The report of a memory snapshot as a document: verdict, findings, the devices, who held memory at the peak."""

from __future__ import annotations

import shlex

from npu_tui.output.document import Block, Cell, Code, Document, Finding, Findings, Heading, Items, Paragraph, Table
from npu_tui.output.memory_curve import lettered, pictured
from npu_tui.output.memory_report import DeviceRow, HolderRow, MemoryReport, SizeRow, StepRow, StreamRow
from npu_tui.output.values import severity_word
from npu_tui.strings import say
from npu_tui.trace.text import count_text, memory_text


def memory_document(report: MemoryReport, form: str = "") -> Document:
    """What ``report`` says; in the form ``text`` the curves are of letters, a page draws them in any case."""
    size = say("snapshot.about", events=report.health.events, devices=len({row.device for row in report.devices}))
    blocks: list[Block] = [Paragraph((size,), "faint"), Paragraph(tuple(report.verdict), "verdict")]
    found = tuple(
        Finding(
            number, row.id, row.severity, f"{severity_word(row.severity).upper()} · {row.title}", "", row.detail,
            advice=tuple(row.advice),
        )
        for number, row in enumerate(report.findings, 1)
    )  # fmt: skip
    if found:
        blocks.append(Findings(say("snapshot.findings"), None, found, frozenset(range(1, len(found) + 1))))
    for device in report.devices:
        blocks.append(_figures(device))
        blocks += _curve(device, form) if device.curve else []
        blocks += [
            table for table in (_holders(device), _sizes(device), _streams(device), _steps(device)) if table.rows
        ]
    told = [row.reason for row in report.not_checked]
    told += [f"{row.reason}: {count_text(row.count)}" for row in report.health.skipped]
    if told:
        blocks += [Heading(say("snapshot.not_checked")), Items(tuple(told))]
    blocks.append(Code((f"npu-tui report {shlex.quote(report.source.path)} --format json",)))
    return Document(f"npu-tui: {report.source.path}", blocks)


def _id(device: DeviceRow) -> str:
    """What tells the tables of ``device`` from those of others."""
    return device.label.replace(" ", "_")


def _size(value: int) -> Cell:
    return Cell(memory_text(value), value)


def _figures(device: DeviceRow) -> Table:
    rows = [
        ("peak", device.peak_requested_bytes, device.peak_event),
        ("reserved_at_peak", device.reserved_at_peak_bytes, device.peak_event),
        ("peak_reserved", device.peak_reserved_bytes, device.peak_reserved_event),
        ("before", device.before_history_bytes, None),
        ("requested_end", device.requested_end_bytes, None),
        ("reserved_end", device.reserved_end_bytes, None),
        ("inactive", device.inactive_bytes, None),
        ("largest", device.largest_inactive_bytes, None),
    ]
    cells = [
        [Cell(say(f"snapshot.figure.{name}")), _size(size), Cell("" if event is None else count_text(event), event)]
        for name, size, event in rows
        if size is not None
    ]
    return Table(
        f"memory_{_id(device)}", say("snapshot.device", device=device.label),
        (say("snapshot.figure"), say("snapshot.size"), say("snapshot.event")), (False, True, True), cells,
        sortable=False,
    )  # fmt: skip


def _curve(device: DeviceRow, form: str) -> list[Block]:
    known = device.peak_reserved_bytes is not None
    title = say("snapshot.curve" if known else "snapshot.curve_allocated", device=device.label)
    if form != "text":
        return [pictured(device.curve, title, f"curve_{_id(device)}")]
    return [Heading(title), Code(tuple(lettered(device.curve, device.events)))]


def _holders(device: DeviceRow) -> Table:
    def cells(row: HolderRow) -> list[Cell]:
        place = say("snapshot.no_stack") if row.where is None else f"{row.where}:{row.line}"
        return [
            _size(row.bytes), Cell(count_text(row.blocks), row.blocks), Cell(row.function or "", name=True),
            Cell(place, name=row.where is not None),
        ]  # fmt: skip

    return Table(
        f"holders_{_id(device)}", say("snapshot.holders", device=device.label),
        (say("snapshot.size"), say("snapshot.blocks"), say("snapshot.function"), say("snapshot.place")),
        (True, True, False, False), device.stacks_at_peak, cells=cells,
    )  # fmt: skip


def _sizes(device: DeviceRow) -> Table:
    def cells(row: SizeRow) -> list[Cell]:
        if row.up_to_bytes is None:
            words = say("snapshot.above", size=row.above_bytes)
        elif row.above_bytes:
            words = say("snapshot.between", above=row.above_bytes, size=row.up_to_bytes)
        else:
            words = say("snapshot.up_to", size=row.up_to_bytes)
        return [Cell(words, row.above_bytes), _size(row.bytes), Cell(count_text(row.blocks), row.blocks)]

    return Table(
        f"sizes_{_id(device)}", say("snapshot.sizes", device=device.label),
        (say("snapshot.block"), say("snapshot.size"), say("snapshot.blocks")), (True, True, True),
        device.sizes_at_peak, cells=cells,
    )  # fmt: skip


def _streams(device: DeviceRow) -> Table:
    """The streams, where there are several."""

    def cells(row: StreamRow) -> list[Cell]:
        return [Cell(str(row.stream), row.stream), _size(row.bytes), Cell(count_text(row.blocks), row.blocks)]

    return Table(
        f"streams_{_id(device)}", say("snapshot.streams", device=device.label),
        (say("snapshot.stream"), say("snapshot.size"), say("snapshot.blocks")), (True, True, True),
        device.streams_at_peak if len(device.streams_at_peak) > 1 else [], cells=cells,
    )  # fmt: skip


def _steps(device: DeviceRow) -> Table:
    def cells(row: StepRow) -> list[Cell]:
        more = row.growth_bytes
        return [
            Cell(count_text(row.event), row.event),
            _size(row.live_bytes),
            Cell("", None) if more is None else _size(more),
        ]

    return Table(
        f"memory_steps_{_id(device)}", say("snapshot.steps", device=device.label),
        (say("snapshot.event"), say("snapshot.live"), say("snapshot.grown")), (True, True, True), device.steps,
        sortable=False, cells=cells,
    )  # fmt: skip
