"""Links drawn as lines, and the strip above the lanes that shows their shape and lost time per column."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.native.cells import I64, spread
from npu_tui.trace.kineto import launch_links
from npu_tui.trace.model import HOST_TO_DEVICE, Trace
from npu_tui.view.grid import Attr, Grid
from npu_tui.view.lines import Lines
from npu_tui.view.palette import Ink
from npu_tui.view.rows import RowIndex
from npu_tui.view.scene import LinkClasses, LinkShape, ViewState, screen_line
from npu_tui.view.viewport import Viewport


class LinkIndex:
    """Links of one category of one trace.

    ``link`` indexes ``Trace.links``; ``source``, ``target`` (ns), ``shape``, ``lost`` (ns) and ``starved`` are those of
    these links; (n,) each. ``sums`` (n + 1, 7) are prefix sums of counts (near-vertical, shallow, negative, starved,
    starved and near-vertical, starved and shallow) and of the time lost by starved links.
    """

    def __init__(self, trace: Trace, marks: LinkClasses, category: str) -> None:
        launches = category == HOST_TO_DEVICE  # a GPU has them under another name
        self.link: I64 = (launch_links(trace) if launches else trace.links_of(category)).astype(np.int64)
        self.source: I64 = trace.links.source_time[self.link]
        self.target: I64 = trace.links.target_time[self.link]
        self.shape = marks.shape[self.link]
        self.lost: I64 = marks.lost[self.link]
        self.starved = marks.starved[self.link]
        near = self.shape == LinkShape.NEAR_VERTICAL
        shallow, starved = self.shape == LinkShape.SHALLOW, self.starved
        counted = (near, shallow, self.target < self.source, starved, starved & near, starved & shallow)
        self.sums = np.zeros((len(self.link) + 1, 7), np.int64)  # one array: a column needs all of them
        for column, values in enumerate((*counted, np.where(starved, self.lost, 0))):
            np.cumsum(values, out=self.sums[1:, column])
        self.emphasised: I64 = np.flatnonzero(near | self.starved)
        # Links are sorted by target only. The running maximum and minimum of both ends ascend, so a binary search in
        # them bounds the links that touch a window.
        self._latest = np.maximum.accumulate(np.maximum(self.source, self.target))
        self._earliest = np.minimum.accumulate(np.minimum(self.source, self.target)[::-1])[::-1]

    def __len__(self) -> int:
        return len(self.link)

    def touching(self, start: int, end: int) -> tuple[int, int]:
        """Bounds of a run of links with all that touch ``[start, end)`` ns, and few others."""
        low = int(np.searchsorted(self._latest, start))
        high = int(np.searchsorted(self._earliest, end))
        return low, max(low, high)


_MOST_TELLING = 80  # starved and near-vertical lines at most; more hide the bars
_MOST = 120  # lines at most
_GROUP = 3  # columns of a group in which other links are sampled
_PER_GROUP = 4  # more lines between the same few columns cover each other
_OF_SELECTION = 64  # the shortest of a slice with more, such as a wait for thousands
_ON_TOP = 100
"""Added to the order of the selection's lines."""
_ON_PATH = 10  # the same for lines of a critical path
_NOWHERE = -(1 << 40)  # a row that is never on screen


class LaneArea(Struct, frozen=True):
    """The lane area: its times, the scrolled rows, and the row of every slice."""

    viewport: Viewport
    state: ViewState
    height: int
    places: RowIndex


def links_of_slice(trace: Trace, item: int) -> I64:
    """Indices of the links that start or end at slice ``item``; of more than 64 those with the least latency."""
    links = trace.links
    links_of_item = np.flatnonzero((links.source_slice == item) | (links.target_slice == item))
    if len(links_of_item) > _OF_SELECTION:
        latency = np.abs(links.target_time[links_of_item] - links.source_time[links_of_item])
        links_of_item = np.sort(links_of_item[np.argsort(latency, kind="stable")[:_OF_SELECTION]])
    return links_of_item


