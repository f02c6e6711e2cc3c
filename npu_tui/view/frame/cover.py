"""How much of a window a lane is busy: the exact union of its slices over all its rows."""

from __future__ import annotations

import numpy as np

from npu_tui.trace.intervals import union
from npu_tui.trace.model import Trace


class Cover:
    """The union of the slices of one lane as disjoint intervals ``start``..``end`` (ns).

    The pieces of a lane that was made one row of are that union, cut where another slice goes on.
    """

    def __init__(self, trace: Trace, lane: int) -> None:
        home = trace.lanes[lane]
        leaf = trace.folded.get(home.first_row)
        if leaf is not None:
            self.start, self.end, self._sum = leaf.start, leaf.end, leaf.busy
            return
        bounds = trace.rows.offset[home.first_row : home.first_row + home.rows + 1]
        low, high = (int(bounds[0]), int(bounds[-1])) if home.rows else (0, 0)
        self.start, self.end = union(trace.rows.start[low:high], trace.rows.end[low:high])
        self._sum = np.zeros(len(self.start) + 1, np.int64)
        np.cumsum(self.end - self.start, out=self._sum[1:])

    def busy(self, start: int, end: int) -> int:
        """Nanoseconds of ``[start, end)`` that are covered."""
        return self._until(end) - self._until(start)

    def _until(self, time: int) -> int:
        count = int(self.start.searchsorted(time))
        total = int(self._sum[count])
        return total - max(int(self.end[count - 1]) - time, 0) if count else total
