"""Pauses of the device by when they come: before the first kernel of a step, or of one length after kernels."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules.facts.blame import LINKS_FEWEST
from npu_tui.rules.facts.facts import Facts
from npu_tui.rules.facts.spans import I64, NOTHING, Span, length_of, without
from npu_tui.trace.arrays import BySlice
from npu_tui.trace.intervals import union

STEP_START_SHARE = Threshold("step_start_share", 0.05)


def before_first_kernels(facts: Facts) -> Span:
    """From the start of each step to the first compute slice or collective after it, where the device is idle."""
    start = facts.working[0]
    items = np.array([step.item for step in facts.steps], np.int64)
    begin = facts.trace.slices.start[items] + facts.clocks_apart
    at = np.searchsorted(start, begin)
    there = at < len(start)
    return without((begin[there], start[at[there]]), facts.working)


def start_share(facts: Facts, starts: Span) -> float:
    """The share of a step that passes before its first kernel, which are ``starts``."""
    return length_of(starts) / facts.count / facts.step_ns if facts.step_ns else 0.0


def before_late_copies(facts: Facts) -> Span:
    """Free up to a copy of unknown launch, as older chips have them, where what follows it was launched later.

    The host launches in order: such a copy had not been launched before either.
    """
    split, device, pairs = facts.part.gaps, facts.part.slices, facts.part.pairs
    if split is None or device is None or pairs is None:
        return NOTHING
    own = np.flatnonzero(~split.linked)
    if not len(own):
        return NOTHING
    slices, links = facts.trace.slices, facts.trace.links
    busy = np.flatnonzero(device.busy)
    busy = busy[np.argsort(slices.start[busy], kind="stable")]
    pair = BySlice(links.target_slice[pairs.link], np.arange(len(pairs.link))).of(busy)
    launch = np.append(pairs.launch, np.nan)[pair]
    known, launch = busy[~np.isnan(launch)], launch[~np.isnan(launch)]
    at, behind = (np.searchsorted(slices.start[each], split.start[own]) for each in (busy, known))
    there = (at < len(busy)) & (behind < len(known))
    own, at, behind = own[there], at[there], behind[there]
    begin = slices.start[busy[at]]
    late = device.copy[busy[at]] & (begin <= split.end[own]) & (launch[behind] >= begin)
    return facts.cut((split.start[own[late]], begin[late]))


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
