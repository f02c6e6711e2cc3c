"""Whether a process may not run until the next period of its CPU limit: then all of its threads stop."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.device import HOST
from npu_tui.analysis.limits import A_PART, AWAKE_NS, HALF, LONG_NS, SOME
from npu_tui.rules.blame import sync_calls
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import NOTHING, Span
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.intervals import union

PERIOD_NS = 100_000_000
"""The period of a CPU limit: cpu.max and cpu.cfs_period_us of Linux by default (sched-bwc), which containers keep."""


@once_per_device
def stops(facts: Facts) -> Span:
    """When no thread of the process begins or ends anything, until moments that are whole periods of a limit apart.

    On the clock of the host; nothing where that may be chance.
    """
    start, end = _silences(facts)
    on_time = _on_time(end)
    marks = np.array([step.item for step in facts.steps], np.int64)
    stepping = _on_time(facts.trace.slices.end[marks]).sum() > HALF * len(marks)  # steps of that length end so, too
    if on_time.sum() < max(SOME, HALF * len(on_time)) or stepping:
        return NOTHING
    return start[on_time], end[on_time]


def _silences(facts: Facts) -> Span:
    """When nothing of the host begins or ends for a part of a period, on its clock, but for waits that last as long."""
    slices = facts.trace.slices
    items = facts.named(HOST, lambda name: True)
    edges = np.unique(np.concatenate((slices.start[items], slices.end[items])))
    edges = edges[facts.window.holds(edges + facts.floor)]
    gap = np.diff(edges)
    long = np.flatnonzero((gap >= LONG_NS) & (gap < PERIOD_NS))
    start, end = edges[long], edges[long + 1]
    waits = union(*(edge[sync_calls(facts)] for edge in (slices.start, slices.end)))
    at = np.searchsorted(waits[0], start, "right") - 1
    waited = (at >= 0) & (end <= np.append(waits[1], 0)[at])
    start, end = start[~waited], end[~waited]
    most = end - start >= A_PART * (end - start).max(initial=0)  # shorter ones are those of calls
    return start[most], end[most]


def _on_time(moments: I64) -> Bools:
    """Which of ``moments`` are whole periods apart from most others that are so, as closely as threads wake; (n,)."""
    if not len(moments):
        return np.zeros(0, np.bool_)
    phase, within = moments % PERIOD_NS, 2 * AWAKE_NS
    ordered = np.sort(phase)
    count = np.searchsorted(np.append(ordered, ordered + PERIOD_NS), ordered + within, "right") - np.arange(
        len(ordered)
    )
    return np.asarray((phase - ordered[count.argmax()]) % PERIOD_NS <= within)
