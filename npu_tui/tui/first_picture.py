"""The picture of a trace before Textual has started, and the heights of the screen's parts."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock
from typing import Any

from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.trace.text import printable, shortened
from npu_tui.tui.terminal.terminal import Guard, Terminal

BARS_FROM = 30
"""Rows of the terminal from which there are bars above the lanes."""

HEADS_FROM = 30
"""Layers have rows of their own on terminals of at least this many rows."""

PANEL_FROM = 36
"""Rows of the terminal from which the panel is shown without being asked for."""

_VERDICT_ROWS = ((30, 2), (14, 1))
"""From how many rows of the terminal on there are so many lines of the verdict."""

_WHOLE_FROM = 24
"""Rows of the terminal from which there are two of them without the panel, for a first line that one would cut."""

_PANEL_ROWS = ((45, 10), (36, 8))
_SMALL = 8
_ABOVE = 9
"""Rows for what stands above the lanes, three of them, and the bottom line."""


def verdict_rows(height: int) -> int:
    """The findings that the verdict tells on a terminal of ``height`` rows, with a line for each."""
    return next((rows for least, rows in _VERDICT_ROWS if height >= least), 0)


def verdict_lines(height: int, with_panel: bool) -> int:
    """The lines that the verdict takes at most on a terminal of ``height`` rows."""
    return 2 if height >= _WHOLE_FROM and not with_panel else verdict_rows(height)


def panel_rows(height: int) -> int:
    """The rows of the panel on a terminal of ``height`` rows, while it is neither grown nor dragged."""
    rows = next((rows for least, rows in _PANEL_ROWS if height >= least), _SMALL)
    return min(rows, max(min(height // 2, height - _ABOVE), 3))


_TAKE = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_NEVER = b"\0"


class FirstPicture:
    """Draws once as ``terminal`` can show it (asked for when it is needed), unless the application does so already."""

    def __init__(self, terminal: Callable[[], Terminal]) -> None:
        self._terminal = terminal
        self._lock = Lock()
        self._over = False
        self._before: list[Any] | None = None
        self.done = Event()

    def draw(self, trace: Trace, whole: bool) -> None:
        """Draw ``trace``, which may still be loading; it runs in the thread that loads."""
        try:
            if len(trace.slices):
                self._draw(trace, whole)
        finally:
            self.done.set()

    def _draw(self, trace: Trace, whole: bool) -> None:
        terminal = self._terminal()
        out = sys.__stderr__
        if out is None:
            return
        try:
            width, height = os.get_terminal_size(out.fileno())
        except OSError:
            return
        text = _picture(trace, terminal, width, height) if width > 0 and height > 0 else ""
        with self._lock, suppress(OSError, termios.error):
            if text and not self._over:
                self._before = _quiet()
                Guard.pictured = True
                _write(out.fileno(), _TAKE + text)

    def end(self) -> bool:
        """The application draws from now on; returns whether the terminal shows its alternate screen already."""
        with self._lock:
            self._over = True
            if self._before is None:
                return False
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._before)
            return True


def _quiet() -> list[Any]:
    """Keys do not show, and wait for the application; returns how the terminal was set. Ctrl+C still ends."""
    before = termios.tcgetattr(0)
    changed = termios.tcgetattr(0)
    changed[0] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)  # as Textual does
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    changed[6][termios.VSUSP] = _NEVER  # who stops the program now would see its picture and no shell
    termios.tcsetattr(0, termios.TCSANOW, changed)
    return before


def _write(number: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(number, data) :]


def _picture(trace: Trace, terminal: Terminal, width: int, height: int) -> str:
    """What to write so that the lanes of ``trace`` stand where the application will draw them."""
    from npu_tui.view.ansi import Encoder
    from npu_tui.view.bars import points
    from npu_tui.view.caches import lanes_top
    from npu_tui.view.explorer import Explorer
    from npu_tui.view.glyphs import plain_text
    from npu_tui.view.grid import Grid
    from npu_tui.view.margins import gutter_width
    from npu_tui.view.painter import Painter
    from npu_tui.view.palette import Ink
    from npu_tui.view.scene import Scene

    scene = Scene.plain([trace])
    with_panel = height >= PANEL_FROM
    top = 1 + verdict_lines(height, with_panel)
    room = max(height - top - 1 - (panel_rows(height) if with_panel else 0), 1)
    explorer = Explorer(scene, max(width - gutter_width(width), 1), max(room - lanes_top(room), 1))
    explorer.resize(max(width - gutter_width(width), 1), max(room - lanes_top(room), 1), height >= HEADS_FROM)
    lanes = Painter(scene).compose(explorer.rows, explorer.state, width, room).grid
    grid = Grid.blank(height, width, Ink.TEXT, Ink.LANE)
    # Without a rank it may be a service or a snapshot as well.
    whose = "" if trace.rank is None else f"{say('header.rank', rank=trace.rank)}  "
    path = shortened(printable(trace.path), max(width - len(whose) - 6, 1), ahead=True)
    grid.write(0, 1, points(plain_text(whose + path, terminal.glyphs)), Ink.DIM)
    if top > 1:
        grid.write(1, 1, points(plain_text(say("findings.examining"), terminal.glyphs)), Ink.DIM)
    for plane, drawn in ((grid.char, lanes.char), (grid.fg, lanes.fg), (grid.bg, lanes.bg), (grid.attr, lanes.attr)):
        plane[top : top + room] = drawn
    encoder = Encoder(terminal.palette, terminal.depth, terminal.glyphs)
    rows = encoder.encode(encoder.prepared(grid))
    return "".join(f"\x1b[{y};1H{row}" for y, row in enumerate(rows, 1))
