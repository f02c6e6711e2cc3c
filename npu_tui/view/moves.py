"""Where a key leads: along a row, over links, between the tasks of a collective."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import ASYNC_NPU, FORWARD_BACKWARD, HOST_TO_DEVICE, TASK_QUEUE, LayerKind, Rows, Trace
from npu_tui.view.outline import is_plane
from npu_tui.view.scene import Scene, ScreenRow, Selected
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


class Bounds:
    """All times are ns of the scene's clock, as its offsets are now."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._own = [_extent(trace, length) for trace, length in zip(scene.traces, scene.lengths, strict=True)]

    def _edges(self, which: int) -> list[int]:
        return [offset + own[which] for offset, own in zip(self._scene.offsets, self._own, strict=True)]

    @property
    def whole(self) -> tuple[int, int]:
        """From the start of the first trace to the end of the last one; a slice without duration lies in it, too."""
        start = self._scene.start
        return start, max(self._edges(1), default=start + 1)

    @property
    def low(self) -> int:
        """The earliest time that can be on screen: samples may lie before the first slice."""
        return min(self._edges(0), default=self._scene.start)

    @property
    def high(self) -> int:
        """The end of the latest time that can be on screen."""
        return max(self._edges(2), default=self._scene.start + 1)


def _extent(trace: Trace, length: int) -> tuple[int, int, int]:
    """First time of ``trace``, end of its slices, end of its slices and samples; ns of its own clock."""
    end = max(length, 1, int(trace.slices.start.max()) + 1 if len(trace.slices) else 1)
    if not len(trace.counters):
        return 0, end, end
    return min(int(trace.counters.time.min()), 0), end, max(int(trace.counters.time.max()), end)


_PREFERENCE = (HOST_TO_DEVICE, TASK_QUEUE, ASYNC_NPU, FORWARD_BACKWARD)


class LinkEnds(Struct, frozen=True):
    """The links of one slice as indices of ``Trace.links``: those that leave and those that arrive, best first."""

    out: list[int]
    into: list[int]


