"""The lanes of a trace as pictures for a page, drawn by the same view as the screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from npu_tui.profile.profile import Profile
from npu_tui.profile.scene import finding_marks, make_scene
from npu_tui.profile.selection import WHOLE_TRACE
from npu_tui.report.pages.svg import CELL_HEIGHT, CELL_WIDTH, CLOSED, Piece, svg
from npu_tui.strings import say
from npu_tui.trace.text import brief, drawable, duration_text, moment_text, printable
from npu_tui.view.ansi import Encoder, Run
from npu_tui.view.caches import Frame, lanes_top
from npu_tui.view.explorer import Explorer
from npu_tui.view.grid import Grid
from npu_tui.view.margins import gutter_width, range_columns
from npu_tui.view.painter import Painter
from npu_tui.view.palette import DARK, LIGHT, Palette
from npu_tui.view.scene import Scene

_COLUMNS = 150
_MOST_ROWS = 60
_MOST_TIPS = 600
_LONGEST = 90
"""Slices that tell themselves, and characters of their names."""


def timeline_pictures(part: Profile) -> tuple[str, str]:
    """The SVG of ``part``, light and dark, at its range or step, else the first step, else all of it; at most 60 rows.

    Findings that shorten the step are numbered above the lanes, over what proves them.
    """
    return explorer_pictures(_explorer(part))


def _explorer(part: Profile) -> Explorer:
    scene = make_scene([part])
    scene.findings = [finding_marks(part.findings.findings)]
    explorer = explorer_of(scene)
    if part.selection != WHOLE_TRACE:
        low, high = explorer.home_bounds()
        window = part.window
        explorer.show(max(window.start, low), min(window.end, high))
    return explorer


def page_picture(part: Profile) -> str:
    """The SVG of ``part`` for a page: in the palette of the page, with names of slices and links to findings."""
    return explorer_page_picture(_explorer(part))


def explorer_of(scene: Scene) -> Explorer:
    """``scene`` as wide and high as a picture."""
    return Explorer(scene, _COLUMNS - gutter_width(_COLUMNS), _MOST_ROWS)


def explorer_pictures(explorer: Explorer) -> tuple[str, str]:
    """The SVG of what ``explorer`` looks at, light and dark, at most 60 rows."""
    grid = _frame(explorer).grid
    light, dark = (_drawn(grid, palette) for palette in (LIGHT, DARK))
    return light, dark


def explorer_page_picture(explorer: Explorer) -> str:
    """The SVG of what ``explorer`` looks at for a page, in the palette that the page has."""
    frame = _frame(explorer)
    inks = len(LIGHT.rgb)
    numbered = np.zeros((inks, 3), np.uint8)
    numbered[:, 1], numbered[:, 2] = np.divmod(np.arange(inks), 256)
    picture = _drawn(frame.grid, replace(LIGHT, rgb=numbered))
    used = sorted({int(found, 16) for found in _INKED.findall(picture)})
    picture = _INKED.sub(lambda found: f'class="{found[0][0]}{int(found[1], 16)}"', picture)
    light, dark = (_rules(palette, used) for palette in (LIGHT, DARK))
    rules = f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}"
    picture = picture.replace("</style>", f"{rules}</style>", 1)
    over = [*_tips(explorer, frame), *_finding_links(explorer, frame)]
    return picture.replace(CLOSED, f"{''.join(over)}{CLOSED}")


_INKED = re.compile(r'(?:fill|stroke)="#([0-9a-f]{6})"')


def _rules(palette: Palette, inks: list[int]) -> str:
    """What colours the shapes of each ink."""
    colours = {ink: "#{:02x}{:02x}{:02x}".format(*palette.rgb[ink].tolist()) for ink in inks}
    return "".join(f".f{ink}{{fill:{colour}}}.s{ink}{{stroke:{colour}}}" for ink, colour in colours.items())


def _tips(explorer: Explorer, frame: Frame) -> Iterator[str]:
    """Name, start and duration over the slices that are drawn, the widest first."""
    found: list[tuple[int, int, int, int]] = []
    for line, items in enumerate(frame.items):
        edges = np.flatnonzero(np.diff(items, prepend=-2, append=-2))
        found += [
            (first - last, line, first, int(items[first]))
            for first, last in pairwise(edges.tolist())
            if items[first] >= 0 and 0 <= frame.lane_rows[line] < len(explorer.rows)
        ]
    for wide, line, first, item in sorted(found)[:_MOST_TIPS]:
        trace = explorer.scene.traces[explorer.rows[frame.lane_rows[line]].trace]
        start, duration = int(trace.slices.start[item]), int(trace.slices.end[item] - trace.slices.start[item])
        words = f"{brief(printable(trace.name_of(item)), _LONGEST)}  {moment_text(start)}  {duration_text(duration)}"
        yield _over(frame.gutter + first, frame.lanes_top + line, -wide, words)


def _finding_links(explorer: Explorer, frame: Frame) -> Iterator[str]:
    """What leads from the marks above the lanes to the findings below."""
    if frame.top == "findings":
        for mark in explorer.scene.findings[0]:
            first, last = range_columns(frame.viewport, (mark.start, mark.end))
            if first <= last:
                shape = _over(frame.gutter + first, 0, last - first + 1, say("page.finding", number=mark.label))
                yield f'<a href="#finding-{mark.label}">{shape}</a>'


def _over(column: int, row: int, columns: int, words: str) -> str:
    box = f'x="{column * CELL_WIDTH}" y="{row * CELL_HEIGHT}" width="{columns * CELL_WIDTH}" height="{CELL_HEIGHT}"'
    return f'<rect class="tip" {box}><title>{escape(words)}</title></rect>'


def _frame(explorer: Explorer) -> Frame:
    """What ``explorer`` looks at, as a picture shows it."""
    explorer.state.cursor = -1  # a picture has no place that somebody looks at
    explorer.state.focus = -1
    explorer.state.link_mode = "off"
    rows = max(min(len(explorer.rows), _MOST_ROWS), 1)
    return Painter(explorer.scene).compose(explorer.rows, explorer.state, _COLUMNS, rows + lanes_top(rows))


def _drawn(grid: Grid, palette: Palette) -> str:
    encoder = Encoder(palette)
    return svg([[_piece(run) for run in encoder.runs(grid, y)] for y in range(grid.height)], say("table.timeline"))


def _piece(run: Run) -> Piece:
    text, front, back, attr, _ = run
    assert isinstance(front, tuple)
    assert isinstance(back, tuple)
    return drawable(text), front, back, attr
