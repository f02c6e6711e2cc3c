"""When a frame may be written, and what of the screen is painted again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache

from rich.color import Color, ColorType
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as TextualColor
from textual.filter import LineFilter

from npu_tui.trace.classes import OpClass
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.view.glyphs import plain_text
from npu_tui.view.palette import DARK, Ink, bar
from npu_tui.view.shapes import TEXTURES

QUESTION = "\x1b[6n"

_PATIENCE = 1.0
"""Seconds for the first answer ever: a terminal that is silent so long never answers."""

_LOST = 2.0
"""Seconds after which the answer to a frame is taken for lost."""

_LOSSES = 3
"""Answers lost in a row after which nothing is asked any more."""

_LATENCY = 0.030
_MOST = 3
"""Frames on their way at once on a link of great latency: one for every ``_LATENCY`` seconds, at most so many."""


class Pace:
    """Counts the frames that are on their way to the terminal. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent: deque[float] = deque()
        self._answered = False
        self._asking = True
        self._losses = 0
        self._latency = float("inf")

    def question(self) -> str:
        """What ends a frame that is being written; from now on it is on its way."""
        if not self._asking:
            return ""
        self._sent.append(self._clock())
        return QUESTION

    def answer(self) -> None:
        """The terminal has shown the oldest frame; where none is on its way, nobody has asked."""
        if self._sent:
            self._answered, self._losses = True, 0
            self._latency = min(self._latency, self._clock() - self._sent.popleft())

    @property
    def on_the_way(self) -> int:
        """Frames that the terminal has not shown yet."""
        return len(self._sent)

    def wait(self) -> float:
        """Seconds until a frame may go out, if no answer comes before; 0 for at once."""
        now = self._clock()
        patience = _LOST if self._answered else _PATIENCE
        while self._sent and now - self._sent[0] >= patience:
            self._sent.popleft()
            self._losses += 1
            if not self._answered or self._losses >= _LOSSES:
                self._asking = False
                self._sent.clear()
        if not self._answered:  # it is not known yet whether there will be any answer
            return 0.0
        most = 1 if self._latency < _LATENCY else min(1 + int(self._latency / _LATENCY), _MOST)
        if len(self._sent) < most:
            return 0.0
        return patience - (now - self._sent[0])


_NAMED = (*(bar(kind) for kind in OpClass), *map(int, (Ink.ALERT, Ink.ALERT_LOW, Ink.ACCENT)))
"""The inks that texts outside the timeline use."""

Rgb = tuple[int, int, int]
_INK_OF: dict[Rgb, int] = {(*DARK.rgb[ink].tolist(),): ink for ink in _NAMED}
_GREY = 0.16
_STANDS_OUT = 0.16
"""Backgrounds this much lighter or darker than the screen mark something: a row, a button, a scroll bar."""

_HUES = ((9, 0.0), (11, 60.0), (10, 120.0), (14, 180.0), (12, 240.0), (13, 300.0), (9, 360.0))


class Repaint(LineFilter):
    """Shows segments as ``terminal`` can."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal
        self._style = lru_cache(maxsize=4096)(self._find_style)

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:
        """The segments in the terminal's glyphs and colours."""
        glyphs = self._terminal.glyphs
        result = []
        for text, style, control in segments:
            texture = None
            if style is not None:
                if self._terminal.depth == "none" and not text.strip(" "):
                    texture = _texture(style)
                style = self._style(style)
            shown = text if texture is None else texture * len(text)
            result.append(Segment(plain_text(shown, glyphs), style, control))
        return result

    def _find_style(self, style: Style) -> Style:
        fg, bg = _rgb(style.color), _rgb(style.bgcolor)
        depth = self._terminal.depth
        if depth == "none":
            marked = bg is not None and (bg in _INK_OF or abs(_light(bg) - self._ground) > _STANDS_OUT)
            turned = marked != bool(style.reverse)
            return style.without_color + Style(reverse=turned, dim=False)
        if depth == "16":
            front, back = self._code(fg, 15), self._code(bg, 0)
            if fg is not None and bg is not None and front == back:
                front = 15 if back in (0, 1, 4, 5, 8) else 0
            return style + Style.from_color(_numbered(fg, front), _numbered(bg, back))
        return style + Style.from_color(self._ink_colour(fg), self._ink_colour(bg))

    @property
    def _ground(self) -> float:
        return _light((*self._terminal.palette.rgb[Ink.LANE].tolist(),))

    def _code(self, rgb: Rgb | None, fallback: int) -> int:
        """The one of 16 colours that comes nearest to ``rgb``, exact for colours of the palette."""
        if rgb is None:
            return fallback
        if rgb in _INK_OF:
            return int(self._terminal.palette.ansi[_INK_OF[rgb]])
        top, low = max(rgb), min(rgb)
        light = _light(rgb)
        if top - low < 40 or top - low < _GREY * top:
            return 0 if light < 0.24 else 8 if light < 0.45 else 7 if light < 0.88 else 15
        if light < 0.3:
            return 4 if rgb[2] == top else 0
        return min(_HUES, key=lambda entry: abs(entry[1] - _hue(rgb)))[0]

    def _ink_colour(self, rgb: Rgb | None) -> Color | None:
        if rgb not in _INK_OF:
            return None
        ink, palette = _INK_OF[rgb], self._terminal.palette
        if self._terminal.depth == "256":
            return Color.from_ansi(int(palette.xterm[ink]))
        return Color.from_rgb(*palette.rgb[ink].tolist())


def _texture(style: Style) -> str | None:
    """What fills a blank swatch of a class where there are no colours."""
    ink = _INK_OF.get(_rgb(style.bgcolor) or (-1, -1, -1))
    return TEXTURES[OpClass(ink // 3)] if ink is not None and ink < bar(len(OpClass)) else None


def _rgb(colour: Color | None) -> Rgb | None:
    return (*colour.triplet,) if colour is not None and colour.type == ColorType.TRUECOLOR and colour.triplet else None


def _numbered(rgb: Rgb | None, code: int) -> Color | None:
    return None if rgb is None else Color.from_ansi(code)


def _light(rgb: Rgb) -> float:
    """How light a colour looks, 0..1 (gamma-coded luma)."""
    return (0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]) / 255


def _hue(rgb: Rgb) -> float:
    red, green, blue = rgb
    top, low = max(rgb), min(rgb)
    span = max(top - low, 1)
    if top == red:
        return ((green - blue) / span % 6) * 60
    return ((blue - red) / span + 2) * 60 if top == green else ((red - green) / span + 4) * 60
