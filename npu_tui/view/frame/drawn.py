"""What a frame is once it is drawn, and how many rows stand above its lanes."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from npu_tui.view.cells.grid import Grid
from npu_tui.view.cells.raster import I32
from npu_tui.view.viewport import Viewport

_LOSSES_FROM = 26
"""From this height on lost time has a row of its own; below it takes the minimap's place while all is in view."""

TopRow = Literal["minimap", "findings", "losses"]


class Frame(Struct):
    """A drawn frame.

    ``gutter`` columns stand left of the lanes, ``lanes_top`` is the first row of the lanes, ``lane_rows`` the outline
    index of every row from there on (-1 where none is), ``utilisation`` the busy share 0..1 of the lane of each of
    these rows in view (None for rows that do not open a lane), ``items`` (rows, columns) the slice under each cell of
    the lanes (-1: none), ``top`` what stands in the first row.
    """

    grid: Grid
    gutter: int
    lanes_top: int
    lane_rows: list[int]
    utilisation: list[float | None]
    viewport: Viewport
    items: I32
    top: TopRow = "minimap"


def lanes_top(height: int) -> int:
    """Rows above the lanes in a frame of ``height`` rows: minimap, ruler, link strip, and lost time where it fits."""
    return 4 if height >= _LOSSES_FROM else 3
