"""What the copies between host and device say of themselves: their bytes and their direction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.args import as_number
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_SIZES = ("data size(Byte)", "size(B)")
_WAYS = ("memcpy direction", "operation")
"""Older and newest names of the args."""
_MOST = 1 << 50


class Copies(Struct, frozen=True):
    """The copies ``item`` that have a size: bytes ``size`` and the profiler's word for the direction; (n,) each."""

    item: I64
    size: I64
    way: list[str]


def copies_of(trace: Trace, items: I64) -> Copies:
    """Those of the copies ``items`` that name their bytes. Raises ``InputError`` if the file is gone or has changed."""
    told = trace.args.many(trace.slices.event[items], (*_SIZES, *_WAYS))
    known, sizes, ways = [], [], []
    for item, *values in zip(items.tolist(), *told, strict=True):
        size, way = (next((str(each) for each in own if each), "") for own in (values[:2], values[2:]))
        number = as_number(size)
        if number is not None and 0 < number < _MOST:
            known.append(item)
            sizes.append(int(number))
            ways.append(way.lower() or "?")
    return Copies(np.array(known, np.int64), np.array(sizes, np.int64), ways)
