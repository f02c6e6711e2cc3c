"""The widget that paints the overview: heat map, field of hosts and one collective from one grid of cells."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from npu_tui.strings import say
from npu_tui.tui.job.overview import Overview
from npu_tui.tui.job.pictures import (
    arrivals_picture,
    field_picture,
    heat_picture,
    natural_lines,
    parts_rows,
    waterfall_picture,
)
from npu_tui.tui.terminal.strips import style_of
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.tui.widgets.drawing import Drawing
from npu_tui.view.ansi import Encoder
from npu_tui.view.bars import points
from npu_tui.view.grid import Grid
from npu_tui.view.heat import FieldPlaces, Places, draw_field, draw_heat, draw_parts, draw_waterfall
from npu_tui.view.palette import Ink

_BESIDE_FROM = 150
"""Columns from which the arrivals in a step stand beside the heat map."""
_BESIDE = 0.36
_LEAST_FALL = 4
"""Lines that a collective is worth showing on, with its title."""
_LEAST_MAP = 5
_WHEEL_ROWS = 3


class JobMap(Drawing):
    """Shows what ``view`` looks at; nothing until there is one."""

    DEFAULT_CSS = "JobMap { height: 1fr; width: 1fr; }"

    class Moved(Message):
        """The row, column or collective that is looked at changed."""

    class Chosen(Message):
        """The row under the cursor was clicked twice."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal
        self._encoder: Encoder | None = None
        self._strips: list[Strip] = []
        self.view: Overview | None = None
        self.words = ""
        """What stands there while there is nothing to look at."""
        self._places = Places()
        self._beside = Places()
        self._beside_left = 0
        self._field: FieldPlaces | None = None
        self._field_top = 0

    def changed(self) -> None:
        """Paint again."""
        self.post_message(self.Moved())
        self._strips = []
        self.refresh()

    def forget_shown(self) -> None:
        """Nothing is remembered of what the terminal shows."""

    def on_resize(self) -> None:
        """Paint for another size."""
        self._strips = []

    def render_line(self, y: int) -> Strip:
        """Line ``y`` of the picture."""
        if len(self._strips) != self.size.height:
            self._paint()
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)

    def _paint(self) -> None:
        width, height = self.size
        grid = Grid.blank(height, width, Ink.TEXT, Ink.LANE)
        if self.view is None:
            grid.write(min(1, height - 1), 1, points(self.words), Ink.DIM)
        elif width and height:
            self._draw(self.view, grid)
        if self._encoder is None:
            terminal = self._terminal
            self._encoder = Encoder(terminal.palette, terminal.depth, terminal.glyphs)
        encoder = self._encoder
        grid.mend()
        grid = encoder.prepared(grid)
        self._strips = [
            Strip([Segment(run[0], style_of(*run[1:])) for run in encoder.runs(grid, y)], width) for y in range(height)
        ]

    def _draw(self, view: Overview, grid: Grid) -> None:
        """The heat map on top, the collective below, the field of hosts between them where there is one."""
        lines, field, fall, parts = divided(grid.height, *natural_lines(view, grid.width))
        picture = heat_picture(view)
        beside = arrivals_picture(view) if grid.width >= _BESIDE_FROM else None
        right = 0 if beside is None else int(grid.width * _BESIDE)
        self._places = draw_heat(picture, grid.part(0, 0, lines, grid.width - right))
        self._beside_left = grid.width - right + 2
        if beside is not None:
            self._beside = draw_heat(beside, grid.part(0, self._beside_left, lines, right - 2))
            grid.char[:lines, self._beside_left - 2] = ord("│")
            grid.fg[:lines, self._beside_left - 2] = Ink.RULE
        else:
            self._beside = Places()
        self._field = None
        top = lines + 1
        shown = field_picture(view) if field else None
        if shown is not None:
            self._field, self._field_top = draw_field(shown, grid.part(top, 0, field, grid.width)), top + 1
            top += field + 1
        if fall:
            bars = waterfall_picture(view, fall - 1)
            if bars is not None:
                draw_waterfall(bars, grid.part(top, 0, fall, grid.width))
            top += fall + 1
        if parts:
            draw_parts(say("ranks.shares.title"), parts_rows(view), grid.part(top, 0, parts, grid.width))

    # --- mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Go to the row, column, collective or host under the pointer."""
        self.focus()
        view = self.view
        if view is None:
            return
        row = self._places.row(event.y)
        if row is not None and row < len(view.rows):
            view.row = row
            column = self._places.column(event.x) if event.x < self._beside_left else None
            if column is not None:
                view.show_column(column)
            beside = self._beside.column(event.x - self._beside_left) if self._beside.bins else None
            if beside is not None:
                view.show_collective(view.arrivals().columns[beside].collectives[0])
        elif self._field is not None and (place := self._field.at(event.x, event.y - self._field_top)) is not None:
            host, device = place
            if host < len(view.job.hosts):
                own = view.job.hosts[host]
                if device < 0:
                    view.show_scope(view.scope_of_host(own.id))
                elif device < len(own.ranks):
                    view.go_to_rank(own.ranks[device])
        else:
            return
        self.changed()

    def on_click(self, event: events.Click) -> None:
        """A double click on a row is Enter."""
        if event.chain == 2 and self._places.row(event.y) is not None:
            self.post_message(self.Chosen())

    def _wheel(self, event: events.MouseScrollUp | events.MouseScrollDown, direction: int) -> None:
        event.prevent_default()
        event.stop()
        if self.view is not None:
            self.view.move(_WHEEL_ROWS * direction)
            self.changed()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Rows up."""
        self._wheel(event, -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Rows down."""
        self._wheel(event, 1)


def divided(height: int, rows: int, field: int, fall: int, parts: int) -> tuple[int, int, int, int]:
    """Lines out of ``height`` for the heat map, the field of hosts, the collective and the parts of a step.

    A blank line stands between them. What has no room for its least is left out, the field last; the parts are shown
    only if everything else has all it needs.
    """
    left = height
    field_lines = 0
    if field:
        field_lines = min(field, max(left // 3, 4))
        left -= field_lines + 1
    fall_lines = 0
    if fall and left >= min(rows, _LEAST_MAP) + min(fall, _LEAST_FALL) + 1:
        fall_lines = min(fall, max(left - rows - 1, left * 2 // 5, _LEAST_FALL))
        left -= fall_lines + 1
    map_lines = max(min(rows, left), min(left, _LEAST_MAP))
    whole = (map_lines, field_lines, fall_lines) == (rows, field, fall)
    return map_lines, field_lines, fall_lines, parts if parts and whole and left - rows > parts else 0
