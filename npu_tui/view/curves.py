"""Counters and derived charts as curves: the value that holds in each column; and stacked areas.

An area shows what several holders have over time, on top of each other, in as many text rows as there is room for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from math import inf, isfinite
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Counters
from npu_tui.trace.text import memory_text, signed_text
from npu_tui.view.bars import LOWER_EIGHTHS, points
from npu_tui.view.grid import Attr, Grid
from npu_tui.view.levels import Extremes
from npu_tui.view.palette import Ink, bar
from npu_tui.view.scene import ChartKind, CpuClass, StackedArea, StepFunction
from npu_tui.view.viewport import Viewport

CurveKind = ChartKind | Literal["counter"]

STARVING_NS = -10_000
"""A lead of this or less (ns) is drawn as an alert."""

_RUNNING_LEVEL = 4  # levels of a column while the thread runs; as many again while it waits for a CPU
_CLASS = 7
_NOTABLE = 50
"""Thousandths of a column: a thread that waits for a CPU for longer is shown waiting there."""
# Half decades: a lead of 3 us is one eighth high, one of 3 ms or more is full.
_LEAD_BOUNDS = np.array([3, 10, 30, 100, 300, 1_000, 3_000], np.int64) * 1_000
_UPPER = np.array([ord(char) for char in " ▔▔▔▀▀▀██"], np.uint32)


class StepCurve:
    """A counter or a chart as a step function, exact in any cell: the highest value of a column, the lowest lead.

    ``low`` and ``high`` are the ends of its scale, at least up to ``top``. Values are finite.
    """

    def __init__(self, function: StepFunction, kind: CurveKind, top: float = 0, unit: str = "") -> None:
        self.function = function
        self.kind = kind
        self.unit = unit
        self.low: float = function.value.min().item() if len(function.value) else 0
        self.high: float = max(function.value.max().item() if len(function.value) else 0, top)

    @cached_property
    def _extremes(self) -> Extremes[Any]:
        return Extremes(self.function.value, np.minimum if self.kind == "lead" else np.maximum)

    @cached_property
    def _classes(self) -> dict[CpuClass, StepCurve]:
        """A curve for each class of a ``cpu`` chart: 1 while a thread is in it."""
        time, value, end = self.function.time, self.function.value, self.function.end
        curves = {}
        for kind in CpuClass:
            inside = (value & _CLASS) == kind
            turns = np.append(True, inside[1:] != inside[:-1])[: len(inside)]
            curves[kind] = StepCurve(StepFunction(time[turns], inside[turns].astype(np.int64), end), "share")
        return curves

    def share_of(self, kind: CpuClass, viewport: Viewport) -> I64:
        """The share of each column that a thread spends in a class, in thousandths; (width,)."""
        return self._classes[kind].shares(viewport)

    @cached_property
    def _sums(self) -> I64:
        """The integral of the function up to the start of each step."""
        lasting = np.diff(self.function.time, append=self.function.end) * self.function.value
        return np.concatenate(([0], np.cumsum(lasting)))

    def at(self, time: int) -> float | None:
        """The value at ``time`` ns, None before the first one; a chart has none from its end on."""
        at = int(self.function.time.searchsorted(time, "right")) - 1
        if at < 0 or (self.kind != "counter" and time >= self.function.end):
            return None
        value: float = self.function.value[at].item()
        return value

    def cells(self, viewport: Viewport) -> tuple[Bools, npt.NDArray[Any]]:
        """Which columns have a value, and the extreme of all values that hold in each, 0 without one; (width,) both."""
        edges, time, value = viewport.edges(), self.function.time, self.function.value
        inner = time.searchsorted(edges)
        first, last = inner[:-1] - 1, inner[1:]
        # The values of a column are those that begin in it, and the one that holds at its left edge.
        # The value at the left edge began before it, unless one begins exactly there.
        if len(time):
            at_edge = np.flatnonzero(time[np.minimum(inner[:-1], len(time) - 1)] == edges[:-1])
            first[at_edge] = time.searchsorted(edges[:-1][at_edge], "right") - 1
        first = np.maximum(first, 0)
        known = last > first
        values = np.zeros(len(known), value.dtype)
        values[known] = self._extremes.over(first[known], last[known])
        return known & (edges[:-1] < self.function.end), values

    def shares(self, viewport: Viewport) -> I64:
        """The share of each column in which the value is 1, in thousandths, rounded up; (width,)."""
        edges, steps = viewport.edges(), self.function
        if not len(steps.time):
            return np.zeros(viewport.width, np.int64)
        at = np.searchsorted(steps.time, edges, "right") - 1
        inside = np.maximum(at, 0)
        passed = np.clip(edges, steps.time[inside], steps.end) - steps.time[inside]
        done = np.where(at >= 0, self._sums[inside] + passed * steps.value[inside], 0)
        length = np.maximum(np.diff(edges), 1)
        return -(-1000 * np.diff(done) // length)


def counter_curve(counters: Counters, series: int, end: int) -> StepCurve:
    """The curve of counter ``series`` until ``end`` (ns, that of the trace) or its last sample, whichever is later."""
    low, high = counters.offset[series], counters.offset[series + 1]
    time, value = counters.time[low:high], counters.value[low:high]
    finite = np.isfinite(value)
    if not finite.all():
        time, value = time[finite], value[finite]
    end = max(end, int(time[-1]) + 1) if len(time) else end
    return StepCurve(StepFunction(time, value, end), "counter", top=-inf, unit=unit_of(counters.series[series].key))


def draw_curve(grid: Grid, y: int, curve: StepCurve, viewport: Viewport) -> Bools:
    """Draw ``curve`` into row ``y`` of ``grid``; returns the columns that are drawn.

    Depth and memory grow from the bottom on a scale up to the maximum of the trace; a share grows by the share of each
    column. A lead points up where the host is ahead and hangs from the top where the device waited, in half decades
    from 3 us to 3 ms; it is red from 10 us of waiting. A CPU is low while its thread runs, high and red where the
    thread waits for one.
    """
    if curve.kind == "lead":
        known, lead = curve.cells(viewport)
        levels = 1 + np.digitize(np.abs(lead), _LEAD_BOUNDS)
        behind = lead < 0
        calm = np.where(behind, int(Ink.COUNTER_LOW), int(Ink.COUNTER))
        grid.char[y, known] = np.where(behind, _UPPER[levels], LOWER_EIGHTHS[levels])[known]
        grid.fg[y, known] = np.where(lead <= STARVING_NS, int(Ink.ALERT), calm)[known]
        return known
    ink = np.full(viewport.width, Ink.COUNTER, np.uint8)
    if curve.kind == "counter":
        levels = counter_levels(curve, viewport)
        ink[levels == 1] = Ink.COUNTER_LOW
    elif curve.kind == "cpu":
        taken, running, unknown = (
            curve.share_of(kind, viewport) for kind in (CpuClass.TAKEN, CpuClass.RUNNING, CpuClass.UNKNOWN)
        )
        levels = np.minimum(-(-_RUNNING_LEVEL * running // 1000), _RUNNING_LEVEL)
        levels = np.where((unknown > 0) & (levels == 0), 1, levels)
        ink[unknown > running] = Ink.DIM
        stolen = taken >= _NOTABLE
        levels = np.where(
            stolen, _RUNNING_LEVEL + np.clip(-(-_RUNNING_LEVEL * taken // 1000), 1, _RUNNING_LEVEL), levels
        )
        ink[stolen] = Ink.ALERT
    elif curve.kind == "share":
        levels = np.minimum(-(-8 * curve.shares(viewport) // 1000), 8)
    else:
        known, value = curve.cells(viewport)
        levels = np.where(known & (value > 0), -(-8 * value // max(curve.high, 1)), 0)
    drawn: Bools = levels > 0
    if drawn.all():
        grid.char[y], grid.fg[y] = LOWER_EIGHTHS[levels], ink
        return drawn
    grid.char[y, drawn], grid.fg[y, drawn] = LOWER_EIGHTHS[levels[drawn]], ink[drawn]
    return drawn


def counter_levels(curve: StepCurve, viewport: Viewport) -> I64:
    """The height 1..8 of every column of a counter, 0 before its first sample and from its end on.

    A column shows its highest value. The lowest value of the series is 1, the highest 8; a constant series is 1.
    """
    if curve.high == curve.low:
        edges = viewport.edges()
        begun = curve.function.time[:1].searchsorted(edges[1:]) > 0
        return (begun & (edges[:-1] < curve.function.end)).astype(np.int64)
    known, value = curve.cells(viewport)
    part = 1.0 if isfinite(curve.high - curve.low) else 0.5  # high - low may overflow: then halve both
    lowest = part * curve.low
    scaled = (part * np.where(known, value, curve.low) - lowest) / (part * curve.high - lowest)
    return np.where(known, 1 + np.rint(7 * scaled), 0).astype(np.int64)


def compact_memory(size: float) -> str:
    """A size in as few cells as three digits take: ``449MiB``."""
    number, _, unit = memory_text(size).replace(",", "").partition(" ")
    digits, _, rest = number.partition(".")
    return f"{digits if len(digits) > 2 or not rest else number}{unit}"


def curve_value(curve: StepCurve, time: int) -> str:
    """The text in the gutter: a counter, depth at ``time`` of the maximum, memory, or the signed lead; else empty."""
    value = curve.at(time)
    if curve.kind in ("memory", "stack"):
        return f"≤{compact_memory(curve.high)}" if value is None else compact_memory(value)
    if curve.kind == "depth":
        return f"≤{curve.high}" if value is None else f"{value}/{curve.high}"
    if value is None or curve.kind in ("share", "cpu"):
        return ""
    if curve.kind == "network":
        return quantity_text(value, "B/s")
    if curve.kind == "counter":
        return quantity_text(value, curve.unit)
    return signed_text(value, 2, gap="")


_PREFIXES = ("", "k", "M", "G", "T", "P")
_UNIT = re.compile(r"\(([^()]{1,12})\)$|^([KMG]?Hz|[KMG]?B|%)$")
"""The unit in the key of a counter, such as ``Read(MB/s)`` and ``MHz``."""
_SCALED = re.compile(r"([KMG])(Hz|B|B/s)$")
NO_VALUE = 2**32 - 1
"""What the profiler writes for "no value" in an unsigned 32-bit field."""


def unit_of(key: str) -> str:
    """The unit in the key of a counter; empty without one."""
    match = _UNIT.search(key)
    return (match[1] or match[2]) if match is not None else ""


def quantity_text(value: float, unit: str = "") -> str:
    """``value`` in at most five cells and its ``unit``: ``1.8GHz`` for 1800 MHz, ``7.11MB/s``, ``45%``, ``12.5``.

    ``NO_VALUE`` is a dash.
    """
    if value == NO_VALUE:
        return "–"
    if scaled := _SCALED.match(unit):
        value, unit = value * 1000 ** ("KMG".index(scaled[1]) + 1), scaled[2]
    size = abs(value)
    power = 0
    while size >= 999.5 and power < len(_PREFIXES) - 1:
        size /= 1000
        power += 1
    if size >= 1000:
        return f"{value:.0e}{unit}"
    if power == 0 and size == int(size):
        text = str(int(size))
    else:
        text = f"{size:.3g}" if size >= 0.01 or size == 0 else f"{size:.0e}"
    return f"{'-' if value < 0 else ''}{text}{_PREFIXES[power]}{unit}"


_CLASSES = (OpClass.CUBE, OpClass.VECTOR, OpClass.COMMUNICATION, OpClass.MEMORY, OpClass.QUEUE, OpClass.OP)
_REST = OpClass.OTHER
_FILLS = np.array([ord("█"), ord("▓")], np.uint32)
"""Neighbours differ without colours too."""


def ink_of(area: StackedArea, holder: int) -> int:
    """The ink of a holder; the last one is all others."""
    rest = holder == len(area.names) - 1
    return bar(_REST if rest else _CLASSES[holder % len(_CLASSES)])


class DrawnArea:
    """An ``area`` with what is found out about it once."""

    def __init__(self, area: StackedArea) -> None:
        self.area = area

    @cached_property
    def total(self) -> I64:
        """The bytes that all holders have together, (n,)."""
        return np.asarray(self.area.value.sum(axis=0))

    @cached_property
    def peak(self) -> int:
        """The moment at which most is held, as a place in ``time``."""
        return int(self.total.argmax()) if len(self.total) else 0

    @cached_property
    def _fullest(self) -> Extremes[np.int64]:
        """Finds the moment of a range at which most memory is held; the first of several."""
        return Extremes(self.total * len(self.total) + np.arange(len(self.total))[::-1], np.maximum)

    def moments(self, viewport: Viewport) -> tuple[I64, I64]:
        """The columns that anything is known of, and the fullest moment of each; (m,) both."""
        edges, area = viewport.edges(), self.area
        first = np.maximum(np.searchsorted(area.time, edges[:-1], "right") - 1, 0)
        last = np.searchsorted(area.time, edges[1:], "left")
        known = np.flatnonzero((last > 0) & (edges[:-1] < area.end))
        key = self._fullest.over(first[known], np.maximum(last[known], first[known] + 1))
        return known, len(self.total) - 1 - key % len(self.total)

    def held(self, holder: int, time: int) -> int | None:
        """The bytes that ``holder`` has at ``time`` ns; None before the first moment and from the end on."""
        at = int(self.area.time.searchsorted(time, "right")) - 1
        return int(self.area.value[holder, at]) if at >= 0 and time < self.area.end else None

    def draw(self, grid: Grid, lines: Sequence[tuple[int, int]], bands: int, viewport: Viewport) -> None:
        """Draw the ``lines`` (row of ``grid``, band from the top) of all ``bands``; the first has the peak's mark."""
        columns, moment = self.moments(viewport)
        top = int(self.total[self.peak]) if len(self.total) else 0
        if not top or not len(columns):
            return
        heights = np.cumsum(self.area.value[:, moment], axis=0) * (8 * (bands - 1))
        levels = -(-heights // top)
        inks = np.array([ink_of(self.area, holder) for holder in range(len(levels))], np.uint8)
        for y, band in lines:
            floor = 8 * (bands - 1 - band)
            above = levels > floor
            holder = above.argmax(axis=0)
            here = above.any(axis=0)
            level = np.take_along_axis(levels, holder[None], 0)[0] - floor
            whole, part = here & (level >= 8), here & (level < 8)
            at = columns[whole]
            grid.char[y, at], grid.fg[y, at] = _FILLS[holder[whole] & 1], inks[holder[whole]]
            at = columns[part]
            grid.char[y, at], grid.fg[y, at] = LOWER_EIGHTHS[level[part]], inks[holder[part]]
            beyond = levels[:, part] > (level[part] + floor)[None]
            behind = np.flatnonzero(beyond.any(axis=0))
            grid.bg[y, at[behind]] = inks[beyond.argmax(axis=0)[behind]]
            if not band:
                self._mark(grid, y, viewport)

    def _mark(self, grid: Grid, y: int, viewport: Viewport) -> None:
        """Mark the peak where it is in view, with its bytes on the side that has room."""
        column = viewport.column(int(self.area.time[self.peak]))
        if not 0 <= column < viewport.width:
            return
        words = f"▼ {memory_text(int(self.total[self.peak]))}"
        if column + len(words) > viewport.width:
            words = words[2:] + " ▼"
        at = max(column if words[0] == "▼" else column - len(words) + 1, 0)
        grid.write(y, at, points(words), Ink.ACCENT, attr=int(Attr.BOLD))
