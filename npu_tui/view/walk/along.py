"""Where a step along a row leads: the slice under the cursor, its neighbours, the edges nearby."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Trace
from npu_tui.trace.rows import Rows
from npu_tui.view.scene import ScreenRow, Selected
from npu_tui.view.viewport import Viewport

_SNAP_COLUMNS = 2


# All times and viewports here are those of the row's own trace.


def slice_at(row: ScreenRow | None, viewport: Viewport, when: int) -> Selected | None:
    """The slice of ``row`` at ``when`` ns, or the nearest one within its column."""
    if row is None or row.rows is None:
        return None
    rows, low, high = row.rows, int(row.rows.offset[row.row]), int(row.rows.offset[row.row + 1])
    at = low + int(np.searchsorted(rows.start[low:high], when, "right")) - 1
    if at >= low and rows.end[at] > when:
        return Selected(row.trace, int(rows.item[at]))
    column = viewport.column(when)
    left, right = viewport.edge(column), viewport.edge(column + 1)
    near = [i for i in (at, at + 1) if low <= i < high and rows.start[i] < right and rows.end[i] >= left]
    if not near:
        return None
    best = min(near, key=lambda i: max(rows.start[i] - when, when - rows.end[i]))
    return Selected(row.trace, int(rows.item[best]))


def slice_beside(row: ScreenRow | None, when: int, selected: Selected | None, direction: int) -> int | None:
    """The position in the ``Rows`` of ``row`` of the next (1) or previous (-1) slice that starts there."""
    if row is None or row.rows is None:
        return None
    rows, low, high = row.rows, int(row.rows.offset[row.row]), int(row.rows.offset[row.row + 1])
    found = None if selected is None else _beside_selected(rows, low, high, when, selected, direction)
    if found is None:
        found = next_in_time(rows.start[low:high], when, direction)
    return None if found is None else low + found


def _beside_selected(rows: Rows, low: int, high: int, when: int, selected: Selected, direction: int) -> int | None:
    """The neighbour of the selection, counted from ``low``, where several slices start at ``when``."""
    first, last = (low + int(np.searchsorted(rows.start[low:high], when, side)) for side in ("left", "right"))
    if last - first < 2:
        return None
    found = first + np.flatnonzero(rows.item[first:last] == selected.item)
    return int(found[0]) + direction - low if len(found) and low <= found[0] + direction < high else None


def snapped(row: ScreenRow | None, viewport: Viewport, when: int) -> int:
    """The start or end of a slice of ``row`` next to ``when`` ns if one is within two columns, else ``when``."""
    if row is None or row.rows is None:
        return when
    low, high = int(row.rows.offset[row.row]), int(row.rows.offset[row.row + 1])
    reach = _SNAP_COLUMNS * max(viewport.span // viewport.width, 1)
    edges: list[int] = []
    for times in (row.rows.start[low:high], row.rows.end[low:high]):
        at = int(np.searchsorted(times, when))
        edges += [int(times[i]) for i in (at - 1, at) if 0 <= i < len(times)]
    near = [edge for edge in edges if abs(edge - when) <= reach]
    return min(near, key=lambda edge: abs(edge - when), default=when)


def gap_beside(trace: Trace, item: int, direction: int) -> tuple[int, int, int] | None:
    """Start and end (ns) of the gap before (-1) or after (1) slice ``item`` in its row, and the slice beyond it.

    None where nothing is there. A wait is part of the gap, and a gap may have no length.
    """
    slices, lane = trace.slices, trace.lanes[int(trace.slices.lane[item])]
    own = slice(lane.first, lane.last)
    beside = slices.depth[own] == slices.depth[item]
    if slices.op_class[item] != OpClass.WAIT:
        beside &= slices.op_class[own] != OpClass.WAIT
    start, end = int(slices.start[item]), int(slices.end[item])
    beside[item - lane.first] = False
    if direction < 0:
        found = np.flatnonzero(beside & (slices.end[own] <= start))
        if not len(found):
            return None
        other = lane.first + int(found[np.argmax(slices.end[own][found])])
        return int(slices.end[other]), start, other
    found = np.flatnonzero(beside & (slices.start[own] >= end))
    if not len(found):
        return None
    other = lane.first + int(found[np.argmin(slices.start[own][found])])
    return end, int(slices.start[other]), other


def next_in_time(times: npt.NDArray[np.int64], when: int, direction: int) -> int | None:
    """Index of the first of the ascending ``times`` after ``when`` (direction 1) or the last before it (-1)."""
    at = int(np.searchsorted(times, when, "right" if direction > 0 else "left")) - (direction < 0)
    return at if 0 <= at < len(times) else None
