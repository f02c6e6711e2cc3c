"""Copies between host and device, and what they say of themselves: their bytes and their direction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.trace.arg_column import ABSENT
from npu_tui.trace.args import as_number
from npu_tui.trace.copy_args import Copies
from npu_tui.trace.model import Trace
from npu_tui.trace.once import of_trace

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_TASK_TYPES = frozenset({"PCIE_DMA_SQE", "SDMA_SQE"})
_NAME = "MEMCPY"
_SIZES = ("data size(Byte)", "size(B)")
_WAYS = ("memcpy direction", "operation")
"""Older and newest names of the args."""
_MOST = 1 << 50


def copy_marks(trace: Trace) -> tuple[Bools, Bools]:
    """Which names and which task types of slices of hardware layers are those of copies.

    (names + 1,) and (task types + 1,); the last entry is that of none.
    """
    names = [name.startswith(_NAME) for name in trace.names]
    return np.array([*names, False]), np.array([*map(_TASK_TYPES.__contains__, trace.task_types), False])


def copy_slices(trace: Trace) -> I64:
    """The copies of all devices, as slices, ascending."""
    named, typed = copy_marks(trace)
    found = [np.zeros(0, np.int64)]
    for layer in trace.layers:
        for lane in (trace.lanes[each] for each in layer.lanes if layer.kind == "hardware"):
            own = slice(lane.first, lane.last)
            copied = named[trace.slices.name[own]] | typed[trace.slices.task_type[own]]
            found.append(lane.first + np.flatnonzero(copied))
    return np.sort(np.concatenate(found))


def copies_of(trace: Trace) -> Copies:
    """The copies that name their bytes, which a parsed copy of the trace knows, else read from the file and kept.

    Raises ``InputError`` if the file is gone or has changed.
    """
    return trace.copies or _read_copies(trace)


@of_trace
def _read_copies(trace: Trace) -> Copies:
    items = copy_slices(trace)
    columns = trace.args.columns(trace.slices.event[items], (*_SIZES, *_WAYS))
    told = np.flatnonzero(np.any([column.kind != ABSENT for column in columns[: len(_SIZES)]], axis=0))
    known, sizes, codes = [], [], []
    ways: dict[str, int] = {}
    for item, *values in zip(items[told].tolist(), *(column[told].objects for column in columns), strict=True):
        size, way = (next((str(each) for each in own if each), "") for own in (values[:2], values[2:]))
        number = as_number(size)
        if number is not None and 0 < number < _MOST:
            known.append(item)
            sizes.append(int(number))
            codes.append(ways.setdefault(way.lower() or "?", len(ways)))
    return Copies(np.array(known, np.int64), np.array(sizes, np.int64), np.array(codes, np.int32), list(ways))
