"""One row of links under the ruler: what arrives in each column, weighed by lost time."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.view.cells.grid import Attr, Grid
from npu_tui.view.cells.palette import Ink
from npu_tui.view.frame.link_index import LinkIndex
from npu_tui.view.scene import LinkShape
from npu_tui.view.viewport import Viewport

NEAR_GLYPH, SHALLOW_GLYPH, QUEUED_GLYPH, NEGATIVE_GLYPH = ord("┃"), ord("\\"), ord("╲"), ord("╱")
SHAPE_GLYPHS = {
    LinkShape.PLAIN: "·",
    LinkShape.NEAR_VERTICAL: chr(NEAR_GLYPH),
    LinkShape.SHALLOW: chr(SHALLOW_GLYPH),
    LinkShape.QUEUED: chr(QUEUED_GLYPH),
}
"""What stands for the shape of a link, here and in legends."""
_NEAR, _NEGATIVE, _SHALLOW, _QUEUED = range(4)
_GLYPHS = np.array([NEAR_GLYPH, NEGATIVE_GLYPH, SHALLOW_GLYPH, QUEUED_GLYPH], np.uint32)
_INKS = np.array([Ink.NEAR, Ink.NEGATIVE, Ink.SHALLOW, Ink.QUEUED], np.uint8)
_LOST_FAINT = 50_000
_LOST_BOLD = 500_000


class StripCount(Struct, frozen=True):
    """How many links of the category arrive in view, and how many of them starved or are near-vertical."""

    links: int
    starved: int
    near: int


def draw_strip(grid: Grid, index: LinkIndex, viewport: Viewport) -> StripCount:
    """Draw the one-row ``grid`` from the links whose target lies in each column.

    A starved link always wins its cell and is red, brighter the more time was lost there; without one, a near-vertical
    link wins, then a negative latency, then the more frequent of shallow and queued.
    """
    at = index.target.searchsorted(viewport.edges())
    links = np.diff(at)
    near, shallow, negative, starved, starved_near, starved_shallow, lost = np.diff(index.sums[at], axis=0).T

    some, red = links > 0, starved > 0
    often = 2 * shallow > links
    calm = np.where(near > 0, _NEAR, np.where(negative > 0, _NEGATIVE, np.where(often, _SHALLOW, _QUEUED)))
    alarming = np.where(starved_near > 0, _NEAR, np.where(starved_shallow > 0, _SHALLOW, _QUEUED))
    grid.char[0, some] = _GLYPHS[np.where(red, alarming, calm)[some]]
    ink = np.where(red, np.where(lost < _LOST_FAINT, int(Ink.ALERT_LOW), int(Ink.ALERT)), _INKS[calm])
    grid.fg[0, some] = ink[some]
    grid.attr[0, some & ((red & (lost >= _LOST_BOLD)) | (~red & (near > 0)))] = int(Attr.BOLD)
    return StripCount(int(links.sum()), int(starved.sum()), int(near.sum()))
