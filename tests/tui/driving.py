"""Opens the explorer without a terminal and reads what is on its screen."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from textual import events
from textual._xterm_parser import XTermParser
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen

from npu_tui.tui.app import NpuTui
from npu_tui.tui.panel import Panel
from npu_tui.tui.prompt import Prompt
from npu_tui.tui.rows import Rows
from npu_tui.tui.screen import MainScreen
from npu_tui.tui.session import Session
from npu_tui.tui.terminal.internals import is_at_rest, strips_of
from npu_tui.tui.timeline import Timeline
from npu_tui.view.explorer import Explorer
from npu_tui.view.scene import ViewState

_parse_rules = Stylesheet._parse_rules
_parsed: dict[object, list[object]] = {}


def _parsed_once(sheet, css, read_from, *more, **named):
    """The rules of ``css``: every app has the same, and parsing them is a tenth of opening one."""
    key = css, read_from, more, *named.items(), *sheet._variables.items()
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, css, read_from, *more, **named)
    return _parsed[key]


Stylesheet._parse_rules = _parsed_once

of_jobs = pytest.mark.reached_from(
    "npu_tui/tui/job_", "npu_tui/tui/panel", "npu_tui/tui/app.py", "npu_tui/jobs", "tests/tui/golden_job"
)
"""Of tests of the screen of a job: a quick run asks them if one of these files differs."""
SIZE = (120, 40)
_PATIENCE = 120.0
"""Seconds after which an app is said never to come to rest."""

LEGACY = {
    "left": "\x1b[D", "right": "\x1b[C", "up": "\x1b[A", "down": "\x1b[B", "shift+left": "\x1b[1;2D",
    "shift+right": "\x1b[1;2C", "home": "\x1b[H", "end": "\x1b[F", "pageup": "\x1b[5~", "pagedown": "\x1b[6~",
    "backspace": "\x7f", "enter": "\r", "escape": "\x1b", "tab": "\t", "space": " ", "ctrl+p": "\x10",
    "ctrl+l": "\x0c", "ctrl+q": "\x11", "ctrl+r": "\x12", "ctrl+x": "\x18",
}  # fmt: skip
"""What a terminal without the kitty protocol sends for keys that are no characters."""


def keys_of(data: str) -> list[events.Key]:
    """The key events that Textual reads from the bytes ``data``."""
    parser = XTermParser()
    messages = [*parser.feed(data), *parser.feed("")]
    return [message for message in messages if isinstance(message, events.Key)]


@dataclass
class Driver:
    """One running app and short ways to its parts."""

    app: NpuTui
    pilot: Pilot[object]

    @property
    def main(self) -> MainScreen:
        return next(screen for screen in self.app.screen_stack if isinstance(screen, MainScreen))

    @property
    def explorer(self) -> Explorer:
        return self.main.explorer

    @property
    def state(self) -> ViewState:
        return self.main.explorer.state

    @property
    def timeline(self) -> Timeline:
        return self.main.query_one(Timeline)

    @property
    def panel(self) -> Panel:
        return self.main.query_one(Panel)

    @property
    def table(self) -> Rows:
        return self.main.query_one(Rows)

    @property
    def prompt(self) -> Prompt:
        return self.main.query_one(Prompt)

    @property
    def selected(self) -> str | None:
        """Name of the selected slice."""
        found = self.state.selection
        return None if found is None else self.explorer.scene.traces[found.trace].name_of(found.item)

    @property
    def window(self) -> tuple[int, int]:
        return self.state.viewport.start, self.state.viewport.end

    async def press(self, *keys: str) -> None:
        """Send what a terminal sends for ``keys``: names of ``LEGACY``, characters, or a text that is typed fast."""
        for key in keys:
            await self.send(LEGACY.get(key, key), at_once=key not in LEGACY)

    async def send(self, data: str, at_once: bool = False) -> None:
        """Send bytes of a terminal; ``at_once`` they arrive faster than they are handled.

        What is typed into a prompt is one arrival, as a screen after each letter is most of what a typed line costs.
        """
        if data[:1] in (":", "/") and len(data) > 2 and not at_once:
            typed = re.match(r"[ -~]*", data[1:])[0]
            await self.send(data[0])
            if typed:
                await self.send(typed, at_once=True)
            data = data[1 + len(typed) :]
        for event in keys_of(data):
            event.set_sender(self.app)
            self.app._driver.send_message(event)
            if not at_once:
                await self.idle()
        if at_once:
            await self.idle()

    async def run(self, *commands: str) -> None:
        """Run commands of the registry without their keys."""
        for command in commands:
            self.main.run_command(command)
        await self.settle()

    def search(self, text: str) -> None:
        """Have the hits of ``text`` on screen, without the prompt."""
        self.main.finder.finish(text)
        self.main.searching.show()

    async def idle(self) -> None:
        """Wait until every message is handled and the screen is laid out."""
        quiet, pause, ends = 0, 0.001, time.monotonic() + _PATIENCE
        while time.monotonic() < ends:
            busy = self._busy()
            quiet = 0 if busy else quiet + 1
            if quiet == 3:
                return
            await asyncio.sleep(pause)
            pause = min(1.2 * pause, 0.02) if busy else 0.001  # who asks all the time takes it from the threads at work
        raise AssertionError("the app does not come to rest")

    def _busy(self) -> bool:
        if not self.app.is_running:
            return False
        if isinstance(self.app.screen, MainScreen) and (self.main.drawing.is_pending or self.main.finder.running):
            return True
        return not is_at_rest(self.app)

    async def filled(self) -> None:
        """Wait until the panel is filled, too."""
        await self.idle()
        ends = time.monotonic() + _PATIENCE
        while time.monotonic() < ends:
            session = self.main.session
            known = not session.whole or self.main.head.examined == len(session.scene.traces)
            if known and self.main.is_settled:
                break
            self.main.rest()
            await asyncio.sleep(0.005)
        await self.idle()

    async def settle(self) -> None:
        """Wait until the panel is filled, and paint the screen."""
        await self.filled()
        if self.app.is_running:
            Screen._compositor_refresh(self.app.screen)  # without a terminal nobody else has it painted

    def rows(self) -> list[str]:
        """The characters on screen."""
        return [strip.text.rstrip() for strip in strips_of(self.app.screen)]

    def text(self) -> str:
        return "\n".join(self.rows())


@asynccontextmanager
async def opened(session: Session, size: tuple[int, int] = SIZE, app: NpuTui | None = None) -> AsyncIterator[Driver]:
    """The explorer on ``session``, or ``app``, in a screen of ``size``."""
    app = NpuTui(session=session) if app is None else app
    async with app.run_test(size=size) as pilot:
        driver = Driver(app, pilot)
        await driver.filled()
        yield driver