def selection_lines(trace: Trace, number: int, marks: LinkClasses, link: I64, area: LaneArea) -> Lines:
    """The lines of the links of the selected slice: red if starved, else bright."""
    lines = _link_lines(trace, number, marks, link, area)
    calm = ~marks.starved[link] & (marks.shape[link] != LinkShape.NEAR_VERTICAL)
    lines.ink[calm] = Ink.LINK_SELECTED
    lines.order += _ON_TOP
    lines.ends[:] = True
    return lines


def path_lines(trace: Trace, number: int, marks: LinkClasses, link: I64, area: LaneArea) -> Lines:
    """The lines of the links in view that a critical path takes, ``link`` by target: bright and over all others."""
    target = trace.links.target_time[link]
    low, high = np.searchsorted(target, (area.viewport.start, area.viewport.end)).tolist()
    _, first_in_column = np.unique(area.viewport.columns(target[low:high]), return_index=True)
    lines = _link_lines(trace, number, marks, link[low:high][first_in_column[:_MOST_TELLING]], area)
    lines.ink[lines.ink != Ink.ALERT] = Ink.LINK_SELECTED
    lines.order += _ON_PATH
    lines.ends[:] = True
    return lines


def view_lines(trace: Trace, number: int, marks: LinkClasses, index: LinkIndex, area: LaneArea) -> Lines:
    """The lines of the links in view: starved and near-vertical ones first, then a thinned sample of the others."""
    link = index.link[_telling(index, area.viewport)]
    rest = np.setdiff1d(index.link[_sampled_links(index, area.viewport)], link)
    lines = _link_lines(trace, number, marks, np.concatenate([link, rest]), area)
    # One sampled line per group of columns and target row keeps the slopes readable.
    group = area.viewport.columns(trace.links.target_time[rest]) // _GROUP
    _, first_in_group = np.unique(group * 100_000 + lines.y1[len(link) :], return_index=True)
    keep = np.concatenate([np.arange(len(link)), len(link) + np.sort(first_in_group)])
    return lines.picked(keep[:_MOST])


def _telling(index: LinkIndex, viewport: Viewport) -> I64:
    """Positions of starved and near-vertical links in view: the one that lost most per column, at most 80."""
    low, high = np.searchsorted(index.emphasised, index.touching(viewport.start, viewport.end))
    positions = index.emphasised[low:high]
    inside = (index.source[positions] < viewport.end) & (index.target[positions] >= viewport.start)
    positions = positions[inside]
    weight = index.lost[positions] + index.starved[positions]
    positions = positions[np.argsort(-weight, kind="stable")]
    _, first_in_column = np.unique(viewport.columns(index.target[positions]), return_index=True)
    return positions[np.sort(first_in_column)[:_MOST_TELLING]]


def _sampled_links(index: LinkIndex, viewport: Viewport) -> I64:
    """Positions of a few links per group of columns; panning does not change the choice."""
    low, high = index.touching(viewport.start, viewport.end)
    edges = viewport.edges()
    at = np.searchsorted(index.target, edges[(-viewport.first) % _GROUP :: _GROUP])
    bounds = np.concatenate([[low], np.clip(at, low, high), [high]])
    size = np.diff(bounds)
    taken = np.minimum(size, _PER_GROUP)
    # Links that leave the screen have their targets beyond the right edge: sample evenly over all of them.
    positions = spread(bounds[:-1], taken)
    if size[-1] > _PER_GROUP:
        positions = np.unique(np.append(positions, np.linspace(bounds[-2], high - 1, 4 * _PER_GROUP).astype(np.int64)))
    inside = (index.source[positions] < viewport.end) & (index.target[positions] >= viewport.start)
    return positions[inside]


