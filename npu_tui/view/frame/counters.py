"""A counter as a chart of one row: the highest value of every column, stepped, on the scale of the whole series."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from math import isfinite
from typing import Any

import numpy as np
from msgspec import Struct

from npu_tui.trace.model import F64, Counters
from npu_tui.view.cells.bars import LOWER_EIGHTHS
from npu_tui.view.cells.compiled import Compiled
from npu_tui.view.cells.grid import Grid
from npu_tui.view.cells.palette import Ink
from npu_tui.view.frame.held import Held
from npu_tui.view.spans import I64
from npu_tui.view.viewport import Viewport

_PREFIXES = ("", "k", "M", "G", "T", "P")
_UNIT = re.compile(r"\(([^()]{1,12})\)$|^([KMG]?Hz|[KMG]?B|%)$")
"""Keys of counters that name their unit, such as ``Read(MB/s)`` and ``MHz``."""
_SCALED = re.compile(r"([KMG])(Hz|B|B/s)$")
NO_VALUE = 2**32 - 1
"""Stands for no value where 32 bits without a sign are written."""


class Curve(Struct, frozen=True, dict=True):
    """The samples of one series with the scale of its chart; ``time`` ns ascends, not-a-number samples are left out."""

    time: I64
    value: F64
    low: float
    high: float

    @cached_property
    def held(self) -> Held:
        """The highest value in columns."""
        return Held(self.time, self.value)

    def at(self, time: int) -> float | None:
        """The value that holds at ``time`` ns: that of the last sample not after it, None before the first."""
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


def curve_levels(curve: Curve, viewport: Viewport, end: int, compiled: Compiled | None = None) -> I64:
    """Height 1..8 of every column, 0 before the first sample and from ``end`` ns (where the trace ends) on.

    A column's value is the highest that held in it; the lowest value of the series is 1, the highest 8;
    a series of one value stays at 1.
    """
    edges = viewport.edges()
    levels = np.zeros(viewport.width, np.int64)
    if not len(curve.time):
        return levels
    stop = max(end, int(curve.time[-1]) + 1)
    if curve.high == curve.low:
        levels[(edges[1:] > curve.time[0]) & (edges[:-1] < stop)] = 1
        return levels
    known, value = curve.held.over(edges, compiled)
    part = 1.0 if isfinite(curve.high - curve.low) else 0.5  # where the scale is longer than any number, half of it
    lowest = part * curve.low
    scaled = (part * np.where(known, value, curve.low) - lowest) / (part * curve.high - lowest)
    found: I64 = np.where(known & (edges[:-1] < stop), 1 + np.rint(7 * scaled), 0).astype(np.int64)
    return found


def draw_curve(grid: Grid, y: int, levels: I64) -> None:
    """Draw ``levels`` into row ``y`` of ``grid``."""
    some: Any = levels > 0
    if some.all():
        some = slice(None)
    grid.char[y, some] = LOWER_EIGHTHS[levels[some]]
    grid.fg[y, some] = np.where(levels[some] > 1, int(Ink.COUNTER), int(Ink.COUNTER_LOW))


@lru_cache(maxsize=512)
def unit_of(key: str) -> str:
    """The unit that the key of a counter names; empty where it names none."""
    found = _UNIT.search(key)
    return (found[1] or found[2]) if found is not None else ""


def quantity_text(value: float, unit: str) -> str:
    """``value`` with its ``unit``, without a gap: ``1.8GHz`` for 1800 MHz, ``7.11MB/s``, ``45%``; a dash for none."""
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
