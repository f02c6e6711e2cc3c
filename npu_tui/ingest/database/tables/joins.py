"""Columns of numbers matched with each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

T = TypeVar("T", bound=np.generic)

_TABLE = 1 << 22
"""Numbers in so narrow a range are found in a table, others by sorting."""


_NARROW = 1 << 16
_BLOCK = 1 << 16
"""Values at a time that stay in the processor's cache from one step to the next."""


def told(values: I64, tell: Callable[[I64], npt.NDArray[T]]) -> npt.NDArray[T]:
    """What ``tell`` gives for each of ``values``; (n,). It is asked once, for the distinct ones, ascending."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, _NARROW)
    if high - low >= _NARROW:
        distinct, place = numbered(values)
        return tell(distinct)[place]
    seen = np.zeros(high - low + 1, np.bool_)
    for first in range(0, len(values), _BLOCK):
        seen[values[first : first + _BLOCK] - low] = True
    distinct = np.flatnonzero(seen)
    answers = tell(distinct + low)
    table = np.zeros(len(seen), answers.dtype)
    table[distinct] = answers
    found = np.empty(len(values), answers.dtype)
    for first in range(0, len(values), _BLOCK):
        np.take(table, values[first : first + _BLOCK] - low, out=found[first : first + _BLOCK], mode="clip")
    return found


def numbered(values: I64) -> tuple[I64, I64]:
    """The distinct ``values``, ascending, and for each of them its place among those; (k,), (n,)."""
    if not len(values):
        return values, np.zeros(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low > max(4 * len(values), _TABLE):
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place.astype(np.int64)
    if high - low < _NARROW:
        found: list[I64] = []

        def places(distinct: I64) -> I64:
            found.append(distinct)
            return np.arange(len(distinct))

        place = told(values, places)
        return found[0], place
    offset = values - low
    seen = np.zeros(high - low + 1, np.bool_)
    seen[offset] = True
    return np.flatnonzero(seen) + low, np.take(np.cumsum(seen) - 1, offset)


def matched(keys: I64, wanted: I64) -> I64:
    """The first place of each of ``wanted`` among ``keys``, -1 where it is not there; (n,).

    Negative numbers stand for nothing and match nothing.
    """
    if not len(keys) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    low, high = int(keys.min()), int(keys.max())
    if high - low <= max(4 * len(keys), _TABLE):
        table = np.full(high - low + 2, -1, np.int64)
        table[keys[::-1] - low] = np.arange(len(keys) - 1, -1, -1)
        inside = (wanted >= max(low, 0)) & (wanted <= high)
        return table[np.where(inside, wanted - low, high - low + 1)]
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = order[at]
    return np.where((keys[found] == wanted) & (wanted >= 0), found, -1)


def expanded(keys: I64, wanted: I64) -> tuple[I64, I64]:
    """All pairs of a place in ``wanted`` and a place in ``keys`` with the same number, in the order of ``wanted``.

    Among equal keys they keep their order. Negative numbers match nothing.
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first, last = np.searchsorted(ordered, wanted, "left"), np.searchsorted(ordered, wanted, "right")
    count = np.where(wanted >= 0, last - first, 0)
    left = np.repeat(np.arange(len(wanted)), count)
    begins = np.cumsum(count) - count
    return left, order[np.arange(len(left)) - np.repeat(begins - first, count)]
