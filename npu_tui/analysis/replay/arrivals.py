"""Who comes late to the collectives of a run, of the times at which every rank came."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.work.collectives.arrivals import Arrivals

I64 = npt.NDArray[np.int64]

UNKNOWN = -1
"""The rank of a peer that is not known."""
TOGETHER_NS = 300_000
"""Ranks that come within this time of each other come together: they run the same code and move as one."""
_NOTABLE = 0.05
"""An arrival within this share of a collective is part of it: this rank itself had to get ready."""
_HARDLY = 0.1
_FILLS = 0.9
"""A first receive of which this share is the filling of the pipeline is not late."""
_AS_LATE = 0.5


def late_arrivals(arrivals: Arrivals, elapsed: I64, fill: I64) -> Arrivals:
    """Those that a collective of ``elapsed`` ns waited for, beyond the ``fill`` of a pipeline; (count,) each."""
    least = np.maximum(_NOTABLE * elapsed, fill / _FILLS)
    found = arrivals.taken(arrivals.after > least[arrivals.owner])
    return Arrivals(found.count, found.owner, found.rank, np.minimum(found.after, elapsed[found.owner]))


def late_ranks(arrivals: Arrivals) -> frozenset[int]:
    """The fewest ranks without which hardly anything is left of the waiting, and all who are as late as they are."""
    late: set[int] = set()
    waited = left = int(arrivals.latest().sum())
    while left > _HARDLY * waited:
        last = arrivals.taken(~arrivals.of(frozenset(late))).last()
        left = int(last.after.sum())
        behind = last.taken(last.after > TOGETHER_NS)
        if not len(behind.rank) or left <= _HARDLY * waited:
            break
        ranks, code = np.unique(behind.rank, return_inverse=True)
        sums = np.zeros(len(ranks), np.int64)
        np.add.at(sums, code, behind.after)
        late.add(int(ranks[np.argmax(sums)]))  # of equals the first, which is the lowest
    if late:
        longest = int(arrivals.after[arrivals.of(frozenset(late))].max())
        # Of many that take turns each one's share is small.
        order = np.lexsort((-np.arange(len(arrivals.rank)), arrivals.after, arrivals.owner))
        last = arrivals.taken(order[np.flatnonzero(np.diff(arrivals.owner[order], append=-1))])
        late |= set(last.rank[(last.after > TOGETHER_NS) & (last.after >= _AS_LATE * longest)].tolist())
    return frozenset(late)
