"""When the threads of Python begin or end nothing: at work outside of operations, or waiting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_NONE = np.zeros(0, np.int64)


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
        # Two sorted halves: starts stand in order but for threads with several lanes, and nobody needs them mixed.
        begun, ended = (
            [times[part] + thread * self._span for thread, part in own] for times in (slices.start, slices.end)
        )
        self._begun = np.sort(np.concatenate([*begun, _NONE]), kind="stable")
        self._ended = np.sort(np.concatenate([*ended, _NONE]))

    def _keys(self, thread: I64, time: I64) -> I64:
        return thread * self._span + np.clip(time, 0, self._span - 1)

    def edges(self, thread: I64, low: I64, high: I64) -> I64:
        """How many slices of each ``thread`` begin or end in ``(low, high)``; (n,)."""
        low, high = self._keys(thread, low), self._keys(thread, high)
        found = np.zeros(len(low), np.int64)
        for known in (self._begun, self._ended):
            found += np.searchsorted(known, high, "left") - np.searchsorted(known, low, "right")
        return found

    def last_edge(self, thread: I64, time: I64) -> I64:
        """The last beginning or end on each ``thread`` before ``time``, -1 without one; (n,)."""
        last = np.full(len(time), -1, np.int64)
        if not len(self._begun):
            return last
        for known in (self._begun, self._ended):
            at = np.searchsorted(known, self._keys(thread, time), "left") - 1
            own, found = np.divmod(known[np.maximum(at, 0)], self._span)
            last = np.maximum(last, np.where((at >= 0) & (own == thread), found, -1))
        return last

    def gaps(self, least: int) -> tuple[I64, I64, I64]:
        """Thread, beginning and end of every silence of ``least`` ns or more between two edges; (m,) each."""
        # Two edges of different threads may be as far apart: they are told by their thread.
        known = np.sort(np.concatenate((self._begun, self._ended)))
        long = np.flatnonzero(np.diff(known) >= least)
        thread, low = np.divmod(known[long], self._span)
        following, high = np.divmod(known[long + 1], self._span)
        same = thread == following
        return thread[same], low[same], high[same]
