"""How much of a window a lane is busy: the exact union of its slices over all its rows."""

from __future__ import annotations

import numpy as np

from npu_tui.trace.model import Trace
from npu_tui.view.spans import I64


class Cover:
    """The union of the slices of one lane as disjoint intervals ``start``..``end`` (ns)."""

    def __init__(self, trace: Trace, lane: int) -> None:
        home = trace.lanes[lane]
        bounds = trace.rows.offset[home.first_row : home.first_row + home.rows + 1]
        low, high = (int(bounds[0]), int(bounds[-1])) if home.rows else (0, 0)
        start, end = trace.rows.start[low:high], trace.rows.end[low:high]
        if home.rows > 1:
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        reach = np.maximum.accumulate(end)
        fresh = np.ones(len(start), np.bool_)
        fresh[1:] = start[1:] > reach[:-1]
        first = np.flatnonzero(fresh)
        self.start: I64 = start[first]
        self.end: I64 = reach[np.append(first[1:], len(start)) - 1] if len(first) else reach
        self._sum = np.zeros(len(first) + 1, np.int64)
        np.cumsum(self.end - self.start, out=self._sum[1:])

    def busy(self, start: int, end: int) -> int:
        """Nanoseconds of ``[start, end)`` that are covered."""
        return self._until(end) - self._until(start)

    def _until(self, time: int) -> int:
        count = int(np.searchsorted(self.start, time))
        total = int(self._sum[count])
        return total - max(int(self.end[count - 1]) - time, 0) if count else 0
