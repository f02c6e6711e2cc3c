"""What each rank spends a step on: bars of computing, exposed communication and free time on one scale."""

from __future__ import annotations

from msgspec import Struct

from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import cell_count, drawable, shortened
from npu_tui.view.cells.grid import Attr, Grid
from npu_tui.view.cells.labels import points
from npu_tui.view.cells.palette import Ink, bar

_FILLS = (("█", bar(OpClass.CUBE)), ("▒", bar(OpClass.COMMUNICATION)), ("╱", bar(OpClass.WAIT)))
"""Of computing, exposed communication and free time: as in the bars of a step."""


class DrawnParts(Struct, frozen=True):
    """One rank: ``times`` are computing, exposed communication and free time of a step in ns; ``note`` their sum."""

    label: str
    times: tuple[float, float, float]
    note: str
    marked: bool = False


def draw_parts(title: str, rows: tuple[DrawnParts, ...], grid: Grid) -> None:
    """Draw ``rows`` below their ``title`` into ``grid``, the longest over its whole width."""
    grid.write(0, 0, points(shortened(drawable(title), grid.width)), Ink.BRIGHT, attr=Attr.BOLD)
    label = max((cell_count(row.label) for row in rows), default=0)
    note = max((cell_count(row.note) for row in rows), default=0)
    left, right = label + 2, grid.width - note - 2
    longest = max((sum(row.times) for row in rows), default=0.0)
    if right - left < 10 or longest <= 0:
        return
    for line, row in enumerate(rows[: grid.height - 1], 1):
        if row.marked:
            grid.bg[line, :] = Ink.FOCUS
        grid.write(line, 1, points(row.label), Ink.BRIGHT if row.marked else Ink.TEXT)
        grid.write(line, right + 1, points(row.note), Ink.DIM)
        done = 0.0
        for time, (fill, ink) in zip(row.times, _FILLS, strict=True):
            start, done = round(left + done * (right - left) / longest), done + time
            end = round(left + done * (right - left) / longest)
            grid.char[line, start:end], grid.fg[line, start:end] = ord(fill), ink
