"""Levels of detail: cells of rows, the union of a lane, extremes of ranges, all without a look at every slice."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from npu_tui.native.cells import I64, Asked, Cells, Levels, cells
from npu_tui.trace.intervals import union
from npu_tui.trace.model import Rows, Trace
from npu_tui.view.viewport import Viewport


def rasterise(
    wanted: list[tuple[Rows | None, int, Viewport]], width: int, levels: Callable[[Rows], Levels]
) -> Cells:  # fmt: skip
    """The cells of the ``wanted`` (rows, row, view), ``width`` columns each; a row without ``Rows`` is empty.

    The view is on the clock of the row's trace. ``levels`` returns the (cached) longest-slice index of a ``Rows``.
    """
    drawn = [(rows, view) if rows is not None and _has_slices(rows, row) else None for rows, row, view in wanted]
    asked: list[Asked] = []
    for one, lines in groupby(enumerate(drawn), itemgetter(1)):
        if one is not None:
            which = [y for y, _ in lines]
            asked.append(Asked(levels(one[0]), which[0], [wanted[y][1] for y in which], one[1].edges()))
    return cells(asked, len(wanted), width)


def _has_slices(rows: Rows, row: int) -> bool:
    return 0 <= row < len(rows) and bool(rows.offset[row] < rows.offset[row + 1])


class Cover:
    """The union of the slices of one lane as disjoint intervals ``start``..``end`` (ns).

    The pieces of a lane's folded row are that union already, only cut where one slice takes over from another.
    """

    def __init__(self, trace: Trace, lane: int) -> None:
        shown_lane = trace.lanes[lane]
        folded = trace.folded.get(shown_lane.first_row)
        if folded is not None:
            self.start, self.end, self._sum = folded.start, folded.end, folded.busy
            return
        bounds = trace.rows.offset[shown_lane.first_row : shown_lane.first_row + shown_lane.rows + 1]
        low, high = (int(bounds[0]), int(bounds[-1])) if shown_lane.rows else (0, 0)
        self.start, self.end = union(trace.rows.start[low:high], trace.rows.end[low:high])
        self._sum = np.zeros(len(self.start) + 1, np.int64)
        np.cumsum(self.end - self.start, out=self._sum[1:])

    def busy(self, start: int, end: int) -> int:
        """How much of ``[start, end)`` is covered, ns."""
        until = []
        for time in (start, end):
            count = int(self.start.searchsorted(time))
            # The last interval that has begun may reach beyond the time.
            beyond = max(int(self.end[count - 1]) - time, 0) if count else 0
            until.append(int(self._sum[count]) - beyond)
        return until[1] - until[0]


_BLOCK = 16

Number = TypeVar("Number", bound=np.generic)


class Extremes(Generic[Number]):
    """The extreme of ranges of ``values``; ``extreme`` is ``np.maximum`` or ``np.minimum``.

    Blocks of 16 values are reduced once: a long range takes its blocks and up to 16 values at either end.
    """

    def __init__(self, values: npt.NDArray[Number], extreme: np.ufunc) -> None:
        self._values = values
        self._extreme = extreme
        blocks = np.arange(0, len(values), _BLOCK)
        self._blocks: npt.NDArray[Any] = extreme.reduceat(values, blocks) if len(blocks) else values

    def over(self, first: I64, last: I64) -> npt.NDArray[Number]:
        """The extreme of each range ``[first, last)``; ranges ascend, and none is empty."""
        # Both ends of a range are covered by windows of up to 16 values, which may overlap: extremes do not mind.
        longest = int((last - first).max(initial=1))
        window = np.arange(min(longest, _BLOCK))
        begin, end = first[:, None], last[:, None]
        extremes: npt.NDArray[Any] = self._extreme.reduce(self._values[np.minimum(begin + window, end - 1)], axis=1)
        if longest <= _BLOCK:
            return extremes
        ends = self._extreme.reduce(self._values[np.maximum(end - 1 - window, begin)], axis=1)
        extremes = self._extreme(extremes, ends)
        low, high = -(-first // _BLOCK), last // _BLOCK
        inner = np.flatnonzero(high > low)
        if len(inner):
            pairs = np.stack((low[inner], high[inner]), axis=1).ravel()
            # reduceat takes no index after the last block, which is where the last range may end.
            pairs = pairs[:-1] if pairs[-1] == len(self._blocks) else pairs
            extremes[inner] = self._extreme(extremes[inner], self._extreme.reduceat(self._blocks, pairs)[::2])
        return extremes
