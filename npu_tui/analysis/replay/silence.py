"""When the threads of Python begin or end nothing: at work outside of operations, or waiting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]


class Silence:
    """When threads of Python begin or end anything."""

    def __init__(self, trace: Trace, number: I64) -> None:
        """Of the threads that ``number`` numbers by lane."""
        slices = trace.slices
        # The slices of a lane stand together: no mask over all slices is needed.
        own = [
            (int(number[lane.index]), slice(lane.first, lane.last))
            for lane in trace.lanes
            if trace.layers[lane.layer].kind in ("python", "other") and lane.first < lane.last
        ]
        self._span = max((int(slices.end[part].max()) for _, part in own), default=-1) + 2
        keys = [times[part] + thread * self._span for thread, part in own for times in (slices.start, slices.end)]
        self._known = np.sort(np.concatenate([*keys, np.zeros(0, np.int64)]))

    def _keys(self, thread: I64, time: I64) -> I64:
        return thread * self._span + np.clip(time, 0, self._span - 1)

    def edges(self, thread: I64, low: I64, high: I64) -> I64:
        """How many slices of each ``thread`` begin or end in ``(low, high)``; (n,)."""
        return np.searchsorted(self._known, self._keys(thread, high), "left") - np.searchsorted(
            self._known, self._keys(thread, low), "right"
        )

    def last_edge(self, thread: I64, time: I64) -> I64:
        """The last beginning or end on each ``thread`` before ``time``, -1 without one; (n,)."""
        at = np.searchsorted(self._known, self._keys(thread, time), "left") - 1
        if not len(self._known):
            return np.full(len(time), -1, np.int64)
        own, found = np.divmod(self._known[np.maximum(at, 0)], self._span)
        return np.where((at >= 0) & (own == thread), found, -1)

    def gaps(self, least: int) -> tuple[I64, I64, I64]:
        """Thread, beginning and end of every silence of ``least`` ns or more between two edges; (m,) each."""
        # Two edges of different threads may be as far apart: they are told by their thread.
        long = np.flatnonzero(np.diff(self._known) >= least)
        thread, low = np.divmod(self._known[long], self._span)
        following, high = np.divmod(self._known[long + 1], self._span)
        same = thread == following
        return thread[same], low[same], high[same]
