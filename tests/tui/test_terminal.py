"""The program in a real terminal: what the bytes of keys put on screen is what the app without a terminal shows."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pyte
import pytest
from driving import opened
from terminals import starts_programs

pytestmark = starts_programs

COLUMNS, ROWS = 120, 40
PATIENCE = 30.0
REST = 0.4
"""Longer than a burst of keys, so that undo takes back one key."""

PROFILE = "fixtures/dispatch_bound"
COMMAND = [sys.executable, "-m", "npu_tui", PROFILE]
WALK = [
    "w",
    "s",
    "a",
    "",
    "d",
    "\x7f",
    "x",
    "x",
    "[",
    "]",
    "t",
    "c",
    "W",
    "/Gelu\r",
    "n",
    "",  # the panel comes to rest before the next command moves what it is about
    ":stream 2\r",
    "gg",
    "\x1b[B",
]
"""Bytes to send, one entry after the other; an empty one is a rest."""


NO_FLAGS = os.devnull
"""Where the programs look for flags: those that somebody has set in the fixture are not expected here."""
FEW = WALK[:6]
"""Enough for a terminal without tmux."""


class Pty:
    """A pseudo-terminal whose screen is kept by a terminal emulator."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        self.output = b""
        own = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "XDG_DATA_HOME": NO_FLAGS}
        environment = os.environ | own
        pid, self._terminal = pty.fork()
        if pid == 0:
            os.execvpe(COMMAND[0], COMMAND, environment)
        self._pid = pid
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def send(self, data: str) -> None:
        os.write(self._terminal, data.encode())

    def rows(self) -> list[str]:
        self._read()
        return [row.rstrip() for row in self.screen.display]

    def _read(self) -> None:
        while select.select([self._terminal], [], [], 0.02)[0]:
            try:
                data = os.read(self._terminal, 1 << 16)
            except OSError:  # the program has ended
                return
            if not data:
                return
            self.output += data
            self._stream.feed(data)

    def exit_code(self) -> int | None:
        """The exit code, None while the program runs."""
        self._read()
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return None
        self._pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self._pid:
            os.kill(self._pid, 9)
            os.waitpid(self._pid, 0)
        os.close(self._terminal)


class Tmux:
    """A tmux server of its own with one window."""

    def __init__(self, folder: Path) -> None:
        settings = folder / "tmux.conf"
        settings.write_text("set -g status off\nset -g default-terminal tmux-256color\nset -g escape-time 0\n")
        self._tmux = ["tmux", "-S", str(folder / "socket"), "-f", str(settings)]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self._call(
            "new-session", "-d", *size, "env", "-u", "COLUMNS", "-u", "LINES", f"XDG_DATA_HOME={NO_FLAGS}", *COMMAND
        )

    def _call(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=False, timeout=PATIENCE)
        return done.stdout

    def send(self, data: str) -> None:
        names = {"\x7f": "BSpace", "\r": "Enter", "\x1b[B": "Down"}
        for key in [data] if data in names else data:
            if key in names:
                self._call("send-keys", names[key])
            else:
                self._call("send-keys", "-l", key)

    def rows(self) -> list[str]:
        return [row.rstrip() for row in self._call("capture-pane", "-p", "-N").split("\n")][:ROWS]

    def exit_code(self) -> int | None:
        return None if "windows" in self._call("list-sessions") else 0

    def close(self) -> None:
        self._call("kill-server")


def until(wanted, found, explain: str) -> None:
    """Ask ``found`` until it gives ``wanted``; what differs is said when patience ends."""
    deadline = time.monotonic() + PATIENCE
    seen = found()
    while seen != wanted:
        if time.monotonic() > deadline:
            assert seen == wanted, explain
        time.sleep(0.02)
        seen = found()


async def shows(session, walk: list[str]) -> list[list[str]]:
    """The screens after each entry of ``walk``, without the line of messages, which come and go."""
    screens = []
    async with opened(session, (COLUMNS, ROWS)) as driver:
        screens.append(driver.rows()[:-1])
        for data in walk:
            if data:
                await driver.send(data)
                await driver.settle()
            else:
                time.sleep(REST)
            screens.append(driver.rows()[:-1])
    return screens


def follow(terminal: Pty | Tmux, screens: list[list[str]]) -> None:
    """Send the walk and expect the screens, one by one, then quit."""
    until(screens[0], lambda: terminal.rows()[: ROWS - 1], "the opening screen")
    for data, screen in zip(WALK, screens[1:], strict=False):
        if not data:
            time.sleep(REST)
            continue
        terminal.send(data)
        until(screen, lambda: terminal.rows()[: ROWS - 1], f"the screen after {data!r}")
    terminal.send(":q\r")
    until(0, terminal.exit_code, "the exit code after :q")


@pytest.fixture
def terminal() -> Iterator[Pty]:
    started = Pty()
    yield started
    started.close()


async def test_a_terminal_shows_what_the_keys_do(session, terminal):
    follow(terminal, await shows(session, FEW))
    assert b"\x1b[?1049h" in terminal.output, "the alternate screen is entered"
    assert b"\x1b[?1049l" in terminal.output, "the alternate screen is left"


def test_messages_reach_the_terminal(session, terminal):
    until(True, lambda: "Ascend Hardware" in "\n".join(terminal.rows()), "the opening screen")
    terminal.send("x")
    until(True, lambda: terminal.rows()[-1].strip().startswith("starved launch "), "the message of x")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
async def test_tmux_shows_what_the_keys_do(session, tmp_path):
    terminal = Tmux(tmp_path)
    try:
        follow(terminal, await shows(session, WALK))
    finally:
        terminal.close()
