"""Counters and derived charts as curves: the value that holds in each column."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.native.cells import I64
from npu_tui.trace.model import F64, Bools, Counters
from npu_tui.trace.text import duration_text, memory_text
from npu_tui.view.bars import LOWER_EIGHTHS
from npu_tui.view.grid import Grid
from npu_tui.view.levels import Extremes
from npu_tui.view.palette import Ink
from npu_tui.view.scene import ChartKind, StepFunction
from npu_tui.view.viewport import Viewport


class ColumnExtremes:
    """The extreme of a step function in columns; a ``value`` holds from its ``time`` (ns, ascending) on.

    Values are integers or floats without not-a-number. The extreme is the highest, with ``lowest`` the lowest value.
    """

    def __init__(self, time: I64, value: npt.NDArray[Any], lowest: bool = False) -> None:
        kind = np.float64 if value.dtype.kind == "f" else np.int64
        self._extreme = np.minimum if lowest else np.maximum
        self._time, self._value = np.ascontiguousarray(time), np.ascontiguousarray(value, kind)
        self._extremes: Extremes[Any] | None = None

    def over(self, edges: I64) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]:
        """Which columns have a value, and the extreme of all values that hold in each, 0 where none does.

        Columns lie between ``edges`` (ns, ascending).
        """
        if self._extremes is None:
            self._extremes = Extremes(self._value, self._extreme)
        inner = self._time.searchsorted(edges)
        first, last = inner[:-1] - 1, inner[1:]
        # The values of a column are those that begin in it, and the one that holds at its left edge.
        # The value at the left edge began before it, unless one begins exactly there.
        if len(self._time):
            at_edge = np.flatnonzero(self._time[np.minimum(inner[:-1], len(self._time) - 1)] == edges[:-1])
            first[at_edge] = self._time.searchsorted(edges[:-1][at_edge], "right") - 1
        first = np.maximum(first, 0)
        known = last > first
        values = np.zeros(len(known), self._value.dtype)
        values[known] = self._extremes.over(first[known], last[known])
        return known, values


STARVING_NS = -10_000
"""A lead of this or less (ns) is drawn as an alert."""

_GHOST_LEVEL = 4
# Half decades: a lead of 3 us is one eighth high, one of 3 ms or more is full.
_LEAD_BOUNDS = np.array([3, 10, 30, 100, 300, 1_000, 3_000], np.int64) * 1_000
_UPPER = np.array([ord(char) for char in " ▔▔▔▀▀▀██"], np.uint32)


class StepCurve:
    """A step function as a chart, exact in any cell: the highest depth, the lowest lead."""

    def __init__(self, function: StepFunction, kind: ChartKind, top: int = 0) -> None:
        self.function = function
        self.kind = kind
        self.highest = max(int(function.value.max(initial=0)), top)
        self._extremes = ColumnExtremes(function.time, function.value, lowest=kind == "lead")
        lasting = np.diff(function.time, append=function.end) * function.value
        self._sums = np.concatenate(([0], np.cumsum(lasting)))

    def at(self, time: int) -> int | None:
        """The value at ``time`` ns, None before the first step and from the end on."""
        at = int(self.function.time.searchsorted(time, "right")) - 1
        return int(self.function.value[at]) if at >= 0 and time < self.function.end else None

    def cells(self, viewport: Viewport) -> tuple[Bools, I64]:
        """Which columns have a value, and the extreme of all values that hold in each; (width,) both."""
        edges = viewport.edges()
        known, value = self._extremes.over(edges)
        return known & (edges[:-1] < self.function.end), value

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


def draw_chart(grid: Grid, y: int, curve: StepCurve, viewport: Viewport) -> Bools:
    """Draw ``curve`` into row ``y`` of ``grid``; returns the columns that are drawn.

    Depth and memory grow from the bottom on a scale up to the maximum of the trace; a share grows by the share of each
    column. A lead points up where the host is ahead and hangs from the top where the device waited, in half decades
    from 3 us to 3 ms; it is red from 10 us of waiting. A ghost is dim where its stream would be busy.
    """
    if curve.kind == "share":
        levels = -(-8 * curve.shares(viewport) // 1000)
        shown = levels > 0
        grid.char[y, shown], grid.fg[y, shown] = LOWER_EIGHTHS[np.minimum(levels[shown], 8)], Ink.COUNTER
        return shown
    known, value = curve.cells(viewport)
    if curve.kind == "ghost":
        busy: Bools = known & (value > 0)
        grid.char[y, busy], grid.fg[y, busy] = LOWER_EIGHTHS[_GHOST_LEVEL], Ink.DIM
        return busy
    if curve.kind != "lead":
        levels = np.where(known & (value > 0), -(-8 * value // max(curve.highest, 1)), 0)
        drawn = levels > 0
        grid.char[y, drawn] = LOWER_EIGHTHS[np.minimum(levels[drawn], 8)]
        grid.fg[y, drawn] = Ink.COUNTER
        return drawn
    levels = 1 + np.digitize(np.abs(value), _LEAD_BOUNDS)
    behind = value < 0
    chars = np.where(behind, _UPPER[levels], LOWER_EIGHTHS[levels])
    calm = np.where(behind, int(Ink.COUNTER_LOW), int(Ink.COUNTER))
    inks = np.where(value <= STARVING_NS, int(Ink.ALERT), calm)
    grid.char[y, known], grid.fg[y, known] = chars[known], inks[known]
    return known


def _memory(size: int) -> str:
    number, _, unit = memory_text(size).replace(",", "").partition(" ")
    digits, _, rest = number.partition(".")
    return f"{digits if len(digits) > 2 or not rest else number}{unit}"


def chart_value(curve: StepCurve, time: int) -> str:
    """The text in the gutter: depth at ``time`` of the maximum, memory, or the signed lead; empty without a value."""
    if curve.kind == "ghost":
        return ""
    value = curve.at(time)
    if curve.kind == "share":
        return ""
    if curve.kind == "memory":
        return f"≤{_memory(curve.highest)}" if value is None else _memory(value)
    if value is None:
        return f"≤{curve.highest}" if curve.kind == "depth" else ""
    if curve.kind == "depth":
        return f"{value}/{curve.highest}"
    return ("+" if value > 0 else "") + duration_text(value, 2, gap="")


_PREFIXES = ("", "k", "M", "G", "T", "P")
_UNIT = re.compile(r"\(([^()]{1,12})\)$|^([KMG]?Hz|[KMG]?B|%)$")
"""The unit in the key of a counter, such as ``Read(MB/s)`` and ``MHz``."""
_SCALED = re.compile(r"([KMG])(Hz|B|B/s)$")
NO_VALUE = 2**32 - 1
"""What the profiler writes for "no value" in an unsigned 32-bit field."""


class Curve(Struct, frozen=True, dict=True):
    """The samples of one series with the scale of its chart; ``time`` (ns) ascends, all values are finite."""

    time: I64
    value: F64
    low: float
    high: float

    @cached_property
    def column_extremes(self) -> ColumnExtremes:
        """The highest value in columns."""
        return ColumnExtremes(self.time, self.value)

    def at(self, time: int) -> float | None:
        """The value at ``time`` ns: that of the last sample up to then, None before the first."""
        index = int(self.time.searchsorted(time, "right")) - 1
        return float(self.value[index]) if index >= 0 else None


def find_curve(counters: Counters, series: int) -> Curve:
    """The curve of ``series``."""
    low, high = counters.offset[series], counters.offset[series + 1]
    time, value = counters.time[low:high], counters.value[low:high]
    finite = np.isfinite(value)
    if not finite.all():
        time, value = time[finite], value[finite]
    if not len(value):
        return Curve(time, value, 0.0, 0.0)
    return Curve(time, value, float(value.min()), float(value.max()))


def curve_levels(curve: Curve, viewport: Viewport, end: int) -> I64:
    """The height 1..8 of every column, 0 before the first sample and from ``end`` ns (where the trace ends) on.

    A column shows its highest value. The lowest value of the series is 1, the highest 8; a constant series is 1.
    """
    edges = viewport.edges()
    levels = np.zeros(viewport.width, np.int64)
    if not len(curve.time):
        return levels
    stop = max(end, int(curve.time[-1]) + 1)
    if curve.high == curve.low:
        levels[(edges[1:] > curve.time[0]) & (edges[:-1] < stop)] = 1
        return levels
    known, value = curve.column_extremes.over(edges)
    part = 1.0 if isfinite(curve.high - curve.low) else 0.5  # high - low may overflow: then halve both
    lowest = part * curve.low
    scaled = (part * np.where(known, value, curve.low) - lowest) / (part * curve.high - lowest)
    heights: I64 = np.where(known & (edges[:-1] < stop), 1 + np.rint(7 * scaled), 0).astype(np.int64)
    return heights


def draw_curve(grid: Grid, y: int, levels: I64) -> None:
    """Draw ``levels`` into row ``y`` of ``grid``."""
    drawn: Any = levels > 0
    if drawn.all():
        drawn = slice(None)
    grid.char[y, drawn] = LOWER_EIGHTHS[levels[drawn]]
    grid.fg[y, drawn] = np.where(levels[drawn] > 1, int(Ink.COUNTER), int(Ink.COUNTER_LOW))


@lru_cache(maxsize=512)
def unit_of(key: str) -> str:
    """The unit in the key of a counter; empty without one."""
    match = _UNIT.search(key)
    return (match[1] or match[2]) if match is not None else ""


def quantity_text(value: float, unit: str) -> str:
    """``value`` with its ``unit``: ``1.8GHz`` for 1800 MHz, ``7.11MB/s``, ``45%``; a dash for ``NO_VALUE``."""
    if value == NO_VALUE:
        return "–"
    scaled = _SCALED.match(unit)
    if scaled is None:
        return value_text(value) + unit
    return value_text(value * 1000 ** ("KMG".index(scaled[1]) + 1)) + scaled[2]


def value_text(value: float) -> str:
    """``value`` in at most five cells, with a decimal prefix: ``0``, ``12.5``, ``3.42G``."""
    size = abs(value)
    power = 0
    while size >= 999.5 and power < len(_PREFIXES) - 1:
        size /= 1000
        power += 1
    if size >= 1000:
        return f"{value:.0e}"
    if power == 0 and size == int(size):
        text = str(int(size))
    else:
        text = f"{size:.3g}" if size >= 0.01 or size == 0 else f"{size:.0e}"
    return f"{'-' if value < 0 else ''}{text}{_PREFIXES[power]}"
