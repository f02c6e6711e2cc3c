"""How durations are distributed: percentiles and histograms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import covered
from npu_tui.trace.model import Trace


class Distribution(Struct, frozen=True):
    """Durations in ns of the slices ``items``, the slowest first; ``union`` counts overlapping time once."""

    count: int
    total: int
    union: int
    shortest: int
    p50: float
    p90: float
    longest: int
    items: I64


def distribution(trace: Trace, items: I64) -> Distribution | None:
    """The distribution of the durations of ``items``; None without items."""
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
    """The distribution of ``items`` per ``code`` (-1: left out), most time first."""
    rows = []
    for value in np.unique(code[code >= 0]).tolist():
        spread = distribution(trace, items[code == value])
        if spread is not None:
            rows.append((value, spread))
    return sorted(rows, key=lambda pair: -pair[1].total)


class Histogram(Struct, frozen=True):
    """``count[k]`` values lie in ``[edges[k], edges[k + 1])``; the last bin includes its upper edge."""

    edges: npt.NDArray[np.float64]
    count: npt.NDArray[np.int64]


def histogram(values: npt.NDArray[np.int64], bins: int) -> Histogram:
    """``values`` (clipped to 1 or more) in ``bins`` bins of equal ratio from the lowest to the highest value.

    Equal values give a single bin.
    """
    values = np.maximum(values, 1)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return Histogram(np.array([low, high], np.float64), np.array([len(values)], np.int64))
    # Durations of one kernel may span from 1 us to 10 ms: bins of equal width would hold all but a few in the first.
    edges = np.geomspace(low, high, bins + 1)
    edges[0], edges[-1] = low, high  # geomspace may miss both by a rounding error
    at = np.clip(np.searchsorted(edges, values, "right") - 1, 0, bins - 1)
    return Histogram(edges, np.bincount(at, minlength=bins).astype(np.int64))
