"""Programs in a pseudo-terminal whose answers, size and modes a test decides and sees."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Callable

import pyte
import pytest

from npu_tui.view.ansi import PROBE

PATIENCE = 30.0
PROGRAM = [sys.executable, "-m", "npu_tui"]
starts_programs = pytest.mark.reached_from(
    "npu_tui/tui/terminal", "npu_tui/tui/app.py", "npu_tui/tui/loading.py", "npu_tui/cli", "tests/tui/terminals.py"
)
"""Of tests of what the screen is to its terminal: a quick run starts the program if one of these files differs."""
_MODE = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
_KITTY = re.compile(rb"\x1b\[([<>])\d*u")
_NEVER_RESET = {b"2026"}
Answers = Callable[[bytes], bytes]


def modes_left(output: bytes) -> set[str]:
    """The modes that a program has set and not reset in what it wrote."""
    usual = {"7", "25"}  # wrapping and the cursor are on before a program begins
    modes = set(usual)
    for numbers, way in _MODE.findall(output):
        for number in numbers.split(b";"):
            (modes.add if way == b"h" else modes.discard)(number.decode())
    pushed = sum(1 if way == b">" else -1 for way in _KITTY.findall(output))
    # Who leaves twice pops twice, and an empty stack stays one.
    return (modes ^ usual) - {"2026"} | ({"kitty"} if pushed > 0 else set())


class Terminal:
    """``command`` in a terminal of ``size`` (columns, rows); ``answers`` gives what it replies to what is written."""

    def __init__(
        self,
        command: list[str],
        size: tuple[int, int] = (120, 40),
        answers: Answers | None = None,
        **environment: str,
    ) -> None:
        known = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
        variables = {name: value for name, value in (os.environ | known | environment).items() if value}
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self.output = b""
        self._rows: list[str] | None = None
        self._modes: tuple[int, set[str]] = (0, set())
        self._answers = answers
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, variables)
        self.resize(*size)
        self.settings = termios.tcgetattr(self.fd)
        self._code: int | None = None

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)
        self._rows = None

    def send(self, data: str) -> None:
        os.write(self.fd, data.encode())

    def read(self) -> None:
        while select.select([self.fd], [], [], 0.02)[0]:
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:  # the program has ended
                return
            if not data:
                return
            self.output += data
            self._stream.feed(data)
            self._rows = None
            if self._answers is not None and (reply := self._answers(data)):
                os.write(self.fd, reply)

    def rows(self) -> list[str]:
        self.read()
        if self._rows is None:  # asked again and again while nothing is written
            self._rows = [row.rstrip() for row in self.screen.display]
        return self._rows

    def until(self, found: Callable[[], object], what: str) -> None:
        """Read until ``found`` answers with something."""
        deadline = time.monotonic() + PATIENCE
        while not found():
            assert time.monotonic() < deadline, f"{what}\n" + "\n".join(self.rows())
            self.read()

    def shows(self, text: str) -> None:
        self.until(lambda: any(text in row for row in self.rows()), f"never showed {text!r}")

    def exit_code(self) -> int:
        self.until(self._ended, "did not end")
        self.read()  # what it wrote at the very end
        assert self._code is not None
        return self._code

    def _ended(self) -> bool:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code is not None

    def modes(self) -> set[str]:
        """The modes that the program has set and not reset."""
        length, modes = self._modes
        if length != len(self.output):
            self._modes = length, modes = len(self.output), modes_left(self.output)
        return modes

    def close(self) -> None:
        if self._code is None and not self._ended():
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def answering(cells: int = len(PROBE), background: str = "1111/1212/1818") -> Answers:
    """A terminal that draws the probe in ``cells`` cells, with a ``background`` of its own (none: it does not say)."""
    replies = iter([b"\x1b[3;1R", f"\x1b[3;{1 + cells}R".encode()])

    def answer(data: bytes) -> bytes:
        reply = b""
        for question in re.findall(rb"\x1b\[6n|\x1b\]11;\?", data):
            if question.startswith(b"\x1b]"):
                reply += f"\x1b]11;rgb:{background}\x1b\\".encode() if background else b""
            else:
                reply += next(replies, b"\x1b[3;1R")
        return reply

    return answer
