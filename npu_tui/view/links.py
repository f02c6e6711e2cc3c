"""Straight lines between cells, and links drawn as such; the strip above the lanes shows their shape and lost time.

Lines are braille dots or columns, behind everything that is already there.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.native.cells import spread
from npu_tui.trace.arrays import F64, I64, U8, Bools
from npu_tui.trace.model import HOST_TO_DEVICE, Trace
from npu_tui.trace.recorder import launch_links
from npu_tui.view.bars import Painted
from npu_tui.view.grid import U32, Attr, Grid
from npu_tui.view.palette import Ink
from npu_tui.view.rows import RowIndex
from npu_tui.view.scene import LinkClasses, LinkShape, ViewState, screen_line
from npu_tui.view.viewport import Viewport

COLUMN = ord("┃")
SOURCE, DOWN, UP, LEFT, RIGHT = ord("●"), ord("▼"), ord("▲"), ord("◄"), ord("►")
_BRAILLE = 0x2800
# Bit of each dot in a braille cell, by (row, column) of the dot.
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint32)
_UPRIGHT = 1.5  # cells: a solid line that leans less is drawn upright, without steps
_FIRST_GROUND, _SELECTED, _LABEL, _BOLD = int(Ink.LANE), int(Ink.SELECTED), int(Ink.LABEL), int(Attr.BOLD)


class Lines(Struct):
    """Lines from (``x0``, ``y0``) to (``x1``, ``y1``): x in fractional columns, y in rows of the lane area.

    Both may be off screen. ``ink`` is the colour; ``solid`` lines are two dots thick (upright ones are drawn as ``┃``);
    a larger ``order`` is on top. With ``ends`` both ends are always marked, also over a name and, off screen, at the
    border.
    """

    x0: F64
    y0: I64
    x1: F64
    y1: I64
    ink: U8
    solid: Bools
    order: I64
    ends: Bools

    def __len__(self) -> int:
        return len(self.x0)

    def picked(self, which: I64) -> Lines:
        """The lines at ``which``, in that order."""
        return Lines(
            self.x0[which],
            self.y0[which],
            self.x1[which],
            self.y1[which],
            self.ink[which],
            self.solid[which],
            self.order[which],
            self.ends[which],
        )


def joined_lines(parts: list[Lines]) -> Lines:
    """All lines of ``parts`` (at least one)."""
    return Lines(
        np.concatenate([part.x0 for part in parts]),
        np.concatenate([part.y0 for part in parts]),
        np.concatenate([part.x1 for part in parts]),
        np.concatenate([part.y1 for part in parts]),
        np.concatenate([part.ink for part in parts]),
        np.concatenate([part.solid for part in parts]),
        np.concatenate([part.order for part in parts]),
        np.concatenate([part.ends for part in parts]),
    )


def draw_lines(lines: Lines, grid: Grid, painted: Painted) -> None:
    """Draw ``lines`` and the marks of their ends into ``grid`` (the lane rows without gutter)."""
    if not len(lines):
        return
    lines = lines.picked(np.argsort(lines.order, kind="stable"))
    down = lines.y1 > lines.y0
    # In dots, 2 x 4 a cell: from the lower edge of the source's row to the upper edge of the target's, or
    # from upper to lower edge for a line that goes up.
    top = np.where(down, 4 * (lines.y0 + 1), 4 * lines.y0 - 1).astype(np.float64)
    bottom = np.where(down, 4 * lines.y1 - 1, 4 * (lines.y1 + 1)).astype(np.float64)
    upright = lines.solid & (np.abs(lines.x1 - lines.x0) < _UPRIGHT)
    # An upright line stands in the column of its target, where the kernel starts.
    column = np.floor(lines.x1)
    left = np.where(upright, 2 * column, 2 * lines.x0)
    right = np.where(upright, 2 * column, 2 * lines.x1)
    between = np.where(down, bottom >= top, bottom <= top) & (lines.y0 != lines.y1)

    enter, leave = _clip(left, top, right, bottom, 2 * grid.width, 4 * grid.height)
    drawn = between & (enter <= leave)
    _draw_dots(lines, np.flatnonzero(drawn & ~upright), (left, top, right, bottom), (enter, leave), grid, painted)
    _draw_columns(lines, np.flatnonzero(drawn & upright), (left, top, right, bottom), (enter, leave), grid, painted)
    _mark_border(lines, np.flatnonzero(drawn & lines.ends), (left, top, right, bottom), (enter, leave), grid, painted)
    _mark_ends(lines, grid, painted)


_Span = tuple[F64, F64, F64, F64]


def _clip(x0: F64, y0: F64, x1: F64, y1: F64, width: int, height: int) -> tuple[F64, F64]:
    """The part of each line on the screen as parameters 0..1 (Liang and Barsky); first > second if there is none."""
    enter, leave = np.zeros(len(x0)), np.ones(len(x0))
    for start, delta, limit in ((x0, x1 - x0, width), (y0, y1 - y0, height)):
        flat = delta == 0
        step = np.where(flat, 1.0, delta)
        low, high = (0 - start) / step, (limit - 0.01 - start) / step
        enter = np.where(flat, enter, np.maximum(enter, np.minimum(low, high)))
        leave = np.where(flat, leave, np.minimum(leave, np.maximum(low, high)))
        outside = flat & ((start < 0) | (start >= limit))
        leave = np.where(outside, -1.0, leave)
    return enter, leave


def _draw_dots(lines: Lines, which: I64, span: _Span, part: tuple[F64, F64], grid: Grid, painted: Painted) -> None:
    if not len(which):
        return
    x0, y0, x1, y1 = (values[which] for values in span)
    enter, leave = part[0][which], part[1][which]
    dx, dy = x1 - x0, y1 - y0
    length = np.maximum(np.abs(dx), np.abs(dy)) * (leave - enter)
    count = np.floor(length).astype(np.int64) + 1
    owner = np.repeat(np.arange(len(which)), count)
    step = spread(np.zeros(len(which), np.int64), count)
    t = enter[owner] + step * ((leave - enter) / np.maximum(count - 1, 1))[owner]
    x = np.clip(np.floor(x0[owner] + t * dx[owner]).astype(np.int64), 0, 2 * grid.width - 1)
    y = np.clip(np.floor(y0[owner] + t * dy[owner]).astype(np.int64), 0, 4 * grid.height - 1)

    dots = np.zeros((4 * grid.height, 2 * grid.width), np.bool_)
    dots[y, x] = True
    thick = lines.solid[which][owner]
    dots[np.minimum(y[thick] + 1, 4 * grid.height - 1), x[thick]] = True
    bits = np.zeros(grid.char.shape, np.uint32)
    for (row, column), bit in np.ndenumerate(_BITS):
        bits |= dots[row::4, column::2] * bit
    ink = np.zeros(grid.char.shape, np.uint8)
    # A cell has one ink: lines are in drawing order, so that of the top line wins.
    ink[y >> 2, x >> 1] = lines.ink[which][owner]
    _write_char(bits > 0, bits + np.uint32(_BRAILLE), ink, grid, painted)


def _draw_columns(lines: Lines, which: I64, span: _Span, part: tuple[F64, F64], grid: Grid, painted: Painted) -> None:
    char = np.full(grid.char.shape, COLUMN, np.uint32)
    ink = np.zeros(grid.char.shape, np.uint8)
    mask = np.zeros(grid.char.shape, np.bool_)
    x, y0, _, y1 = span
    for k in which.tolist():
        ends = sorted(y0[k] + t[k] * (y1[k] - y0[k]) for t in part)
        rows = slice(int(ends[0]) >> 2, (int(ends[1]) >> 2) + 1)
        mask[rows, int(x[k]) >> 1] = True
        ink[rows, int(x[k]) >> 1] = lines.ink[k]
    _write_char(mask, char, ink, grid, painted)
    grid.attr[mask & painted.free] |= _BOLD


def _write_char(mask: Bools, char: U32, ink: U8, grid: Grid, painted: Painted) -> None:
    """Write ``char`` where ``mask`` allows: in its ink on free cells, dark on the plain parts of bars."""
    dark = np.where(grid.bg == _SELECTED, np.uint8(_FIRST_GROUND), np.uint8(_LABEL))
    for place, colour in ((mask & painted.free, ink), (mask & painted.plain, dark)):
        grid.char[place] = char[place]
        grid.fg[place] = colour[place]


def _mark_border(lines: Lines, which: I64, span: _Span, part: tuple[F64, F64], grid: Grid, painted: Painted) -> None:
    """Draw an arrow at the border where the source or target of a line is off screen."""
    x0, y0, x1, y1 = span
    for k in which.tolist():
        for t, at_end in ((part[0][k], False), (part[1][k], True)):
            if t >= 1 if at_end else t <= 0:
                continue
            x = int(np.clip((x0[k] + t * (x1[k] - x0[k])) // 2, 0, grid.width - 1))
            y = int(np.clip((y0[k] + t * (y1[k] - y0[k])) // 4, 0, grid.height - 1))
            far = (lines.x1[k], lines.y1[k]) if at_end else (lines.x0[k], lines.y0[k])
            glyph = DOWN if far[1] >= grid.height else UP if far[1] < 0 else LEFT if far[0] < 0 else RIGHT
            at = np.array([[x], [y], [glyph]], np.int64)
            _mark(at[0], at[1], at[2], lines.ink[k : k + 1], grid, painted)


def _mark_ends(lines: Lines, grid: Grid, painted: Painted) -> None:
    target = np.where(lines.y1 >= lines.y0, DOWN, UP)
    for xs, ys, glyph in ((lines.x0, lines.y0, np.full(len(lines), SOURCE)), (lines.x1, lines.y1, target)):
        shown = np.flatnonzero((xs >= 0) & (xs < grid.width) & (ys >= 0) & (ys < grid.height))
        # Among many lines a name is worth more than another mark.
        shown = shown[lines.ends[shown] | ~painted.named[ys[shown], xs[shown].astype(np.int64)]]
        _mark(xs[shown].astype(np.int64), ys[shown], glyph[shown], lines.ink[shown], grid, painted)


def _mark(x: I64, y: I64, glyph: I64, ink: U8, grid: Grid, painted: Painted) -> None:
    """Write marks: dark on a bar, in the line's ink elsewhere."""
    bar = (grid.bg[y, x] < _FIRST_GROUND) | (grid.bg[y, x] == _SELECTED)
    grid.char[y, x] = glyph
    dark = np.where(grid.bg[y, x] == _SELECTED, _FIRST_GROUND, _LABEL)
    grid.fg[y, x] = np.where(bar, dark, ink)
    grid.attr[y, x] = _BOLD
    painted.free[y, x] = painted.plain[y, x] = False


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
    """Indices of the links that start or end at slice ``item``; if more than 64, those with the least latency."""
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


