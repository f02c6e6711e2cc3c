"""When ranks came to collectives, as columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Arrivals(Struct, frozen=True):
    """``rank`` came to the collective ``owner`` (0 … ``count`` - 1, ascending) ``after`` ns after this rank; (n,)."""

    count: int
    owner: I64
    rank: I64
    after: I64

    def taken(self, chosen: Bools | I64) -> Arrivals:
        """Some of them."""
        return Arrivals(self.count, self.owner[chosen], self.rank[chosen], self.after[chosen])

    def of(self, ranks: frozenset[int]) -> Bools:
        """Which are those of ``ranks``; (n,)."""
        found: Bools = np.isin(self.rank, np.array(sorted(ranks), np.int64))
        return found

    def latest(self) -> I64:
        """How long after this rank the last one came to each collective, ns; 0 without one after it; (count,)."""
        found = np.zeros(self.count, np.int64)
        np.maximum.at(found, self.owner, self.after)
        return found

    def last(self) -> Arrivals:
        """The one who came last to each collective that has any, of several the highest rank."""
        order = np.lexsort((self.rank, self.after, self.owner))
        return self.taken(order[np.flatnonzero(np.diff(self.owner[order], append=-1))])
