"""Where a key leads: along a row, over links, between a collective and its tasks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import ASYNC_NPU, FORWARD_BACKWARD, HOST_TO_DEVICE, TASK_QUEUE, LayerKind, Rows, Trace
from npu_tui.view.outline import is_plane
from npu_tui.view.scene import ScreenRow, Selected
from npu_tui.view.viewport import Viewport

_SNAP_COLUMNS = 2  # a mark within so many columns of an edge lies on it


# All times and viewports here are those of the row's own trace.


def slice_at(row: ScreenRow | None, viewport: Viewport, when: int) -> Selected | None:
    """The slice of ``row`` at ``when`` ns, or the nearest one within its column."""
    if row is None or row.rows is None:
        return None
    rows, low, high = row.rows, int(row.rows.offset[row.row]), int(row.rows.offset[row.row + 1])
    at = low + int(np.searchsorted(rows.start[low:high], when, "right")) - 1
    if at >= low and rows.end[at] > when:
        return _selected(row, rows, at)
    column = viewport.column(when)
    left, right = viewport.edge(column), viewport.edge(column + 1)
    # Between slices the nearer neighbour counts if the cursor's column shows it.
    near = [i for i in (at, at + 1) if low <= i < high and rows.start[i] < right and rows.end[i] >= left]
    if not near:
        return None
    best = min(near, key=lambda i: max(rows.start[i] - when, when - rows.end[i]))
    return _selected(row, rows, best)


def _selected(row: ScreenRow, rows: Rows, at: int) -> Selected | None:
    """What stands at a position of a row; a stretch of a critical path may have no slice."""
    item = int(rows.item[at])
    return Selected(row.trace, item) if item >= 0 else None


def slice_beside(row: ScreenRow | None, when: int, selected: Selected | None, direction: int) -> int | None:
    """The next (1) or previous (-1) slice that starts in ``row``, as a position in its ``Rows``; None without one."""
    if row is None or row.rows is None:
        return None
    rows, low, high = row.rows, int(row.rows.offset[row.row]), int(row.rows.offset[row.row + 1])
    offset = None if selected is None else _beside_selected(rows, low, high, when, selected, direction)
    if offset is None:
        offset = next_in_time(rows.start[low:high], when, direction)
    return None if offset is None else low + offset


def _beside_selected(rows: Rows, low: int, high: int, when: int, selected: Selected, direction: int) -> int | None:
    """The neighbour of the selection among several slices that start at ``when``, counted from ``low``."""
    first, last = (low + int(np.searchsorted(rows.start[low:high], when, side)) for side in ("left", "right"))
    if last - first < 2:
        return None
    positions = first + np.flatnonzero(rows.item[first:last] == selected.item)
    return int(positions[0]) + direction - low if len(positions) and low <= positions[0] + direction < high else None


def snapped(row: ScreenRow | None, viewport: Viewport, when: int) -> int:
    """The start or end of a slice of ``row`` nearest to ``when`` ns if it is within two columns, else ``when``."""
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

    None without a slice beyond. A wait counts as part of the gap, and a gap may have no length.
    """
    slices, lane = trace.slices, trace.lanes[int(trace.slices.lane[item])]
    slices_of_lane = slice(lane.first, lane.last)
    in_row = slices.depth[slices_of_lane] == slices.depth[item]
    if slices.op_class[item] != OpClass.WAIT:
        in_row &= slices.op_class[slices_of_lane] != OpClass.WAIT
    start, end = int(slices.start[item]), int(slices.end[item])
    in_row[item - lane.first] = False
    if direction < 0:
        candidates = np.flatnonzero(in_row & (slices.end[slices_of_lane] <= start))
        if not len(candidates):
            return None
        other = lane.first + int(candidates[np.argmax(slices.end[slices_of_lane][candidates])])
        return int(slices.end[other]), start, other
    candidates = np.flatnonzero(in_row & (slices.start[slices_of_lane] >= end))
    if not len(candidates):
        return None
    other = lane.first + int(candidates[np.argmin(slices.start[slices_of_lane][candidates])])
    return end, int(slices.start[other]), other


def next_in_time(times: npt.NDArray[np.int64], when: int, direction: int) -> int | None:
    """Index of the first of the ascending ``times`` after ``when`` (direction 1) or the last before it (-1)."""
    at = int(np.searchsorted(times, when, "right" if direction > 0 else "left")) - (direction < 0)
    return at if 0 <= at < len(times) else None


_PREFERENCE = (HOST_TO_DEVICE, TASK_QUEUE, ASYNC_NPU, FORWARD_BACKWARD)


class SliceLinks(Struct, frozen=True):
    """The links of a slice as indices of ``Trace.links``: those that leave and those that arrive, preferred first."""

    out: list[int]
    into: list[int]


