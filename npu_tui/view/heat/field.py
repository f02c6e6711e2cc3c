"""Thousands of ranks at once: hosts side by side with their devices below each other, or one cell per host."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.text import drawable, shortened
from npu_tui.view.cells.grid import Attr, Grid
from npu_tui.view.cells.labels import points
from npu_tui.view.cells.palette import Ink
from npu_tui.view.heat.shades import shaded

F64 = npt.NDArray[np.float64]

_TALLEST = 16
"""Devices of a host up to which each has a line of its own."""


class FieldPicture(Struct, frozen=True):
    """``shares`` (hosts, devices), NaN for what is not there, under a ``title``; ``cursor`` is (host, device)."""

    title: str
    shares: F64
    names: tuple[str, ...]
    least: tuple[float, ...]
    alarming: bool = True
    cursor: tuple[int, int] | None = None


class FieldPlaces(Struct, frozen=True):
    """Where the cells are: ``across`` hosts a line; with ``by_device`` a line is a device, else it is more hosts."""

    across: int
    by_device: bool
    hosts: int
    cell: int = 1
    left: int = 1

    def at(self, x: int, y: int) -> tuple[int, int] | None:
        """Host and device (-1: all of them) at column ``x`` of line ``y`` below the title."""
        column = (x - self.left) // self.cell
        if not 0 <= column < self.across or y < 0:
            return None
        if self.by_device:
            return column, y
        host = y * self.across + column
        return (host, -1) if host < self.hosts else None


def field_places(hosts: int, devices: int, width: int, height: int) -> FieldPlaces:
    """How ``hosts`` of so many ``devices`` are laid out in ``height`` lines of ``width`` columns."""
    room = max(width - 2, 1)
    if hosts <= room and devices <= min(height - 1, _TALLEST):
        return FieldPlaces(hosts, True, hosts, 2 if 2 * hosts <= room else 1)
    # Rows of hosts that are as many as a person counts easily: multiples of ten.
    across = next((count for count in (50, 40, 30, 20, 10) if 2 * count <= room), room)
    while -(-hosts // across) > max(height - 1, 1) and across < room:
        across = min(across * 2, room)
    return FieldPlaces(across, False, hosts, 2 if 2 * across <= room else 1)


def draw_field(picture: FieldPicture, grid: Grid) -> FieldPlaces:
    """Draw ``picture`` into ``grid``: a title, then the cells; what has no room is left out."""
    hosts, devices = picture.shares.shape
    places = field_places(hosts, devices, grid.width, grid.height)
    if grid.height < 2:
        return places
    grid.write(0, 0, points(shortened(drawable(picture.title), grid.width)), Ink.BRIGHT, attr=Attr.BOLD)
    if places.by_device:
        cells = picture.shares.T
    else:
        worst = np.fmax.reduce(picture.shares, axis=1)
        lines = -(-hosts // places.across)
        cells = np.full(lines * places.across, np.nan)
        cells[:hosts] = worst
        cells = cells.reshape(lines, places.across)
    char, ink = shaded(cells, picture.least, picture.alarming)
    for line in range(min(len(cells), grid.height - 1)):
        at = places.left + np.arange(places.across) * places.cell
        grid.char[1 + line, at], grid.fg[1 + line, at] = char[line], ink[line]
    if picture.cursor is not None:
        _mark(picture.cursor, places, grid)
    return places


def _mark(cursor: tuple[int, int], places: FieldPlaces, grid: Grid) -> None:
    host, device = cursor
    line, column = (device, host) if places.by_device else divmod(host, places.across)
    x = places.left + column * places.cell
    if 1 + line < grid.height and x < grid.width:
        grid.bg[1 + line, x] = Ink.NAME_FOCUS
        grid.attr[1 + line, x] |= Attr.BOLD | Attr.UNDERLINE
