"""A change of the whole run, made only where the findings judge it."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.device import EVERYTHING
from npu_tui.analysis.replay import Change
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import Span, without
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import clipped, union


def within(facts: Facts, change: Change) -> Change:
    """``change`` without what it does in warm-up steps, outside of a range and in waits for requests: that stays."""
    unasked = [(low, high) for low, high, _ in facts.waits_for_requests]
    if facts.window == EVERYTHING and not unasked:
        return change
    start, end = facts.trace.slices.start, facts.trace.slices.end
    first = min((int(start[step.item]) for step in facts.steps), default=EVERYTHING.end)
    first = min(first, facts.window.start - facts.floor)
    last = EVERYTHING.end if facts.whole_steps else facts.window.end - facts.floor
    idle = union(*np.array(unasked, np.int64).reshape(-1, 2).T)

    def asked(span: Span) -> Span:
        low, high = clipped(*span, first, last)
        return without((low[high > low], high[high > low]), idle)

    def judged(items: I64) -> I64:
        return items[facts.window.holds(start[items])]

    # A wait before the first judged step, or into a time without requests, stays as it was recorded.
    dropped = [item for item in change.waits if start[item] < first or _before_idle(facts, int(end[item]), idle)]
    met = facts.collectives.item.tolist()
    return replace(
        change,
        host=tuple(replace(cut, span=asked(cut.span)) for cut in change.host),
        tasks=tuple(replace(cut, items=judged(cut.items)) for cut in change.tasks),
        waits=change.waits.difference(dropped),
        in_time=change.in_time if met else frozenset(),
        at=(change.at & frozenset(met) if change.at else frozenset(met)) if change.in_time else change.at,
    )


def _before_idle(facts: Facts, time: int, idle: Span) -> bool:
    """Whether nothing is launched between ``time`` and the next wait for a request: that ends no earlier then."""
    at = int(np.searchsorted(idle[0], time, "right"))
    if at == len(idle[0]) or facts.launches is None:
        return False
    made = facts.trace.links.source_time[facts.launches.link]
    return not bool(((made > time) & (made < idle[0][at])).any())
