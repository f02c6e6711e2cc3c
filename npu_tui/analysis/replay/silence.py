"""When the threads of Python begin or end nothing: at work outside of operations, or waiting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.replay.loops import Loops
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_NONE = np.zeros(0, np.int64)


class Silence:
    """When threads of Python begin or end anything."""

    def __init__(self, trace: Trace, number: I64, loops: Loops) -> None:
        """Of the threads that ``number`` numbers by lane."""
        self._slices = trace.slices
        self._loops = loops
        # The slices of a lane stand together: no mask over all slices is needed.
        self._parts: dict[int, list[slice]] = {}
        for lane in trace.lanes:
            if trace.layers[lane.layer].kind in ("python", "other") and lane.first < lane.last:
                self._parts.setdefault(int(number[lane.index]), []).append(slice(lane.first, lane.last))
        self._known: dict[int, tuple[I64, I64]] = {}

    def _edges_of(self, thread: int) -> tuple[I64, I64]:
        """Starts and ends of the slices of a thread, each sorted: nobody needs them mixed."""
        if thread not in self._known:
            parts = self._parts.get(thread, [])
            begun, ended = ([times[part] for part in parts] for times in (self._slices.start, self._slices.end))
            ended = [self._loops.ascending_ends(*times) for times in zip(begun, ended, strict=True)]
            self._known[thread] = _merged(begun), _merged(ended)
        return self._known[thread]

    def edges(self, thread: I64, low: I64, high: I64) -> I64:
        """How many slices of each ``thread`` begin or end in ``(low, high)``; (n,)."""
        found = np.zeros(len(low), np.int64)
        for number in np.unique(thread).tolist():
            own = np.flatnonzero(thread == number)
            for known in self._edges_of(number):
                found[own] += np.searchsorted(known, high[own], "left") - np.searchsorted(known, low[own], "right")
        return found

    def last_edge(self, thread: I64, time: I64) -> I64:
        """The last beginning or end on each ``thread`` before ``time``, -1 without one; (n,)."""
        last = np.full(len(time), -1, np.int64)
        for number in np.unique(thread).tolist():
            own = np.flatnonzero(thread == number)
            for known in self._edges_of(number):
                at = np.searchsorted(known, time[own], "left") - 1
                own, at = own[at >= 0], at[at >= 0]
                last[own] = np.maximum(last[own], known[at])
        return last

    def gaps(self, least: int) -> tuple[I64, I64, I64]:
        """Thread, beginning and end of every silence of ``least`` ns or more between two edges; (m,) each."""
        found = [(_NONE, _NONE, _NONE)]
        for number in sorted(self._parts):
            known = np.sort(np.concatenate(self._edges_of(number)))
            long = np.flatnonzero(np.diff(known) >= least)
            found.append((np.full(len(long), number), known[long], known[long + 1]))
        thread, low, high = (np.concatenate(each) for each in zip(*found, strict=True))
        return thread, low, high


def _merged(parts: list[I64]) -> I64:
    """Columns that ascend as one that does."""
    return parts[0] if len(parts) == 1 else np.sort(np.concatenate([*parts, _NONE]), kind="stable")
