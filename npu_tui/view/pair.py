"""Two traces held against each other: which slices belong together, and how their clocks are laid over one another."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from npu_tui.view.viewport import Viewport

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

Alignment = Literal["step", "operation", "every"]
Face = Literal["both", "base", "new"]

BASE, NEW = 0, 1
SAME, ALONE, CHANGED = range(3)
"""What is known of a slice: nothing worth a mark, only its own side has it, it differs from its counterpart."""


class Warp(Struct, frozen=True):
    """Matched times of the base and of the new trace, ns on their own clocks, ascending, of equal length (>= 2).

    Between two of them time runs in proportion, outside of all it is shifted.
    """

    base: I64
    new: I64

    def to_base(self, time: I64) -> I64:
        """The times of the base at which the new trace stands at ``time``."""
        return _through(self.new, self.base, time)

    def to_new(self, time: I64) -> I64:
        """The times of the new trace that stand at ``time`` of the base."""
        return _through(self.base, self.new, time)


def _through(known: I64, wanted: I64, time: I64) -> I64:
    inside = np.rint(np.interp(time, known, wanted)).astype(np.int64)
    before, after = time - known[0] + wanted[0], time - known[-1] + wanted[-1]
    return np.where(time < known[0], before, np.where(time > known[-1], after, inside))


class WarpedViewport(Viewport, frozen=True, dict=True):
    """A viewport whose columns stand on the base's clock and are read on that of the new trace."""

    warp: Warp = field(default_factory=lambda: Warp(np.zeros(2, np.int64), np.zeros(2, np.int64)))

    def __hash__(self) -> int:
        return hash((self.first, self.span, self.width, self.origin, id(self.warp)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WarpedViewport) and hash(self) == hash(other)

    def edge(self, column: int) -> int:
        """Left edge of ``column``, ns of the new trace."""
        return int(self.warp.to_new(np.array([Viewport.edge(self, column)]))[0])

    def edges(self) -> I64:
        """All ``width + 1`` edges, ns of the new trace; where no time passes there, a column lasts 1 ns."""
        step = np.arange(self.width + 1)
        found: I64 = np.maximum.accumulate(self.warp.to_new(Viewport.edges(self)) - step) + step
        return found

    def column(self, time: int) -> int:
        """The column that holds ``time`` of the new trace; outside it is below 0 or at least ``width``."""
        return int(np.searchsorted(self.edges(), time, "right")) - 1


class Pair(Struct):
    """The base is trace 0 of the scene, the new one trace 1; everything of a trace is told in its own time.

    ``windows`` are the steps that are drawn, ``twins`` give for every slice its counterpart (-1: none), ``marks`` one
    of ``SAME``, ``ALONE``, ``CHANGED``. ``lanes`` lead from a lane of the base to that of the new trace. ``matched``
    are the times at which both do the same, from the start of the step to its end.
    """

    windows: tuple[tuple[int, int], tuple[int, int]]
    twins: tuple[I32, I32]
    marks: tuple[I8, I8]
    matched: Warp
    alignment: Alignment = "step"
    face: Face = "both"

    @property
    def lag(self) -> I64:
        """How much later the new trace is at each of the matched times, ns since the start of each step."""
        found: I64 = (self.matched.new - self.matched.new[0]) - (self.matched.base - self.matched.base[0])
        return found

    @property
    def offsets(self) -> list[int]:
        """What lays the starts of both steps at 0."""
        return [-self.windows[BASE][0], -self.windows[NEW][0]]

    def step(self, offsets: list[int]) -> tuple[int, int]:
        """From the start of the earlier step to the end of the later one, on the scene's clock."""
        times = [(start + offset, end + offset) for (start, end), offset in zip(self.windows, offsets, strict=True)]
        if self.alignment == "every":
            return times[BASE]
        return min(start for start, _ in times), max(end for _, end in times)
