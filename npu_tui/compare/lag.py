"""How far the new side is behind the base at every matched operation of a step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.compare.matching.operations import OperationMatch, Operations
from npu_tui.compare.steps import StepWindow
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]


class Lag(Struct, frozen=True):
    """Matched times of both sides, ascending, ns: the step's start and end, and those of its main thread's operations.

    ``lag`` is how much later the new side is there, counted from the start of each step; it begins at 0 and ends at
    the difference of the two steps, so its increments sum to that exactly. All are (n,).
    """

    base: I64
    new: I64

    @property
    def lag(self) -> I64:
        """New minus base, each since the start of its own step."""
        found: I64 = (self.new - self.new[0]) - (self.base - self.base[0])
        return found

    def to_new(self, time: I64) -> I64:
        """The times of the new side that stand at ``time`` of the base, between matches in proportion; (n,)."""
        return np.rint(np.interp(time, self.base, self.new)).astype(np.int64)


def lag(
    base: tuple[Trace, StepWindow, Operations], new: tuple[Trace, StepWindow, Operations], match: OperationMatch
) -> Lag:
    """The lag between two steps whose operations are matched."""
    main = base[2].role[match.base] == 0
    times = []
    for (trace, window, own), at in zip((base, new), (match.base, match.new), strict=True):
        item = own.item[at[main]]
        inside = np.clip(np.concatenate((trace.slices.start[item], trace.slices.end[item])), window.start, window.end)
        times.append(np.concatenate(([window.start], inside, [window.end])))
    # Both orders agree, as operations of one thread are matched in sequence; where edges meet they may swap.
    order = np.lexsort((times[1], times[0]))
    return Lag(times[0][order], np.maximum.accumulate(times[1][order]))