def event_lines(trace: Trace, number: int, events: tuple[I64, I64], item: int, area: LaneArea) -> Lines:
    """The lines from the record to the wait for it, of a selected slice ``item`` that is one of both in ``events``:
    from end to end, as the wait is over once the record has run.
    """
    waits, records = events
    slices, pair = trace.slices, np.flatnonzero((waits == item) | (records == item))[:_OF_SELECTION]
    both, count = np.concatenate((records[pair], waits[pair])), len(pair)
    lane, depth = slices.lane[both].astype(np.int64), slices.depth[both].astype(np.int64)
    x0, y0, x1, y1 = _placed(number, lane, depth, slices.end[both], area)
    ink, order = np.full(count, Ink.LINK_SELECTED, np.uint8), np.full(count, _ON_TOP + 1)
    return Lines(x0, y0, x1, y1, ink, np.zeros(count, np.bool_), order, np.ones(count, np.bool_))


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
    link = index.link[_emphasised_in_view(index, area.viewport)]
    rest = np.setdiff1d(index.link[_sampled_links(index, area.viewport)], link)
    lines = _link_lines(trace, number, marks, np.concatenate([link, rest]), area)
    # One sampled line per group of columns and target row keeps the slopes readable.
    group = area.viewport.columns(trace.links.target_time[rest]) // _GROUP
    _, first_in_group = np.unique(group * 100_000 + lines.y1[len(link) :], return_index=True)
    keep = np.concatenate([np.arange(len(link)), len(link) + np.sort(first_in_group)])
    return lines.picked(keep[:_MOST])


