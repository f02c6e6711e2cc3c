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
        python = np.array([trace.layers[lane.layer].kind in ("python", "other") for lane in trace.lanes] + [False])
        own = np.flatnonzero(python[slices.lane])
        thread = np.concatenate([number[slices.lane[own]]] * 2)
        time = np.concatenate((slices.start[own], slices.end[own]))
        order = np.lexsort((time, thread))
        self._thread, self._time = thread[order], time[order]
        self._span = int(time.max()) + 2 if len(time) else 1

    def _keys(self, thread: I64, time: I64) -> I64:
        return thread * self._span + np.clip(time, 0, self._span - 1)

    def edges(self, thread: I64, low: I64, high: I64) -> I64:
        """How many slices of each ``thread`` begin or end in ``(low, high)``; (n,)."""
        keys = self._keys(self._thread, self._time)
        return np.searchsorted(keys, self._keys(thread, high), "left") - np.searchsorted(
            keys, self._keys(thread, low), "right"
        )

    def last_edge(self, thread: I64, time: I64) -> I64:
        """The last beginning or end on each ``thread`` before ``time``, -1 without one; (n,)."""
        keys = self._keys(self._thread, self._time)
        at = np.searchsorted(keys, self._keys(thread, time), "left") - 1
        safe = np.maximum(at, 0)
        known = (at >= 0) & (self._thread[safe] == thread) if len(keys) else np.zeros(len(time), np.bool_)
        return np.where(known, self._time[safe] if len(keys) else -1, -1)

    def gaps(self, least: int) -> tuple[I64, I64, I64]:
        """Thread, beginning and end of every silence of ``least`` ns or more between two edges; (m,) each."""
        long = np.flatnonzero((np.diff(self._time) >= least) & (self._thread[1:] == self._thread[:-1]))
        return self._thread[long], self._time[long], self._time[long + 1]
