"""What a screen shows, as pieces of text with their colours: for pictures of it."""

from __future__ import annotations

from typing import Any

from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.screen import Screen

from npu_tui.output.svg import Piece
from npu_tui.trace.text import drawable
from npu_tui.tui.terminal.internals import strips_of
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.view.ansi import Rgb
from npu_tui.view.grid import Attr
from npu_tui.view.palette import Ink

_XTERM: tuple[Rgb, ...] = (
    (0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229),
    (127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255), (255, 0, 255), (0, 255, 255),
    (255, 255, 255),
)  # fmt: skip
"""The 16 colours that xterm names."""


def screen_runs(screen: Screen[Any], terminal: Terminal) -> list[list[Piece]]:
    """The rows of ``screen`` as styled pieces, colours as RGB."""
    theme = _terminal_theme(terminal)
    strips = strips_of(screen)
    return [[_piece(segment, theme) for segment in strip] for strip in strips]


def _piece(segment: Segment, theme: TerminalTheme) -> Piece:
    style = segment.style or Style()
    fg, bg = (
        (*theme.foreground_color,) if style.color is None else (*style.color.get_truecolor(theme),),
        (*theme.background_color,)
        if style.bgcolor is None
        else (*style.bgcolor.get_truecolor(theme, foreground=False),),
    )
    if style.reverse:
        fg, bg = bg, fg
    attr = Attr.BOLD * bool(style.bold) | Attr.DIM * bool(style.dim) | Attr.UNDERLINE * bool(style.underline)
    return drawable(segment.text), fg, bg, int(attr)


def _terminal_theme(terminal: Terminal) -> TerminalTheme:
    """Colours of a terminal that fit the palette: xterm's 16, on the palette's ground."""
    text, ground = (_rgb(terminal, ink) for ink in (Ink.TEXT, Ink.LANE))
    return TerminalTheme(ground, text, [*_XTERM[:8]], [*_XTERM[8:]])


def _rgb(terminal: Terminal, ink: int) -> Rgb:
    red, green, blue = terminal.palette.rgb[ink].tolist()
    return red, green, blue
