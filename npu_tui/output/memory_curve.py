"""The curve of what is allocated and reserved over the events of an allocator: its rows, of letters, as a picture."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.output.document import CHART_HEIGHT, CHART_MARGIN, CHART_WIDTH, Box, Paint, Picture, Shape, Tip, Words
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.snapshot import UNKNOWN, DeviceMemory
from npu_tui.trace.text import HEIGHTS, cell_count, count_text, memory_text
from npu_tui.view.palette import bar

_POINTS, _COLUMNS, _LINES = 144, 72, 6
_ALLOCATED: Paint = bar(OpClass.CUBE)
SHADE = "░"


class CurvePoint(Struct, frozen=True, kw_only=True):
    """The most that was allocated and reserved from ``event`` on up to the next point, bytes; null is unknown."""

    event: int
    requested_bytes: int
    reserved_bytes: int | None


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


def _values(points: list[CurvePoint]) -> tuple[list[int], list[int], int]:
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
    allocated, reserved, top = _values(points)
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
    allocated, reserved, top = _values(points)
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
