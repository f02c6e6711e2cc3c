"""What reaches the terminal: the frames of the timeline on their way, and the colours of everything beside it.

Rows of the timeline turn into segments only when something cuts them; other colours are taken from its palettes and
shown as the terminal can.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from rich.color import Color, ColorType
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as TextualColor
from textual.filter import LineFilter
from textual.strip import Strip
from textual.theme import Theme

from npu_tui.trace.classes import OpClass
from npu_tui.tui.terminal.internals import LazyStrip
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.view.ansi import TEXTURES, Colour, Encoder, Rgb, plain_text
from npu_tui.view.grid import Attr, Grid
from npu_tui.view.palette import DARK, PALETTES, Ink, Palette, bar

QUESTION = "\x1b[6n"

_PATIENCE = 1.0  # seconds for the first answer ever: a terminal that is silent so long never answers

_LOST = 2.0  # seconds after which the answer to a frame is taken for lost

_LOSSES = 3  # answers lost in a row after which nothing is asked any more

_LATENCY = 0.030
_MOST = 3
"""Frames on their way at once on a link of great latency: one for every ``_LATENCY`` seconds, at most so many."""


class FramePace:
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
        """The terminal has shown the oldest frame; an answer with no frame on its way is ignored."""
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


class Shown:
    """Which version of every row the terminal shows; 0 where that is not known.

    ``end_of_frame()`` is written after the last changed row of a frame.
    """

    def __init__(self, rows: int, end_of_frame: Callable[[], str]) -> None:
        self.versions = [0] * rows
        self.end_of_frame = end_of_frame

    def forget(self) -> None:
        """Nothing is known any more: something else may have drawn there."""
        self.versions = [0] * len(self.versions)


class AnsiStrip(LazyStrip):
    """Version ``version`` of row ``row`` of ``grid``, which ``encoder`` writes.

    Where the terminal shows this version nothing is written, where it still shows version ``base`` it is ``change``;
    otherwise the complete row. ``last`` marks the last changed row of a frame. The row is in styled pieces when a
    dialog covers part of it or a picture is made.
    """

    __slots__ = ("_base", "_change", "_encoder", "_grid", "_last", "_made", "_row", "_shown", "_version")

    def __init__(
        self,
        grid: Grid,
        row: int,
        encoder: Encoder,
        version: int,
        base: int,
        change: str,
        shown: Shown,
        last: bool = False,
    ) -> None:
        super().__init__((), grid.width)
        self._grid, self._row, self._encoder = grid, row, encoder
        self._version, self._base, self._change, self._shown, self._last = version, base, change, shown, last
        self._made: list[Segment] | None = None

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        """The row itself where nothing cuts it."""
        places = list(cuts)
        return [self] if places == [self.cell_length] else super().divide(places)

    def pieces(self) -> list[Segment]:
        """The row in segments: what is asked in pieces is not written as a row."""
        self._shown.versions[self._row] = 0
        if self._made is None:
            self._made = [Segment(run[0], style_of(*run[1:])) for run in self._encoder.runs(self._grid, self._row)]
        return self._made

    def render(self, console: Console) -> str:
        """What brings the terminal to this version; it is called when the row is written."""
        versions, row = self._shown.versions, self._row
        before, versions[row] = versions[row], self._version
        if before == self._version:
            return ""
        text = self._change if before == self._base and before else self._encoder.encode(self._grid, [row])[0]
        return text + self._shown.end_of_frame() if self._last else text


@lru_cache(maxsize=4096)
def style_of(fg: Colour, bg: Colour, attr: int, turned: bool) -> Style:
    """The Rich style of a run."""
    return Style(
        color=_colour(fg),
        bgcolor=_colour(bg),
        reverse=turned,
        bold=bool(attr & Attr.BOLD),
        dim=bool(attr & Attr.DIM),
        underline=bool(attr & Attr.UNDERLINE),
    )


def _colour(colour: Colour) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)


def _hex(ink: int, palette: Palette = DARK) -> str:
    red, green, blue = palette.rgb[ink].tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


ALERT = _hex(Ink.ALERT)
"""Red: a launch starved. Nothing else is red. Other palettes have another red in its place."""
ACCENT = _hex(Ink.ACCENT)
"""What stands out without being wrong."""

_DARK_SURFACES = {"surface": "#1b1d26", "panel": "#262a36", "primary": "#6f8fc0", "mark": "#3a4260", "bar": "#4a5478"}
_LIGHT_SURFACES = {"surface": "#eceef3", "panel": "#dfe3ec", "primary": "#3c5f9e", "mark": "#b3c4ea", "bar": "#9db0d8"}


def _theme(palette: Palette) -> Theme:
    parts = _DARK_SURFACES if palette.dark else _LIGHT_SURFACES
    surface, mark, bright = parts["surface"], parts["mark"], parts["bar"]
    return Theme(
        name=f"npu-{palette.name}",
        primary=parts["primary"],
        secondary=_hex(bar(OpClass.CANN), palette),
        accent=_hex(Ink.ACCENT, palette),
        foreground=_hex(Ink.TEXT, palette),
        background=_hex(Ink.LANE, palette),
        surface=surface,
        panel=parts["panel"],
        warning=_hex(Ink.ACCENT, palette),
        error=_hex(Ink.ALERT, palette),
        success=_hex(bar(OpClass.VECTOR), palette),
        dark=palette.dark,
        variables={
            "block-cursor-background": mark,
            "block-cursor-foreground": _hex(Ink.BRIGHT, palette),
            "scrollbar": mark,
            "scrollbar-hover": bright,
            "scrollbar-active": bright,
            "scrollbar-background": surface,
            "scrollbar-background-hover": surface,
            "scrollbar-background-active": surface,
            "scrollbar-corner-color": surface,
        },
    )


THEMES: dict[str, Theme] = {name: _theme(palette) for name, palette in PALETTES.items()}
"""The theme of every palette, by the palette's name."""


