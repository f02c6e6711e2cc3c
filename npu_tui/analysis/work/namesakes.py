"""All slices of one name in a layer, and how long one of them is among them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.model import Trace


class Namesakes(Struct, frozen=True):
    """The slices ``items`` of one name and layer by start; the one asked about is number ``at``.

    ``median`` is of their durations (ns), ``percentile`` 0..100 the share of them that last no longer than it.
    """

    items: npt.NDArray[np.int64]
    at: int
    median: float
    percentile: float


def namesakes(trace: Trace, item: int) -> Namesakes:
    """The slices with the name of ``item`` on the lanes of its layer."""
    slices = trace.slices
    items = np.flatnonzero(slices.name == slices.name[item])
    layer_of = np.array([lane.layer for lane in trace.lanes], np.int64)
    items = items[layer_of[slices.lane[items]] == layer_of[slices.lane[item]]]
    items = items[np.argsort(slices.start[items], kind="stable")]
    lasting = slices.end[items] - slices.start[items]
    own = int(slices.end[item] - slices.start[item])
    percentile = 100 * np.count_nonzero(lasting <= own) / len(items)
    return Namesakes(items, int(np.flatnonzero(items == item)[0]), float(np.median(lasting)), percentile)
