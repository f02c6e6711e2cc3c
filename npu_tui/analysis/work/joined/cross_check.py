"""Our figures against those of the profiler's own files, row by row."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

Key = tuple[str, ...]
Figures = Mapping[str, int | None]
"""Figures of one row by name: counts, times in ns, memory in bytes."""


class Difference(Struct, frozen=True):
    """The figure ``name`` of the row ``key``: ``ours`` and what the file says, counts or ns."""

    key: Key
    name: str
    ours: int | None
    theirs: int

    @property
    def away(self) -> float:
        """How far apart they are, infinitely where we have none."""
        return float("inf") if self.ours is None else abs(self.ours - self.theirs)


class Check(Struct, frozen=True):
    """One file: its ``rows``, how many of them have a row of ours, and what differs, the farthest first.

    ``compared`` counts figures. ``ours_only`` are rows of ours that the file does not have.
    """

    file: str
    rows: int
    matched: int
    compared: int
    differing: int
    differences: tuple[Difference, ...]
    ours_only: int


def cross_check(
    file: str, ours: Mapping[Key, Figures], theirs: Mapping[Key, Figures], tolerance: Mapping[str, int]
) -> Check:
    """The rows of both by key; figures of ``tolerance`` (ns) may differ by that, others must be equal.

    A figure that either side does not have is not compared; a row that we do not have differs.
    """
    found: list[Difference] = []
    differing, compared = 0, 0
    for key, figures in theirs.items():
        own = ours.get(key)
        if own is None:
            differing += 1
            found += [Difference(key, name, None, value) for name, value in figures.items() if value is not None][:1]
            continue
        away = []
        for name, value in figures.items():
            mine = own.get(name)
            if mine is None or value is None:
                continue
            compared += 1
            if abs(mine - value) > tolerance.get(name, 0):
                away.append(Difference(key, name, mine, value))
        differing += bool(away)
        found += away
    found.sort(key=lambda each: -each.away)
    matched = sum(key in ours for key in theirs)
    return Check(file, len(theirs), matched, compared, differing, tuple(found), len(ours.keys() - theirs.keys()))
