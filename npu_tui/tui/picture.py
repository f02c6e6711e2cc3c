"""The screen as a picture, without a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from textual.events import Key
from textual.keys import Keys, key_to_character

from npu_tui.output.svg import Piece, svg
from npu_tui.profile.profile import Profile
from npu_tui.trace.text import printable, read_in
from npu_tui.tui.app import NpuTui
from npu_tui.tui.commands import find_key
from npu_tui.tui.exports import screen_runs
from npu_tui.tui.job_screen import JobScreen
from npu_tui.tui.panel_screen import PanelScreen
from npu_tui.tui.session import Session, make_session, read_times_of
from npu_tui.tui.terminal.internals import is_at_rest
from npu_tui.tui.terminal.terminal import Terminal, glyphs_named
from npu_tui.view.start import Start

_QUIET, _TICK_SECONDS = 3, 0.001
"""So many looks in turn find the app at rest, with so much between them, before it is believed."""


def unknown_keys(keys: list[str]) -> list[str]:
    """Those of ``keys`` that are no names of keys."""
    named = {key.value for key in Keys}
    return [key for key in keys if len(key) > 1 and key not in named and find_key(key) is None]


def picture(
    profiles: Sequence[Profile],
    columns: int,
    rows: int,
    keys: list[str],
    terminal: Terminal | None = None,
    start: Start | None = None,
    notes: Path | None = None,
) -> str:
    """The SVG of the explorer on ``profiles`` at ``columns`` x ``rows`` after ``keys`` were pressed.

    The keys are those that ``find_key`` knows. It is drawn as ``terminal`` shows it, by default one with all colours
    and glyphs; it opens at ``start`` and marks the flags of the file ``notes``.
    """
    app = NpuTui(session=make_session(profiles), terminal=terminal or Terminal(), start=start, notes=notes)
    paths = " ".join(printable(profile.trace.path) for profile in profiles)
    return asyncio.run(_picture(app, paths, columns, rows, keys))


def job_picture(
    path: Path, columns: int, rows: int, keys: list[str], terminal: Terminal | None = None, traces: bool | None = None
) -> str:
    """The SVG of the overview of the job at ``path``, as ``picture``; ``traces`` is as in ``open_job``.

    Raises ``InputError`` if nothing of it can be read.
    """
    terminal = terminal or Terminal()
    app = NpuTui(job=JobScreen(path, terminal, traces), terminal=terminal)
    return asyncio.run(_picture(app, printable(str(path)), columns, rows, keys))


async def _picture(app: NpuTui, paths: str, columns: int, rows: int, keys: list[str]) -> str:
    return svg((await _frames(app, columns, rows, [keys]))[-1], f"npu-tui {paths}")


def frames(
    profiles: Sequence[Profile], columns: int, rows: int, keys: Sequence[Sequence[str]]
) -> list[list[list[Piece]]]:
    """The screens of one walk over ``profiles``: the first one, then one after each group of ``keys``."""
    app = NpuTui(session=make_session(profiles), terminal=Terminal())
    return asyncio.run(_frames(app, columns, rows, [[], *keys]))


def screen(
    shown: Session | Path, columns: int, rows: int, keys: list[str], start: Start | None = None
) -> list[list[Piece]]:
    """The rows of the screen of a session, or of the overview of the job at a path, in characters of ASCII.

    Raises ``InputError`` if nothing of the job can be read.
    """
    terminal = Terminal(glyphs=glyphs_named("ascii"))
    if isinstance(shown, Path):
        app = NpuTui(job=JobScreen(shown, terminal, None), terminal=terminal)
    else:
        read_times_of(shown.scene.traces)
        app = NpuTui(session=shown, terminal=terminal, start=start)
    return asyncio.run(_frames(app, columns, rows, [keys]))[-1]


def text_frame(app: NpuTui, columns: int, rows: int, keys: Sequence[str]) -> list[str]:
    """The rows of the screen of ``app`` as text after ``keys``, without blanks at their ends."""
    screen = asyncio.run(_frames(app, columns, rows, [keys]))[-1]
    return ["".join(piece[0] for piece in row).rstrip() for row in screen]


async def _frames(app: NpuTui, columns: int, rows: int, groups: Sequence[Sequence[str]]) -> list[list[list[Piece]]]:
    found = []
    try:
        async with app.run_test(size=(columns, rows)):
            await _settle(app)
            for keys in groups:
                for key in keys:
                    for name in (find_key(key) or key).split(" "):
                        await _press(app, name)
                        await _settle(app)
                found.append(screen_runs(app.screen, app.terminal))
    finally:
        read_in(None)  # the screen of a snapshot counts events
    return found


async def _press(app: NpuTui, key: str) -> None:
    app.post_message(Key(key, key_to_character(key)).set_sender(app))
    await _wait_until_idle(app)


async def _settle(app: NpuTui) -> None:
    """Wait for the findings, for what a key asked for, and for the panel, which follows what is drawn."""
    settled = False
    while not (settled or app.ends):
        await app.workers.wait_for_complete()
        await _wait_until_idle(app)
        screens = [screen for screen in app.screen_stack if isinstance(screen, PanelScreen)]
        settled = all(screen.is_settled for screen in screens)
        for screen in screens:
            screen.rest()


async def _wait_until_idle(app: NpuTui) -> None:
    """Wait until ``app`` has handled what it was sent."""
    quiet = 0
    while quiet < _QUIET and not app.ends:  # a message may call for another one
        quiet = quiet + 1 if is_at_rest(app) else 0
        await asyncio.sleep(_TICK_SECONDS)