def links_of(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> LinkEnds:
    """The links whose ends are bound to slice ``item``; those of ``category`` come first, then by target time."""
    links = trace.links
    order = _order(trace, category)
    out = np.flatnonzero(links.source_slice == item)
    into = np.flatnonzero(links.target_slice == item)
    return LinkEnds(_sorted(out, order, trace), _sorted(into, order, trace))


def inner_links(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> list[int]:
    """The links that leave slices inside ``item`` on its lane, most telling first."""
    links, slices = trace.links, trace.slices
    on_lane = (links.source_lane == slices.lane[item]) & (links.source_slice >= 0)
    within = (links.source_time >= slices.start[item]) & (links.source_time < slices.end[item])
    return _sorted(np.flatnonzero(on_lane & within), _order(trace, category), trace)


def forward(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> int | None:
    """The slice that the first link out of ``item``, or out of what it contains, leads to."""
    links = trace.links
    ways = links_of(trace, item, category).out or inner_links(trace, item, category)
    return next((int(links.target_slice[way]) for way in ways if links.target_slice[way] >= 0), None)


def back(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> int | None:
    """The slice that the first link into ``item`` comes from."""
    links = trace.links
    ways = links_of(trace, item, category).into
    return next((int(links.source_slice[way]) for way in ways if links.source_slice[way] >= 0), None)


def siblings(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> list[int]:
    """The slices that one launch leads to, by start: those beside ``item``, else those that it launched itself.

    The links of a launch share key and source; a source that issued several links counts as one launch. The first link
    of ``item`` that did not come alone counts, so kernels of one operation belong together even where each has a launch
    of its own. Fewer than two for a slice whose links all came alone.
    """
    ends = links_of(trace, item, category)
    groups = [_launched(trace, way) for way in (*ends.into, *ends.out)]
    return next((group for group in groups if len(group) > 1), groups[0] if groups else [])


def _launched(trace: Trace, way: int) -> list[int]:
    """The slices that the launch of link number ``way`` leads to, by start."""
    links = trace.links
    same = (links.category == links.category[way]) & (links.target_slice >= 0)
    group = same & (links.key == links.key[way]) & (links.source_event == links.source_event[way])
    if np.count_nonzero(group) < 2 and links.source_slice[way] >= 0:
        group = same & (links.source_slice == links.source_slice[way])
    found = np.unique(links.target_slice[group])
    order = np.argsort(trace.slices.start[found], kind="stable")
    return [int(target) for target in found[order]]


def link_span(trace: Trace, item: int) -> tuple[int, int] | None:
    """From the earliest to the latest end of the links of ``item`` with the slices there, ns; None without links."""
    ends = links_of(trace, item)
    ways = ends.out + ends.into
    if not ways:
        return None
    links, slices = trace.links, trace.slices
    # Where the clocks differ, a target can lie before its source.
    low = min(int(min(links.source_time[way], links.target_time[way])) for way in ways)
    high = max(int(max(links.source_time[way], links.target_time[way])) for way in ways)
    for way in ways:
        for other in (int(links.source_slice[way]), int(links.target_slice[way])):
            if other >= 0 and other != item:
                low, high = min(low, int(slices.start[other])), max(high, int(slices.start[other]))
    return low, high


def _order(trace: Trace, category: str) -> list[int]:
    """The rank of every link category."""
    preferred = (category, *_PREFERENCE)
    return [preferred.index(name) if name in preferred else len(preferred) for name in trace.link_categories]


def _sorted(ways: npt.NDArray[np.int64], order: list[int], trace: Trace) -> list[int]:
    links = trace.links
    return sorted(ways.tolist(), key=lambda way: (order[links.category[way]], int(links.target_time[way])))


_OF_COLLECTIVES = (OpClass.COMMUNICATION, OpClass.WAIT, OpClass.MEMORY, OpClass.OTHER)


def task_beside(trace: Trace, item: int, onward: bool) -> int | None:
    """Collective, task on a plane, task on a stream: the next one on this way, or the one before; None without.

    Of the tasks of a collective the longest is meant; where planes were not recorded, its longest task on a stream.
    """
    slices = trace.slices
    lane = trace.lanes[int(slices.lane[item])]
    kind, device = trace.layers[lane.layer].kind, trace.layers[lane.layer].device
    planes = _on(trace, "communication", device, True)
    groups = _on(trace, "communication", device, False)
    streams = _on(trace, "hardware", device, False)
    classes = slices.op_class[streams]
    streams = streams[np.isin(classes, _OF_COLLECTIVES)]
    if kind == "communication" and is_plane(trace, lane):
        return _twin(trace, item, streams) if onward else _around(trace, item, groups)
    if kind == "communication" and onward:
        found = _longest_inside(trace, item, planes)
        return _longest_inside(trace, item, streams) if found is None else found
    if kind == "hardware" and not onward and slices.op_class[item] in _OF_COLLECTIVES:
        found = _twin(trace, item, planes)
        return _around(trace, item, groups) if found is None and not len(planes) else found
    return None


def _on(trace: Trace, kind: LayerKind, device: int | None, planes: bool) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The slices on the lanes of such layers of a device; of communication either those of planes or of groups."""
    parts = [
        np.arange(lane.first, lane.last, dtype=np.int64)
        for lane in trace.file_lanes
        if (trace.layers[lane.layer].kind, trace.layers[lane.layer].device) == (kind, device)
        and (kind != "communication" or is_plane(trace, lane) == planes)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _twin(trace: Trace, item: int, among: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int | None:
    slices = trace.slices
    same = (slices.start[among] == slices.start[item]) & (slices.end[among] == slices.end[item])
    found = among[same]
    return int(found[0]) if len(found) else None


def _around(trace: Trace, item: int, among: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int | None:
    slices = trace.slices
    holds = (slices.start[among] <= slices.start[item]) & (slices.end[among] >= slices.end[item])
    found = among[holds]
    return int(found[-1]) if len(found) else None


def _longest_inside(trace: Trace, item: int, among: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int | None:
    slices = trace.slices
    inside = (slices.start[among] >= slices.start[item]) & (slices.end[among] <= slices.end[item])
    found = among[inside]
    return int(found[np.argmax(slices.end[found] - slices.start[found])]) if len(found) else None
