"""The device of a trace of PyTorch's own profiler (``*.pt.trace.json``): kernels by their category, on any chip.

Such a trace has no Overlap Analysis. Its kernels have the category ``kernel``, those of collectives have names of the
library (``nccl``, ``hccl``, ``rccl``). Source: libkineto's output_json.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu_tui.compare.partition import Claims
from npu_tui.trace.intervals import difference, union
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_KERNEL = "kernel"
_COLLECTIVE = re.compile(r"nccl|hccl|rccl|^hcom_|oneccl|ccl::", re.IGNORECASE)
_TEMPLATE = re.compile(r"<[^<>]*>|\([^()]*\)")
_TAIL = re.compile(r"(?:[_-](?:[0-9a-f]{8,}|\d+))+$", re.IGNORECASE)


def device_kernels(trace: Trace) -> tuple[I64, I64]:
    """The slices of the kernels that compute, and of those that communicate; ascending."""
    if _KERNEL not in trace.categories:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    items = np.flatnonzero(trace.slices.category == trace.categories.index(_KERNEL))
    shared = np.array([_COLLECTIVE.search(name) is not None for name in trace.names] + [False])
    moves = shared[trace.slices.name[items]]
    return items[~moves], items[moves]


def device_claims(trace: Trace) -> Claims | None:
    """What the device did, None where no kernel is recorded; idle time has no known cause."""
    own, shared = device_kernels(trace)
    if not len(own) and not len(shared):
        return None
    slices = trace.slices
    computing, moving = (union(slices.start[items], slices.end[items]) for items in (own, shared))
    none = np.zeros(0, np.int64)
    return Claims(computing, None, difference(*moving, *computing), (none, none), (none, none))


def step_ends(trace: Trace, items: Sequence[int]) -> list[int]:
    """For each of the step slices ``items`` when the last kernel that it launched ends, its own end without any; ns."""
    slices, links = trace.slices, trace.links
    kernels = np.zeros(len(slices) + 1, np.bool_)
    for own in device_kernels(trace):
        kernels[own] = True
    ways = np.flatnonzero(kernels[links.target_slice])
    ways = ways[np.argsort(links.source_time[ways], kind="stable")]
    launched, ended = links.source_time[ways], slices.end[links.target_slice[ways]]
    found = []
    for item in items:
        start, end = int(slices.start[item]), int(slices.end[item])
        low, high = np.searchsorted(launched, (start, end)).tolist()
        found.append(max(end, int(ended[low:high].max(initial=end))))
    return found


def kernel_type(name: str) -> str:
    """``name`` without the arguments of its templates and calls, without hashes and trailing digits."""
    before = None
    while before != name:
        before, name = name, _TEMPLATE.sub("", name)
    name = name.removeprefix("void ").strip()
    return _TAIL.sub("", name) or name
