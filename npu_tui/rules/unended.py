"""Operations that began and never ended, where nothing of the device began after them: where a run hangs."""

from __future__ import annotations

import numpy as np

from npu_tui.trace.message import Message, message
from npu_tui.trace.model import UNFINISHED, Trace
from npu_tui.trace.text import brief

_NAMED = 3


def unended(trace: Trace) -> Message | None:
    """The innermost operation of each lane that never ended after the last task of the device began; None without any.

    Collectives come first: the host waits for them.
    """
    if UNFINISHED not in trace.categories:
        return None
    slices = trace.slices
    is_open = slices.category == trace.categories.index(UNFINISHED)
    kinds = np.array([trace.layers[lane.layer].kind for lane in trace.lanes])
    done = slices.start[~is_open & (kinds[slices.lane] == "hardware")]
    if not len(done):
        return None
    stuck = np.flatnonzero(is_open & (slices.start >= done.max()))
    innermost = {int(slices.lane[item]): int(item) for item in stuck[np.argsort(slices.start[stuck], kind="stable")]}
    items = sorted(innermost.values(), key=lambda item: (kinds[slices.lane[item]] != "communication", item))
    if not items:
        return None
    names = [
        message("finding.unended.one", name=brief(trace.name_of(item)), start=int(slices.start[item]))
        for item in items[:_NAMED]
    ]
    if len(items) > _NAMED:
        names.append(message("finding.unended.more", count=len(items) - _NAMED))
    return message("finding.unended", names=names)
