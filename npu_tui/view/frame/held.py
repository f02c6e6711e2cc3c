"""The most that holds in every column of values that each hold until the next one, exact at any zoom."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.view.cells.compiled import Compiled
from npu_tui.view.frame.extremes import Extremes
from npu_tui.view.spans import I64

_SHIFT, _MARK = 4, 64
_FEW = 32
_HIGHEST, _LOWEST, _FLOAT = range(3)


class Held:
    """Values, each of which holds from its ``time`` (ns, ascending) on; integers or floats, none not-a-number.

    The most is the highest, with ``lowest`` the lowest of integers.
    """

    def __init__(self, time: I64, value: npt.NDArray[Any], lowest: bool = False) -> None:
        self._kind = _FLOAT if value.dtype.kind == "f" else _LOWEST if lowest else _HIGHEST
        wide = np.float64 if self._kind == _FLOAT else np.int64
        self._time, self._value = np.ascontiguousarray(time), np.ascontiguousarray(value, wide)
        self._extremes: Extremes[Any] | None = None
        self._keys: tuple[I64, I64] | None = None
        self._marks: I64 = self._time[:0]

    def over(self, edges: I64, compiled: Compiled | None = None) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]:
        """Which columns have a value, and the most of all that hold for some time in each, 0 where none does.

        Columns lie between ``edges`` (ns, ascending).
        """
        if compiled is None:
            return self._slowly(edges)
        if self._keys is None:
            self._keys, self._marks = self._levels(), self._time[::_MARK].copy()
        return compiled.held(self._time, self._marks, self._value, self._keys, edges, self._kind)

    def _slowly(self, edges: I64) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]:
        if self._extremes is None:
            self._extremes = Extremes(self._value, np.minimum if self._kind == _LOWEST else np.maximum)
        inner = self._time.searchsorted(edges)
        first, last = inner[:-1] - 1, inner[1:]
        # What holds at the left edge began before it, unless a value begins right there.
        if len(self._time):
            there = np.flatnonzero(self._time[np.minimum(inner[:-1], len(self._time) - 1)] == edges[:-1])
            first[there] = self._time.searchsorted(edges[:-1][there], "right") - 1
        first = np.maximum(first, 0)
        known = last > first
        found = np.zeros(len(known), self._value.dtype)
        found[known] = self._extremes.over(first[known], last[known])
        return known, found

    def _levels(self) -> tuple[I64, I64]:
        """Keys of the highest of 16 values each, of 16 of these each and so on, and where each level begins."""
        keys = self._value.view(np.int64)
        if self._kind == _FLOAT:
            keys = keys ^ ((keys >> 63) & np.iinfo(np.int64).max)
        elif self._kind == _LOWEST:
            keys = ~keys
        levels = []
        while len(keys) > _FEW:
            keys = np.maximum.reduceat(keys, np.arange(0, len(keys), 1 << _SHIFT))
            levels.append(keys)
        begins = np.cumsum([0, *map(len, levels)])[:-1]
        return np.concatenate([keys[:0], *levels]), begins
