"""A comparison on screen: one step of each side, slice by slice, on one clock."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from msgspec import Struct

from npu_tui.analysis.alignment import matched
from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.differences import differences, place_at, places_of
from npu_tui.compare.kernels import Exchanged, collective_changes
from npu_tui.compare.measured import MeasuredSide
from npu_tui.compare.operations import OperationMatch, matched_times
from npu_tui.compare.steps import StepWindow
from npu_tui.profile.scene import make_scene
from npu_tui.rules.model import Evidence, Finding, SideName
from npu_tui.trace.arrays import I8, I32, I64
from npu_tui.trace.once import once
from npu_tui.view.scene import ALONE, CHANGED, ComparedPair, FindingMark, Scene, Warp

_DIFFERENT = ("slower", "faster", "changed", "replaced")
_PLACES_OF = ("DIFF.COMM.LATE_RANK", "DIFF.COMM.BANDWIDTH", "DIFF.LINE")


class DrawnSteps:
    """One step of each side of ``comparison``; unless ``windows`` are given, those nearest to the median."""

    def __init__(self, comparison: ProfileComparison, windows: tuple[StepWindow, StepWindow] | None = None) -> None:
        self.comparison = comparison
        base, new = comparison.sides
        self.windows = windows or (base.sample.medoid, new.sample.medoid)
        self._usual = windows is None

    @once
    def _operations(self) -> OperationMatch:
        if self._usual:
            return self.comparison.operations
        base, new = (side.operations_in(window) for side, window in self._sides)
        return self.comparison.match(base, new)

    @property
    def _sides(self) -> list[tuple[MeasuredSide, StepWindow]]:
        return list(zip(self.comparison.sides, self.windows, strict=True))

    def pair(self, changes: list[Finding]) -> ComparedPair:
        """What drawing both steps needs; the slices of the differences ``changes`` are marked."""
        twins = self._twins()
        marks = self._marks(twins, changes)
        (base, window), (new, other) = self._sides
        times = matched_times(
            (base.trace, window, base.operations_in(window)),
            (new.trace, other, new.operations_in(other)),
            self._operations,
        )
        windows = ((window.start, window.end), (other.start, other.end))
        return ComparedPair(windows, twins, marks, Warp(*times))

    def _twins(self) -> tuple[I32, I32]:
        """For every slice of both traces its counterpart, -1 where there is none; (slices,) each."""
        twins = tuple(np.full(len(side.trace.slices), -1, np.int32) for side, _ in self._sides)
        for base, new in (self._paired_operations(), self._paired_kernels(), self._paired_collectives()):
            twins[0][base] = new
            twins[1][new] = base
        return twins[0], twins[1]

    def _paired_operations(self) -> tuple[I64, I64]:
        match = self._operations
        (base, own), (new, other) = self._sides
        return base.operations_in(own).item[match.base], new.operations_in(other).item[match.new]

    def _kernels(self) -> list[tuple[I64, I64, list[str]]]:
        """The kernels of both steps by start: slices, launching operations (-1 unknown) and types."""
        kernels_of = []
        for (side, window), kernels in zip(self._sides, self.comparison.kernels, strict=True):
            start = side.trace.slices.start[kernels.item]
            inside = np.flatnonzero((start >= window.start) & (start < max(window.end, window.start + 1)))
            types = [kernels.identities[code].type for code in kernels.identity[inside].tolist()]
            kernels_of.append((kernels.item[inside], kernels.operation[inside], types))
        return kernels_of

    def _paired_kernels(self) -> tuple[I64, I64]:
        """Kernels of matched operations in their order, then the others by their sequence of types."""
        (items, launched, types), (others, also_launched, other_types) = self._kernels()
        of: dict[int, list[int]] = defaultdict(list)
        for at, operation in enumerate(also_launched.tolist()):
            of[operation].append(at)
        twin = dict(zip(*(items_of.tolist() for items_of in self._paired_operations()), strict=True))
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

    def _marks(self, twins: tuple[I32, I32], changes: list[Finding]) -> tuple[I8, I8]:
        """The mark of every slice of both traces, such as only here or changed; (slices,) each."""
        kernels = self._kernels()
        marks = []
        for k, (side, window) in enumerate(self._sides):
            marked = np.zeros(len(side.trace.slices), np.int8)
            collectives = np.array([collective.item for collective in side.collectives], np.int64)
            start = side.trace.slices.start[collectives]
            here = collectives[(start >= window.start) & (start < window.end)]
            for items in (side.operations_in(window).item, kernels[k][0], here):
                marked[items[twins[k][items] < 0]] = ALONE
            for row in self.comparison.groups:
                if row.change in _DIFFERENT:
                    items = (row.base_items, row.new_items)[k]
                    marked[items] = CHANGED
            name = ("base", "new")[k]
            for change in changes:
                if change.id in _PLACES_OF:
                    places = [
                        place.slice for place in change.evidence if place.side == name and place.slice is not None
                    ]
                    marked[places] = CHANGED
            marks.append(marked)
        return marks[0], marks[1]


_SIDES: tuple[SideName, SideName] = ("base", "new")
_MOST_PLACES = 5


class BothPlaces(Struct, frozen=True):
    """The places of a difference on both sides; None on a side that has no such place."""

    base: Evidence | None
    new: Evidence | None


class ComparisonPicture:
    """``comparison`` with the pair of steps that is drawn."""

    def __init__(self, comparison: ProfileComparison) -> None:
        self.comparison = comparison
        self.drawn = DrawnSteps(comparison)
        self.at: int | None = None
        """Which of ``steps`` is drawn; None for the steps nearest to the medians."""

    @once
    def changes(self) -> list[Finding]:
        """The differences in their order."""
        return differences(self.comparison)

    @once
    def pair(self) -> ComparedPair:
        """What the scene shows; it stays the same object when other steps are drawn."""
        return self.drawn.pair(self.changes)

    @property
    def steps(self) -> list[tuple[StepWindow, StepWindow]]:
        """The compared steps, the n-th of the base beside the n-th of the new side."""
        base, new = self.comparison.sides
        return list(zip(base.windows, new.windows, strict=False))

    def move(self, direction: int) -> bool:
        """Draw the next (1) or previous (-1) pair of steps; False where there is none."""
        steps = self.steps
        base = self.comparison.base
        here = self.at if self.at is not None else base.windows.index(base.sample.medoid)
        target = here + direction
        if not 0 <= target < len(steps):
            return False
        self.at = target
        self.drawn = DrawnSteps(self.comparison, steps[target])
        drawn, shown = self.drawn.pair(self.changes), self.pair
        shown.windows, shown.twins, shown.marks, shown.matched = drawn.windows, drawn.twins, drawn.marks, drawn.matched
        return True

    def places(self, change: Finding) -> list[BothPlaces]:
        """The places of ``change`` in the drawn steps, at most five; those in other steps where these have none."""
        base, new = (
            places_of(side, name, items, window)
            if items is not None and len(items)
            else [place for place in change.evidence if place.side == name]
            for side, name, items, window in zip(
                self.comparison.sides, _SIDES, change.items or (None, None), self.drawn.windows, strict=True
            )
        )
        places: list[BothPlaces] = []
        for place in base:
            other = self._opposite(0, place)
            if other is None and place.slice is None and new:
                other = new[0]
            places.append(BothPlaces(place, other))
        shown = {both.new.slice for both in places if both.new is not None}
        for place in new:
            if place.slice in shown:
                continue
            places.append(BothPlaces(self._opposite(1, place), place))
        return places[:_MOST_PLACES]

    def _opposite(self, side: int, place: Evidence) -> Evidence | None:
        """What belongs to ``place`` on the other side."""
        twin = None if place.slice is None else self.counterpart(side, place.slice)
        return None if twin is None else place_at(self.comparison.sides[1 - side], _SIDES[1 - side], twin)

    def _is_drawn(self, place: Evidence) -> bool:
        start, end = self.pair.windows[_SIDES.index(place.side)]
        return place.start < max(end, start + 1) and place.end >= start

    def marks(self) -> list[list[FindingMark]]:
        """The changes that cost or save time, by their numbers, over their places on both sides."""
        marks: list[list[FindingMark]] = [[], []]
        ladder = [
            change for change in self.changes if change.delta_ns and change.part_of is None and change.id != "DIFF.STEP"
        ]
        for number, change in reversed(list(enumerate(ladder, 1))):
            for both in self.places(change):
                for side, place in enumerate((both.base, both.new)):
                    if place is not None and self._is_drawn(place):
                        marks[side].append(FindingMark(place.start, place.end, str(number), change.severity))
        return marks

    def counterpart(self, side: int, item: int) -> int | None:
        """The slice of the other side that belongs to ``item``: the matched one, else the same by name and turn."""
        twin = int(self.pair.twins[side][item])
        if twin >= 0:
            return twin
        if self.pair.marks[side][item]:
            return None
        trace = self.comparison.sides[side].trace
        windows = self.pair.windows
        name = trace.name_of(item)
        layer = trace.layer_of(int(trace.slices.lane[item]))
        turn = int(np.count_nonzero(self._namesakes(side, name, layer.kind, windows[side]) < item))
        same = self._namesakes(1 - side, name, layer.kind, windows[1 - side])
        return int(same[turn]) if turn < len(same) else None

    def _namesakes(self, side: int, name: str, kind: str, window: tuple[int, int]) -> I64:
        """The slices called ``name`` in layers of ``kind`` that start in ``window``, ascending."""
        trace = self.comparison.sides[side].trace
        code = trace.names.index(name) if name in trace.names else -1
        start, (low, high) = trace.slices.start, window
        namesakes = np.flatnonzero((trace.slices.name == code) & (start >= low) & (start < max(high, low + 1)))
        kinds = np.array([trace.layer_of(lane.index).kind == kind for lane in trace.lanes] or [False])
        same: I64 = namesakes[kinds[trace.slices.lane[namesakes]]]
        return same


def compared_scene(picture: ComparisonPicture) -> Scene:
    """The scene of ``picture``: the drawn steps begin at the same column, and marks above show the changes."""
    scene = make_scene([side.profile for side in picture.comparison.sides])
    scene.compare(picture.pair)
    scene.findings = picture.marks()
    return scene