def _link_lines(trace: Trace, number: int, marks: LinkClasses, link: I64, area: LaneArea) -> Lines:
    links, slices, view = trace.links, trace.slices, area.viewport
    # Both ends of all links at once: the sources, then the targets.
    item = np.concatenate((links.source_slice[link], links.target_slice[link]))
    time = np.concatenate((links.source_time[link], links.target_time[link]))
    lane = np.concatenate((links.source_lane[link], links.target_lane[link])).astype(np.int64)
    depth = np.zeros(len(item), np.int64)
    bound = np.flatnonzero(item >= 0)
    lane[bound], depth[bound] = slices.lane[item[bound]], slices.depth[item[bound]]
    row0, row1 = np.split(area.places.rows(number, lane, depth), 2)
    # Relative to the left edge before the conversion to floats: exact near the screen, and no overflow.
    start, over = divmod(view.first * view.span, view.width)
    x0, x1 = np.split(((time - (view.origin + start)).astype(np.float64) * view.width - over) / view.span, 2)
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
    # An end without a row takes the row of the other end, off screen: no line is drawn, only the mark of that end.
    lost0, lost1 = row0 < 0, row1 < 0
    y0 = screen_line(area.state, np.where(lost0, np.where(lost1, _NOWHERE, row1), row0))
    y1 = screen_line(area.state, np.where(lost1, np.where(lost0, _NOWHERE, row0), row1))
    x0, x1 = np.where(lost0, -1.0, x0), np.where(lost1, -1.0, x1)
    return Lines(x0, y0, x1, y1, ink.astype(np.uint8), near, order.astype(np.int64), np.zeros(len(link), np.bool_))


NEAR_GLYPH, SHALLOW_GLYPH, QUEUED_GLYPH, NEGATIVE_GLYPH = ord("┃"), ord("\\"), ord("╲"), ord("╱")
SHAPE_GLYPHS = {
    LinkShape.PLAIN: "·",
    LinkShape.NEAR_VERTICAL: chr(NEAR_GLYPH),
    LinkShape.SHALLOW: chr(SHALLOW_GLYPH),
    LinkShape.QUEUED: chr(QUEUED_GLYPH),
}
"""The glyph of each shape, in the strip and in legends."""
_NEAR, _NEGATIVE, _SHALLOW, _QUEUED = range(4)
_GLYPHS = np.array([NEAR_GLYPH, NEGATIVE_GLYPH, SHALLOW_GLYPH, QUEUED_GLYPH], np.uint32)
_INKS = np.array([Ink.NEAR, Ink.NEGATIVE, Ink.SHALLOW, Ink.QUEUED], np.uint8)
_LOST_FAINT = 50_000
"""A column with less lost time (ns) is a paler red."""
_LOST_BOLD = 500_000  # a column with this lost time is bold


class StripCount(Struct, frozen=True):
    """The links of the category that arrive in view: all, the starved ones, the near-vertical ones."""

    links: int
    starved: int
    near: int


def draw_strip(grid: Grid, index: LinkIndex, viewport: Viewport) -> StripCount:
    """Draw the one-row ``grid`` from the links whose target lies in each column.

    A starved link always wins its column and is red, brighter if more time was lost. Otherwise a near-vertical link
    wins, then a negative latency, then the more frequent of shallow and queued.
    """
    at = index.target.searchsorted(viewport.edges())
    links = np.diff(at)
    near, shallow, negative, starved, starved_near, starved_shallow, lost = np.diff(index.sums[at], axis=0).T

    present, red = links > 0, starved > 0
    often = 2 * shallow > links
    calm = np.where(near > 0, _NEAR, np.where(negative > 0, _NEGATIVE, np.where(often, _SHALLOW, _QUEUED)))
    alarming = np.where(starved_near > 0, _NEAR, np.where(starved_shallow > 0, _SHALLOW, _QUEUED))
    grid.char[0, present] = _GLYPHS[np.where(red, alarming, calm)[present]]
    ink = np.where(red, np.where(lost < _LOST_FAINT, int(Ink.ALERT_LOW), int(Ink.ALERT)), _INKS[calm])
    grid.fg[0, present] = ink[present]
    grid.attr[0, present & ((red & (lost >= _LOST_BOLD)) | (~red & (near > 0)))] = int(Attr.BOLD)
    return StripCount(int(links.sum()), int(starved.sum()), int(near.sum()))
