"""The wall time of a step, every nanosecond in one class.

In the order of claim: computing; communication that computing does not hide, cut where its longest wait for a peer
ends; before the first and after the last of these; what is left is Free, late host, device side or without a link.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.overlap import FreeSplit, Intervals, OverlapLanes
from npu_tui.trace.intervals import difference, intersection, union

I64 = npt.NDArray[np.int64]

Part = Literal[
    "prep", "computing", "wait", "transfer", "exposed", "host_late", "device_side", "unlinked", "tail"
]  # fmt: skip
PARTS: tuple[Part, ...] = get_args(Part)
"""In the order of a step's work; ``exposed`` stands for ``wait`` and ``transfer`` where no wait is recorded."""


class Claims(Struct, frozen=True):
    """Disjoint intervals of one device for each part but ``prep`` and ``tail``, over the whole trace, ascending."""

    computing: Intervals
    wait: Intervals | None
    exposed: Intervals
    host_late: Intervals
    device_side: Intervals


def claims(lanes: OverlapLanes, split: FreeSplit | None, gaps: FreeSplit | None, waits: Intervals | None) -> Claims:
    """``waits`` is from the start of each collective to the end of its longest wait, None where none is recorded.

    The host is late in ``gaps``; what else is linked, with the copies, is of the device.
    """
    computing = union(*lanes.computing)
    exposed = difference(*lanes.communication, *computing)
    wait = None if waits is None else intersection(*exposed, *waits)
    none = np.zeros(0, np.int64)
    late, side = (none, none), (none, none)
    if split is not None and gaps is not None:
        late = gaps.start[gaps.linked], np.rint(gaps.late_until[gaps.linked]).astype(np.int64)
        known = [(each.start[each.linked], each.end[each.linked]) for each in (split, gaps)]
        side = union(*(np.concatenate(columns) for columns in zip(*known, strict=True)))
    busy = union(np.concatenate((computing[0], exposed[0])), np.concatenate((computing[1], exposed[1])))
    late = difference(*late, *busy)
    return Claims(computing, wait, exposed, late, difference(*difference(*side, *busy), *late))


def partitions(own: Claims, low: I64, high: I64) -> dict[Part, I64]:
    """How long each part lasts within each window ``[low, high)``, ns, (n,); they sum to ``high - low`` exactly.

    ``exposed`` is left out where the waits are known, ``wait`` and ``transfer`` where they are not. A window in which
    nothing ran on the device is all ``prep``.
    """
    first, last = _reach((own.computing, own.exposed), low, high)
    exposed = _within(own.exposed, low, high)
    parts: dict[Part, I64] = {"prep": first - low, "computing": _within(own.computing, low, high)}
    if own.wait is None:
        parts["exposed"] = exposed
    else:
        parts["wait"] = _within(own.wait, low, high)
        parts["transfer"] = exposed - parts["wait"]
    # Free may begin before the first or go on after the last work of the window.
    parts["host_late"] = _within(own.host_late, first, last)
    parts["device_side"] = _within(own.device_side, first, last)
    parts["tail"] = high - last
    parts["unlinked"] = (high - low) - sum(parts.values())
    return {name: parts[name] for name in PARTS if name in parts}


def _reach(kinds: tuple[Intervals, ...], low: I64, high: I64) -> tuple[I64, I64]:
    """Start of the first and end of the last interval within each window; its end twice without any."""
    first, last = high.copy(), low.copy()
    for start, end in kinds:
        begin, stop = np.searchsorted(end, low, "right"), np.searchsorted(start, high, "left")
        own = np.flatnonzero(begin < stop)
        first[own] = np.minimum(first[own], np.maximum(low[own], start[begin[own]]))
        last[own] = np.maximum(last[own], np.minimum(high[own], end[stop[own] - 1]))
    none = first >= last
    first[none] = last[none] = high[none]
    return first, last


def _within(intervals: Intervals, low: I64, high: I64) -> I64:
    """Length of disjoint ascending ``intervals`` inside each window, ns."""
    return _before(intervals, high) - _before(intervals, low)


def _before(intervals: Intervals, time: I64) -> I64:
    start, end = intervals
    if not len(start):
        return np.zeros(len(time), np.int64)
    sums = np.cumsum(end - start)
    at = np.searchsorted(start, time, "right") - 1
    known = np.maximum(at, 0)
    found: I64 = np.where(at >= 0, sums[known] - np.maximum(end[known] - time, 0), 0)
    return found
