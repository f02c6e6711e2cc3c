"""The widget that paints the lanes."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from itertools import count

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from npu_tui.tui.loading import HEADS_FROM
from npu_tui.tui.terminal.frames import AnsiStrip, FramePace, Shown
from npu_tui.tui.terminal.internals import after
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.view.ansi import Encoder
from npu_tui.view.caches import Frame, lanes_top
from npu_tui.view.explorer import Explorer
from npu_tui.view.margins import gutter_width
from npu_tui.view.painter import Painter, Spot, spot_at


class Drawing(Widget, can_focus=True):
    """It is painted soon after ``changed``, any number of times within a frame once."""

    ALLOW_SELECT = False

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self.terminal = terminal
        self._encoder = Encoder(terminal.palette, terminal.depth, terminal.glyphs)

    def look_as(self, terminal: Terminal) -> None:
        """Draw with the colours and glyphs of ``terminal`` from now on."""
        self.terminal = terminal
        self._encoder = Encoder(terminal.palette, terminal.depth, terminal.glyphs)
        self.forget_shown()
        self.changed()

    @abstractmethod
    def changed(self) -> None:
        """Paint soon."""

    @abstractmethod
    def forget_shown(self) -> None:
        """Something else may have drawn over it: write it whole the next time."""

    @abstractmethod
    def turn_wheel(self, event: events.MouseScrollUp | events.MouseScrollDown, direction: int) -> None:
        """The wheel was turned down (1) or up (-1)."""

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Rows up, or what else goes with Ctrl and Shift."""
        event.prevent_default().stop()
        self.turn_wheel(event, -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Rows down, or what else goes with Ctrl and Shift."""
        event.prevent_default().stop()
        self.turn_wheel(event, 1)


FRAME_SECONDS = 1 / 60
_AT_ONCE = 0.001  # s: a shorter rest is not waited for
_CLICK_COLUMNS = 1
_WHEEL_ROWS = 3
_WHEEL_ZOOM = 1.25
_WHEEL_PAN = 0.1


class Timeline(Drawing):
    """Shows what an ``Explorer`` looks at. Call ``changed`` after every motion; only rows that differ are sent."""

    DEFAULT_CSS = "Timeline { height: 1fr; width: 1fr; }"

    class Moved(Message):
        """The view, cursor, selection or range changed."""

    class Fitted(Message):
        """The lanes have another size, or are others."""

    class Pointed(Message):
        """A click above the lanes at ``[start, end)`` ns, on the ``finding`` with this label unless it is empty."""

        def __init__(self, start: int, end: int, finding: str) -> None:
            self.start, self.end, self.finding = start, end, finding
            super().__init__()

    class Ranged(Message):
        """A range was dragged."""

    def __init__(self, explorer: Explorer, painter: Painter, terminal: Terminal | None = None) -> None:
        super().__init__(terminal or Terminal())
        self.explorer = explorer
        self.painter = painter
        self._frame: Frame | None = None
        self._strips: list[Strip] = []
        self._fitted: Size | None = None
        self._stale = False
        """Whether what is to be shown next is still to be painted, once it is seen: of many sizes only the last is."""
        self._versions: list[int] = []
        self._version = 0
        self.pace = FramePace()
        self.beside: Callable[[], None] = lambda: None
        """Shows beside the lanes what goes with their next picture, so that both are written at once."""
        self._shown = Shown(0, self.pace.question)
        self._pending = False
        self._timer: Timer | None = None
        self._painted = float("-inf")
        self._press: tuple[int, int] | None = None
        self._drag: str = ""

    # --- painting

    def on_resize(self, event: events.Resize) -> None:
        """Fit the explorer to the new size, unless it was drawn in that already."""
        if self._fitted != self.size:
            self._fit()
            self.refresh()

    def show_scene(self, explorer: Explorer, painter: Painter) -> None:
        """Look at another scene."""
        self.explorer, self.painter = explorer, painter
        self._fit()
        self.refresh()

    def lanes_in(self, height: int) -> int:
        """How many of ``height`` rows are for lanes: the others are above them."""
        return max(height - lanes_top(height, self.explorer.scene), 1)

    def height_for(self, lanes: int) -> int:
        """The fewest rows of which as many as ``lanes`` are for lanes."""
        return next(rows for rows in count(lanes) if rows - lanes_top(rows, self.explorer.scene) >= lanes)

    def _fit(self) -> None:
        self._fitted = self.size
        width, height = self.size
        heads = self.app.size.height >= HEADS_FROM
        columns = max(width - gutter_width(width, self.explorer.scene.has_holders), 1)
        self.explorer.resize(columns, self.lanes_in(height), heads)
        self._stale = True
        self.post_message(self.Fitted())

    def changed(self) -> None:
        """Paint soon: any number of calls within a frame make one picture."""
        self.post_message(self.Moved())
        if not self._pending:
            self._pending = True
            self._paint_soon()

    @property
    def is_pending(self) -> bool:
        """Whether something has changed that is not painted yet."""
        return self._pending

    def frame_shown(self) -> None:
        """The terminal has shown a frame: the next one may go out."""
        self.pace.answer()
        if self._pending:
            self._paint_soon()

    @property
    def frame(self) -> Frame | None:
        """What is on screen, None as long as nothing was painted."""
        if self._stale:
            self._paint()
        return self._frame

    def _paint_soon(self) -> None:
        """Paint when the frame before has had its time, and the terminal has shown enough of those on their way."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        rest = FRAME_SECONDS - (time.monotonic() - self._painted)
        seconds = rest if rest > _AT_ONCE else self.pace.wait()
        if seconds > 0:
            self._timer = after(seconds, self, self._paint_soon)
            return
        self._pending = False
        self.beside()
        if self.app.is_headless:  # it is not seen before its rows are asked for
            self._stale = True
            self.refresh()
        elif rows := self._paint():
            width = self.size.width
            self.refresh(*(Region(0, y, width, 1) for y in rows))

    def _paint(self) -> list[int]:
        """Compose the frame; returns the rows that differ from the one before."""
        width, height = self.size
        if not width or not height:
            return []
        self._painted, self._stale = time.monotonic(), False
        explorer = self.explorer
        frame = self.painter.compose(explorer.rows, explorer.state, width, height)
        encoder = self._encoder
        frame.grid = encoder.prepared(frame.grid)
        before = self._frame
        self._frame = frame
        if before is None or before.grid.char.shape != frame.grid.char.shape or len(self._strips) != height:
            before = None
            self._strips = [Strip.blank(width)] * height
            self._versions = [0] * height
            self._shown = Shown(height, self.pace.question)
        shown = None if before is None else before.grid
        rows = frame.grid.changed(shown)
        panned = 0
        if before is not None and width == self.app.size.width:  # the terminal moves cells up to its right edge
            panned = frame.viewport.panned_from(before.viewport)
        changes = encoder.encode(frame.grid, rows, shown, frame.gutter, panned)
        self._version += 1
        for y, change in zip(rows, changes, strict=True):
            base, self._versions[y] = self._versions[y], self._version
            self._strips[y] = AnsiStrip(
                frame.grid, y, encoder, self._version, base, change, self._shown, last=y == rows[-1]
            )
        return rows

    def look_as(self, terminal: Terminal) -> None:
        """Like ``Drawing``; every row is sent anew, as none on screen looks like the next."""
        self._frame = None
        super().look_as(terminal)

    def forget_shown(self) -> None:
        """Something else may have drawn over the rows: write them whole the next time."""
        self._shown.forget()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The painted rows of ``crop``."""
        if self._fitted != self.size:
            self._fit()
        if self._stale:
            self._paint()
        strips = self._strips[crop.y : crop.bottom]
        if crop.x == 0 and crop.width == self.size.width:
            return strips
        return [strip.crop(crop.x, crop.right) for strip in strips]

    # --- mouse

    def _trace_x(self, x: int) -> int:
        return x - (self.frame.gutter if self.frame else 0)

    def _time_at(self, x: int) -> int:
        viewport = self.explorer.state.viewport
        return viewport.edge(min(max(self._trace_x(x), 0), viewport.width))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin a click or a drag."""
        if self.frame is None:
            return
        self.capture_mouse()
        self.focus()
        self._press = (event.x, self._time_at(event.x))
        part = self._under(event.x, event.y).part
        if part == "minimap":
            self._drag = "minimap"
            self._show_minimap(event.x, event.y)
        elif part in ("ruler", "strip", "findings", "losses"):
            self._drag = "pan"
        else:
            self._drag = "zoom" if event.button == 3 or event.meta else "range"

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag out a range, pan on the ruler, or move along the minimap."""
        if self._press is None or self.frame is None:
            return
        x, pressed = self._press
        if self._drag == "minimap":
            self._show_minimap(event.x, 0)
        elif self._drag == "pan":
            if event.x != x:
                self.explorer.pan_columns(x - event.x)
                self._press = (event.x, pressed)
                self.changed()
        elif abs(event.x - x) > _CLICK_COLUMNS:
            self.explorer.set_range(pressed, self._time_at(event.x))
            self.changed()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """End a drag; a press without motion selects."""
        self.release_mouse()
        press, drag = self._press, self._drag
        self._press = None
        if press is None or self.frame is None:
            return
        if abs(event.x - press[0]) > _CLICK_COLUMNS:
            if drag == "zoom":
                self.explorer.zoom_to_range()
                self.changed()
            elif drag == "range":
                self.post_message(self.Ranged())
            return
        if drag in ("range", "zoom"):
            self._click(event.x, event.y)
        elif drag == "pan":
            found = self._under(event.x, event.y)
            if found.time is not None:
                self.post_message(self.Pointed(found.time, self._time_at(event.x + 1), found.finding))

    def _click(self, x: int, y: int) -> None:
        found, state = self._under(x, y), self.explorer.state
        if found.row is None:
            return
        state.focus = found.row
        if found.part == "gutter":
            self.explorer.toggle_fold()
        elif found.time is not None:
            state.cursor = found.time + (self._time_at(x + 1) - found.time) // 2
            state.selection = found.slice
        self.changed()

    def _under(self, x: int, y: int) -> Spot:
        if self.frame is None:
            return Spot("outside")
        return spot_at(self.frame, self.explorer.rows, self.explorer.state, self.explorer.scene, x, y)

    def on_click(self, event: events.Click) -> None:
        """A double click on a slice fits it."""
        if event.chain == 2 and self._under(event.x, event.y).part == "lanes" and self.explorer.fit(None):
            self.changed()

    def _show_minimap(self, x: int, y: int) -> None:
        explorer, centre = self.explorer, self._under(x, y).time
        if centre is None:
            return
        span = explorer.state.viewport.span
        explorer.show(centre - span // 2, centre - span // 2 + span)
        explorer.state.cursor = (explorer.state.viewport.start + explorer.state.viewport.end) // 2
        self.changed()

    def turn_wheel(self, event: events.MouseScrollUp | events.MouseScrollDown, direction: int) -> None:
        """Scroll; with Ctrl or above the lanes zoom at the pointer, with Shift pan."""
        explorer = self.explorer
        if event.ctrl or (self.frame is not None and event.y < self.frame.lanes_top and not event.shift):
            explorer.zoom(_WHEEL_ZOOM**-direction, self._time_at(event.x))
        elif event.shift:
            explorer.pan(_WHEEL_PAN * direction)
        else:
            explorer.scroll(_WHEEL_ROWS * direction)
        self.changed()