def _emphasised_in_view(index: LinkIndex, viewport: Viewport) -> I64:
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
    links, slices = trace.links, trace.slices
    # Both ends of all links at once: the sources, then the targets.
    item = np.concatenate((links.source_slice[link], links.target_slice[link]))
    time = np.concatenate((links.source_time[link], links.target_time[link]))
    lane = np.concatenate((links.source_lane[link], links.target_lane[link])).astype(np.int64)
    depth = np.zeros(len(item), np.int64)
    bound = np.flatnonzero(item >= 0)
    lane[bound], depth[bound] = slices.lane[item[bound]], slices.depth[item[bound]]
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
    x0, y0, x1, y1 = _placed(number, lane, depth, time, area)
    return Lines(x0, y0, x1, y1, ink.astype(np.uint8), near, order.astype(np.int64), np.zeros(len(link), np.bool_))


def _placed(number: int, lane: I64, depth: I64, time: I64, area: LaneArea) -> tuple[F64, I64, F64, I64]:
    """Where lines lie; their ends, first all beginnings, are at ``time`` ns in ``depth`` of ``lane``."""
    view = area.viewport
    row0, row1 = np.split(area.places.rows(number, lane, depth), 2)
    # Relative to the left edge before the conversion to floats: exact near the screen, and no overflow.
    start, over = divmod(view.first * view.span, view.width)
    x0, x1 = np.split(((time - (view.origin + start)).astype(np.float64) * view.width - over) / view.span, 2)
    # An end without a row takes the row of the other end, off screen: no line is drawn, only the mark of that end.
    lost0, lost1 = row0 < 0, row1 < 0
    y0 = screen_line(area.state, np.where(lost0, np.where(lost1, _NOWHERE, row1), row0))
    y1 = screen_line(area.state, np.where(lost1, np.where(lost0, _NOWHERE, row0), row1))
    return np.where(lost0, -1.0, x0), y0, np.where(lost1, -1.0, x1), y1


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
