"""The slices of one step on both sides: which belong together, which one side has alone, which differ."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from npu_tui.compare.comparison import Comparison
from npu_tui.compare.difference import Difference
from npu_tui.compare.lag import lag
from npu_tui.compare.matching.collectives import Exchanged, collective_changes
from npu_tui.compare.matching.operations import OperationMatch
from npu_tui.compare.matching.sequences import matched
from npu_tui.compare.side import Side
from npu_tui.compare.steps import StepWindow
from npu_tui.trace.once import once
from npu_tui.view.scene import ALONE, CHANGED, Pair, Warp

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int8]

_DIFFERENT = ("slower", "faster", "changed", "replaced")
_PLACES_OF = ("DIFF.COMM.LATE_RANK", "DIFF.COMM.BANDWIDTH", "DIFF.LINE")


class DrawnSteps:
    """One step of each side of ``comparison``; unless ``windows`` are given, those nearest to the median."""

    def __init__(self, comparison: Comparison, windows: tuple[StepWindow, StepWindow] | None = None) -> None:
        self.comparison = comparison
        base, new = comparison.sides
        self.windows = windows or (base.sample.medoid, new.sample.medoid)
        self._usual = windows is None

    @once
    def _operations(self) -> OperationMatch:
        if self._usual:
            return self.comparison.operations
        base, new = (side.operations_in(own) for side, own in self._sides)
        return self.comparison.match(base, new)

    @property
    def _sides(self) -> list[tuple[Side, StepWindow]]:
        return list(zip(self.comparison.sides, self.windows, strict=True))

    def pair(self, found: list[Difference]) -> Pair:
        """What drawing both steps needs; the slices of the differences ``found`` are marked."""
        twins = self._twins()
        marks = self._marks(twins, found)
        (base, own), (new, other) = self._sides
        times = lag(
            (base.trace, own, base.operations_in(own)), (new.trace, other, new.operations_in(other)), self._operations
        )
        windows = ((own.start, own.end), (other.start, other.end))
        return Pair(windows, twins, marks, Warp(times.base, times.new))

    def _twins(self) -> tuple[I32, I32]:
        """For every slice of both traces its counterpart, -1 where there is none; (slices,) each."""
        found = tuple(np.full(len(side.trace.slices), -1, np.int32) for side, _ in self._sides)
        for base, new in (self._paired_operations(), self._paired_kernels(), self._paired_collectives()):
            found[0][base] = new
            found[1][new] = base
        return found[0], found[1]

    def _paired_operations(self) -> tuple[I64, I64]:
        match = self._operations
        (base, own), (new, other) = self._sides
        return base.operations_in(own).item[match.base], new.operations_in(other).item[match.new]

    def _kernels(self) -> list[tuple[I64, I64, list[str]]]:
        """The kernels of both steps by start: slices, launching operations (-1 unknown) and types."""
        found = []
        for (side, window), kernels in zip(self._sides, self.comparison.kernels, strict=True):
            start = side.trace.slices.start[kernels.item]
            own = np.flatnonzero((start >= window.start) & (start < max(window.end, window.start + 1)))
            types = [kernels.identities[code].type for code in kernels.identity[own].tolist()]
            found.append((kernels.item[own], kernels.operation[own], types))
        return found

    def _paired_kernels(self) -> tuple[I64, I64]:
        """Kernels of matched operations in their order, then the others by their sequence of types."""
        (items, launched, types), (others, also_launched, other_types) = self._kernels()
        of: dict[int, list[int]] = defaultdict(list)
        for at, operation in enumerate(also_launched.tolist()):
            of[operation].append(at)
        twin = dict(zip(*(own.tolist() for own in self._paired_operations()), strict=True))
        left, right = [], []
        turn: dict[int, int] = defaultdict(int)
        for at, operation in enumerate(launched.tolist()):
            if operation < 0 or operation not in twin:
                continue
            known = of[twin[operation]]
            if turn[operation] < len(known) and types[at] == other_types[known[turn[operation]]]:
                left.append(at)
                right.append(known[turn[operation]])
            turn[operation] += 1
        taken = (np.array(left, np.int64), np.array(right, np.int64))
        codes: dict[str, int] = {}
        rest, symbols = [], []
        for names, used in ((types, taken[0]), (other_types, taken[1])):
            open_ = np.ones(len(names), np.bool_)
            open_[used] = False
            rest.append(np.flatnonzero(open_))
            symbols.append(np.array([codes.setdefault(names[at], len(codes)) for at in rest[-1].tolist()], np.int64))
        more = matched(symbols[0], symbols[1])
        base = np.concatenate((taken[0], rest[0][more[0]]))
        new = np.concatenate((taken[1], rest[1][more[1]]))
        return items[base], others[new]

    def _paired_collectives(self) -> tuple[I64, I64]:
        none = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        base, new = (Exchanged(side.trace, side.collectives, [window], none) for side, window in self._sides)
        pairs = [
            pair
            for row in collective_changes(base, new)
            if row.base and row.new
            for pair in zip(row.base.items, row.new.items, strict=False)
        ]
        both = np.array(pairs, np.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def _marks(self, twins: tuple[I32, I32], found: list[Difference]) -> tuple[I8, I8]:
        """What is to be said of every slice of both traces; (slices,) each."""
        kernels = self._kernels()
        marks = []
        for k, (side, window) in enumerate(self._sides):
            own = np.zeros(len(side.trace.slices), np.int8)
            collectives = np.array([each.item for each in side.collectives], np.int64)
            start = side.trace.slices.start[collectives]
            here = collectives[(start >= window.start) & (start < window.end)]
            for items in (side.operations_in(window).item, kernels[k][0], here):
                own[items[twins[k][items] < 0]] = ALONE
            for row in self.comparison.groups:
                if row.change in _DIFFERENT:
                    items = (row.base_items, row.new_items)[k]
                    own[items] = CHANGED
            name = ("base", "new")[k]
            for each in found:
                if each.id in _PLACES_OF:
                    places = [place.item for place in each.places if place.side == name and place.item is not None]
                    own[places] = CHANGED
            marks.append(own)
        return marks[0], marks[1]
