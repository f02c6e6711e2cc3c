"""Copies that belong to work of the host: what it works on, and what comes out of it."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.code_lines import own_lines
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import COPY_NS
from npu_tui.analysis.path import Owner
from npu_tui.rules.blame import waited_copies
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import Span
from npu_tui.trace.arrays import I64


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
