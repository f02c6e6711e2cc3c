"""The screen as a picture, without a terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rich.cells import cell_len
from rich.segment import Segment
from rich.terminal_theme import DIMMED_MONOKAI
from textual.filter import ANSIToTruecolor
from textual.keys import Keys

from npu_tui.report.svg import svg
from npu_tui.trace.model import Trace
from npu_tui.trace.text import printable
from npu_tui.tui.app import NpuTui
from npu_tui.tui.commands import COMMANDS
from npu_tui.tui.session import make_session
from npu_tui.view.ansi import Rgb, Run
from npu_tui.view.grid import Attr
from npu_tui.view.opening import Opening
from npu_tui.view.palette import DARK, Ink

_REST_SECONDS = 0.25
"""Longer than the panel waits after a key."""


def unknown_keys(keys: list[str]) -> list[str]:
    """Those of ``keys`` that are no names of keys."""
    named = {key.value for key in Keys} | {key for command in COMMANDS for key in command.keys}
    return [key for key in keys if len(key) > 1 and key not in named]


def picture(
    trace: Trace,
    columns: int,
    rows: int,
    keys: list[str],
    opening: Opening | None = None,
    notes: Path | None = None,
) -> str:
    """The SVG of the explorer on ``trace`` at ``columns`` x ``rows`` after ``keys`` (Textual's names) were pressed.

    It opens at ``opening`` and marks the flags of the file ``notes``.
    """
    return asyncio.run(_picture(NpuTui(None, make_session([trace]), opening, notes), trace, columns, rows, keys))


async def _picture(app: NpuTui, trace: Trace, columns: int, rows: int, keys: list[str]) -> str:
    async with app.run_test(size=(columns, rows)) as pilot:
        for key in keys:
            await pilot.press(key)
        await pilot.pause(_REST_SECONDS)
        return svg(screen_runs(app), f"npu-tui {printable(trace.path)}")


def screen_runs(app: NpuTui) -> list[list[Run]]:
    """The rows of the screen as styled runs of one-cell characters, colours as RGB."""
    plain = ANSIToTruecolor(DIMMED_MONOKAI)
    strips = app.screen._compositor.render_strips()
    return [
        [_run(segment) for segment in strip.apply_filter(plain, app.screen.background_colors[1])] for strip in strips
    ]


def _run(segment: Segment) -> Run:
    style = segment.style
    fg, bg, attr = _rgb(Ink.TEXT), _rgb(Ink.LANE), 0
    if style is not None:
        if style.color is not None and style.color.triplet is not None:
            fg = (*style.color.triplet,)
        if style.bgcolor is not None and style.bgcolor.triplet is not None:
            bg = (*style.bgcolor.triplet,)
        if style.reverse:
            fg, bg = bg, fg
        attr = Attr.BOLD * bool(style.bold) | Attr.DIM * bool(style.dim) | Attr.UNDERLINE * bool(style.underline)
    text = "".join(char if cell_len(char) == 1 else "?" * cell_len(char) for char in segment.text)
    return text, fg, bg, int(attr)


def _rgb(ink: int) -> Rgb:
    red, green, blue = DARK.rgb[ink].tolist()
    return red, green, blue
