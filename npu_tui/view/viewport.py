"""The viewport, which maps times to columns, and the history of views."""

from __future__ import annotations

from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

T = TypeVar("T")

BURST_SECONDS = 0.3
"""Moves within this time of each other are one entry of the history, as in MindStudio Insight."""


class Viewport(Struct, frozen=True):
    """``width`` columns over ``span`` ns; column i covers ``[edge(i), edge(i + 1))``.

    Edges are on a grid of ``span / width`` ns through ``origin`` ns, where the view began: panning by columns does not
    change the sums of a column, so nothing shimmers. ``first`` is the grid index of the left edge and may be negative.
    """

    first: int
    span: int
    width: int
    origin: int = 0

    @classmethod
    def around(cls, start: int, end: int, width: int) -> Viewport:
        """The viewport of ``[start, end)`` in ``width`` columns: sums over it are the same at any width."""
        return cls(0, max(end - start, width, 1), width, start)

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
        """All ``width + 1`` edges, ns, strictly ascending; a shared, read-only array."""
        return _column_edges(self)

    def column(self, time: int) -> int:
        """The column of ``time``; below 0 or at least ``width`` if it is outside."""
        column = (time - self.origin) * self.width // self.span - self.first
        # Edges round down, so the quotient may be one column off.
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

    def panned_from(self, before: Viewport) -> int:
        """The columns by which ``before`` was panned to get here; 0 where the two have none in common."""
        if (self.span, self.width) != (before.span, before.width) or abs(self.start - before.start) >= self.span:
            return 0
        return round((self.start - before.start) * self.width / self.span)

    def shifted(self, by: int) -> Viewport:
        """The same columns with all edges ``by`` ns later, for a clock that is ``by`` ns ahead."""
        return replace(self, origin=self.origin + by)

    def resized(self, width: int) -> Viewport:
        """The same times over ``width`` columns."""
        return Viewport.around(self.start, self.start + self.span, width)


@lru_cache(maxsize=16)
def _column_edges(view: Viewport) -> npt.NDArray[np.int64]:
    # Quotient and remainder separately: the product of a grid index and the span may exceed 64 bits.
    per_column, remainder = divmod(view.span, view.width)
    start, over = divmod(view.first * view.span, view.width)
    column = np.arange(view.width + 1, dtype=np.int64)
    edges: npt.NDArray[np.int64] = view.origin + start + column * per_column + (over + column * remainder) // view.width
    edges.setflags(write=False)
    return edges


class ViewHistory(Struct, Generic[T]):
    """The ``past`` and ``future`` places of undo and redo; the caller has the present one."""

    past: list[T] = []
    future: list[T] = []
    _last: float = float("-inf")

    def leave(self, place: T, now: float) -> None:
        """Record ``place``, which is left at ``now`` seconds; in a burst of moves only the first place is kept."""
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
