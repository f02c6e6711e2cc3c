"""What belongs to one work of the host: operators between two launches, and copies before and after it.

Operators without a line that a host works through one after another are one piece of work where nothing is launched.
Of copies those belong to it that it works on, and that take out what comes of it.
"""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.code_lines import own_lines
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import COPY_NS, HALF
from npu_tui.analysis.path import Owner
from npu_tui.analysis.replay import NO_CHANGE, Change, HostCut
from npu_tui.rules.blame import waited_copies
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


def read_before(facts: Facts, owner: Owner, work: Span) -> I64:
    """The copies to the host that it waits for right before the work in ``work``: what that works on.

    With those that the function of ``owner`` waits for right before these, one after another.
    """
    every = right_before(facts, work), waited_copies(facts)
    read, waited = (np.setdiff1d(copies, _copies_to_device(facts)) for copies in every)
    waited = np.union1d(_copied_by(facts, owner, waited), read)
    waited = waited[np.argsort(facts.trace.slices.start[waited], kind="stable")]
    gap = facts.trace.slices.start[waited[1:]] - facts.trace.slices.end[waited[:-1]]
    batch = np.cumsum(np.append(0, gap >= COPY_NS))[: len(waited)]
    return np.sort(waited[np.isin(batch, batch[np.isin(waited, read)])])


def right_before(facts: Facts, work: Span) -> I64:
    """The copies that the host waits for right before the work in ``work``; ascending."""
    copies, begins = waited_copies(facts), np.sort(work[0])
    ended = facts.trace.slices.end[copies]
    following = np.append(begins, np.iinfo(np.int64).max)[np.searchsorted(begins, ended)]
    return np.sort(copies[following - ended < COPY_NS])


def sent_after(facts: Facts, owner: Owner, work: Span) -> I64:
    """The copies to the device that the function of ``owner`` makes right after its work: what comes out of that."""
    copies, ends = _copies_to_device(facts), np.sort(work[1])
    if not len(ends):
        return copies[:0]
    begun = facts.trace.slices.start[copies]
    at = np.searchsorted(ends, begun, "right") - 1
    return _copied_by(facts, owner, copies[(at >= 0) & (begun - ends[at] < COPY_NS)])


def _copied_by(facts: Facts, owner: Owner, copies: I64) -> I64:
    """Those of ``copies`` that the function of ``owner`` makes."""
    lines, own = own_lines(facts.trace, operation_of(facts.trace, copies)), owner.where
    mine = [own is not None and line is not None and line.function == own.function for line in lines]
    return copies[np.array(mine, np.bool_)]


def _copies_to_device(facts: Facts) -> I64:
    """The copies of the window that are known to go to the device; ascending."""
    copied = facts.inputs.copies()
    to_device = np.array([way.startswith("host to device") for way in copied.ways] + [False])
    items = np.sort(copied.item[to_device[copied.way]])
    return items[facts.window.holds(facts.trace.slices.start[items])]
