"""Operators without a line that a host works through one after another: one piece of work where nothing is launched."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.limits import HALF
from npu_tui.analysis.path import Owner
from npu_tui.analysis.replay import NO_CHANGE, Change, HostCut
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import Span, together, without
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import union


def in_one_stretch(facts: Facts, owners: tuple[Owner, ...]) -> dict[int, int]:
    """The number of the first of ``owners`` beside which each operator works, where no frames of Python are recorded.

    Both do most of their work between the same two launches of their thread, so that one thing comes of them.
    """
    if facts.tasks is None or "python_function" in facts.trace.categories:
        return {}
    launched, groups = np.unique(facts.tasks.launched), dict[int, dict[tuple[int, int], int]]()
    first: dict[int, int] = {}
    for number, owner in enumerate(owners):
        if owner.where is not None or "::" not in owner.name or len(owner.calls) > 1:
            continue
        own = _times(launched, owner.change or NO_CHANGE)
        least = HALF * sum(own.values())
        shared = (at for at, times in groups.items() if sum(own[key] for key in own.keys() & times) > least)
        first[number] = at = next(shared, number)
        groups[at] = own | groups.get(at, {})
    return first


def _times(launched: I64, change: Change) -> dict[tuple[int, int], int]:
    """How long ``change`` is at work between two launches, by thread and how many were made before, ns."""
    times: dict[tuple[int, int], int] = {}
    for cut in change.host:
        start, end = cut.span
        for at, time in zip(np.searchsorted(launched, end).tolist(), (end - start).tolist(), strict=True):
            times[cut.thread, at] = times.get((cut.thread, at), 0) + time
    return times


def whole_stretches(facts: Facts, change: Change, others: Span) -> Change:
    """``change`` with what lies between its parts where nothing is launched and they are most of it; not ``others``.

    Where no frames are recorded that is what the program does there.
    """
    if facts.tasks is None:
        return change
    launched, cuts = np.unique(facts.tasks.launched), []
    for thread in {cut.thread for cut in change.host}:
        start, end = together(*(cut.span for cut in change.host if cut.thread == thread))
        at = np.unique(np.searchsorted(launched, end), return_inverse=True)[1]
        first = np.flatnonzero(np.append(True, np.diff(at) > 0))
        low, high = start[first], np.maximum.reduceat(end, first)
        most = np.bincount(at, end - start) > HALF * (high - low)
        cuts.append(HostCut(thread, together((start, end), without(union(low[most], high[most]), others))))
    return change | Change(host=tuple(cuts))
