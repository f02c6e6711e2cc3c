"""Which links are drawn over the lanes, and as what: those of the selection, or the telling ones of all in view."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.trace.model import Trace
from npu_tui.view.cells.lines import Lines
from npu_tui.view.cells.palette import Ink
from npu_tui.view.frame.link_index import LinkIndex
from npu_tui.view.rows.row_index import RowIndex
from npu_tui.view.scene import LinkClasses, LinkShape, ViewState, screen_line
from npu_tui.view.spans import I64, spread
from npu_tui.view.viewport import Viewport

_MOST_TELLING = 80
_MOST = 120
_GROUP = 3
_PER_GROUP = 4
_OF_SELECTION = 64
_ON_TOP = 100
_NOWHERE = -(1 << 40)


class LaneArea(Struct, frozen=True):
    """The lane area: its times, what is scrolled, and where slices stand."""

    viewport: Viewport
    state: ViewState
    height: int
    places: RowIndex


def links_of_slice(trace: Trace, item: int) -> I64:
    """Indices of the links that start or end at slice ``item``, at most 64 with the smallest latency kept."""
    links = trace.links
    mine = np.flatnonzero((links.source_slice == item) | (links.target_slice == item))
    if len(mine) > _OF_SELECTION:
        latency = np.abs(links.target_time[mine] - links.source_time[mine])
        mine = np.sort(mine[np.argsort(latency, kind="stable")[:_OF_SELECTION]])
    return mine


def selection_lines(trace: Trace, number: int, marks: LinkClasses, link: I64, area: LaneArea) -> Lines:
    """The lines of the links of the selected slice: red when starved, else bright."""
    lines = _lines(trace, number, marks, link, area)
    calm = ~marks.starved[link] & (marks.shape[link] != LinkShape.NEAR_VERTICAL)
    lines.ink[calm] = Ink.LINK_SELECTED
    lines.order += _ON_TOP
    lines.ends[:] = True
    return lines


def view_lines(trace: Trace, number: int, marks: LinkClasses, index: LinkIndex, area: LaneArea) -> Lines:
    """The lines of the links in view: starved and near-vertical ones first, then a thinned sample of the others."""
    link = index.link[_telling(index, area.viewport)]
    rest = np.setdiff1d(index.link[_sample(index, area.viewport)], link)
    lines = _lines(trace, number, marks, np.concatenate([link, rest]), area)
    # Of the sampled ones, one line per group of columns and target row keeps the slopes readable.
    group = area.viewport.columns(trace.links.target_time[rest]) // _GROUP
    _, once = np.unique(group * 100_000 + lines.y1[len(link) :], return_index=True)
    keep = np.concatenate([np.arange(len(link)), len(link) + np.sort(once)])
    return lines.picked(keep[:_MOST])


def _telling(index: LinkIndex, viewport: Viewport) -> I64:
    """Positions of starved and near-vertical links in view: per column the one that lost most, at most 80."""
    low, high = np.searchsorted(index.emphasised, index.touching(viewport.start, viewport.end))
    found = index.emphasised[low:high]
    inside = (index.source[found] < viewport.end) & (index.target[found] >= viewport.start)
    found = found[inside]
    weight = index.lost[found] + index.starved[found]
    found = found[np.argsort(-weight, kind="stable")]
    _, once = np.unique(viewport.columns(index.target[found]), return_index=True)
    return found[np.sort(once)[:_MOST_TELLING]]


def _sample(index: LinkIndex, viewport: Viewport) -> I64:
    """Positions of a few links per group of columns, the same ones while the view pans."""
    low, high = index.touching(viewport.start, viewport.end)
    edges = viewport.edges()
    at = np.searchsorted(index.target, edges[(-viewport.first) % _GROUP :: _GROUP])
    bounds = np.concatenate([[low], np.clip(at, low, high), [high]])
    size = np.diff(bounds)
    taken = np.minimum(size, _PER_GROUP)
    # Beyond the right edge lie the targets of links that leave the screen: spread over all of them.
    found = spread(bounds[:-1], taken)
    if size[-1] > _PER_GROUP:
        found = np.unique(np.append(found, np.linspace(bounds[-2], high - 1, 4 * _PER_GROUP).astype(np.int64)))
    inside = (index.source[found] < viewport.end) & (index.target[found] >= viewport.start)
    return found[inside]


def _lines(trace: Trace, number: int, marks: LinkClasses, link: I64, area: LaneArea) -> Lines:
    links, view = trace.links, area.viewport
    ends = []
    for time, item, lane in (
        (links.source_time[link], links.source_slice[link], links.source_lane[link]),
        (links.target_time[link], links.target_slice[link], links.target_lane[link]),
    ):
        bound = item >= 0
        safe = np.where(bound, item, 0)
        depth = np.where(bound, trace.slices.depth[safe] if len(trace.slices) else 0, 0)
        lanes = np.where(bound, trace.slices.lane[safe] if len(trace.slices) else -1, lane)
        row = area.places.rows(number, lanes.astype(np.int64), depth.astype(np.int64))
        # Counted from the left edge, and in floats only then: exact near the screen, and no product overflows.
        start, over = divmod(view.first * view.span, view.width)
        column = ((time - view.origin - start).astype(np.float64) * view.width - over) / view.span
        ends.append((column, row))
    (x0, row0), (x1, row1) = ends
    shape, starved = marks.shape[link], marks.starved[link]
    near = shape == LinkShape.NEAR_VERTICAL
    ink = np.select(
        [
            starved,
            near,
            links.target_time[link] < links.source_time[link],
            shape == LinkShape.SHALLOW,
            shape == LinkShape.QUEUED,
        ],
        [Ink.ALERT, Ink.NEAR, Ink.NEGATIVE, Ink.SHALLOW, Ink.QUEUED],
        Ink.LINK,
    )
    order = np.select([starved, near], [3, 2], 1)
    # An end that stands nowhere takes the row of the other end, out of sight: then no line is drawn, only one mark.
    lost0, lost1 = row0 < 0, row1 < 0
    y0 = screen_line(area.state, np.where(lost0, np.where(lost1, _NOWHERE, row1), row0))
    y1 = screen_line(area.state, np.where(lost1, np.where(lost0, _NOWHERE, row0), row1))
    x0, x1 = np.where(lost0, -1.0, x0), np.where(lost1, -1.0, x1)
    return Lines(
        x0,
        y0,
        x1,
        y1,
        ink.astype(np.uint8),
        near,
        order.astype(np.int64),
        np.zeros(len(link), np.bool_),
    )
