"""How far the host is ahead of the device: launches in flight, lead, and when the device waited."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.launches.dispatch import Dispatch
from npu_tui.analysis.launches.origin import Pairs
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


def backlog(trace: Trace, pairs: Pairs) -> tuple[F64, I64, I64]:
    """Launches in flight over time: ``time`` (ns, ascending), the depth from there on, the pair that changed it.

    Each pair adds one when it reaches the device (``Pairs.arrival``) and takes it away at the end of its slice; (2n,)
    each. Where several change at one time, the depth of the last entry holds.
    """
    ends = trace.slices.end[trace.links.target_slice[pairs.link]].astype(np.float64)
    time = np.concatenate((pairs.arrival, ends))
    change = np.repeat([1, -1], len(ends))
    order = np.lexsort((change, time))
    return time[order], np.cumsum(change[order]), order % max(len(ends), 1)


def host_lead(trace: Trace, launches: Dispatch) -> F64:
    """How long before the device was ready for it each launch reached the device, ns; (n,).

    Negative where the device waited, not a number where nothing ran before.
    """
    reached = trace.links.target_time[launches.link] - launches.relative
    return np.where(launches.ready >= 0, launches.ready - reached, np.nan)


def waiting(launches: Dispatch) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
    """Start and end (ns) of every time the idle device waited for a launch, and whether that launch starved."""
    lost = np.rint(launches.lost).astype(np.int64)
    some = lost > 0
    return launches.ready[some], launches.ready[some] + lost[some], launches.starved[some]
