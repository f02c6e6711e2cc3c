"""The first receive of a step in a pipeline: it waits for the stages before to fill, whoever is late."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.work.collectives.collective import Collective, Collectives
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_FEWEST_PASSES = 3


def pipeline_fills(trace: Trace, collectives: Collectives, steps: int) -> dict[int, int]:
    """How long the first receive of each of ``steps`` steps would wait if no stage was slower than this one, ns.

    By slice. Of the wait for the first pass as large a part is the slow stage's as of every later pass, and each stage
    before this one needs no more than a pass. Only where every step receives as often from the same rank.
    """
    rows: dict[tuple[int, int, int], list[Collective]] = {}
    receives = np.array([_receives(kind) for kind in collectives.types], np.bool_)[collectives.type]
    chosen = np.flatnonzero(
        receives & collectives.has_arrivals & collectives.waits.known & (collectives.waits.peer >= 0)
    )
    kinds = collectives.type[chosen].tolist()
    for each, kind in zip(collectives.at(chosen), kinds, strict=True):
        rows.setdefault((int(trace.slices.lane[each.item]), kind, each.peer or 0), []).append(each)
    found: dict[int, int] = {}
    for (_, _, peer), own in rows.items():
        if not steps or len(own) % steps or len(own) < _FEWEST_PASSES * steps:
            continue
        waits = np.array([max((after for _, after in each.arrivals or []), default=0) for each in own], np.float64)
        waits = waits.reshape(steps, -1)
        start = trace.slices.start[[each.item for each in own]].reshape(steps, -1)
        interval, waited = float(np.median(np.diff(start[:, 1:]))), float(np.median(waits[:, 1:]))
        work = max(interval - waited, 0.0)
        left = np.minimum(waits[:, 0] * work / max(interval, 1.0), (peer + 1) * work)
        firsts = own[:: len(own) // steps]
        found |= {each.item: round(rest) for each, rest in zip(firsts, left.tolist(), strict=True)}
    return found


def fill_of(fills: Mapping[int, int], items: I64) -> I64:
    """What ``pipeline_fills`` has for each of ``items``, 0 for most; (n,)."""
    if not fills:
        return np.zeros(len(items), np.int64)
    return np.array([fills.get(item, 0) for item in items.tolist()], np.int64)


def _receives(kind: str) -> bool:
    return "receive" in kind.lower() or "recv" in kind.lower()
