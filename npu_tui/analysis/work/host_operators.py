"""Time of operations on the host and of the kernels they launched, as in torch_npu's operator_details.csv."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.launches.origin import Around, Nesting
from npu_tui.trace.classes import step_number
from npu_tui.trace.model import ASYNC_NPU, Trace

I64 = npt.NDArray[np.int64]


class HostOperators(Struct, frozen=True):
    """The ``cpu_op`` slices ``item`` without steps: times in ns, (n,) each.

    ``host_self`` leaves out the operations directly inside; ``device_self`` adds up the slices whose ``async_npu`` link
    starts at the operation, ``device_total`` those of the operations inside as well. ``parent`` is the position in
    ``item`` of the nearest operation around it, -1 without one.
    """

    item: I64
    host_total: I64
    host_self: I64
    device_self: I64
    device_total: I64
    parent: I64


def host_operators(trace: Trace, nesting: Nesting | None = None) -> HostOperators:
    """All operations of the Python layers, in slice order; ``nesting`` is a faster loop, where there is one."""
    slices = trace.slices
    item = np.zeros(0, np.int64)
    if "cpu_op" in trace.categories:
        other = np.array([step_number(name) is None for name in trace.names] + [True])
        item = np.flatnonzero(slices.category == trace.categories.index("cpu_op"))
        kept = other[slices.name[item]]
        item = item if kept.all() else item[kept]
    around = Around(trace, item)
    item, parent = around.items, around.parents(nesting)
    total = slices.end[item]
    total -= slices.start[item]
    own = total.copy()
    inner = np.flatnonzero(parent >= 0)
    np.subtract.at(own, parent[inner], total[inner])
    device_self = _launched_time(trace, item)
    device_total = device_self.copy()
    launching = np.flatnonzero(device_self)
    time, up = device_self[launching], parent[launching]
    while (inner := np.flatnonzero(up >= 0)).size:  # one pass per level of nesting
        time, up = time[inner], up[inner]
        np.add.at(device_total, up, time)
        up = parent[up]
    return HostOperators(item, total, own, device_self, device_total, parent)


def _launched_time(trace: Trace, item: I64) -> I64:
    """For each of the ascending ``item``: how long the device slices ran whose ``async_npu`` link starts at it, ns."""
    links = trace.links
    ways = trace.links_of(ASYNC_NPU)
    ways = ways[(links.source_slice[ways] >= 0) & (links.target_slice[ways] >= 0)]
    source, target = links.source_slice[ways].astype(np.int64), links.target_slice[ways]
    time = np.zeros(len(item), np.int64)
    if not len(item):
        return time
    at = np.minimum(np.searchsorted(item, source), len(item) - 1)
    known = item[at] == source
    np.add.at(time, at[known], (trace.slices.end[target] - trace.slices.start[target])[known])
    return time
