"""The calls of all ranks as one table of columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.job.model import Call, Calls, RankProfile

I64 = npt.NDArray[np.int64]


class CallTable(Struct, frozen=True, eq=False):
    """Every call, by rank and start; (n,) each but ``kinds``, which ``kind`` indexes, and ``first`` (ranks + 1,).

    ``rank`` is the place of the rank among ``ranks``, whose calls stand from ``first[place]`` on. Times are ns since
    1970 on the rank's own clock.
    """

    ranks: tuple[int, ...]
    calls: tuple[Calls, ...]
    kinds: tuple[tuple[str, str, str], ...]
    first: I64
    rank: I64
    kind: I64
    ordinal: I64
    start: I64
    end: I64
    pair: I64

    def call(self, number: int) -> Call:
        """Row ``number`` as an object."""
        place = int(self.rank[number])
        return self.calls[place][number - int(self.first[place])]

    def name(self, number: int) -> str:
        """What the profiler calls row ``number``."""
        place = int(self.rank[number])
        return self.calls[place].name[number - int(self.first[place])]


def call_table(ranks: Sequence[RankProfile]) -> CallTable:
    """The calls of ``ranks`` in their order."""
    calls = tuple(each.calls if isinstance(each.calls, Calls) else Calls.of(each.calls) for each in ranks)
    codes: dict[tuple[str, str, str], int] = {}
    kinds = [
        np.array([codes.setdefault(kind, len(codes)) for kind in own.kinds] or [0], np.int64)[own.kind] for own in calls
    ]
    lengths = np.array([len(own) for own in calls], np.int64)
    nothing = np.zeros(0, np.int64)
    return CallTable(
        tuple(profile.rank for profile in ranks),
        calls,
        tuple(codes),
        np.concatenate(([0], np.cumsum(lengths))),
        np.repeat(np.arange(len(calls)), lengths),
        np.concatenate([nothing, *kinds]),
        np.concatenate([nothing, *(own.ordinal for own in calls)]),
        np.concatenate([nothing, *(own.start for own in calls)]),
        np.concatenate([nothing, *(own.end for own in calls)]),
        np.concatenate([nothing, *(own.pair for own in calls)]),
    )
