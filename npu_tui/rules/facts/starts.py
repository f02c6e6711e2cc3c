"""When the device has nothing to do before the first kernel of a step, or before a copy of unknown launch."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules.facts.facts import Facts
from npu_tui.rules.facts.spans import NOTHING, Span, length_of, without
from npu_tui.trace.model import BySlice

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
