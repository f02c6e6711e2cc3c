"""What the job would take if some ranks worked less: its collectives replayed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.job.blame import Blame

I64 = npt.NDArray[np.int64]

_EARLY = np.iinfo(np.int64).min // 4


class Levels(Struct, frozen=True, eq=False):
    """The arrivals of ``blame`` by levels: no rank meets twice within one, so a level is replayed at once.

    ``order`` (n,) are the arrivals, those of level k at ``first[k]:first[k + 1]``.
    """

    blame: Blame
    order: I64
    first: I64

    @staticmethod
    def of(blame: Blame) -> Levels:
        """The lowest level for every collective that all its ranks have left the one before."""
        level = np.zeros(len(blame), np.int64)
        reached = np.zeros(len(blame.ranks), np.int64)
        bounds = blame.first.tolist()
        for number in range(len(blame)):
            own = blame.rank[bounds[number] : bounds[number + 1]]
            level[number] = found = reached[own].max()
            reached[own] = found + 1
        order = np.lexsort((blame.row, level[blame.row])) if len(blame) else np.zeros(0, np.int64)
        levels = level[blame.row[order]] if len(blame) else order
        return Levels(blame, order, np.searchsorted(levels, np.arange(int(level.max(initial=-1)) + 2)))

    def lengths(self, less: Sequence[I64], island: I64) -> I64:
        """How long the collectives take together, ns, with ``less`` work before each arrival, (n,), of each case.

        Max-plus: a collective begins with its last arrival, takes its transfer, and each rank leaves as much after that
        as it did; with nothing less the recorded times come out. Ranks of several islands (ranks,) have no common time:
        the longest counts, and every case shortens its own. (cases, islands).
        """
        blame = self.blame
        cases, ranks = len(less), len(blame.ranks)
        less_work = np.stack(less) if cases else np.zeros((0, len(blame.row)), np.int64)
        islands = int(island.max(initial=0)) + 1
        begun = np.full(islands, np.iinfo(np.int64).max)
        inside = ~blame.outside
        np.minimum.at(begun, island[blame.rank[inside]], blame.start[inside])
        left = np.broadcast_to(begun[island], (cases, ranks)).copy()
        for low, high in zip(self.first[:-1].tolist(), self.first[1:].tolist(), strict=True):
            own = self.order[low:high]
            rank, row = blame.rank[own], blame.row[own]
            start = np.where(blame.has_gap[own], left[:, rank] + blame.gap[own], blame.start[own]) - less_work[:, own]
            start[:, blame.at_most[own]] = _EARLY
            begins = np.flatnonzero(np.append(True, np.diff(row) != 0))
            sizes = np.diff(np.append(begins, len(row)))
            come = np.repeat(np.maximum.reduceat(start, begins, axis=1), sizes, axis=1)
            left[:, rank] = come + np.maximum(blame.end[own] - blame.come[row], 0)
        lengths = np.zeros((cases, islands), np.int64)
        for each in range(islands):
            lengths[:, each] = left[:, island == each].max(axis=1) - begun[each]
        return np.maximum(lengths, 0)
