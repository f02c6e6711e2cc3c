"""The derived lanes of a device as charts of one row: how deep its queue is, and how far the host is ahead."""

from __future__ import annotations

import numpy as np

from npu_tui.trace.model import Bools
from npu_tui.trace.units import duration_text, memory_text
from npu_tui.view.cells.bars import LOWER_EIGHTHS
from npu_tui.view.cells.compiled import Compiled
from npu_tui.view.cells.grid import Grid
from npu_tui.view.cells.palette import Ink
from npu_tui.view.frame.held import Held
from npu_tui.view.scene import ChartKind, StepFunction
from npu_tui.view.spans import I64
from npu_tui.view.viewport import Viewport

STARVING_NS = -10_000
"""A lead of this or less is drawn as an alert."""

_GHOST_LEVEL = 4
_LEAD_BOUNDS = np.array([3, 10, 30, 100, 300, 1_000, 3_000], np.int64) * 1_000
_UPPER = np.array([ord(char) for char in " ▔▔▔▀▀▀██"], np.uint32)


class StepCurve:
    """The extreme value of ``steps`` in any cell, exactly: the highest depth, the lowest lead."""

    def __init__(self, function: StepFunction, kind: ChartKind, top: int = 0) -> None:
        self.function = function
        self.kind = kind
        self.highest = max(int(function.value.max(initial=0)), top)
        self._held = Held(function.time, function.value, lowest=kind == "lead")
        lasting = np.diff(function.time, append=function.end) * function.value
        self._sums = np.concatenate(([0], np.cumsum(lasting)))

    def at(self, time: int) -> int | None:
        """The value that holds at ``time`` ns, None before the first step and from the end on."""
        at = int(self.function.time.searchsorted(time, "right")) - 1
        return int(self.function.value[at]) if at >= 0 and time < self.function.end else None

    def cells(self, viewport: Viewport, compiled: Compiled | None = None) -> tuple[Bools, I64]:
        """Which columns have a value, and the extreme of all that hold for some time in each; (width,) both."""
        edges = viewport.edges()
        known, value = self._held.over(edges, compiled)
        return known & (edges[:-1] < self.function.end), value

    def shares(self, viewport: Viewport) -> I64:
        """For how many thousandths of each column the value is 1, rounded up; (width,)."""
        edges, steps = viewport.edges(), self.function
        if not len(steps.time):
            return np.zeros(viewport.width, np.int64)
        at = np.searchsorted(steps.time, edges, "right") - 1
        inside = np.maximum(at, 0)
        passed = np.clip(edges, steps.time[inside], steps.end) - steps.time[inside]
        done = np.where(at >= 0, self._sums[inside] + passed * steps.value[inside], 0)
        length = np.maximum(np.diff(edges), 1)
        return -(-1000 * np.diff(done) // length)


def draw_chart(grid: Grid, y: int, curve: StepCurve, viewport: Viewport, compiled: Compiled | None = None) -> Bools:
    """Draw ``curve`` into row ``y`` of ``grid``; returns the columns that are drawn.

    Depth and memory stand on the bottom, on a scale up to the most of the trace, a share as the part of each column. A
    lead stands on the bottom where the host is ahead and hangs from the top where the device waited, in half decades
    from 3 us to 3 ms; red from 10 us of waiting. A ghost stands on the
    bottom, dim, where its stream would be busy.
    """
    if curve.kind == "share":
        levels = -(-8 * curve.shares(viewport) // 1000)
        some = levels > 0
        grid.char[y, some], grid.fg[y, some] = LOWER_EIGHTHS[np.minimum(levels[some], 8)], Ink.COUNTER
        return some
    known, value = curve.cells(viewport, compiled)
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
    whole, _, rest = number.partition(".")
    return f"{whole if len(whole) > 2 or not rest else number}{unit}"


def chart_value(curve: StepCurve, time: int) -> str:
    """What the gutter says: depth at ``time`` of the deepest, or the signed lead; empty where there is none."""
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
