"""The report of a memory snapshot as a document: verdict, findings, the devices, who held memory at the peak."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.output.document import (
    CHART_HEIGHT,
    CHART_MARGIN,
    CHART_WIDTH,
    Block,
    Box,
    Cell,
    Code,
    Document,
    Finding,
    Findings,
    Heading,
    Items,
    Paint,
    Paragraph,
    Picture,
    Shape,
    Table,
    Tip,
    Words,
)
from npu_tui.output.envelope import HolderEntry
from npu_tui.output.memory_report import (
    CurvePoint,
    DeviceRow,
    HeldRows,
    MemoryReport,
    MemoryStepRow,
    PoolRow,
    SizeRow,
)
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import HEIGHTS, cell_count, count_text, memory_text
from npu_tui.view.palette import bar


def memory_document(report: MemoryReport, form: str = "") -> Document:
    """What ``report`` says; in the form ``text`` the curves are of letters, a page draws them in any case."""
    size = say("snapshot.about", events=report.health.events, devices=len({row.device for row in report.devices}))
    blocks: list[Block] = [Paragraph((size,), "faint"), Paragraph(tuple(report.verdict), "verdict")]
    found = tuple(
        Finding(number, row.id, row.severity, row.title, "", row.detail, advice=tuple(row.advice))
        for number, row in enumerate(report.findings, 1)
    )
    if found:
        blocks.append(Findings(say("snapshot.findings"), None, found, frozenset(range(1, len(found) + 1))))
    for device in report.devices:
        blocks.append(_device_figures(device))
        blocks += _curve(device, form) if device.curve else []
        tables = _holders_tables(device, "peak", device.stacks_at_peak, device.at_peak)
        if device.failure is not None and device.failure.event != device.peak_event:
            tables += _holders_tables(device, "failure", device.failure.stacks, device.failure.held)
        blocks += [table for table in (*tables, _steps_table(device)) if table.rows]
    told = [row.reason for row in report.not_checked]
    told += [f"{row.reason}: {count_text(row.count)}" for row in report.health.skipped]
    if told:
        blocks += [Heading(say("snapshot.not_checked")), Items(tuple(told))]
    blocks.append(Code((f"npu-tui report {shlex.quote(report.source.path)} --format json",)))
    return Document(f"npu-tui: {report.source.path}", blocks)


def _id(device: DeviceRow) -> str:
    """What tells the tables of ``device`` from those of others."""
    return device.label.replace(" ", "_")


def _bytes_cell(value: int) -> Cell:
    return Cell(memory_text(value), value)


def _device_figures(device: DeviceRow) -> Table:
    cells = [
        [
            Cell(say(f"snapshot.figure.{name}")),
            _bytes_cell(size),
            Cell("" if event is None else count_text(event), event),
        ]
        for name, (size, event) in device.figures().items()
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


def _holders_tables(device: DeviceRow, moment: str, stacks: list[HolderEntry], held: HeldRows) -> list[Table]:
    """What is allocated at the peak or at the ``failure``: by line, module and size, by stream and pool if several."""
    when = say(f"snapshot.at_{moment}")

    def table(by: str, rows: Sequence[Any], heads: str, name: Callable[[Any], list[Cell]]) -> Table:
        def cells(row: Any) -> list[Cell]:
            return [_bytes_cell(row.bytes), Cell(count_text(row.blocks), row.blocks), *name(row)]

        columns = ("size", "blocks", *heads.split())
        return Table(
            f"{by}_{moment}_{_id(device)}", say(f"snapshot.{by}", device=device.label, moment=when),
            tuple(say(f"snapshot.{column}") for column in columns), (True, True, *(False for _ in heads.split())),
            rows, cells=cells,
        )  # fmt: skip

    def place(row: HolderEntry, otherwise: str = "no_stack") -> list[Cell]:
        word = "operation_only" if row.function else otherwise
        where = say(f"snapshot.{word}") if row.where is None else f"{row.where}:{row.line}"
        return [Cell(row.function or "", name=True), Cell(where, name=row.where is not None)]

    def block(row: SizeRow) -> list[Cell]:
        word = "above" if row.up_to_bytes is None else "between" if row.above_bytes else "up_to"
        size = row.above_bytes if row.up_to_bytes is None else row.up_to_bytes
        return [Cell(say(f"snapshot.{word}", above=row.above_bytes, size=size), row.above_bytes)]

    def pool(row: PoolRow) -> list[Cell]:
        return [Cell(say("snapshot.default") if row.pool == _DEFAULT else row.pool or say("report.unknown"))]

    streams = held.streams if len(held.streams) > 1 else []
    pools = held.pools if len({row.pool for row in held.pools} - {None}) > 1 else []
    modules = held.modules if any(row.where is not None for row in held.modules) else []
    return [
        table("holders", stacks, "function place", place),
        table("modules", modules, "function place", lambda row: place(row, "no_module")),
        table("sizes", held.sizes, "block", block),
        table("streams", streams, "stream", lambda row: [Cell(str(row.stream), row.stream)]),
        table("pools", pools, "pool", pool),
    ]


_DEFAULT = "0, 0"


def _steps_table(device: DeviceRow) -> Table:
    def cells(row: MemoryStepRow) -> list[Cell]:
        more = row.growth_bytes
        return [
            Cell(count_text(row.event), row.event),
            _bytes_cell(row.live_bytes),
            Cell("", None) if more is None else _bytes_cell(more),
        ]

    return Table(
        f"memory_steps_{_id(device)}", say("snapshot.steps", device=device.label),
        (say("snapshot.event"), say("snapshot.live"), say("snapshot.grown")), (True, True, True), device.steps,
        sortable=False, cells=cells,
    )  # fmt: skip


_COLUMNS, _LINES = 72, 6
_ALLOCATED: Paint = bar(OpClass.CUBE)
SHADE = "░"


def _curve_values(points: list[CurvePoint]) -> tuple[list[int], list[int], int]:
    """What was allocated and reserved (0 where unknown), and the most of both."""
    allocated = [point.requested_bytes for point in points]
    reserved = [point.reserved_bytes or 0 for point in points]
    return allocated, reserved, max(*allocated, *reserved, 1)


def shaded_bars(heights: npt.NDArray[np.int64], shades: npt.NDArray[np.int64], lines: int) -> Iterator[str]:
    """Lines of letters from the top: bars of ``heights`` eighths of a line, shaded behind them up to ``shades``."""
    for line in range(lines - 1, -1, -1):
        levels = np.clip(heights - 8 * line, 0, 8).tolist()
        behind = (shades > 8 * line).tolist()
        yield "".join(
            HEIGHTS[level] if level or not shade else SHADE for level, shade in zip(levels, behind, strict=True)
        )


def lettered(points: list[CurvePoint], events: int) -> Iterator[str]:
    """The curve in lines of letters: what is allocated as bars, what is reserved shaded behind them."""
    allocated, reserved, top = _curve_values(points)
    columns = max(_COLUMNS // len(points) * len(points), min(len(points), _COLUMNS))
    starts = np.arange(columns) * len(points) // columns
    heights, shades = (
        np.ceil(8 * _LINES * np.maximum.reduceat(np.array(values, np.float64), starts) / top).astype(np.int64)
        for values in (allocated, reserved)
    )
    label = memory_text(top)
    for line, bars in enumerate(shaded_bars(heights, shades, _LINES)):
        yield f"{'' if line else label:>{cell_count(label)}} {bars}".rstrip()
    last = count_text(events - 1)
    yield f"{'':{cell_count(label)}} 0{last:>{max(columns - 1, len(last) + 1)}}"


def pictured(points: list[CurvePoint], title: str, id: str) -> Picture:
    """The curve as a picture of a page."""
    allocated, reserved, top = _curve_values(points)
    pitch = (CHART_WIDTH - CHART_MARGIN) / len(points)
    shapes: list[Shape] = [Words(0, 14, CHART_MARGIN - 9, memory_text(top).rjust(9), "ink")]
    for number, point in enumerate(points):
        left = CHART_MARGIN + number * pitch
        for value, paint in ((reserved[number], "free"), (allocated[number], _ALLOCATED)):
            height = value / top * CHART_HEIGHT
            if height:
                shapes.append(Box(left, CHART_HEIGHT - height, pitch, height, paint))
        size = say("report.unknown") if point.reserved_bytes is None else memory_text(point.reserved_bytes)
        words = say("snapshot.point", event=point.event, allocated=point.requested_bytes, reserved=size)
        shapes.append(Tip(left, 0, pitch, CHART_HEIGHT, words))
    legend = ((_ALLOCATED, say("snapshot.allocated")), ("free", say("snapshot.reserved")))
    return Picture(title, CHART_WIDTH, CHART_HEIGHT, shapes, id, legend if any(reserved) else legend[:1], CHART_MARGIN)
