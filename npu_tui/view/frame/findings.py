"""Findings in one row: where each of them lies, the gravest on top."""

from __future__ import annotations

import numpy as np

from npu_tui.view.cells.grid import SPACE, Attr, Grid
from npu_tui.view.cells.labels import points
from npu_tui.view.cells.palette import Ink
from npu_tui.view.frame.ruler import range_columns
from npu_tui.view.scene import FindingMark
from npu_tui.view.spans import I64
from npu_tui.view.viewport import Viewport

_INKS = {"high": Ink.ALERT, "medium": Ink.ACCENT, "low": Ink.DIM, "info": Ink.FAINT}
_LINE, _HIT = "━", "▔"


def draw_findings(grid: Grid, marks: list[FindingMark], viewport: Viewport, hits: I64) -> None:
    """Draw the one-row ``grid``: a line over the time of each mark with its label at the beginning.

    ``hits`` are the times (ns) of search hits, which are marked here as this row stands in the minimap's place.
    """
    for mark in _drawn(marks):
        first, last = range_columns(viewport, (mark.start, mark.end))
        if first <= last:
            grid.write(0, first, points(_LINE * (last - first + 1)), _INKS[mark.severity])
            grid.write(0, first, points(mark.label), _INKS[mark.severity], attr=int(Attr.BOLD))
    found = np.flatnonzero(np.diff(np.searchsorted(hits, viewport.edges())))
    grid.char[0, found[grid.char[0, found] == SPACE]] = ord(_HIT)
    grid.attr[0, found] |= int(Attr.UNDERLINE)
    grid.fg[0, found] = Ink.HIT


def mark_at(marks: list[FindingMark], viewport: Viewport, column: int) -> FindingMark | None:
    """The mark that is seen in ``column``, None where there is none."""
    seen = None
    for mark in _drawn(marks):
        first, last = range_columns(viewport, (mark.start, mark.end))
        if first <= column < max(last + 1, first + len(mark.label)) and first <= last:
            seen = mark
    return seen


def _drawn(marks: list[FindingMark]) -> list[FindingMark]:
    """The marks in the order in which they are drawn, the gravest over the others."""
    return sorted(marks, key=lambda mark: list(_INKS).index(mark.severity), reverse=True)
