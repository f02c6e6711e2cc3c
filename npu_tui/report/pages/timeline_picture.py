"""The lanes of a trace as pictures for a page, drawn by the same view as the screen."""

from __future__ import annotations

from npu_tui.profile.part import ProfilePart
from npu_tui.profile.scene import finding_marks, make_scene
from npu_tui.profile.selection import WHOLE_TRACE
from npu_tui.report.pages.svg import Piece, svg
from npu_tui.strings import say
from npu_tui.trace.text import drawable
from npu_tui.view.cells.ansi import Encoder, Run
from npu_tui.view.cells.grid import Grid
from npu_tui.view.cells.palette import DARK, LIGHT, Palette
from npu_tui.view.frame.painter import Painter, gutter_width, lanes_top
from npu_tui.view.scene import Scene
from npu_tui.view.walk.explorer import Explorer

_COLUMNS = 150
_MOST_ROWS = 60


def timeline_pictures(part: ProfilePart) -> tuple[str, str]:
    """The SVG of ``part``, light and dark, at its range or step, else the first step, else all of it; at most 60 rows.

    Findings that shorten the step are numbered above the lanes, over what proves them.
    """
    scene = make_scene([part.profile])
    scene.findings = [finding_marks(part.findings.findings)]
    explorer = explorer_of(scene)
    if part.selection != WHOLE_TRACE:
        low, high = explorer.home_bounds()
        window = part.window
        explorer.show(max(window.start, low), min(window.end, high))
    return explorer_pictures(explorer)


def explorer_of(scene: Scene) -> Explorer:
    """``scene`` as wide and high as a picture."""
    return Explorer(scene, _COLUMNS - gutter_width(_COLUMNS), _MOST_ROWS)


def explorer_pictures(explorer: Explorer) -> tuple[str, str]:
    """The SVG of what ``explorer`` looks at, light and dark, at most 60 rows."""
    explorer.state.cursor = -1  # a picture has no place that somebody looks at
    explorer.state.focus = -1
    explorer.state.link_mode = "off"
    rows = max(min(len(explorer.rows), _MOST_ROWS), 1)
    height = rows + lanes_top(rows)
    grid = Painter(explorer.scene).compose(explorer.rows, explorer.state, _COLUMNS, height).grid
    light, dark = (_drawn(grid, palette) for palette in (LIGHT, DARK))
    return light, dark


def _drawn(grid: Grid, palette: Palette) -> str:
    encoder = Encoder(palette)
    return svg([[_piece(run) for run in encoder.runs(grid, y)] for y in range(grid.height)], say("table.timeline"))


def _piece(run: Run) -> Piece:
    text, front, back, attr, _ = run
    assert isinstance(front, tuple)
    assert isinstance(back, tuple)
    return drawable(text), front, back, attr
