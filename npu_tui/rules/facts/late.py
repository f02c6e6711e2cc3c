"""Which ranks come late to the collectives of a run, and for how long this rank waits for them alone."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.collectives import Collective
from npu_tui.analysis.replay_device import fill_of, late_arrivals, late_ranks, pipeline_fills, unknown_waits
from npu_tui.rules.facts.facts import Facts
from npu_tui.rules.facts.spans import NOTHING, Span, both, length_of

SEVERAL = 3
"""So many late ranks take turns, where none is late in most cases."""
_IN_MOST = 0.5


class Case(Struct, frozen=True):
    """A collective at which only late ranks were missing: ``rank`` came last, ``excess`` ns after all in time."""

    collective: Collective
    rank: int
    excess: int


class Late(Struct, frozen=True):
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
    slices, found = facts.trace.slices, facts.collectives
    fill = fill_of(fills(facts), found.item)
    seen = found.arrivals
    arrivals = late_arrivals(seen, found.elapsed, fill)
    ranks = late_ranks(arrivals)
    others = np.maximum(seen.taken(~seen.of(ranks)).latest(), fill)
    last = arrivals.last()
    last = last.taken(last.of(ranks) & (last.after > others[last.owner]))
    if not len(last.rank):
        return None
    begin = slices.start[found.item[last.owner]]
    low, high = begin + others[last.owner], begin + last.after
    rows = found.at(last.owner), last.rank.tolist(), (high - low).tolist()
    cases = [Case(each, rank, excess) for each, rank, excess in zip(*rows, strict=True)]
    waited: dict[int, int] = {}
    for case in cases:
        waited[case.rank] = waited.get(case.rank, 0) + case.excess
    lateness = {rank: int(arrivals.after[arrivals.rank == rank].sum()) for rank in ranks}
    order = tuple(sorted(ranks, key=lambda rank: (-waited.get(rank, 0), -lateness[rank], rank)))
    total = sum(waited.values())
    return Late(
        order,
        tuple(cases),
        both((low, high), facts.exposed),
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
    found = unknown_waits(facts.trace, facts.collectives)
    if not found:
        return NOTHING
    start = facts.trace.slices.start[list(found)]
    span = both((start, start + np.array(list(found.values()), np.int64)), facts.exposed)
    return span if length_of(span) else NOTHING
