"""The first receive of a step in a pipeline: it waits for the stages before to fill, whoever is late."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_tui.analysis.work.collectives.communication import Collective
from npu_tui.analysis.work.operators import collective_type
from npu_tui.trace.model import Trace

_FEWEST_PASSES = 3


def pipeline_fills(trace: Trace, collectives: Sequence[Collective], steps: int) -> dict[int, int]:
    """How long the first receive of each of ``steps`` steps would wait if no stage was slower than this one, ns.

    By slice. Of the wait for the first pass as large a part is the slow stage's as of every later pass, and each stage
    before this one needs no more than a pass. Only where every step receives as often from the same rank.
    """
    rows: dict[tuple[int, str, int], list[Collective]] = {}
    for each in collectives:
        kind = collective_type(trace.name_of(each.item))
        if each.arrivals is None or each.peer is None or not _receives(kind):
            continue
        rows.setdefault((int(trace.slices.lane[each.item]), kind, each.peer), []).append(each)
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


def _receives(kind: str) -> bool:
    return "receive" in kind.lower() or "recv" in kind.lower()
