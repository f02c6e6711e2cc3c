"""A comparison on screen: the steps that are drawn now, and where each difference is to be seen in them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.compare.comparison import Comparison
from npu_tui.compare.difference import Difference, Place, SideName, places_of
from npu_tui.compare.differences import differences
from npu_tui.compare.drawing.slices import DrawnSteps
from npu_tui.compare.steps import StepWindow
from npu_tui.trace.once import once
from npu_tui.view.scene import FindingMark, Pair

I64 = npt.NDArray[np.int64]

_SIDES: tuple[SideName, SideName] = ("base", "new")
_MOST_PLACES = 5


class BothPlaces(Struct, frozen=True):
    """Where a difference is to be seen; None on a side that has no such place."""

    base: Place | None
    new: Place | None


class Picture:
    """``comparison`` with the pair of steps that is drawn."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.drawn = DrawnSteps(comparison)
        self.at: int | None = None
        """Which of ``steps`` is drawn; None for the steps nearest to the medians."""

    @once
    def changes(self) -> list[Difference]:
        """The differences in their order."""
        return differences(self.comparison)

    @once
    def pair(self) -> Pair:
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
        there = here + direction
        if not 0 <= there < len(steps):
            return False
        self.at = there
        self.drawn = DrawnSteps(self.comparison, steps[there])
        found, shown = self.drawn.pair(self.changes), self.pair
        shown.windows, shown.twins, shown.marks, shown.matched = found.windows, found.twins, found.marks, found.matched
        return True

    def places(self, change: Difference) -> list[BothPlaces]:
        """Where ``change`` is to be seen in the drawn steps, at most five; elsewhere where these have none of it."""
        base, new = (
            places_of(side, name, items, window)
            if len(items)
            else [place for place in change.places if place.side == name]
            for side, name, items, window in zip(
                self.comparison.sides, _SIDES, change.items, self.drawn.windows, strict=True
            )
        )
        found: list[BothPlaces] = []
        for place in base:
            other = self._opposite(0, place)
            if other is None and place.item is None and new:
                other = new[0]
            found.append(BothPlaces(place, other))
        shown = {each.new.item for each in found if each.new is not None}
        for place in new:
            if place.item in shown:
                continue
            found.append(BothPlaces(self._opposite(1, place), place))
        return found[:_MOST_PLACES]

    def _opposite(self, side: int, place: Place) -> Place | None:
        """What belongs to ``place`` on the other side."""
        twin = None if place.item is None else self.counterpart(side, place.item)
        return None if twin is None else self._place(1 - side, twin)

    def _is_drawn(self, place: Place) -> bool:
        start, end = self.pair.windows[_SIDES.index(place.side)]
        return place.start < max(end, start + 1) and place.end >= start

    def _place(self, side: int, item: int) -> Place:
        trace = self.comparison.sides[side].trace
        slices = trace.slices
        start, end = int(slices.start[item]), int(slices.end[item])
        return Place(_SIDES[side], start, end, int(slices.lane[item]), trace.name_of(item), item)

    def marks(self) -> list[list[FindingMark]]:
        """The changes that cost or save time, by their numbers, over their places on both sides."""
        found: list[list[FindingMark]] = [[], []]
        ladder = [each for each in self.changes if each.delta and each.part_of is None and each.id != "DIFF.STEP"]
        for number, each in reversed(list(enumerate(ladder, 1))):
            for both in self.places(each):
                for side, place in enumerate((both.base, both.new)):
                    if place is not None and self._is_drawn(place):
                        found[side].append(FindingMark(place.start, place.end, str(number), each.severity))
        return found

    def counterpart(self, side: int, item: int) -> int | None:
        """The slice of the other side that belongs to ``item``: the matched one, else the same by name and turn."""
        twin = int(self.pair.twins[side][item])
        if twin >= 0:
            return twin
        if self.pair.marks[side][item]:
            return None
        own = self.comparison.sides[side].trace
        windows = self.pair.windows
        name = own.name_of(item)
        layer = own.layer_of(int(own.slices.lane[item]))
        turn = int(np.count_nonzero(self._namesakes(side, name, layer.kind, windows[side]) < item))
        same = self._namesakes(1 - side, name, layer.kind, windows[1 - side])
        return int(same[turn]) if turn < len(same) else None

    def _namesakes(self, side: int, name: str, kind: str, window: tuple[int, int]) -> I64:
        """The slices called ``name`` in layers of ``kind`` that start in ``window``, ascending."""
        trace = self.comparison.sides[side].trace
        code = trace.names.index(name) if name in trace.names else -1
        start, (low, high) = trace.slices.start, window
        found = np.flatnonzero((trace.slices.name == code) & (start >= low) & (start < max(high, low + 1)))
        kinds = np.array([trace.layer_of(lane.index).kind == kind for lane in trace.lanes] or [False])
        same: I64 = found[kinds[trace.slices.lane[found]]]
        return same
