"""The report of a memory snapshot: as JSON, kind ``memory``, and as a document with who held memory at the peak."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui import __version__
from npu_tui.analysis.snapshot import (
    SIZES,
    BlockOwner,
    HeldMemory,
    failures,
    held_in,
    live_bytes,
    module_of,
    named_at,
    nameless,
    owners,
    placed,
    pools_of,
    sums_at,
)
from npu_tui.output.document import (
    CHART_HEIGHT,
    CHART_MARGIN,
    CHART_WIDTH,
    Block,
    Box,
    Cell,
    Code,
    Document,
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
from npu_tui.output.document import Finding as ToldFinding
from npu_tui.output.envelope import HolderEntry, NotChecked, Root
from npu_tui.output.report_schema import SkippedRow
from npu_tui.rules.model import Finding
from npu_tui.rules.snapshot import findings_of
from npu_tui.strings import say, words
from npu_tui.trace.classes import OpClass
from npu_tui.trace.snapshot import BEFORE, HOST, UNKNOWN, DeviceMemory, MemorySnapshot, label_of
from npu_tui.trace.text import HEIGHTS, cell_count, count_text, memory_text, printable
from npu_tui.view.palette import bar


class MemorySource(Struct, frozen=True, kw_only=True):
    """The file that was read."""

    path: str
    kind: str
    bytes: int
    tool_version: str = __version__


class SizeRow(Struct, frozen=True, kw_only=True):
    """The blocks of more than ``above_bytes`` and up to ``up_to_bytes`` each; null is no limit."""

    above_bytes: int
    up_to_bytes: int | None
    bytes: int
    blocks: int


class StreamRow(Struct, frozen=True, kw_only=True):
    """The blocks of one stream; ``stream`` is its number as the writer gives it."""

    stream: int
    bytes: int
    blocks: int


class PoolRow(Struct, frozen=True, kw_only=True):
    """The blocks of one pool: ``0, 0`` is the default one, others are private; null where it is not known.

    In a dump of MemScope those of one owner, such as ``PTA@weight``, where the tool was set to find these out.
    """

    pool: str | None
    bytes: int
    blocks: int


class HeldRows(Struct, frozen=True, kw_only=True):
    """What is allocated at one moment, by module (its innermost ``forward``), size class, stream and pool.

    Streams and pools are empty where the file has none.
    """

    modules: list[HolderEntry]
    sizes: list[SizeRow]
    streams: list[StreamRow]
    pools: list[PoolRow]


class CurvePoint(Struct, frozen=True, kw_only=True):
    """The most that was allocated and reserved from ``event`` on up to the next point, bytes; null is unknown."""

    event: int
    requested_bytes: int
    reserved_bytes: int | None


class FailureRow(Struct, frozen=True, kw_only=True):
    """The first allocation that failed, and what was allocated then."""

    event: int
    request_bytes: int
    stacks: list[HolderEntry]
    held: HeldRows


class MemoryStepRow(Struct, frozen=True, kw_only=True):
    """A step that begins at ``event`` with ``live_bytes`` allocated, and what it added (null: it does not end)."""

    event: int
    live_bytes: int
    growth_bytes: int | None


class DeviceRow(Struct, frozen=True, kw_only=True):
    """The allocator of one device; bytes are those requested unless named otherwise. Null is unknown.

    ``device`` is null for memory of the host. ``allocator`` distinguishes those of a dump of MemScope, such as PTA and
    HAL, which holds the segments of PTA; ``process`` is given where the dump has several.
    """

    device: int | None
    allocator: str | None
    process: int | None
    events: int
    segments: int | None
    reserved_end_bytes: int | None
    allocated_end_bytes: int | None
    requested_end_bytes: int
    blocks_end: int
    peak_requested_bytes: int
    peak_event: int | None
    reserved_at_peak_bytes: int | None
    peak_reserved_bytes: int | None
    peak_reserved_event: int | None
    before_history_bytes: int
    curve: list[CurvePoint]
    stacks_at_peak: list[HolderEntry]
    at_peak: HeldRows
    failure: FailureRow | None
    steps: list[MemoryStepRow]
    growth_bytes_per_step: int | None
    inactive_blocks: int | None
    inactive_bytes: int | None
    largest_inactive_bytes: int | None
    free_segments_bytes: int | None
    expandable: bool | None

    @property
    def label(self) -> str:
        """Its label for readers."""
        return label_of(HOST if self.device is None else self.device, self.allocator, self.process)

    def figures(self) -> dict[str, tuple[int | None, int | None]]:
        """The bytes in tables, and the event after which they held, by name."""
        return {
            "peak": (self.peak_requested_bytes, self.peak_event),
            "reserved_at_peak": (self.reserved_at_peak_bytes, self.peak_event),
            "peak_reserved": (self.peak_reserved_bytes, self.peak_reserved_event),
            "before": (self.before_history_bytes, None),
            "requested_end": (self.requested_end_bytes, None),
            "reserved_end": (self.reserved_end_bytes, None),
            "inactive": (self.inactive_bytes, None),
            "largest": (self.largest_inactive_bytes, None),
            "per_step": (self.growth_bytes_per_step, None),
        }


class EventProof(Struct, frozen=True, kw_only=True):
    """Where a finding shows: an event of the history."""

    event: int


class MemoryFinding(Struct, frozen=True, kw_only=True, rename={"cls": "class"}):
    """What JSON has of a ``Finding`` about a snapshot; what it would gain in time is not known.

    ``gain_bytes`` is how much less is reserved at most where the history is replayed with another setting.
    """

    id: str
    cls: str = "memory"
    severity: str
    device: int | None
    allocator: str | None = None
    title: str
    detail: str
    evidence: list[EventProof]
    advice: list[str]
    gain_us: None = None
    gain_bytes: int | None = None
    confidence: str = "high"
    where: HolderEntry | None = None


class MemoryHealth(Struct, frozen=True, kw_only=True):
    """What could not be used of the file."""

    events: int
    skipped: list[SkippedRow]


class MemoryReport(Root, frozen=True, kw_only=True):
    """All that is said of a memory snapshot."""

    FIRST: ClassVar = ("devices",)

    schema_version: Literal[2] = 2
    kind: Literal["memory"] = "memory"
    source: MemorySource
    verdict: list[str]
    devices: list[DeviceRow]
    findings: list[MemoryFinding]
    not_checked: list[NotChecked]
    health: MemoryHealth


def memory_report(snapshot: MemorySnapshot) -> MemoryReport:
    """All that is said of ``snapshot``."""
    devices = held_in(snapshot)
    findings = findings_of(devices)
    without = [
        ("time", all(device.events.time is None for device in snapshot.devices)),
        ("steps", all(held.growth is None for held in devices)),
        ("history", all(not len(device.events) for device in snapshot.devices)),
        ("before", any(nameless(device).any() for device in snapshot.devices)),
        ("segments", any(not device.has_segments for device in snapshot.devices)),
        ("stacks", bool(snapshot.devices) and not snapshot.stacks),
        ("host", snapshot.has_host),
        ("sum", len({(device.device, device.process) for device in snapshot.devices}) < len(snapshot.devices)),
    ]
    return MemoryReport(
        source=MemorySource(path=printable(snapshot.path), kind=snapshot.kind, bytes=snapshot.size),
        verdict=[words(finding.title) for _, finding in findings[:3]] or [say("snapshot.nothing")],
        devices=[_device(held) for held in devices],
        findings=[_memory_finding(held.device, finding) for held, finding in findings],
        not_checked=[NotChecked(id=id_, reason=say(f"snapshot.without.{id_}")) for id_, holds in without if holds],
        health=MemoryHealth(
            events=sum(len(device.events) for device in snapshot.devices),
            skipped=[SkippedRow(reason=words(said), count=count) for said, count in snapshot.odd.items()],
        ),
    )


def _bytes_or_none(value: int) -> int | None:
    """``value``, None for what stands for unknown bytes and for what is older than any event."""
    return None if value in (UNKNOWN, BEFORE) else value


def _device(held: HeldMemory) -> DeviceRow:
    device, unused, grown = held.device, held.pieces, held.growth
    blocks, requested, allocated = live_bytes(device)
    peak, peak_bytes = device.peak
    full, full_bytes = device.fullest
    steps = []
    if grown is not None:
        more = [*(grown.live[1:] - grown.live[:-1]).tolist(), None]
        rows = zip(grown.starts.tolist(), grown.live.tolist(), more, strict=False)
        steps = [MemoryStepRow(event=event, live_bytes=live, growth_bytes=growth) for event, live, growth in rows]
    return DeviceRow(
        device=None if device.device == HOST else device.device,
        allocator=printable(device.allocator) or None,
        process=_bytes_or_none(device.process),
        events=len(device.events),
        segments=len(device.segments) if device.has_segments else None,
        reserved_end_bytes=_bytes_or_none(device.reserved_at_end),
        allocated_end_bytes=_bytes_or_none(allocated),
        requested_end_bytes=requested,
        blocks_end=blocks,
        peak_requested_bytes=peak_bytes,
        peak_event=_bytes_or_none(peak),
        reserved_at_peak_bytes=None if peak == BEFORE else _bytes_or_none(int(device.reserved[peak])),
        peak_reserved_bytes=_bytes_or_none(full_bytes),
        peak_reserved_event=_bytes_or_none(full),
        before_history_bytes=device.before,
        curve=curve_points(device),
        stacks_at_peak=[_holder_row(owner) for owner in held.at_peak],
        at_peak=_holders_after(held, peak),
        failure=_failure(held),
        steps=steps,
        growth_bytes_per_step=None if grown is None else grown.per_step,
        inactive_blocks=unused.blocks if device.has_segments else None,
        inactive_bytes=unused.inactive if device.has_segments else None,
        largest_inactive_bytes=unused.largest if device.has_segments else None,
        free_segments_bytes=unused.free_segments if device.has_segments else None,
        expandable=device.is_expandable if device.has_segments else None,
    )


def _holders_after(held: HeldMemory, event: int) -> HeldRows:
    """What is allocated after ``event``."""
    snapshot, device, lives = held.snapshot, held.device, held.device.lives
    streams = sums_at(device, event, lives.stream) if device.has_segments else []
    pools = sums_at(device, event, pools_of(device)) if snapshot.pools else []
    return HeldRows(
        modules=[_holder_row(owner) for owner in owners(snapshot, device, named_at(device, event), module_of)],
        sizes=[
            SizeRow(above_bytes=(0, *SIZES)[number], up_to_bytes=(*SIZES, None)[number], bytes=size, blocks=count)
            for number, size, count in sums_at(device, event, np.searchsorted(SIZES, lives.size))
        ],
        streams=[
            StreamRow(stream=stream, bytes=size, blocks=count)
            for stream, size, count in sorted(streams, key=lambda row: -row[1])
        ],
        pools=[
            PoolRow(pool=None if pool < 0 else snapshot.pools[pool], bytes=size, blocks=count)
            for pool, size, count in pools
        ],
    )


def _failure(held: HeldMemory) -> FailureRow | None:
    first = next(iter(failures(held.device)), None)
    if first is None:
        return None
    return FailureRow(
        event=first.event,
        request_bytes=first.request,
        stacks=[_holder_row(owner) for owner in held.owners(first.event)],
        held=_holders_after(held, first.event),
    )


def _holder_row(owner: BlockOwner) -> HolderEntry:
    code, line = owner.code, placed(owner.code)
    return HolderEntry(
        where=None if line is None else printable(line.file),
        line=None if line is None else line.line,
        function=None if code is None else printable(code.function),
        bytes=owner.size,
        blocks=len(owner.members),
    )


def _memory_finding(device: DeviceMemory, finding: Finding) -> MemoryFinding:
    return MemoryFinding(
        id=finding.id,
        severity=finding.severity,
        device=None if device.device == HOST else device.device,
        allocator=device.allocator or None,
        title=words(finding.title),
        detail=words(finding.detail),
        evidence=[EventProof(event=place.event) for place in finding.evidence if place.event is not None],
        advice=list(map(words, finding.advice)),
        where=None if finding.owner is None else _holder_row(finding.owner),
        gain_bytes=finding.gain_bytes,
    )


_POINTS = 144
"""Points of a curve at most."""


def curve_points(device: DeviceMemory) -> list[CurvePoint]:
    """The curve of ``device`` in at most 144 points, so that no peak is lost; empty without events."""
    count = len(device.events)
    if not count:
        return []
    starts = np.arange(min(count, _POINTS)) * count // min(count, _POINTS)
    most = (np.maximum.reduceat(values, starts).tolist() for values in (device.requested, device.reserved))
    return [
        CurvePoint(event=event, requested_bytes=requested, reserved_bytes=None if reserved == UNKNOWN else reserved)
        for event, requested, reserved in zip(starts.tolist(), *most, strict=True)
    ]


def memory_document(report: MemoryReport, form: str = "") -> Document:
    """What ``report`` says; in the form ``text`` the curves are of letters, a page draws them in any case."""
    size = say("snapshot.about", events=report.health.events, devices=len({row.device for row in report.devices}))
    blocks: list[Block] = [Paragraph((size,), "faint"), Paragraph(tuple(report.verdict), "verdict")]
    found = tuple(
        ToldFinding(number, row.id, row.severity, row.title, "", row.detail, advice=tuple(row.advice))
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
    """What the tables of ``device`` are marked with."""
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