def links_of(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> SliceLinks:
    """The links with an end at slice ``item``; those of ``category`` come first, then by target time."""
    links = trace.links
    order = _order(trace, category)
    out = np.flatnonzero(links.source_slice == item)
    into = np.flatnonzero(links.target_slice == item)
    return SliceLinks(_sorted(out, order, trace), _sorted(into, order, trace))


def inner_links(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> list[int]:
    """The links that leave slices inside ``item`` on its lane, preferred first."""
    links, slices = trace.links, trace.slices
    on_lane = (links.source_lane == slices.lane[item]) & (links.source_slice >= 0)
    within = (links.source_time >= slices.start[item]) & (links.source_time < slices.end[item])
    return _sorted(np.flatnonzero(on_lane & within), _order(trace, category), trace)


def forward(trace: Trace, item: int, category: str = HOST_TO_DEVICE) -> int | None:
    """The target slice of the first link out of ``item`` or out of the slices inside it; None without one."""
    links = trace.links
    leaving = links_of(trace, item, category).out or inner_links(trace, item, category)
    return next((int(links.target_slice[link]) for link in leaving if links.target_slice[link] >= 0), None)


def back(trace: Trace, item: int, category: str = HOST_TO_DEVICE, source: int = -1) -> int | None:
    """The source slice of the link into ``item``, of that from ``source`` or else the first one; None without one."""
    links = trace.links
    arriving = sorted(links_of(trace, item, category).into, key=lambda link: links.source_slice[link] != source)
    return next((int(links.source_slice[link]) for link in arriving if links.source_slice[link] >= 0), None)


def siblings(trace: Trace, item: int, category: str = HOST_TO_DEVICE, source: int = -1) -> list[int]:
    """The slices of one launch, by start: those launched together with ``item``, else those that it launched.

    The links of a launch share key and source event; several links from one source slice also count as one launch. The
    first link of ``item`` with siblings decides, so kernels of one operation belong together even if each has its own
    launch; one from ``source`` comes before all others. Fewer than two slices if no link has siblings.
    """
    ends = links_of(trace, item, category)
    into = sorted(ends.into, key=lambda link: trace.links.source_slice[link] != source)
    groups = [_launched(trace, link) for link in (*into, *ends.out)]
    return next((group for group in groups if len(group) > 1), groups[0] if groups else [])


def _launched(trace: Trace, link: int) -> list[int]:
    """The target slices of the launch that ``link`` belongs to, by start."""
    links = trace.links
    same = (links.category == links.category[link]) & (links.target_slice >= 0)
    group = same & (links.key == links.key[link]) & (links.source_event == links.source_event[link])
    # Links of one source slice are one launch too, even with ids of their own.
    if np.count_nonzero(group) < 2 and links.source_slice[link] >= 0:
        group = same & (links.source_slice == links.source_slice[link])
    targets = np.unique(links.target_slice[group])
    order = np.argsort(trace.slices.start[targets], kind="stable")
    return [int(target) for target in targets[order]]


def link_span(trace: Trace, item: int) -> tuple[int, int] | None:
    """From the first to the last end of a link of ``item`` or start of a slice linked to it, ns; None without any."""
    ends = links_of(trace, item)
    numbers = ends.out + ends.into
    if not numbers:
        return None
    links, slices = trace.links, trace.slices
    # Where the clocks differ, a target can lie before its source.
    low = min(int(min(links.source_time[link], links.target_time[link])) for link in numbers)
    high = max(int(max(links.source_time[link], links.target_time[link])) for link in numbers)
    for link in numbers:
        for other in (int(links.source_slice[link]), int(links.target_slice[link])):
            if other >= 0 and other != item:
                low, high = min(low, int(slices.start[other])), max(high, int(slices.start[other]))
    return low, high


def _order(trace: Trace, category: str) -> list[int]:
    """The preference of every link category, the most preferred first."""
    preferred = (category, *_PREFERENCE)
    return [preferred.index(name) if name in preferred else len(preferred) for name in trace.link_categories]


def _sorted(numbers: npt.NDArray[np.int64], order: list[int], trace: Trace) -> list[int]:
    links = trace.links
    return sorted(numbers.tolist(), key=lambda link: (order[links.category[link]], int(links.target_time[link])))


_OF_COLLECTIVES = (OpClass.COMMUNICATION, OpClass.WAIT, OpClass.MEMORY, OpClass.OTHER)


def task_beside(trace: Trace, item: int, onward: bool) -> int | None:
    """The next (``onward``) or previous stop from a collective to its task on a plane to that task on a stream.

    The task of a collective is its longest one; without recorded planes its longest task on a stream. None without a
    stop.
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
        return _twin(trace, item, streams) if onward else _slice_around(trace, item, groups)
    if kind == "communication" and onward:
        task = _longest_inside(trace, item, planes)
        return _longest_inside(trace, item, streams) if task is None else task
    if kind == "hardware" and not onward and slices.op_class[item] in _OF_COLLECTIVES:
        task = _twin(trace, item, planes)
        return _slice_around(trace, item, groups) if task is None and not len(planes) else task
    return None


def _on(trace: Trace, kind: LayerKind, device: int | None, planes: bool) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The slices on layers of ``kind`` of a device; in communication layers those on ``planes`` or on group lanes."""
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
    equal = among[same]
    return int(equal[0]) if len(equal) else None


def _slice_around(trace: Trace, item: int, among: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int | None:
    slices = trace.slices
    holds = (slices.start[among] <= slices.start[item]) & (slices.end[among] >= slices.end[item])
    outer = among[holds]
    return int(outer[-1]) if len(outer) else None


def _longest_inside(trace: Trace, item: int, among: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int | None:
    slices = trace.slices
    inside = (slices.start[among] >= slices.start[item]) & (slices.end[among] <= slices.end[item])
    inner = among[inside]
    return int(inner[np.argmax(slices.end[inner] - slices.start[inner])]) if len(inner) else None
