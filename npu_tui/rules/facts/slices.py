"""Slices of a trace as rules take them: by length, as a span, as evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npu_tui.analysis.steps import Step, warm_up_steps
from npu_tui.rules.facts.spans import I64, Bools, Span, first_of_largest
from npu_tui.rules.model import Evidence
from npu_tui.trace.classes import step_number
from npu_tui.trace.intervals import union
from npu_tui.trace.message import Said
from npu_tui.trace.model import Lane, Trace
from npu_tui.trace.once import once
from npu_tui.trace.text import brief

GARBAGE_COLLECTION = "GC"
"""The frame that torch_npu's profiler records for a collection (gc_detect_threshold)."""


class TraceSlices:
    """The slices of ``trace``."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @property
    def foreign(self) -> frozenset[int]:
        """Ids of threads that work for another device."""
        return frozenset()

    def host_calls(self, low: int, high: int, after: int) -> I64:
        """What the host begins in ``[low, high)`` of its clock and ends later than ``after``, by lane.

        Frames of Python and steps are no such calls.
        """
        slices, items = self.trace.slices, self._begun(self._host_lanes, low, high, after)
        name = slices.name[items]
        call = (slices.category[items] != self._frames) | self._collecting[name]
        found: I64 = items[call & ~self._steps_named[name]]
        return found

    def frames(self, low: int, high: int, after: int) -> I64:
        """The frames of Python that begin in ``[low, high)`` of the host's clock and end later than ``after``."""
        items = self._begun(self.trace.lanes, low, high, after)
        found: I64 = items[self.trace.slices.category[items] == self._frames]
        return found

    def _begun(self, lanes: Sequence[Lane], low: int, high: int, after: int) -> I64:
        slices = self.trace.slices
        found = [np.zeros(0, np.int64)]
        for lane in lanes:
            begun = slices.start[lane.first : lane.last]
            first, last = (lane.first + int(begun.searchsorted(time)) for time in (low, high))
            if first < last:
                found.append(first + np.flatnonzero(slices.end[first:last] > after))
        return np.concatenate(found)

    @once
    def _host_lanes(self) -> list[Lane]:
        lanes = [lane for lane in self.trace.lanes if lane.tid not in self.foreign]
        return [lane for lane in lanes if self.trace.layers[lane.layer].kind in ("python", "cann", "other")]

    @once
    def _frames(self) -> int:
        """The category of frames of Python; that of none where there are none."""
        categories = self.trace.categories
        return categories.index("python_function") if "python_function" in categories else len(categories)

    @once
    def _collecting(self) -> Bools:
        return np.array([name == GARBAGE_COLLECTION for name in self.trace.names] + [False])

    @once
    def _steps_named(self) -> Bools:
        return np.array([step_number(name) is not None for name in self.trace.names] + [False])

    def length(self, items: I64) -> I64:
        """Durations of slices, ns."""
        return self.trace.slices.end[items] - self.trace.slices.start[items]

    def warming_up(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """The first of ``steps`` that take far longer than the others."""
        numbered = [each for each in steps if each.number is not None and each.window is not None]
        items = np.array([each.item for each in numbered], np.int64)
        return tuple(numbered[: warm_up_steps(self.length(items))])

    def span_of(self, chosen: Bools | I64) -> Span:
        """The union of slices, given as a mask or by index."""
        return union(self.trace.slices.start[chosen], self.trace.slices.end[chosen])

    def outermost(self, items: I64) -> I64:
        """Those of ``items`` that lie in no other of them on the same lane."""
        slices = self.trace.slices
        if not len(items):
            return items
        # By lane, start and, the longest first, end: so all slices are sorted.
        least = int(items.min())
        there = np.zeros(int(items.max()) - least + 1, np.bool_)
        there[items - least] = True
        order = least + np.flatnonzero(there)
        # Lanes one after another on one axis: what reaches no farther than any before it on its lane lies inside.
        far = slices.end[order] + slices.lane[order].astype(np.int64) * (int(slices.end[order].max()) + 1)
        outer = np.ones(len(order), np.bool_)
        outer[1:] = far[1:] > np.maximum.accumulate(far)[:-1]
        found: I64 = order[outer]
        return found[np.argsort(slices.start[found], kind="stable")]

    def place(self, item: int, note: Said) -> Evidence:
        """A slice as evidence."""
        slices = self.trace.slices
        name = brief(self.trace.name_of(item))
        return Evidence(int(slices.start[item]), int(slices.end[item]), int(slices.lane[item]), name, note, item)

    def longest(self, items: I64, note: Callable[[int], Said], most: int = 10) -> tuple[Evidence, ...]:
        """The longest of ``items`` as evidence, in order of time; ``note`` gives the words for a slice."""
        chosen = np.sort(items[first_of_largest(self.length(items), most)])
        chosen = chosen[np.argsort(self.trace.slices.start[chosen], kind="stable")]
        return tuple(self.place(item, note(item)) for item in chosen.tolist())
