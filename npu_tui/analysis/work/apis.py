"""Time in CANN calls by level and name, as msprof's api_statistic.csv has it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.window import Window
from npu_tui.trace.distinct import distinct
from npu_tui.trace.model import Trace

_LEVELS = {"AscendCL": "acl", "Model": "model", "Node": "node", "Hccl": "hccl", "Communication": "communication"}


class ApiSum(Struct, frozen=True):
    """The calls of one level and name: times in ns, population ``variance`` in us^2, the slices ``items`` by start."""

    level: str
    name: str
    count: int
    total: int
    shortest: int
    longest: int
    variance: float
    items: npt.NDArray[np.int64]


def apis(trace: Trace, window: Window) -> list[ApiSum]:
    """The calls on the CANN layers that start in ``window``, most time first."""
    slices = trace.slices
    lanes = [lane for lane in trace.file_lanes if trace.layers[lane.layer].kind == "cann"]
    items = np.concatenate([np.arange(lane.first, lane.last) for lane in lanes] or [np.zeros(0, np.int64)])
    items = items[window.holds(slices.start[items])]
    if not len(items):
        return []
    name, code = distinct(slices.name[items])
    items = items[np.argsort(code.astype(np.min_scalar_type(len(name))), kind="stable")]
    count = np.bincount(code)
    first = np.cumsum(count) - count
    length = slices.end[items] - slices.start[items]
    total = np.add.reduceat(length, first)
    deviation = (length - np.repeat(total / count, count)) / 1000
    spread = np.add.reduceat(deviation * deviation, first) / count
    shortest, longest = np.minimum.reduceat(length, first), np.maximum.reduceat(length, first)
    rows = []
    for k, code in enumerate(name.tolist()):
        prefix, _, call = trace.names[code].rpartition("@")
        rows.append(
            ApiSum(
                _LEVELS.get(prefix, prefix.lower()),
                call,
                int(count[k]),
                int(total[k]),
                int(shortest[k]),
                int(longest[k]),
                float(spread[k]),
                items[first[k] : first[k] + count[k]],
            )
        )
    return sorted(rows, key=lambda row: (-row.total, row.level, row.name))
