"""Where the user has been: undo and redo of views, one entry per burst of keys."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

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
