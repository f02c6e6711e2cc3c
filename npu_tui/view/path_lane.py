"""The critical path of a device as a lane, and the times at which it runs through the rows of all other lanes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from npu_tui.trace.arrays import I8, I32, I64, Bools
from npu_tui.trace.model import Rows, Trace


class PathMarks(Struct, frozen=True, eq=False):
    """The times from ``start`` to ``end`` (ns of the trace) that the path spends in slices; (n,) each.

    They come by ``lane`` and time; those of a lane do not overlap. ``row`` is the row of ``Trace.rows`` with the slice,
    ``stretch`` the part of the path. ``order`` has them by row and time.
    """

    lane: I32
    row: I32
    start: I64
    end: I64
    stretch: I32
    order: I64

    @classmethod
    def sorted(cls, lane: I32, row: I32, start: I64, end: I64, stretch: I32) -> PathMarks:
        """Marks that come in any order."""
        by = np.lexsort((start, lane))
        row, start = row[by], start[by]
        return cls(lane[by], row, start, end[by], stretch[by], np.lexsort((start, row)))

    def in_row(self, row: int) -> I64:
        """The marks of a row of the trace, by time."""
        low, high = np.searchsorted(self.row, (row, row + 1), sorter=self.order).tolist()
        return self.order[low:high]

    def in_lane(self, lane: int) -> I64:
        """The marks of a lane, by time."""
        return np.arange(*np.searchsorted(self.lane, (lane, lane + 1)).tolist())

    def of_slice(self, trace: Trace, item: int) -> I64:
        """The marks within slice ``item``, by time."""
        slices = trace.slices
        found = self.in_row(trace.lanes[int(slices.lane[item])].first_row + int(slices.depth[item]))
        inside: I64 = found[(self.start[found] < slices.end[item]) & (self.end[found] > slices.start[item])]
        return inside


class RowMarks:
    """Finds the columns in which a path runs through a row, or through lanes that are drawn as one."""

    def __init__(self, marks: PathMarks) -> None:
        self._marks = marks
        self._times: dict[tuple[str, int], tuple[I64, I64]] = {}

    def columns(self, edges: I64, row: int, lanes: Iterable[int]) -> Bools:
        """Which columns between ``edges`` (ns) the path runs through in ``lanes``, without them in ``row``."""
        parts = [self._of("lane", lane) for lane in lanes] or [self._of("row", row)]
        found = np.zeros(len(edges) - 1, np.bool_)
        for start, end in parts:
            if len(start) and start[0] < edges[-1] and end[-1] > edges[0]:
                found |= start.searchsorted(edges[1:]) > end.searchsorted(edges[:-1], "right")
        return found

    def _of(self, kind: str, number: int) -> tuple[I64, I64]:
        if (kind, number) not in self._times:
            marks = self._marks
            found = marks.in_row(number) if kind == "row" else marks.in_lane(number)
            self._times[kind, number] = marks.start[found], marks.end[found]
        return self._times[kind, number]


class PathLane(Struct, frozen=True, eq=False):
    """The stretches of a path as the only row of ``rows``, by time; (n,) each. ``item`` there is -1 without a slice.

    ``op_class`` says how a stretch is drawn, ``owner`` which of the ``names`` it belongs to; each name has its shorter
    forms in further lines. ``links`` (of the trace) says which links the path takes.
    """

    rows: Rows
    op_class: I8
    owner: I32
    names: list[str]
    marks: PathMarks
    links: Bools

    def at(self, time: int) -> int:
        """The stretch at ``time`` ns, else the one before; -1 before the first."""
        return int(np.searchsorted(self.rows.start, time, "right")) - 1
