"""What lies under a cell of a drawn frame."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from npu_tui.view.frame.drawn import Frame
from npu_tui.view.frame.findings import mark_at
from npu_tui.view.scene import Scene, ScreenRow, Selected, ViewState

Part = Literal["minimap", "findings", "losses", "ruler", "strip", "gutter", "lanes", "outside"]


class Spot(Struct, frozen=True):
    """``part`` of the frame, ``time`` ns (left edge of the column; None in the gutter), outline ``row``, slice.

    ``finding`` is the label of the finding that is drawn there.
    """

    part: Part
    time: int | None = None
    row: int | None = None
    slice: Selected | None = None
    finding: str = ""


def spot_at(frame: Frame, outline: list[ScreenRow], state: ViewState, scene: Scene, x: int, y: int) -> Spot:
    """What is under column ``x`` and row ``y`` of ``frame``; the minimap's times span the whole scene."""
    column, line = x - frame.gutter, y - frame.lanes_top
    if x < 0 or y < 0 or column >= frame.viewport.width or line >= len(frame.lane_rows):
        return Spot("outside")
    index = frame.lane_rows[line] if line >= 0 else -1
    row = index if 0 <= index < len(outline) else None
    if column < 0:
        return Spot("gutter", None, row)
    if y == 0 and frame.top == "minimap":
        return Spot("minimap", scene.whole(frame.viewport.width).edge(column))
    time = state.viewport.edge(column) if state.viewport.width == frame.viewport.width else frame.viewport.edge(column)
    if y == 0:
        focus = outline[state.focus].trace if 0 <= state.focus < len(outline) else 0
        local = scene.local(focus, frame.viewport)
        mark = mark_at(scene.findings[focus], local, column) if frame.top == "findings" else None
        return Spot(frame.top, time, finding="" if mark is None else mark.label)
    if line < 0:
        return Spot("ruler" if y == 1 else "strip", time)
    item = int(frame.items[line, column])
    found = Selected(outline[row].trace, item) if row is not None and item >= 0 else None
    return Spot("lanes", time, row, found)
