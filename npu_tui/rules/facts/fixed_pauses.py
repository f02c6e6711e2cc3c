"""Pauses of one length after kernels although the next was launched long before, as a profiler can cause them."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules.facts.blame import LINKS_FEWEST
from npu_tui.rules.facts.facts import Facts
from npu_tui.rules.facts.spans import I64, Span, length_of
from npu_tui.trace.intervals import union
from npu_tui.trace.model import BySlice

PROFILER_GAP_LOW_US = Threshold("profiler_gap_low_us", 80.0)
PROFILER_GAP_HIGH_US = Threshold("profiler_gap_high_us", 115.0)
PROFILER_SHARE = Threshold("profiler_share", 0.03)

_NO_GAP_FROM_US = 5.0
_CROWD = 0.5


class FixedPauses(Struct, frozen=True):
    """``count`` pauses of ``all`` after kernels are of nearly one length, ``median`` ns; ``span`` is when they are."""

    count: int
    all: int
    median: float
    span: Span


def fixed_pauses(facts: Facts) -> FixedPauses | None:
    """The pauses of the window, None where they do not crowd or take too little to speak of."""
    return facts.kept(_fixed_pauses)


def _fixed_pauses(facts: Facts) -> FixedPauses | None:
    limits = facts.limits
    if facts.launches is None or facts.part.slices is None:
        return None
    gap, before, after = _gaps(facts)
    low, high = limits[PROFILER_GAP_LOW_US] * 1000, limits[PROFILER_GAP_HIGH_US] * 1000
    crowd = (gap >= low) & (gap <= high)
    between = (gap >= _NO_GAP_FROM_US * 1000) & (gap < low)
    count = int(crowd.sum())
    # A cluster, not the tail of something else: most of the tasks, and hardly any between zero and it.
    if count < limits[LINKS_FEWEST] or count < _CROWD * len(gap) or between.sum() > 0.05 * count:
        return None
    span = facts.cut(union(facts.trace.slices.end[before[crowd]], facts.trace.slices.start[after[crowd]]))
    if facts.share(length_of(span)) < limits[PROFILER_SHARE]:
        return None
    return FixedPauses(count, len(gap), float(np.median(gap[crowd])), span)


def _gaps(facts: Facts) -> tuple[I64, I64, I64]:
    """Pauses (ns) before kernels that were launched while the one ahead on their stream ran, and both kernels."""
    slices, own = facts.trace.slices, facts.launches
    device = facts.part.slices
    assert own is not None
    assert device is not None
    busy = np.flatnonzero(device.compute | device.copy)  # by lane and start, as all slices
    same = slices.lane[busy[1:]] == slices.lane[busy[:-1]]
    target = facts.target
    before = BySlice(busy[1:][same], busy[:-1][same]).of(target)
    arrival = facts.trace.links.target_time[own.link] - own.relative
    known = (before >= 0) & device.compute[np.maximum(before, 0)]
    known &= arrival <= slices.end[np.maximum(before, 0)]
    target, before = target[known], before[known]
    return np.maximum(slices.start[target] - slices.end[before], 0), before, target
