"""Which ranks come late to the collectives of a run, and for how long this rank waits for them alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npu_tui.analysis.findings.facts.facts import Facts
from npu_tui.analysis.findings.facts.spans import NOTHING, Span, both, length_of
from npu_tui.analysis.replay.peers import late_arrivals, late_ranks, unknown_waits
from npu_tui.analysis.replay.pipeline import pipeline_fills
from npu_tui.analysis.work.collectives.communication import Collective

SEVERAL = 3
"""So many late ranks take turns, where none is late in most cases."""
_IN_MOST = 0.5


@dataclass(frozen=True, slots=True)
class Case:
    """A collective at which only late ranks were missing: ``rank`` came last, ``excess`` ns after all in time."""

    collective: Collective
    rank: int
    excess: int


@dataclass(frozen=True, slots=True)
class Late:
    """``ranks`` that come late, the one that was waited for longest first, in ``cases``.

    ``span`` is the exposed time in which nobody else was missing. ``wandering`` tells that none of them is late in most
    cases, ``neighbours`` that this rank sees only those beside it.
    """

    ranks: tuple[int, ...]
    cases: tuple[Case, ...]
    span: Span
    wandering: bool
    neighbours: bool


def late(facts: Facts) -> Late | None:
    """Who is late; None where no task names a peer or nobody is."""
    return facts.kept(_late)


def _late(facts: Facts) -> Late | None:
    slices = facts.trace.slices
    known = [each for each in facts.collectives if each.arrivals is not None]
    filling = fills(facts)
    arrivals = [late_arrivals(each.arrivals or [], each.elapsed, filling.get(each.item, 0)) for each in known]
    ranks = late_ranks(arrivals)
    cases: list[Case] = []
    low, high = [], []
    for each, own in zip(known, arrivals, strict=True):
        after, rank = max(((after, rank) for rank, after in own), default=(0, -1))
        others = max((other for number, other in each.arrivals or [] if number not in ranks), default=0)
        others = max(others, filling.get(each.item, 0))
        if rank not in ranks or after <= max(others, 0):
            continue
        begin = int(slices.start[each.item])
        cases.append(Case(each, rank, after - max(others, 0)))
        low.append(begin + max(others, 0))
        high.append(begin + after)
    if not cases:
        return None
    waited: dict[int, int] = {}
    for case in cases:
        waited[case.rank] = waited.get(case.rank, 0) + case.excess
    lateness = {rank: sum(after for own in arrivals for number, after in own if number == rank) for rank in ranks}
    order = tuple(sorted(ranks, key=lambda rank: (-waited.get(rank, 0), -lateness[rank], rank)))
    total = sum(waited.values())
    return Late(
        order,
        tuple(cases),
        both((np.array(low, np.int64), np.array(high, np.int64)), facts.exposed),
        len(order) >= SEVERAL and waited.get(order[0], 0) < _IN_MOST * total,
        sum(case.excess for case in cases if case.collective.neighbours_only) > _IN_MOST * total,
    )


def fills(facts: Facts) -> dict[int, int]:
    """How long first receives wait for a pipeline to fill, ns by slice: nobody's fault."""
    return facts.kept(_fills)


def _fills(facts: Facts) -> dict[int, int]:
    return pipeline_fills(facts.trace, facts.collectives, len(facts.steps))


def fill_span(facts: Facts) -> Span:
    """The exposed time in which first receives wait for a pipeline to fill."""
    filling = fills(facts)
    start = facts.trace.slices.start[list(filling)].astype(np.int64)
    return both((start, start + np.array(list(filling.values()), np.int64)), facts.exposed)


def unknown_span(facts: Facts) -> Span:
    """The exposed time in which collectives of unknown arrivals waited, by what their siblings take."""
    sizes = {each.item: each.size for each in facts.collectives if each.size is not None}
    found = unknown_waits(facts.trace, facts.collectives, sizes)
    if not found:
        return NOTHING
    start = facts.trace.slices.start[list(found)]
    span = both((start, start + np.array(list(found.values()), np.int64)), facts.exposed)
    return span if length_of(span) else NOTHING
