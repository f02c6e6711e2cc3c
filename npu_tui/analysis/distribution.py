"""How durations spread: percentiles and histograms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.intervals import covered
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]


class Distribution(Struct, frozen=True):
    """Durations in ns of the slices ``items``, the slowest first; ``union`` counts what overlaps once."""

    count: int
    total: int
    union: int
    shortest: int
    p50: float
    p90: float
    longest: int
    items: I64


def distribution(trace: Trace, items: I64) -> Distribution | None:
    """The durations of ``items``; None where there is none."""
    if not len(items):
        return None
    start, end = trace.slices.start[items], trace.slices.end[items]
    length = end - start
    p50, p90 = np.percentile(length, [50, 90])
    order = np.argsort(-length, kind="stable")
    return Distribution(
        len(items),
        int(length.sum()),
        covered(start, end),
        int(length.min()),
        float(p50),
        float(p90),
        int(length.max()),
        items[order],
    )


def by_code(trace: Trace, items: I64, code: I64) -> list[tuple[int, Distribution]]:
    """The distribution of the ``items`` of each ``code`` (-1: left out), most time first."""
    found = []
    for each in np.unique(code[code >= 0]).tolist():
        own = distribution(trace, items[code == each])
        if own is not None:
            found.append((each, own))
    return sorted(found, key=lambda pair: -pair[1].total)


class Histogram(Struct, frozen=True):
    """``count[k]`` values lie in ``[edges[k], edges[k + 1])``, the last bin holds its upper edge too."""

    edges: npt.NDArray[np.float64]
    count: npt.NDArray[np.int64]


def histogram(values: npt.NDArray[np.int64], bins: int) -> Histogram:
    """``values`` (above 0 or clipped to 1) in at most ``bins`` bins from the lowest to the highest, of equal ratio.

    Values that are all alike are one bin.
    """
    values = np.maximum(values, 1)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return Histogram(np.array([low, high], np.float64), np.array([len(values)], np.int64))
    edges = np.geomspace(low, high, bins + 1)
    edges[0], edges[-1] = low, high
    at = np.clip(np.searchsorted(edges, values, "right") - 1, 0, bins - 1)
    return Histogram(edges, np.bincount(at, minlength=bins).astype(np.int64))