def class_colour(op_class: int) -> str:
    """The colour of a class as a foreground."""
    return _hex(bar(op_class))


def class_style(op_class: int) -> str:
    """The Rich style of a class: its bar, or its hatch for waits."""
    return f"{_hex(bar(op_class))}" if op_class == OpClass.WAIT else f"on {_hex(bar(op_class))}"


# The inks that texts outside the timeline use.
_NAMED = (*(bar(kind) for kind in OpClass), *map(int, (Ink.ALERT, Ink.ALERT_LOW, Ink.ACCENT)))

_INK_OF: dict[Rgb, int] = {(*DARK.rgb[ink].tolist(),): ink for ink in _NAMED}
_GREY = 0.16
_STANDS_OUT = 0.16
"""Backgrounds this much lighter or darker than the screen mark something: a row, a button, a scroll bar."""

_HUES = ((9, 0.0), (11, 60.0), (10, 120.0), (14, 180.0), (12, 240.0), (13, 300.0), (9, 360.0))


class Unnumbered(LineFilter):
    """``inner``, but for segments in one of 16 colours: made a true colour, the red is nearest to white."""

    def __init__(self, inner: LineFilter) -> None:
        super().__init__()
        self._inner = inner

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:
        """The segments, those without a numbered colour as ``inner`` has them."""
        applied: list[Segment] = []
        for segment in segments:
            colour = segment.style.color if segment.style else None
            numbered = colour is not None and colour.type == ColorType.STANDARD
            applied += [segment] if numbered else self._inner.apply([segment], background)
        return applied


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
            elif (front, back) == (7, 15) and fg not in _INK_OF:
                front = 8  # a faint text on white
            return style + Style.from_color(
                self._numbered(style.color, front, Ink.TEXT), self._numbered(style.bgcolor, back, Ink.LANE)
            )
        return style + Style.from_color(self._ink_colour(fg), self._ink_colour(bg))

    def _numbered(self, colour: Color | None, code: int, usual: Ink) -> Color | None:
        """``code`` for a true ``colour``, that of ``usual`` for the terminal's own; None for a number, which stays."""
        if colour is None or colour.type not in (ColorType.TRUECOLOR, ColorType.DEFAULT):
            return None
        return Color.from_ansi(code if colour.type == ColorType.TRUECOLOR else int(self._terminal.palette.ansi[usual]))

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
