"""The visible window of time, zooms and pans, and the way back."""

from __future__ import annotations

from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.native.cells import I64, spread


class Viewport(Struct, frozen=True):
    """``width`` columns over ``span`` ns; column i covers ``[edge(i), edge(i + 1))``.

    Edges lie on one grid of ``span / width`` ns through ``origin`` ns, so that panning by whole columns never changes
    what a column sums up (no shimmer). ``first`` is the grid index of the left edge and may be negative.
    """

    first: int
    span: int
    width: int
    origin: int = 0

    @classmethod
    def around(cls, start: int, end: int, width: int) -> Viewport:
        """The viewport of ``width`` columns whose left edge is the grid point at or before ``start``."""
        span = max(end - start, width, 1)
        first = start * width // span
        # The next grid point may lie past ``start`` and yet round down to it.
        return cls(first + ((first + 1) * span // width <= start), span, width)

    def edge(self, column: int) -> int:
        """Left edge of ``column``, ns."""
        return self.origin + (self.first + column) * self.span // self.width

    @property
    def start(self) -> int:
        """Left edge of the first column, ns."""
        return self.edge(0)

    @property
    def end(self) -> int:
        """Right edge of the last column, ns."""
        return self.edge(self.width)

    def edges(self) -> npt.NDArray[np.int64]:
        """All ``width + 1`` edges, ns, strictly ascending; read-only, as all who ask for the same ones share them."""
        return _edges(self)

    def column(self, time: int) -> int:
        """The column that holds ``time``; below 0 or at least ``width`` when it is outside."""
        column = (time - self.origin) * self.width // self.span - self.first
        while self.edge(column + 1) <= time:
            column += 1
        while self.edge(column) > time:
            column -= 1
        return column

    def columns(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The columns of ``times``; -1 left of the viewport, ``width`` at or right of its end."""
        return np.searchsorted(self.edges(), times, "right") - 1

    def panned(self, columns: int) -> Viewport:
        """The viewport moved right by ``columns`` (left if negative)."""
        return replace(self, first=self.first + columns)

    def shifted(self, by: int) -> Viewport:
        """The same columns with all edges ``by`` ns later: what a clock that is ``by`` ns ahead shows in them."""
        return replace(self, origin=self.origin + by)

    def resized(self, width: int) -> Viewport:
        """The same times over ``width`` columns."""
        start = self.start - self.origin
        return Viewport.around(start, start + self.span, width).shifted(self.origin)


@lru_cache(maxsize=16)
def _edges(view: Viewport) -> npt.NDArray[np.int64]:
    # Whole and rest apart: the product of a grid index and the span need not fit 64 bits.
    whole, rest = divmod(view.span, view.width)
    start, over = divmod(view.first * view.span, view.width)
    column = np.arange(view.width + 1, dtype=np.int64)
    found: npt.NDArray[np.int64] = view.origin + start + column * whole + (over + column * rest) // view.width
    found.setflags(write=False)
    return found


__all__ = ["I64", "spread"]


T = TypeVar("T")

BURST_SECONDS = 0.3
"""Moves that follow each other within this time are one entry, as in MindStudio Insight."""


class History(Struct, Generic[T]):
    """``past`` and ``future`` places; the present one is the caller's."""

    past: list[T] = []
    future: list[T] = []
    _last: float = float("-inf")

    def leave(self, place: T, now: float) -> None:
        """Note that ``place`` is about to be left at ``now`` seconds; within a burst only its first place counts."""
        if now - self._last > BURST_SECONDS and (not self.past or self.past[-1] != place):
            self.past.append(place)
        self._last = now
        self.future.clear()

    def undo(self, present: T) -> T | None:
        """The place before ``present``, or None."""
        self._last = float("-inf")
        if not self.past:
            return None
        self.future.append(present)
        return self.past.pop()

    def redo(self, present: T) -> T | None:
        """The place that the last ``undo`` left, or None."""
        self._last = float("-inf")
        if not self.future:
            return None
        self.past.append(present)
        return self.future.pop()
